"""The forecaster's data: a series to windows, the scales and seasons that a run keeps."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

import numpy as np
from torch import Tensor

from ...data.batches.windows import Rows, WindowBatches
from ...data.sources.series import Grid, Series, read_series
from ...data.sources.times import time_words
from ...errors import SettingsError
from ...files import write_json
from ...training import Data
from ...training.run import read_json
from ...wording import counted
from .check import SeriesCheck, check_series
from .frame import Frame
from .linear import choose_windows, fit_linear
from .settings import ForecastSettings


@dataclass
class ForecastAssets:
    """What a run keeps: variables, scales and season of its series; the linear autoregression is in the weights."""

    frame: Frame
    linear: Tensor | None = None  # (V, h, lags), as fitted for a new run

    def save(self, folder: Path) -> None:
        write_json(folder / "series.json", asdict(self.frame))

    @classmethod
    def load(cls, settings: ForecastSettings, folder: Path) -> Self:
        return cls(read_json(folder / "series.json", Frame))


def open_series(settings: ForecastSettings, path: str | Path) -> Series:
    wanted = [] if settings.columns is None else [name.strip() for name in settings.columns.split(",")]
    return read_series(path, settings.time_column, wanted, settings.gaps)


def open_more(settings: ForecastSettings, path: str | Path, names: list[str], grid: Grid) -> Series:
    """Another file of the same variables on the same grid of times."""
    return read_series(path, settings.time_column, names, settings.gaps, grid)


def read_all(settings: ForecastSettings) -> tuple[Series, int]:
    """The series with what is held out at its end, and how many rows are to be trained on."""
    s = settings
    series = open_series(s, s.train)
    if s.dev is None:
        held = round(s.holdout * len(series)) if s.holdout < 1 else int(s.holdout)
        if held >= len(series):
            raise SettingsError(f"holdout: {counted(held, 'row')} held out, but {s.train} has {len(series):,}")
        return series, len(series) - held
    more = open_more(s, s.dev, series.names, (series.unit, series.step))
    if s.missing == "error":
        more.refuse_missing()  # with the lines of its own file, before they follow those of train
    return series.followed_by(more), len(series)


def dev_windows(settings: ForecastSettings, frame: Frame, rows: Rows, origins: np.ndarray) -> WindowBatches:
    """The windows of some origins in their order, to evaluate."""
    compared = frame.reach(settings).compared
    return WindowBatches(rows, origins, compared, settings.horizon, windows=128, shuffle=False)


def prepare(settings: ForecastSettings, assets: ForecastAssets | None = None) -> tuple[ForecastAssets, Data]:
    """The assets of a new run, or those given, and the batches of its data."""
    s = settings
    series, rows = read_all(s)
    frame = Frame.of(s, series, rows) if assets is None else assets.frame
    scaled, reach = frame.rows(series, s.missing, stepwise=not s.direct), frame.reach(s).read
    if assets is None:
        assets = ForecastAssets(frame)
        if s.linear and s.direct:
            fitted = choose_windows(rows, frame.lags, s.horizon, len(frame.names))
            assets.linear = fit_linear(scaled, fitted, frame.lags, s.horizon)
    origins = np.arange(reach, rows - s.horizon + 1)
    train = WindowBatches(scaled, origins, reach, s.horizon, windows=s.batch_size, seed=s.seed)
    last = series.time(int(series.ticks[rows - 1]))
    info = {
        "training rows": f"{s.train}: {rows:,}, {series.time(int(series.ticks[0]))} to {last}",
        "columns": _columns(series),
        "season": f"{counted(frame.season, 'step')} of {time_words(frame.step, frame.unit)}",
        "windows": f"{len(train.origins):,} of {frame.context} steps to read and {s.horizon} ahead",
    }
    dev = None
    if len(series) - rows >= s.horizon and not np.isnan(series.values[rows:]).all():
        dev = dev_windows(s, frame, scaled, np.arange(rows, len(series) - s.horizon + 1))
        info["held out"] = f"{counted(len(series) - rows, 'row')} after {last}"
    return assets, Data(train, dev, info, [f"{s.train}: {_columns(series)}", *series.notes])


def check(settings: ForecastSettings) -> SeriesCheck:
    """What is in the files that `settings` name."""
    return check_series(*read_all(settings))


def _columns(series: Series) -> str:
    """Which columns are read as what."""
    times = "no column of times" if series.time_column is None else f"times in {series.time_column}"
    more = len(series.names) - 20
    return f"{times}; variables: {', '.join(series.names[:20])}" + (f" and {more:,} more" if more > 0 else "")
