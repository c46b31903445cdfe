"""An ensemble of forecasters: the mean of their quantiles."""

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
        """Calibrated quantiles of every step ahead, scaled: (h, B, V, Q)."""
        return torch.stack([member.bounds(batch) for member in self.members]).mean(0)

    def learnt(self, batch: WindowBatch) -> Tensor:
        """The quantiles before calibration."""
        return torch.stack([member.learnt(batch) for member in self.members]).mean(0)

    def metric(self) -> Errors:
        return self.errors()
