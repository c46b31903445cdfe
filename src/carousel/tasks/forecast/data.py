"""The forecaster's data: a series to windows, the scales and seasons that a run keeps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np

from ...data.batches.windows import Rows, WindowBatches
from ...data.sources.series import Grid, Panel, read_panel
from ...data.sources.times import time_words
from ...errors import CarouselError, DataError, SettingsError
from ...files import write_json
from ...training import Data
from ...training.run import read_json
from ...wording import counted, setting
from .check import SeriesCheck, check_series, describe_columns
from .frame import Frame
from .settings import ForecastSettings

if TYPE_CHECKING:  # data is read without torch
    from torch import Tensor


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


def split_names(text: str | None) -> list[str]:
    """The columns that a setting names, as a,b,c."""
    return [] if text is None else [name.strip() for name in text.split(",")]


def open_panel(settings: ForecastSettings, path: str | Path) -> Panel:
    s = settings
    return read_panel(
        path, s.time_column, split_names(s.columns), s.gaps, series_id=s.series_id, future=split_names(s.future)
    )


def open_more(settings: ForecastSettings, path: str | Path, names: list[str], grid: Grid) -> Panel:
    """Another file of the same variables on the same grid of times."""
    s = settings
    return read_panel(path, s.time_column, names, s.gaps, grid, s.series_id, split_names(s.future))


def read_all(settings: ForecastSettings) -> tuple[Panel, dict[str, int]]:
    """The series with what is held out at the end of each, and how many rows of each are to be trained on."""
    s = settings
    panel = open_panel(s, s.train)
    if s.dev is None:
        held = {n: round(s.holdout * one.end) if s.holdout < 1 else int(s.holdout) for n, one in panel.series.items()}
        rows = {name: one.end - held[name] for name, one in panel.series.items()}
        if max(rows.values()) <= 0:
            longest = max(one.end for one in panel.series.values())
            raise SettingsError(
                f"{setting('holdout')}: {counted(int(s.holdout), 'row')} held out, but {s.train} has {longest:,}"
            )
        return panel, rows
    more = open_more(s, s.dev, panel.first.names, (panel.first.unit, panel.first.step))
    if s.missing == "error":
        more.refuse_missing()  # with the lines of its own file, before they follow those of train
    if s.logarithm:
        more.refuse_nonpositive()  # likewise
    return panel.followed_by(more), {name: one.end for name, one in panel.series.items()}


def refuse_unmeasured(settings: ForecastSettings, panel: Panel, counts: Mapping[str, int]) -> None:
    """Raise if no forecast can be compared with what is held out: it is too short, or all of it is missing."""
    s = settings
    held = {name: one.end - counts[name] for name, one in panel.series.items()}
    if not any(held.values()):
        return
    most = max(held.values())
    if most < s.horizon:
        each = " of a series" if len(held) > 1 else ""
        problem = f"{counted(most, 'row')}{each} held out, but a forecast has {counted(s.horizon, 'step')}"
        more = f"give {setting('holdout', s.horizon)} or more" if s.dev is None else "give a longer file"
        raise SettingsError(
            f"{setting('holdout' if s.dev is None else 'dev')}: {problem}; {more}, or lower {setting('horizon')}"
        )
    if all(np.isnan(one.values[counts[name] :]).all() for name, one in panel.series.items()):
        problem, remedy = "every value held out is missing", "give values to compare forecasts with"
        raise DataError(s.train if s.dev is None else s.dev, None, problem, remedy)


def dev_windows(settings: ForecastSettings, frame: Frame, rows: Rows, origins: np.ndarray) -> WindowBatches:
    """The windows of some origins in their order, to evaluate."""
    compared = frame.reach(settings).compared
    return WindowBatches(rows, origins, compared, settings.horizon, windows=128, shuffle=False)


def linear_origins(rows: Rows, trained: np.ndarray, lags: int, horizon: int) -> np.ndarray:
    """The origins that the autoregression can be fitted to, given those of the network, which may read further back."""
    ends = [int(trained[rows.series_of(trained) == k].max()) + horizon - start for k, start in enumerate(rows.starts)]
    return rows.origins([lags] * len(ends), ends, horizon)


def prepare(settings: ForecastSettings, assets: ForecastAssets | None = None) -> tuple[ForecastAssets, Data]:
    """The assets of a new run, or those given, and the batches of its data."""
    from .linear import choose_windows, fit_linear

    s = settings
    panel, counts = read_all(s)
    frame, notes = Frame.of(s, panel, counts) if assets is None else (assets.frame, [])
    panel = panel.only(frame.scales)
    refuse_unmeasured(s, panel, counts)
    scaled, reach = frame.rows(panel, s.missing, s.horizon, stepwise=not s.direct), frame.reach(s).read
    rows = [counts[name] for name in frame.scales]
    origins = scaled.origins([reach] * len(rows), rows, s.horizon)
    if assets is None:
        assets = ForecastAssets(frame)
        if s.linear and s.direct:
            fitted = choose_windows(linear_origins(scaled, origins, frame.lags, s.horizon), len(frame.names))
            assets.linear = fit_linear(scaled, fitted, frame.lags, s.horizon)
    train = WindowBatches(scaled, origins, reach, s.horizon, windows=s.batch_size, seed=s.seed)
    info = {
        "training rows": f"{s.train}: {_extent(panel, rows)}",
        "columns": describe_columns(panel),
        "season": f"{counted(frame.season, 'step')} of {time_words(frame.step, frame.unit)}",
        "windows": f"{len(train.origins):,} of {frame.context} steps to read and {s.horizon} ahead",
    }
    if frame.cycles:
        info["calendar"] = f"place in the {' and the '.join(frame.cycles)}"
    dev = None
    after = scaled.origins(rows, [one.end for one in panel.series.values()], s.horizon)
    if len(after):
        dev = dev_windows(s, frame, scaled, after)
        held = sum(one.end - counts[name] for name, one in panel.series.items())
        info["held out"] = f"{counted(held, 'row')}{_after(panel, rows)}"
    return assets, Data(train, dev, info, [f"{s.train}: {describe_columns(panel)}", *panel.notes, *notes])


def _extent(panel: Panel, rows: list[int]) -> str:
    if len(rows) > 1:
        return f"{sum(rows):,} of {len(rows):,} series, {min(rows):,} to {max(rows):,} each"
    one = panel.first
    return f"{rows[0]:,}, {one.time(int(one.ticks[0]))} to {one.time(int(one.ticks[rows[0] - 1]))}"


def _after(panel: Panel, rows: list[int]) -> str:
    return f" after {panel.first.time(int(panel.first.ticks[rows[0] - 1]))}" if len(rows) == 1 else ""


def check(settings: ForecastSettings) -> SeriesCheck:
    """What is in the files that `settings` name."""
    panel, counts = read_all(settings)
    found = check_series(panel, counts, None if settings.dev is None else str(settings.dev))
    try:
        frame, notes = Frame.of(settings, panel, counts)
        refuse_unmeasured(settings, panel.only(frame.scales), counts)
    except CarouselError as error:
        notes = [f"cannot be trained on: {error}"]
    return replace(found, notes=[*found.notes, *notes])
