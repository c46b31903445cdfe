"""How far forecasts are from what came."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ...data.batches.windows import WindowBatch
from ...data.sources.series import Series
from ...errors import DataError
from ...training import Metric
from .rolling import find_origins, roll

if TYPE_CHECKING:
    from .model import Forecaster


class Errors(Metric):
    """Errors of forecasts: MASE, MAE, RMSE, and the share of values between the bounds.

    Only readings are measured. A variable, or a step ahead, without any is in no mean and in no table.
    """

    best = "mase"
    lower_is_better = True

    def __init__(self, model: Forecaster) -> None:
        self.model = model
        h, V = model.settings.horizon, len(model.frame.names)
        self.absolute, self.squared, self.between, self.naive, self.counted = (
            torch.zeros(h, V, dtype=torch.float64) for _ in range(5)
        )
        self.pinball = 0.0
        self.origins = 0

    @torch.no_grad()
    def add(self, batch: WindowBatch) -> None:
        self.count(batch, self.model.bounds(batch))

    def count(self, batch: WindowBatch, bounds: Tensor) -> None:
        """Add forecasts, (h, B, V, 3), to what came."""
        model = self.model
        there = batch.there.double()
        low, median, high = model.frame.plain(bounds.movedim(-1, 0))
        truth = model.frame.plain(batch.future)
        steps = torch.arange(len(truth)) % model.frame.season
        naive = model.frame.plain(batch.past[len(batch.past) - model.frame.season + steps])
        self.absolute += ((median - truth).abs() * there).sum(1)
        self.squared += ((median - truth).square() * there).sum(1)
        self.naive += ((naive - truth).abs() * there).sum(1)
        self.between += ((low <= truth) & (truth <= high)).double().mul(there).sum(1)
        self.counted += there.sum(1)
        self.pinball += float((model.pinball(bounds, batch.future) * batch.there).sum())
        self.origins += len(batch.origins)

    @property
    def values(self) -> int:
        """How many values were measured."""
        return int(self.counted.sum())

    def _mase(self, total: Tensor) -> float:
        """The mean over variables of the error in units of the naive one's on the training rows."""
        count = self.counted.sum(0)
        errors = total.sum(0) / count / torch.tensor(self.model.frame.naive, dtype=torch.float64)
        return float(errors[count > 0].mean())

    @property
    def naive_mase(self) -> float:
        return self._mase(self.naive)

    def merge(self, other: Errors) -> None:
        for name in ("absolute", "squared", "between", "naive", "counted", "pinball", "origins"):
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def result(self) -> dict[str, float]:
        count = max(1.0, float(self.counted.sum()))
        return {
            "mase": self._mase(self.absolute),
            "mae": float(self.absolute.sum()) / count,
            "rmse": math.sqrt(float(self.squared.sum()) / count),
            "coverage": float(self.between.sum()) / count,
            "loss": self.pinball / count,
        }

    def by_variable(self) -> dict[str, dict[str, float]]:
        count = self.counted.sum(0)
        mae, naive, inside = (part.sum(0) / count for part in (self.absolute, self.naive, self.between))
        return {
            name: {"mae": float(mae[k]), "seasonal_naive_mae": float(naive[k]), "coverage": float(inside[k])}
            for k, name in enumerate(self.model.frame.names)
            if count[k] > 0
        }

    def by_step(self) -> dict[str, dict[str, float]]:
        """MASE and coverage of each step ahead."""
        found = {}
        units = torch.tensor(self.model.frame.naive, dtype=torch.float64)
        for k, count in enumerate(self.counted):
            if (real := count > 0).any():
                errors, inside = self.absolute[k] / count / units, self.between[k] / count
                found[str(k + 1)] = {"mase": float(errors[real].mean()), "coverage": float(inside[real].mean())}
        return found


def measure(model: Forecaster, series: Series) -> Errors:
    """The errors of forecasts from every origin of a series."""
    meter = Errors(model)
    meter.count(*roll(model, series, find_origins(model, series)))
    if not meter.values:
        problem = f"every value after {series.time(model.frame.last)}, the last trained on, is missing"
        raise DataError(series.path, None, problem, "give a series with values to compare with")
    return meter
