"""Forecasts: what a series will be in the next steps, and between what bounds."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from statistics import NormalDist
from typing import Any, Literal, Self

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils._pytree import tree_map

from ...data.batches.windows import WindowBatch, WindowBatches
from ...data.sources.filling import Filling
from ...data.sources.memory import write_series
from ...data.sources.series import Gaps, Grid, Series, read_series, series_of
from ...data.sources.times import time_words
from ...errors import ArgumentError, DataError, SettingsError
from ...files import write_json
from ...networks.encoder import encoder
from ...training import ColumnName, Data, Loss, Settings, key
from ...training.modes import in_eval_mode
from ...training.run import read_kept
from ...wording import counted
from ..base import LayerInput
from ..shared.cell import CellName
from ..shared.combined import CombinedTask
from .check import SeriesCheck, check_series
from .errors import Errors, measure
from .frame import Frame
from .report import show_forecasts
from .rolling import Forecast, find_origins, roll

PATHS = 200  # drawn for the interval of an autoregressive forecast


class ForecastSettings(Settings):
    """Keys of the forecaster."""

    task: Literal["forecast"] = key("forecast", "the task", "data")
    train: Path = key(..., "a CSV file with a time and some numbers in each row", "data")
    dev: Path | None = key(None, "a file that goes on where train ends; null: the end of train is held out", "data")
    holdout: float = key(0.2, "what is held out of train without dev: a share, or a number of rows", "data", ge=0)
    time_column: ColumnName | None = key(
        None, "the column of times, by name or by number from 1; null: the first of ISO times, or of years", "data"
    )
    columns: ColumnName | None = key(None, "the variables, as a,b,c; null: every column but that of times", "data")
    gaps: Gaps = key("fill", "rows that are left out: filled with missing values, or an error", "data")
    missing: Filling = key(
        "interpolate",
        "missing values: on a line between readings (the last one until the next is known), the last one, an error",
        "data",
    )
    horizon: int = key(12, "steps to forecast", "data", ge=1)
    context: int | None = key(
        None, "steps that are read; null: the larger of two seasons and two horizons", "data", ge=2
    )
    season: int | None = key(None, "steps of a season, 1 for none; null: by the step of time (12 months, 24 hours …)",
                             "data", ge=1)  # fmt: skip
    batch_size: int = key(32, "windows in a batch", "data", ge=1)

    decoding: Literal["direct", "autoregressive"] = key(
        "direct", "all steps ahead at once, or one after the other, each reading the one before", "model"
    )
    around: Literal["season", "last", "none"] = key(
        "season", "what a forecast is a change from: the value a season before, the last one, or the mean", "model"
    )
    logarithm: bool = key(False, "learn logarithms, for series whose swings grow with them", "model")
    interval: float = key(0.8, "share of values that should lie between the bounds", "model", gt=0, lt=1)
    calibration: int = key(100, "origins just before, whose errors set how wide the bounds are; 0: as learnt", "model",
                           ge=0)  # fmt: skip
    linear: bool = key(True, "a linear autoregression beside the network (direct)", "model", {"decoding": ("direct",)})
    cell: CellName = key("lstm", "the recurrent cell", "model")
    hidden: int = key(32, "units in a layer", "model", ge=1)
    layers: int = key(1, "recurrent layers", "model", ge=1)
    dropout: float = key(0.2, "dropout between and after the layers", "model", ge=0, lt=1)
    forget_bias: float | None = key(None, "the forget gate's bias at the start; null: the cell's own (1)", "model")

    def read_file(self, path: Path) -> Series:
        wanted = [] if self.columns is None else [name.strip() for name in self.columns.split(",")]
        return read_series(path, self.time_column, wanted, self.gaps)

    def read_more(self, path: Path | str, names: list[str], grid: Grid) -> Series:
        """Another file of the same variables on the same grid of times."""
        return read_series(path, self.time_column, names, self.gaps, grid)


class Forecaster(CombinedTask):
    """past values → layers → the median and the bounds of each step ahead.

    A forecast is a change from the value a season before (or the last one), so that a level never seen in training is
    no trouble. With `linear`, a linear autoregression over the same past is added, which starts from nothing.
    """

    name = "forecast"
    help = """Train a forecaster on a series in CSV: a time and some numbers in every row.

    \b
    carousel train forecast flights.csv --horizon 12 --out run       # the last fifth is held out
    carousel train forecast load.csv --columns OT --season 24 --horizon 24 --out run
    carousel train forecast sales.csv --logarithm --decoding autoregressive --out run

    Then: carousel eval run flights.csv, carousel predict run flights.csv."""
    Settings = ForecastSettings
    unit = "values"
    predict_extensions = (".csv", ".tsv", ".txt")
    columns = ("time", "variable", "forecast", "low", "high")

    def __init__(self, settings: ForecastSettings, frame: Frame) -> None:
        super().__init__()
        self.settings = s = settings
        self.frame = frame
        V = len(frame.names)
        self.direct = s.decoding == "direct"
        ahead = s.horizon if self.direct else 1
        features = 3 * V + (2 if frame.season > 1 else 0)
        self.layers = encoder(
            s.cell, features, s.hidden, num_layers=s.layers, dropout=s.dropout, forget_bias=s.forget_bias
        )
        self.drop = nn.Dropout(s.dropout)
        self.output = nn.Linear(s.hidden, ahead * V * 3)
        nn.init.zeros_(self.output.weight)
        nn.init.zeros_(self.output.bias)
        self.linear = nn.Parameter(torch.zeros(ahead, 2 * frame.context)) if s.linear and self.direct else None

    @property
    def lag(self) -> int:
        """How far back of a step the value lies that it is compared with."""
        return self.frame.season if self.settings.around == "season" else 1

    @property
    def reach(self) -> int:
        """How many rows a forecast is made from."""
        return self.frame.context + self.lag

    @property
    def compared(self) -> int:
        """How many rows must come before an origin to be measured: the season before is compared with too."""
        return max(self.reach, self.frame.season)

    # ---------------------------------------------------------------- the network

    def features(self, past: Tensor, known: Tensor, phase: Tensor, centre: Tensor) -> Tensor:
        """past (L + lag, B, V) → (L, B, features): levels, changes, what is missing, the place in the season."""
        level = past if self.settings.around == "none" else past - centre
        parts = [level[self.lag :], past[self.lag :] - past[: -self.lag], (~known[self.lag :]).to(past.dtype)]
        if self.frame.season > 1:
            angle = phase[self.lag : len(past)].to(past.dtype) * (2 * math.pi / self.frame.season)
            parts.append(torch.stack((angle.sin(), angle.cos()), 2))
        return torch.cat(parts, 2)

    def spread(self, raw: Tensor, middle: Tensor) -> Tensor:
        """raw (..., V, 3) and the value that forecasts are a change from → low, median, high, which never cross."""
        median = middle + raw[..., 1]
        return torch.stack((median - F.softplus(raw[..., 0]), median, median + F.softplus(raw[..., 2])), -1)

    def bounds(self, batch: WindowBatch) -> Tensor:
        """Low, median and high of every step ahead, scaled: (h, B, V, 3)."""
        batch = batch.reading(self.reach)
        if not self.direct:
            return self.unrolled(batch)
        past, V, h = batch.past, batch.past.shape[2], self.settings.horizon
        x = self.features(past, batch.known, batch.phase, past[-1])
        y, _ = self.layers(x)
        raw = self.output(self.drop(y[-1])).view(len(y[-1]), h, V, 3).transpose(0, 1)
        middle = self.reference(past, h)
        if self.linear is not None:
            seen = torch.cat((past[self.lag :] - past[-1], past[self.lag :] - past[: -self.lag]))  # (2 L, B, V)
            middle = middle + torch.einsum("hl,lbv->hbv", self.linear, seen)
        return self.spread(raw, middle)

    def reference(self, past: Tensor, ahead: int) -> Tensor:
        """What forecasts are a change from, (h, B, V)."""
        if self.settings.around == "none":
            return past.new_zeros(ahead, *past.shape[1:])
        steps = torch.arange(ahead, device=past.device) % self.lag
        return past[len(past) - self.lag + steps]

    def one_ahead(self, batch: WindowBatch) -> tuple[Tensor, Tensor]:
        """For autoregression: the bounds of the value after each step, (L + h - 1, B, V, 3), and those values."""
        values = torch.cat((batch.past, batch.future))
        known = torch.cat((batch.known, batch.there))
        y, _ = self.layers(self.features(values[:-1], known[:-1], batch.phase, values[0]))
        raw = self.output(self.drop(y)).view(*y.shape[:2], -1, 3)
        truth = values[self.lag + 1 :]
        before = values[1 : len(values) - self.lag] if self.settings.around != "none" else torch.zeros_like(truth)
        return self.spread(raw, before), truth

    @torch.no_grad()
    def unrolled(self, batch: WindowBatch) -> Tensor:
        """Step after step, each path reading what it drew: the quantiles of PATHS of them, (h, B, V, 3).

        What is drawn is normal on either side of the median, each side as wide as its bound says. All windows share
        their draws, so that a forecast does not depend on what else is in the batch.
        """
        h, lag, (_, B, V) = self.settings.horizon, self.lag, batch.past.shape
        draw = torch.Generator().manual_seed(self.settings.seed)
        sure = NormalDist().inv_cdf((1 + self.settings.interval) / 2)
        y, state = self.layers(self.features(batch.past, batch.known, batch.phase, batch.past[0]))
        y = y[-1:].repeat_interleave(PATHS, 1)
        state = tree_map(lambda part: part.repeat_interleave(PATHS, 1), state)
        centre = batch.past[0].repeat_interleave(PATHS, 0)
        phase = batch.phase[len(batch.past) - lag :].repeat_interleave(PATHS, 1)
        values = batch.past.new_zeros(lag + h, B * PATHS, V)
        values[:lag] = batch.past[-lag:].repeat_interleave(PATHS, 1)
        known = torch.ones(lag + 1, B * PATHS, V, dtype=torch.bool)
        for k in range(h):
            before = torch.zeros_like(values[k]) if self.settings.around == "none" else values[k]
            low, median, high = self.spread(self.output(y[-1]).view(B * PATHS, V, 3), before).unbind(-1)
            noise = (torch.randn(PATHS, V, generator=draw) / sure).repeat(B, 1)
            values[lag + k] = median + torch.where(noise > 0, noise * (high - median), noise * (median - low))
            if k + 1 < h:
                here = slice(k, lag + k + 1)
                y, state = self.layers(self.features(values[here], known, phase[here], centre), state)
        edge = (1 - self.settings.interval) / 2
        found = torch.quantile(values[lag:].view(h, B, PATHS, V), torch.tensor([edge, 0.5, 1 - edge]), dim=2)
        return found.movedim(0, -1)

    # ---------------------------------------------------------------- training

    def pinball(self, bounds: Tensor, truth: Tensor) -> Tensor:
        """The quantile loss of every value, (..., V): twice the absolute error, tilted, mean of the three."""
        edge = (1 - self.settings.interval) / 2
        levels = torch.tensor([edge, 0.5, 1 - edge], dtype=bounds.dtype)
        off = truth.unsqueeze(-1) - bounds
        return 2 * torch.maximum(levels * off, (levels - 1) * off).mean(-1)

    def loss(self, batch: WindowBatch) -> Loss:
        """The mean quantile loss of a value."""
        if self.direct:
            bounds, truth, there = self.bounds(batch), batch.future, batch.there
        else:
            bounds, truth = self.one_ahead(batch)
            there = torch.cat((batch.known, batch.there))[self.lag + 1 :]
        count = int(there.sum())
        return Loss((self.pinball(bounds, truth) * there).sum() / max(1, count), max(1, count))

    def batches(self, path: str | Path) -> WindowBatches:
        series = self._fitting(path)
        rows = self.frame.rows(series, self.settings.missing, stepwise=not self.direct)
        origins = find_origins(self, series)
        return WindowBatches(rows, origins, self.compared, self.settings.horizon, windows=128, shuffle=False)

    def layer_input(self, batch: WindowBatch) -> LayerInput:
        batch = batch.reading(self.reach)
        centre = batch.past[-1 if self.direct else 0]
        x = self.features(batch.past, batch.known, batch.phase, centre)
        return LayerInput("layers", self.layers, x, torch.full((x.shape[1],), len(x)))

    @property
    def info(self) -> dict[str, Any]:
        return {"variables": self.frame.names, "season": self.frame.season}

    def metric(self) -> Errors:
        return Errors(self)

    # ---------------------------------------------------------------- use

    @in_eval_mode
    def predict(self, data: str | Path | Series | Any, start: str | None = None) -> Forecast:
        """The steps that follow the end of a series.

        `data` is a CSV file, a Series, or numbers, (T,) for one variable or (T, V), None or NaN where missing; `start`
        is the time of the first of those numbers, unless the model was trained without times.
        """
        if isinstance(data, (str, Path, Series)):
            if start is not None:
                raise ArgumentError(f"start: {start} is given, but a file has times of its own; leave it out")
        else:
            data = series_of(data, self.frame.names, (self.frame.unit, self.frame.step), start)
        series = self._fitting(data)
        _, bounds = roll(self, series, np.array([len(series)]))
        return Forecast(
            series, series.times_ahead(self.settings.horizon), *self.frame.plain(bounds[:, 0].movedim(-1, 0)).numpy()
        )

    def predict_lines(self, lines: Iterable[str]) -> Iterator[dict[str, Any]]:
        endings = f"{', '.join(self.predict_extensions[:-1])} or {self.predict_extensions[-1]}"
        raise ArgumentError(f"a forecast model reads a whole series; give it as a file whose name ends in {endings}")

    def predict_file(self, path: Path) -> Iterator[dict[str, Any]]:
        return iter(self.predict(path).rows())

    @in_eval_mode
    def evaluate(self, path: str | Path) -> dict[str, Any]:
        """Rolling origin: from every row after the training ends, the steps ahead against what came.

        MASE is the mean absolute error in units of that of the value a season before, on the training rows;
        `seasonal_naive` is what repeating the last season gets on the same steps, with what is missing of it filled as
        the model's input is. `values` counts what was measured: missing values are not.
        """
        meter = measure(self, self._fitting(path))
        return {
            **meter.result(), "seasonal_naive": meter.naive_mase, "origins": meter.origins, "values": meter.values,
            "variables": meter.by_variable(), "steps_ahead": meter.by_step(),
        }  # fmt: skip

    def _fitting(self, data: str | Path | Series) -> Series:
        """A series that this model can read, or a DataError."""
        series = data
        if not isinstance(series, Series):
            series = self.settings.read_more(series, self.frame.names, (self.frame.unit, self.frame.step))
        series.check_step(self.frame.unit, self.frame.step)
        if len(series) < self.reach:
            raise DataError(
                series.path, None, f"{counted(len(series), 'row')}, but the model reads {self.reach}", "give more rows"
            )
        return series

    def show(self, page: Any) -> None:
        show_forecasts(self, page, *_whole(self.settings))

    # ---------------------------------------------------------------- data

    @classmethod
    def prepare(cls, settings: ForecastSettings, network: Self | None = None) -> tuple[Self, Data]:
        s = settings
        series, rows = _whole(s)
        network = network or cls(settings, Frame.of(s, series, rows))
        frame = network.frame
        cut = frame.rows(series, s.missing, stepwise=not network.direct)
        reach = network.reach
        train = WindowBatches(cut, np.arange(reach, rows - s.horizon + 1), reach, s.horizon, windows=s.batch_size,
                              seed=s.seed)  # fmt: skip
        last = series.time(int(series.ticks[rows - 1]))
        facts = {
            "training rows": f"{s.train}: {rows:,}, {series.time(int(series.ticks[0]))} to {last}",
            "columns": _columns(series),
            "season": f"{counted(frame.season, 'step')} of {time_words(frame.step, frame.unit)}",
            "windows": f"{len(train.origins):,} of {frame.context} steps to read and {s.horizon} ahead",
        }
        dev = None
        if len(series) - rows >= s.horizon and not np.isnan(series.values[rows:]).all():
            origins = np.arange(rows, len(series) - s.horizon + 1)
            dev = WindowBatches(cut, origins, network.compared, s.horizon, windows=128, shuffle=False)
            facts["held out"] = f"{counted(len(series) - rows, 'row')} after {last}"
        return network, Data(train, dev, facts, [f"{s.train}: {_columns(series)}", *series.notes])

    @classmethod
    def write_data(cls, data: Any, stem: Path, settings: Mapping[str, Any]) -> Path:
        """An array (T,) or (T, V), columns, or a DataFrame or Series with its times."""
        return write_series(data, stem)

    @classmethod
    def check(cls, settings: ForecastSettings) -> SeriesCheck:
        """What is in the files that `settings` name, before training on them."""
        return check_series(*_whole(settings))

    def save(self, folder: Path) -> None:
        write_json(folder / "series.json", asdict(self.frame))

    @classmethod
    def load_assets(cls, settings: ForecastSettings, folder: Path) -> Self:
        return cls(settings, read_kept(folder / "series.json", lambda kept: Frame(**kept)))


def _whole(s: ForecastSettings) -> tuple[Series, int]:
    """The series with what is held out at its end, and how many rows are to be trained on."""
    series = s.read_file(s.train)
    if s.dev is None:
        held = round(s.holdout * len(series)) if s.holdout < 1 else int(s.holdout)
        if held >= len(series):
            raise SettingsError(f"holdout: {counted(held, 'row')} held out, but {s.train} has {len(series):,}")
        return series, len(series) - held
    more = s.read_more(s.dev, series.names, (series.unit, series.step))
    if s.missing == "error":
        more.refuse_missing()  # with the lines of its own file, before they follow those of train
    return series.followed_by(more), len(series)


def _columns(series: Series) -> str:
    """Which columns are read as what."""
    times = "no column of times" if series.time_column is None else f"times in {series.time_column}"
    more = len(series.names) - 20
    return f"{times}; variables: {', '.join(series.names[:20])}" + (f" and {more:,} more" if more > 0 else "")
