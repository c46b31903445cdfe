"""An ensemble of sentence encoders: the mean of their probabilities of classes, or of levels of a score."""

from __future__ import annotations

import torch
from torch import Tensor

from ...data.stores.examples import ExampleBatch
from ..shared.ensemble import Ensemble, mean_log_prob
from .examples import PairBatch
from .network import EncoderNetwork


class EncoderEnsemble(Ensemble, EncoderNetwork):
    """Sentence encoders as one. The vector of a text is that of all members, one after the other."""

    def scores(self, batch: PairBatch) -> Tensor:
        """Log-probabilities, (B, K)."""
        return mean_log_prob([member.scores(batch) for member in self.members])

    def encode(self, batch: ExampleBatch) -> Tensor:
        """(B, members · size)."""
        return torch.cat([member.encode(batch) for member in self.members], 1)
