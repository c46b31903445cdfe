"""What a forecaster knows of its series."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ...data.batches.windows import Rows
from ...data.sources.filling import Fill, Filling, fill_missing
from ...data.sources.series import Series
from ...errors import DataError
from ...wording import counted
from .settings import ForecastSettings

SEASONS = {("month", 1): 12, ("month", 3): 4, ("second", 604800): 52, ("second", 86400): 7, ("second", 3600): 24}


WEEK = 7  # seasons that the linear autoregression reads, if the series is long enough
MOST_LAGS = 1000  # that it reads


class Reach(NamedTuple):
    """How many rows before an origin a forecast needs."""

    lag: int  # the distance from a step back to the value that its forecast is a change from
    read: int  # rows that a forecast is computed from
    compared: int  # rows before an origin that is evaluated: the seasonal naive forecast needs a season of them

    @classmethod
    def of(cls, s: ForecastSettings, season: int, context: int, lags: int) -> Reach:
        lag = season if s.around == "season" else 1
        read = max(context + lag, lags if s.linear and s.direct else 0)
        return cls(lag, read, max(read, season))


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
    lags: int  # of the linear autoregression
    last: int  # the last tick of the training rows
    logarithm: bool

    @classmethod
    def of(cls, s: ForecastSettings, series: Series, rows: int) -> Frame:
        """From the first `rows` rows."""
        season = s.season or SEASONS.get((series.unit, series.step), 1)
        context = s.context or max(2 * season, 2 * s.horizon, 8)
        lags = choose_lags(season, context, rows, s.horizon)
        reach = Reach.of(s, season, context, lags).compared
        if rows < reach + s.horizon:
            problem = f"{counted(rows, 'row')} to train on, but a window takes {reach} to read and {s.horizon} ahead"
            raise DataError(series.path, None, problem, "give more rows, or lower horizon, context or season")
        columns = [column[~np.isnan(column)] for column in series.values[:rows].T]  # readings alone: nothing is made up
        for k, (name, readings) in enumerate(zip(series.names, columns, strict=True)):
            if not len(readings):
                raise DataError(
                    series.path, None, f"{name} has no value in the training rows", "leave it out with columns"
                )
            if np.ptp(readings) == 0:
                problem = f"{name} is {readings[0]:g} in all training rows"
                raise DataError(series.path, None, problem, "leave it out with columns; there is nothing to forecast")
            if s.logarithm and readings.min() <= 0:
                where = int(series.lines[np.nanargmin(series.values[:rows, k])])
                raise DataError(series.path, where or None, f"{name} is not above 0 here", "set logarithm to false")
        z = [np.log(readings) if s.logarithm else readings for readings in columns]
        return cls(
            series.names, [float(part.mean()) for part in z], [float(part.std()) for part in z],
            [_naive_error(column, season) for column in series.values[:rows].T], series.unit, series.step, season,
            context, lags, int(series.ticks[rows - 1]), s.logarithm,
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

    def reach(self, s: ForecastSettings) -> Reach:
        return Reach.of(s, self.season, self.context, self.lags)

    def rows(self, series: Series, missing: Filling, stepwise: bool = False) -> Rows:
        """The series as windows are cut from it; before a variable's first reading it is at the training mean, 0."""
        if missing == "error":
            series.refuse_missing()
        fill = fill_missing(series.values, missing)
        closed, carried = (np.nan_to_num(self.scaled(part), nan=0.0) for part in (fill.closed, fill.open))
        phase = int(series.ticks[0]) // series.step % self.season
        return Rows(Fill(closed, carried, fill.closes), ~np.isnan(series.values), self.season, phase, stepwise)


def choose_lags(season: int, context: int, rows: int, horizon: int) -> int:
    """Seven seasons, if twice as many windows are left to fit; at least the network's context."""
    week = WEEK * season if season > 1 else 0
    return min(MOST_LAGS, max(context, week if rows - week - horizon + 1 >= 2 * week else 0))


def _naive_error(column: np.ndarray, season: int) -> float:
    """The mean error of the value a season before, where both are readings. If there is no such pair, or it is always
    right: of the reading before.
    """
    errors = np.abs(column[season:] - column[:-season])
    errors = errors[~np.isnan(errors)]
    if not errors.any():
        errors = np.abs(np.diff(column[~np.isnan(column)]))
    return float(errors.mean())
