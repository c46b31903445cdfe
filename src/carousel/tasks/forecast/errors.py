"""The errors of forecasts: the quantile loss, the CRPS, and the metric of a series."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import ClassVar

import torch
from torch import Tensor

from ...data.batches.windows import WindowBatch
from ...training import SummedMetric
from .calibration import nominal
from .frame import Frame
from .settings import ForecastSettings


def quantile_loss(bounds: Tensor, truth: Tensor, levels: list[float]) -> Tensor:
    """The quantile (pinball) loss of every value, given quantiles, (..., V, Q) and (..., V) → (..., V).

    It is twice the absolute error, weighted by the side of the quantile, averaged over the levels.
    """
    level = torch.tensor(levels, dtype=bounds.dtype, device=bounds.device)
    off = truth.unsqueeze(-1) - bounds
    return 2 * torch.maximum(level * off, (level - 1) * off).mean(-1)


def crps(bounds: Tensor, truth: Tensor, levels: list[float]) -> Tensor:
    """The continuous ranked probability score of every value, given quantiles, (..., V, Q) and (..., V) → (..., V).

    It is the exact score, ∫ (F(x) - [x ≥ y])² dx, of the distribution whose F is a line between neighbouring quantiles;
    what lies beyond the outermost quantiles is taken to be at them. If all quantiles are equal, it is the absolute
    error.

    >>> crps(torch.tensor([0.0, 1.0, 2.0]), torch.tensor(1.0), [0.25, 0.5, 0.75]).item()  # 2 (¼² + ¼·½ + ½²) / 3
    0.2916666567325592
    """
    level = torch.tensor(levels, dtype=bounds.dtype, device=bounds.device)
    truth = truth.unsqueeze(-1)
    (a, b), (low, high) = (level[:-1], level[1:]), (bounds[..., :-1], bounds[..., 1:])
    x = truth.clamp(low, high)
    f = a + (b - a) * (x - low) / (high - low).clamp(min=torch.finfo(bounds.dtype).tiny)
    below = (x - low) * (a * a + a * f + f * f)
    above = (high - x) * ((1 - f) ** 2 + (1 - f) * (1 - b) + (1 - b) ** 2)
    beyond = (bounds[..., :1] - truth).clamp(min=0) + (truth - bounds[..., -1:]).clamp(min=0)
    return (below + above).sum(-1) / 3 + beyond.squeeze(-1)


class Errors(SummedMetric):
    """Errors of forecasts: MASE, MAE, RMSE, CRPS, and the share of values between the bounds with their width.

    Only readings count; a variable, or a step ahead, without any is in no mean and in no table. `bounds` forecasts:
    a batch → the quantiles of its steps ahead, scaled, (h, B, V, Q).
    """

    best = "mase"
    lower_is_better = True
    SUMS = ("absolute", "squared", "naive", "crps", "pinball", "counted")  # each (S, h, V)
    PAIRS = ("between", "width")  # each (S, h, V, P)
    sums: ClassVar[tuple[str, ...]] = (*SUMS, *PAIRS, "origins")

    def __init__(self, settings: ForecastSettings, frame: Frame, bounds: Callable[[WindowBatch], Tensor]) -> None:
        self.levels, self.frame, self.bounds = settings.levels, frame, bounds
        self.shape = (len(frame.scales), settings.horizon, len(frame.names))
        self.reset()

    def reset(self) -> None:
        """Forget what was counted."""
        self.absolute, self.squared, self.naive, self.crps, self.pinball, self.counted = (
            torch.zeros(self.shape, dtype=torch.float64) for _ in self.SUMS
        )
        self.between, self.width = (
            torch.zeros(*self.shape, len(self.levels) // 2, dtype=torch.float64) for _ in self.PAIRS
        )
        self.origins = 0

    @torch.no_grad()
    def add(self, batch: WindowBatch) -> None:
        self.count(batch, self.bounds(batch))

    def count(self, batch: WindowBatch, bounds: Tensor) -> None:
        """Add forecasts, (h, B, V, Q), which are compared with the actual values of the batch."""
        frame, pairs = self.frame, len(self.levels) // 2
        quantiles = frame.plain(bounds.movedim(-1, 0), batch.series).movedim(0, -1)
        truth = frame.plain(batch.future, batch.series)
        steps = torch.arange(len(truth)) % frame.season
        naive = frame.plain(batch.past[len(batch.past) - frame.season + steps], batch.series)
        median, low, high = quantiles[..., pairs], quantiles[..., :pairs], quantiles[..., pairs + 1 :].flip(-1)
        came = truth.unsqueeze(-1)
        parts = {
            "absolute": (median - truth).abs(), "squared": (median - truth).square(), "naive": (naive - truth).abs(),
            "crps": crps(quantiles, truth, self.levels), "counted": torch.ones_like(truth),
            "pinball": quantile_loss(bounds, batch.future, self.levels), "width": high - low,
            "between": ((low <= came) & (came <= high)).double(),
        }  # fmt: skip
        for name, part in parts.items():
            there = batch.there if part.dim() == 3 else batch.there.unsqueeze(-1)
            kept = torch.where(there, part.double(), 0.0).transpose(0, 1)  # (B, h, V) or (B, h, V, P)
            getattr(self, name).index_add_(0, batch.series, kept)
        self.origins += len(batch.origins)

    @property
    def values(self) -> int:
        """How many values were compared."""
        return int(self.counted.sum())

    def _scaled(self, total: Tensor) -> Tensor:
        """Sums (S, h, V) → means over the steps in units of the naive forecast's error on the training rows, (S, V).

        NaN where nothing was compared, or that error is 0."""
        units = self.frame.units
        return torch.where(units > 0, total.sum(1) / self.counted.sum(1) / units, math.nan)

    def _mase(self, total: Tensor) -> float:
        return float(self._scaled(total).nanmean())

    @property
    def naive_mase(self) -> float:
        return self._mase(self.naive)

    def result(self) -> dict[str, float]:
        count = max(1.0, float(self.counted.sum()))
        return {
            "mase": self._mase(self.absolute),
            "mae": float(self.absolute.sum()) / count,
            "rmse": math.sqrt(float(self.squared.sum()) / count),
            "crps": float(self.crps.sum()) / count,
            "scaled_crps": self._mase(self.crps),
            "coverage": float(self.between[..., 0].sum()) / count,
            "loss": float(self.pinball.sum()) / count,
        }

    def by_variable(self) -> dict[str, dict[str, float]]:
        count = self.counted.sum((0, 1))
        parts = (self.absolute, self.naive, self.crps, self.between[..., 0], self.width[..., 0])
        mae, naive, score, inside, width = (part.sum((0, 1)) / count for part in parts)
        return {
            name: {"mae": float(mae[k]), "seasonal_naive_mae": float(naive[k]), "crps": float(score[k]),
                   "coverage": float(inside[k]), "width": float(width[k])}
            for k, name in enumerate(self.frame.names)
            if count[k] > 0
        }  # fmt: skip

    def by_step(self) -> dict[str, dict[str, float]]:
        """MASE and coverage of each step ahead."""
        result = {}
        for k in range(self.counted.shape[1]):
            count = self.counted[:, k]
            if (count > 0).any():
                errors = torch.where(self.frame.units > 0, self.absolute[:, k] / count / self.frame.units, math.nan)
                inside = float(self.between[:, k, :, 0].sum() / count.sum())
                result[str(k + 1)] = {"mase": float(errors.nanmean()), "coverage": inside}
        return result

    def by_interval(self) -> dict[str, dict[str, float]]:
        """Coverage and mean width of each pair of bounds, by its levels; the width in units of MASE too."""
        count, pairs = float(self.counted.sum()), zip(self.levels, self.levels[::-1], strict=True)
        return {
            f"{low:g} to {high:g}": {
                "nominal": share, "coverage": float(self.between[..., p].sum()) / count,
                "width": float(self.width[..., p].sum()) / count, "scaled_width": self._mase(self.width[..., p]),
            }
            for p, ((low, high), share) in enumerate(zip(pairs, nominal(self.levels), strict=False))
        }  # fmt: skip

    def by_series(self) -> dict[str, dict[str, float]]:
        """MASE, that of the seasonal naive forecast and coverage of each series."""
        mase, naive = (self._scaled(part).nanmean(1) for part in (self.absolute, self.naive))
        count, inside = self.counted.sum((1, 2)), self.between[..., 0].sum((1, 2))
        return {
            name: {"mase": float(mase[k]), "seasonal_naive": float(naive[k]), "coverage": float(inside[k] / count[k]),
                   "values": int(count[k])}
            for k, name in enumerate(self.frame.scales)
            if count[k] > 0
        }  # fmt: skip
