"""The forecaster in use: the steps after a series, evaluation by rolling origin, what its layers read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

from ...data.batches.windows import WindowBatch, WindowBatches
from ...data.sources.memory import is_table, write_series
from ...data.sources.series import Series, series_of
from ...errors import ArgumentError, DataError
from ...wording import counted
from ..base import LayerInput, Model
from ..shared.ensemble import with_members
from .data import ForecastAssets, dev_windows, open_more
from .frame import Frame
from .network import ForecasterNetwork
from .rolling import find_origins, measure, roll


class Forecaster(Model[ForecasterNetwork, ForecastAssets]):
    """A forecaster of a series.

    >>> import tempfile, carousel
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     options = {"out": folder + "/run", "season": 4, "horizon": 2, "hidden": 4, "epochs": 1, "quiet": True}
    ...     model = carousel.train("forecast", [3.0, 5.0, 4.0, 8.0] * 16, **options)
    >>> model.predict([3.0, 5.0, 4.0, 8.0] * 4).median.shape  # steps ahead, variables
    (2, 1)
    """

    name = "forecast"
    kind = "forecaster"
    columns = ("time", "variable", "forecast", "low", "high")

    @property
    def frame(self) -> Frame:
        return self.assets.frame

    @property
    def info(self) -> dict[str, Any]:
        return {"variables": self.frame.names, "season": self.frame.season}

    def predict(self, data: str | Path | Series | Any, start: str | None = None) -> Forecast:
        """The steps that follow the end of a series.

        `data` is a CSV file, a Series, a table with the columns of the training data (a DataFrame, a mapping), a pandas
        Series with an index of times, or numbers, (T,) for one variable or (T, V), None or NaN where missing; `start`
        is the time of the first of those numbers, unless the model was trained without times.
        """
        frame, series = self.frame, self._series(data, start)
        _, bounds = roll(self.network, series, np.array([len(series)]))
        low, median, high = frame.plain(bounds[:, 0].movedim(-1, 0)).numpy()
        return Forecast(series, series.times_ahead(self.settings.horizon), low, median, high)

    def _series(self, data: str | Path | Series | Any, start: str | None = None) -> Series:
        """What `predict` is given, as a series that this model can read."""
        if isinstance(data, (str, Path, Series)):
            if start is not None:
                raise ArgumentError(f"start: {start} is given, but a file has times of its own; leave it out")
            return self.open_series(data)
        frame = self.frame
        if start is None and is_table(data, frame.names, timed=frame.unit != "row"):
            return self._written(data)
        if isinstance(data, Iterator):
            data = list(data)
        return self.open_series(series_of(data, frame.names, (frame.unit, frame.step), start))

    def _written(self, data: Any) -> Series:
        """A table, or numbers with times, read as a file of them would be."""
        with TemporaryDirectory() as folder:
            path = write_series(data, Path(folder) / "values")
            try:
                return self.open_series(path)
            except DataError as error:
                raise DataError("data", error.line, error.problem, error.remedy) from None

    def predict_lines(self, lines: Iterable[str]) -> Iterator[dict[str, Any]]:
        *most, last = self.task.predict_extensions
        endings = f"{', '.join(most)} or {last}"
        raise ArgumentError(f"a forecast model reads a whole series; give it as a file whose name ends in {endings}")

    def predict_file(self, path: Path) -> Iterator[dict[str, Any]]:
        return iter(self.predict(path).rows())

    @with_members
    def evaluate(self, path: str | Path) -> dict[str, Any]:
        """Rolling origin: the steps ahead of every row after the training rows, compared with the actual values.

        MASE is the mean absolute error in units of that of the value a season before, on the training rows;
        `seasonal_naive` is what repeating the last season gets on the same steps, with what is missing of it filled as
        the model's input is. `values` counts what was compared: missing values are not.
        """
        errors = measure(self.network, self.open_series(path))
        return {
            **errors.result(), "seasonal_naive": errors.naive_mase, "origins": errors.origins, "values": errors.values,
            "variables": errors.by_variable(), "steps_ahead": errors.by_step(),
        }  # fmt: skip

    def batches(self, path: str | Path) -> WindowBatches:
        series, s = self.open_series(path), self.settings
        rows = self.frame.rows(series, s.missing, stepwise=not s.direct)
        return dev_windows(s, self.frame, rows, find_origins(self.network, series))

    def _items(self, item: Any) -> list[Any]:
        return [item]  # a list is a series of numbers

    def batch_of(self, items: Sequence[Any]) -> WindowBatch:
        """The window before the end of a series, as a file, a Series or numbers."""
        series = self._series(items[0])
        rows = self.frame.rows(series, self.settings.missing, stepwise=not self.settings.direct)
        return rows.window(np.array([len(series)]), self.network.reach.compared, self.settings.horizon)

    def layer_input(self, batch: WindowBatch) -> LayerInput:
        x = self.network.read(batch)
        return LayerInput("layers", self.network.layers, x, torch.full((x.shape[1],), len(x)))

    def open_series(self, data: str | Path | Series) -> Series:
        """A series that this model can read, or a DataError."""
        frame, series = self.frame, data
        if not isinstance(series, Series):
            series = open_more(self.settings, series, frame.names, (frame.unit, frame.step))
        series.check_step(frame.unit, frame.step)
        need = self.network.reach.read
        if len(series) < need:
            problem = f"{counted(len(series), 'row')}, but the model reads {need}"
            raise DataError(series.path, None, problem, "give more rows")
        return series


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


def _short(value: float) -> float:
    return float(f"{value:.6g}")
