"""An ensemble of forecasters: the mean of their medians and bounds."""

from __future__ import annotations

import torch
from torch import Tensor

from ...data.batches.windows import WindowBatch
from ..shared.ensemble import Ensemble
from .errors import Errors
from .network import ForecasterNetwork


class ForecasterEnsemble(Ensemble, ForecasterNetwork):
    """Forecasters as one."""

    def bounds(self, batch: WindowBatch) -> Tensor:
        """Low, median and high of every step ahead, scaled: (h, B, V, 3)."""
        return torch.stack([member.bounds(batch) for member in self.members]).mean(0)

    def metric(self) -> Errors:
        return self.errors()
