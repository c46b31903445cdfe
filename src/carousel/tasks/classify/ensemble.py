"""An ensemble of classifiers: the mean of their probabilities."""

from __future__ import annotations

from torch import Tensor

from ...data.stores.examples import ExampleBatch
from ..shared.ensemble import Ensemble, mean_log_prob
from .network import Accuracy, ClassifierNetwork


class ClassifierEnsemble(Ensemble, ClassifierNetwork):
    """Classifiers as one."""

    def scores(self, batch: ExampleBatch) -> Tensor:
        """Log-probabilities of the classes, (B, classes)."""
        return mean_log_prob([member.scores(batch) for member in self.members])

    def metric(self) -> Accuracy:
        return Accuracy(self)
