"""An ensemble of models of trees: the mean of their probabilities at every node."""

from __future__ import annotations

from torch import Tensor

from ..shared.ensemble import Ensemble, mean_log_prob
from .examples import TreeBatch
from .network import TreeNetwork


class TreeEnsemble(Ensemble, TreeNetwork):
    """Models of trees as one."""

    def scores(self, batch: TreeBatch) -> Tensor:
        """Log-probabilities of the classes, (n, classes)."""
        return mean_log_prob([member.scores(batch) for member in self.members])
