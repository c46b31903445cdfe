"""Forecasts from the end of a series, as a user sees them, and from many of its rows, with calibrated bounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from ...data.batches.windows import Rows, WindowBatch
from ...data.sources.series import Series
from ...errors import DataError

if TYPE_CHECKING:
    from .model import Forecaster

BLOCK = 32  # origins that are forecast from in one batch


@dataclass(frozen=True)
class Forecast:
    """The steps after the end of a series: times, and low, median and high of each, (h, V)."""

    series: Series
    times: list[str]
    low: np.ndarray
    median: np.ndarray
    high: np.ndarray

    def rows(self) -> list[dict[str, Any]]:
        """One for each time and variable."""
        return [
            {"time": time, "variable": name, "forecast": _short(self.median[t, v]), "low": _short(self.low[t, v]),
             "high": _short(self.high[t, v])}
            for t, time in enumerate(self.times) for v, name in enumerate(self.series.names)
        ]  # fmt: skip

    def __repr__(self) -> str:
        return "\n".join(
            f"{row['time']}  {row['variable']}  {row['forecast']:g}  ({row['low']:g} to {row['high']:g})"
            for row in self.rows()
        )


def find_origins(model: Forecaster, series: Series) -> np.ndarray:
    """The rows after the training's end that have enough before and after them to be forecast from."""
    reach, h = model.compared, model.settings.horizon
    after = int(np.searchsorted(series.ticks, model.frame.last, side="right"))
    first = after if after < len(series) else 0  # a series of other times: all of it
    found = np.arange(max(reach, first), len(series) - h + 1)
    if not len(found):
        problem = (
            f"it takes {reach} rows to read and {h} ahead after {series.time(model.frame.last)}, the last trained on"
        )
        raise DataError(series.path, None, problem, "give a series that goes on for longer")
    return found


@torch.no_grad()
def roll(model: Forecaster, series: Series, origins: np.ndarray) -> tuple[WindowBatch, Tensor]:
    """The windows of rising `origins`, and the bounds of their steps ahead, (h, origins, V, 3), scaled.

    How wide the bounds are is set by the `calibration` origins before each whose steps ahead have all come by
    then: the two sides are stretched alike, so that `interval` of those values would lie between them.
    """
    model.eval()
    h, many = model.settings.horizon, model.settings.calibration
    rows = model.frame.rows(series, model.settings.missing, stepwise=not model.direct)
    first = min(int(origins[0]), max(model.compared, int(origins[0]) - many - h + 1))
    every = np.arange(first, int(origins[-1]) + 1) if many else origins
    bounds = _bounds(model, rows, every)
    came = rows.window(every, 0, h)
    truth, there = came.future, came.there
    low, median, high = bounds.unbind(-1)
    off = (truth - median) / torch.where(truth > median, high - median, median - low).clamp(min=1e-9)
    stretched = bounds[:, np.searchsorted(every, origins)]
    for k, origin in enumerate(origins.tolist()):
        last = int(np.searchsorted(every, origin - h, side="right"))
        seen, told = off[:, max(0, last - many) : last].abs(), there[:, max(0, last - many) : last]
        for v in range(seen.shape[2] if many else 0):
            errors = seen[..., v][told[..., v]]
            if len(errors) >= 20:
                stretch = torch.quantile(errors, model.settings.interval)
                middle = stretched[:, k, v, 1:2]
                stretched[:, k, v] = middle + stretch * (stretched[:, k, v] - middle)
    return rows.window(origins, model.compared, h), stretched


def _bounds(model: Forecaster, rows: Rows, origins: np.ndarray) -> Tensor:
    """The bounds of the steps ahead of rising `origins` as learnt, (h, origins, V, 3).

    Batches are blocks of BLOCK rows counted from the start of the series, whole even where few of them are asked for.
    Matrix products round differently in batches of other sizes, so this is what makes a forecast the same to the last
    bit however many others are made beside it and however far the series goes on.
    """
    parts = []
    for block in np.unique(origins // BLOCK):
        inside = origins[origins // BLOCK == block]
        filled = np.clip(np.arange(block * BLOCK, (block + 1) * BLOCK), inside[0], inside[-1])
        parts.append(model.bounds(rows.window(filled, model.reach, model.settings.horizon))[:, inside % BLOCK])
    return torch.cat(parts, 1)


def _short(value: float) -> float:
    return float(f"{value:.6g}")
