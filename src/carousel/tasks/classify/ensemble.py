"""An ensemble of classifiers: the mean of their probabilities, or of their numbers."""

from __future__ import annotations

import torch
from torch import Tensor

from ...data.stores.examples import ExampleBatch
from ...training import Metric
from ..shared.ensemble import Ensemble, mean_log_prob
from .network import ClassifierNetwork


class ClassifierEnsemble(Ensemble, ClassifierNetwork):
    """Classifiers as one."""

    def scores(self, batch: ExampleBatch) -> Tensor:
        """Log-probabilities of the classes, (B, classes); logits of labels, (B, labels); numbers, scaled, (B, 1)."""
        each = [member.scores(batch) for member in self.members]
        if self.target.kind == "class":
            return mean_log_prob(each)
        if self.target.kind == "number":
            return torch.stack(each).mean(0)
        return torch.stack([scores.sigmoid() for scores in each]).mean(0).logit(1e-7)

    @property
    def thresholds(self) -> Tensor | None:  # type: ignore[override]
        each = [member.thresholds for member in self.members]
        return None if each[0] is None else torch.stack(each).mean(0)

    def metric(self, tune: bool = False) -> Metric:
        return super().metric(tune=False)
