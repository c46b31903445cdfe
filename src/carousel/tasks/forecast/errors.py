"""The errors of forecasts: the quantile loss, and the metric of a series."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Self

import torch
from torch import Tensor

from ...data.batches.windows import WindowBatch
from ...training import Metric
from .frame import Frame
from .settings import ForecastSettings


def quantile_loss(bounds: Tensor, truth: Tensor, interval: float) -> Tensor:
    """The quantile (pinball) loss of every value, given low, median and high, (..., V, 3) and (..., V) → (..., V).

    It is twice the absolute error, weighted by the side of the quantile, averaged over the three.
    """
    edge = (1 - interval) / 2
    levels = torch.tensor([edge, 0.5, 1 - edge], dtype=bounds.dtype)
    off = truth.unsqueeze(-1) - bounds
    return 2 * torch.maximum(levels * off, (levels - 1) * off).mean(-1)


class Errors(Metric):
    """Errors of forecasts: MASE, MAE, RMSE, and the share of values between the bounds.

    Only readings count; a variable, or a step ahead, without any is in no mean and in no table. `bounds` forecasts:
    a batch → low, median and high of its steps ahead, scaled, (h, B, V, 3).
    """

    best = "mase"
    lower_is_better = True
    SUMS = ("absolute", "squared", "between", "pinball", "naive", "counted")  # each (h, V)

    def __init__(self, settings: ForecastSettings, frame: Frame, bounds: Callable[[WindowBatch], Tensor]) -> None:
        self.interval, self.frame, self.bounds = settings.interval, frame, bounds
        h, V = settings.horizon, len(frame.names)
        self.absolute, self.squared, self.between, self.pinball, self.naive, self.counted = (
            torch.zeros(h, V, dtype=torch.float64) for _ in self.SUMS
        )
        self.origins = 0

    @torch.no_grad()
    def add(self, batch: WindowBatch) -> None:
        self.count(batch, self.bounds(batch))

    def count(self, batch: WindowBatch, bounds: Tensor) -> None:
        """Add forecasts, (h, B, V, 3), which are compared with the actual values of the batch."""
        frame = self.frame
        there = batch.there.double()
        low, median, high = frame.plain(bounds.movedim(-1, 0))
        truth = frame.plain(batch.future)
        steps = torch.arange(len(truth)) % frame.season
        naive = frame.plain(batch.past[len(batch.past) - frame.season + steps])
        self.absolute += ((median - truth).abs() * there).sum(1)
        self.squared += ((median - truth).square() * there).sum(1)
        self.naive += ((naive - truth).abs() * there).sum(1)
        self.between += ((low <= truth) & (truth <= high)).double().mul(there).sum(1)
        self.counted += there.sum(1)
        self.pinball += (quantile_loss(bounds, batch.future, self.interval) * there).sum(1)
        self.origins += len(batch.origins)

    @property
    def values(self) -> int:
        """How many values were compared."""
        return int(self.counted.sum())

    def _mase(self, total: Tensor) -> float:
        """The mean over variables of the error in units of that of the naive forecast on the training rows."""
        count = self.counted.sum(0)
        errors = total.sum(0) / count / torch.tensor(self.frame.naive, dtype=torch.float64)
        return float(errors[count > 0].mean())

    @property
    def naive_mase(self) -> float:
        return self._mase(self.naive)

    def merge(self, other: Self) -> None:
        for name in (*self.SUMS, "origins"):
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def choose(self, others: Sequence[Errors], best: Tensor) -> None:
        """Be, for each variable, the one of some errors that `best`, (V,), says."""
        for name in self.SUMS:
            every = torch.stack([getattr(one, name) for one in others])  # (n, h, V)
            setattr(self, name, every[best, :, torch.arange(len(best))].T)
        self.origins = others[0].origins

    def result(self) -> dict[str, float]:
        count = max(1.0, float(self.counted.sum()))
        return {
            "mase": self._mase(self.absolute),
            "mae": float(self.absolute.sum()) / count,
            "rmse": math.sqrt(float(self.squared.sum()) / count),
            "coverage": float(self.between.sum()) / count,
            "loss": float(self.pinball.sum()) / count,
        }

    def by_variable(self) -> dict[str, dict[str, float]]:
        count = self.counted.sum(0)
        mae, naive, inside = (part.sum(0) / count for part in (self.absolute, self.naive, self.between))
        return {
            name: {"mae": float(mae[k]), "seasonal_naive_mae": float(naive[k]), "coverage": float(inside[k])}
            for k, name in enumerate(self.frame.names)
            if count[k] > 0
        }

    def by_step(self) -> dict[str, dict[str, float]]:
        """MASE and coverage of each step ahead."""
        result = {}
        units = torch.tensor(self.frame.naive, dtype=torch.float64)
        for k, count in enumerate(self.counted):
            if (real := count > 0).any():
                errors, inside = self.absolute[k] / count / units, self.between[k] / count
                result[str(k + 1)] = {"mase": float(errors[real].mean()), "coverage": float(inside[real].mean())}
        return result
