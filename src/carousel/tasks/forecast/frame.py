"""What a forecaster knows of its series."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ...data.batches.windows import Rows
from ...data.sources.calendar import calendar, cycles_of
from ...data.sources.filling import Fill, Filling, fill_missing
from ...data.sources.series import Panel, Series
from ...errors import DataError, shorten
from ...wording import counted, either, setting
from .settings import ForecastSettings

if TYPE_CHECKING:  # data is read without torch
    from torch import Tensor

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
class Scale:
    """What is known of one series, from its training rows alone."""

    mean: list[float]  # of each variable
    scale: list[float]
    naive: list[float]  # mean error of the value a season before, in the series' own terms: the unit of MASE
    last: int  # the last tick of the training rows
    held: int  # the last tick of the rows held out, which chose epoch, shares and bounds

    @classmethod
    def of(cls, series: Series, rows: int, season: int, logarithm: bool) -> Scale:
        """From the first `rows` rows of a series."""
        columns = [column[~np.isnan(column)] for column in series.values[:rows].T]  # readings alone: nothing is made up
        z = [np.log(np.maximum(readings, 1e-9)) if logarithm else readings for readings in columns]
        naive = [_naive_error(column, season) for column in series.values[:rows].T]
        mean = [float(part.mean()) if len(part) else 0.0 for part in z]
        scale = [float(part.std()) if len(part) else 0.0 for part in z]
        return cls(
            mean, [one or 1.0 for one in scale], naive, int(series.ticks[rows - 1]), int(series.ticks[series.end - 1])
        )


@dataclass(frozen=True)
class Frame:
    """What a model knows of its series, from the training rows alone."""

    names: list[str]
    scales: dict[str, Scale]  # of each series, by its id
    unit: str
    step: int
    season: int
    context: int
    lags: int  # of the linear autoregression
    logarithm: bool
    future: list[str]  # columns known ahead, and their mean and scale over all series
    future_mean: list[float]
    future_scale: list[float]
    cycles: list[str]  # of the calendar, whose places are known ahead too

    @classmethod
    def of(cls, s: ForecastSettings, panel: Panel, rows: Mapping[str, int]) -> tuple[Frame, list[str]]:
        """From the first `rows` rows of each series; and what a user should know of series that are left out."""
        first = panel.first
        season = s.season or SEASONS.get((first.unit, first.step), 1)
        context = s.context or max(2 * season, 2 * s.horizon, 8)
        typical = int(np.quantile(list(rows.values()), 0.1, method="higher"))  # nine of ten series are as long
        lags = choose_lags(season, context, typical, s.horizon)
        reach = Reach.of(s, season, context, lags).compared
        problems = {name: _problem(s, one, rows[name], reach) for name, one in panel.series.items()}
        used = [name for name, problem in problems.items() if problem is None]
        if not used:
            name, (problem, remedy) = next((name, problem) for name, problem in problems.items() if problem)
            raise DataError(panel.series[name].label, None, problem, remedy)
        left_out = [f"{shorten(name, 40)} ({problem[0]})" for name, problem in problems.items() if problem]
        notes = []
        if left_out:
            more = f" and {len(left_out) - 10:,} more" if len(left_out) > 10 else ""
            notes.append(f"{panel.path}: {len(left_out):,} of {len(problems):,} series are left out: "
                         f"{', '.join(left_out[:10])}{more}")  # fmt: skip
        scales = {name: Scale.of(panel.series[name], rows[name], season, s.logarithm) for name in used}
        known = np.concatenate([panel.series[name].future[: rows[name]] for name in used])
        means, deviations = _moments(panel, known)
        cycles = cycles_of(first.unit, first.step, season, typical) if s.calendar else []
        return cls(
            first.names, scales, first.unit, first.step, season, context, lags, s.logarithm, list(first.future_names),
            means, deviations, cycles,
        ), notes  # fmt: skip

    @property
    def covariates(self) -> int:
        """How many numbers are known ahead of each step."""
        return len(self.future) + 2 * len(self.cycles)

    @cached_property
    def units(self) -> Tensor:
        """The unit of MASE of each series and variable, (S, V)."""
        import torch

        return torch.tensor([scale.naive for scale in self.scales.values()], dtype=torch.float64)

    @cached_property
    def _moments(self) -> tuple[Tensor, Tensor]:
        """Mean and scale, each (S, V)."""
        import torch

        table = [[scale.mean, scale.scale] for scale in self.scales.values()]
        mean, scale = torch.tensor(table, dtype=torch.float64).unbind(1)
        return mean, scale

    def of_panel(self, panel: Panel, rows: int) -> Frame:
        """This with the scales of a panel's series; a new one has those of its first `rows` rows."""
        return replace(self, scales={
            name: self.scales[name] if name in self.scales
            else Scale.of(one, min(rows, one.end), self.season, self.logarithm)
            for name, one in panel.series.items()
        })  # fmt: skip

    def scaled(self, values: np.ndarray, name: str = "") -> np.ndarray:
        """(T, V) of a series, as the network sees it."""
        z = np.log(np.maximum(values, 1e-9)) if self.logarithm else values
        return ((z - self.scales[name].mean) / self.scales[name].scale).astype(np.float32)

    def plain(self, z: Tensor, series: Tensor) -> Tensor:
        """(..., B, V) of windows of `series`, (B,), in their own terms again."""
        mean, scale = (part[series] for part in self._moments)
        values = z.double() * scale + mean
        return values.exp() if self.logarithm else values

    def reach(self, s: ForecastSettings) -> Reach:
        return Reach.of(s, self.season, self.context, self.lags)

    def rows(self, panel: Panel, missing: Filling, ahead: int, stepwise: bool = False) -> Rows:
        """The series as windows are cut from them, each with room for what is known of `ahead` steps after its end.

        Before a variable's first reading it is at the mean, 0. What is known ahead is, where missing, as in the last
        row that has it.
        """
        parts: list[tuple[np.ndarray, ...]] = []
        starts, ends, phases, offset = [], [], [], 0
        for name, one in panel.series.items():
            if missing == "error":
                one.refuse_missing()
            if self.logarithm:  # here, because all that a network reads comes by: to learn, evaluate, predict
                one.refuse_nonpositive()
            total = max(one.end + ahead, one.end + 1)
            values = np.full((total, len(self.names)), np.nan)
            values[: one.end] = one.values[: one.end]
            fill = fill_missing(values, missing)
            closed, carried = (np.nan_to_num(self.scaled(part, name), nan=0.0) for part in (fill.closed, fill.open))
            parts.append((closed, carried, fill.closes + offset, ~np.isnan(values), self._covariates(one, total)))
            starts.append(offset)
            ends.append(offset + one.end)
            phases.append(int(one.ticks[0]) // one.step % self.season)
            offset += total
        closed, carried, closes, there, covariates = (np.concatenate(part) for part in zip(*parts, strict=True))
        first, end, phase = (np.array(part, np.int64) for part in (starts, ends, phases))
        return Rows(Fill(closed, carried, closes), there, covariates, first, end, phase, self.season, stepwise)

    def _covariates(self, series: Series, total: int) -> np.ndarray:
        """What is known ahead of the first `total` steps of a series, (total, C), scaled."""
        known = np.full((total, len(self.future)), np.nan)
        given = series.future[:total]
        known[: len(given)] = given
        known = fill_missing((known - self.future_mean) / self.future_scale, "forward").open
        ticks = int(series.ticks[0]) + series.step * np.arange(total)
        return np.concatenate((np.nan_to_num(known), calendar(ticks, self.unit, self.cycles)), 1).astype(np.float32)


def choose_lags(season: int, context: int, rows: int, horizon: int) -> int:
    """Seven seasons, if twice as many windows are left to fit; at least the network's context."""
    week = WEEK * season if season > 1 else 0
    return min(MOST_LAGS, max(context, week if rows - week - horizon + 1 >= 2 * week else 0))


def _problem(s: ForecastSettings, series: Series, rows: int, reach: int) -> tuple[str, str] | None:
    """What keeps a series of so many training rows from being learnt, and the remedy; values that are wrong raise."""
    if rows < reach + s.horizon:
        few = counted(max(rows, 0), "row")
        problem = f"{few} to train on, but a window takes {reach} to read and {s.horizon} ahead"
        return (
            problem,
            f"give more rows, or lower {either([setting(name) for name in ('horizon', 'context', 'season')])}",
        )
    if s.logarithm:
        series.refuse_nonpositive()
    for name, column in zip(series.names, series.values[:rows].T, strict=True):
        readings = column[~np.isnan(column)]
        if not len(readings):
            return f"{name} has no value in the training rows", f"leave it out with {setting('columns')}"
        if np.ptp(readings) == 0:
            problem = f"{name} is {readings[0]:g} in all training rows"
            return problem, f"leave it out with {setting('columns')}; there is nothing to forecast"
    return None


def _moments(panel: Panel, known: np.ndarray) -> tuple[list[float], list[float]]:
    """Mean and scale of the columns known ahead, (T, C); one that never changes has the scale 1."""
    for name, column in zip(panel.first.future_names, known.T, strict=True):
        if np.isnan(column).all():
            raise DataError(
                panel.path, None, f"{name} has no value in the training rows", f"leave it out of {setting('future')}"
            )
    if not known.shape[1]:
        return [], []
    return np.nanmean(known, 0).tolist(), [float(one) or 1.0 for one in np.nanstd(known, 0)]


def _naive_error(column: np.ndarray, season: int) -> float:
    """The mean error of the value a season before, where both are readings. If there is no such pair, or it is always
    right: of the reading before. 0 if there is none.
    """
    errors = np.abs(column[season:] - column[:-season])
    errors = errors[~np.isnan(errors)]
    if not errors.any():
        errors = np.abs(np.diff(column[~np.isnan(column)]))
    return float(errors.mean()) if len(errors) else 0.0
