"""What a forecaster knows of its series."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from ..data.series import Filling, Series
from ..data.windows import Rows
from ..errors import DataError
from ..wording import counted

if TYPE_CHECKING:
    from .forecast import ForecastSettings

SEASONS = {("month", 1): 12, ("month", 3): 4, ("second", 604800): 52, ("second", 86400): 7, ("second", 3600): 24}


@dataclass(frozen=True)
class Frame:
    """What a model knows of its series, from the training rows alone."""

    names: list[str]
    mean: list[float]
    scale: list[float]
    naive: list[float]  # mean error of the value a season before, in the series' own terms: the unit of MASE
    unit: str
    step: int
    season: int
    context: int
    last: int  # the last tick of the training rows
    logarithm: bool

    @classmethod
    def of(cls, s: ForecastSettings, series: Series, rows: int) -> Frame:
        """From the first `rows` rows."""
        season = s.season or SEASONS.get((series.unit, series.step), 1)
        context = s.context or max(2 * season, 2 * s.horizon, 8)
        reach = max(context + (season if s.around == "season" else 1), season)
        if rows < reach + s.horizon:
            problem = f"{counted(rows, 'row')} to train on, but a window takes {reach} to read and {s.horizon} ahead"
            raise DataError(series.path, None, problem, "give more rows, or lower horizon, context or season")
        values = series.filled(s.missing)[:rows]
        for k, name in enumerate(series.names):
            if np.ptp(values[:, k]) == 0:
                problem = f"{name} is {values[0, k]:g} in all training rows"
                raise DataError(series.path, None, problem, "leave it out with columns; there is nothing to forecast")
            if s.logarithm and values[:, k].min() <= 0:
                where = int(series.lines[values[:, k].argmin()])
                raise DataError(series.path, where or None, f"{name} is not above 0 here", "set logarithm to false")
        known = series.values[:rows]
        naive = np.nanmean(np.abs(known[season:] - known[:-season]), 0)
        flat = np.nanmean(np.abs(np.diff(known, axis=0)), 0)
        naive[naive == 0] = flat[naive == 0]  # the same every season: by the step before
        z = np.log(values) if s.logarithm else values
        return cls(
            series.names, z.mean(0).tolist(), z.std(0).tolist(), naive.tolist(), series.unit, series.step, season,
            context, int(series.ticks[rows - 1]), s.logarithm,
        )  # fmt: skip

    def scaled(self, values: np.ndarray) -> np.ndarray:
        """(T, V), as the network sees it."""
        z = np.log(np.maximum(values, 1e-9)) if self.logarithm else values
        return ((z - self.mean) / self.scale).astype(np.float32)

    def plain(self, z: Tensor) -> Tensor:
        """(..., V), in the series' own terms again."""
        values = z.double() * torch.tensor(self.scale, dtype=torch.float64) + torch.tensor(
            self.mean, dtype=torch.float64
        )
        return values.exp() if self.logarithm else values

    def rows(self, series: Series, missing: Filling) -> Rows:
        first = (series.ticks - series.ticks[0]) // series.step
        offset = int(series.ticks[0]) // series.step
        return Rows(
            self.scaled(series.filled(missing)), ~np.isnan(series.values), (first + offset) % self.season
        )  # fmt: skip
