"""The forecaster in use: the steps after a series, evaluation by rolling origin, what its layers read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ...data.batches.windows import WindowBatch, WindowBatches
from ...data.sources.memory import is_table, write_series
from ...data.sources.series import Panel, Series, series_of
from ...errors import ArgumentError, DataError
from ...wording import counted, either
from ..base import LayerInput, Model
from ..shared.ensemble import with_members
from .data import ForecastAssets, dev_windows, open_more
from .frame import Frame
from .network import ForecasterNetwork
from .rolling import Source

if TYPE_CHECKING:
    from torch import Tensor

    from ...layers import Clamp, Trace


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
    evaluates_memory = True

    @property
    def columns(self) -> tuple[str, ...]:  # type: ignore[override]
        return (*(["series"] if self.settings.series_id is not None else []), "time", "variable", "forecast",
                *quantile_names(self.settings.levels))  # fmt: skip

    @property
    def frame(self) -> Frame:
        return self.assets.frame

    @property
    def info(self) -> dict[str, Any]:
        several = {"series": len(self.frame.scales)} if self.settings.series_id is not None else {}
        return {"variables": self.frame.names, "season": self.frame.season, **several}

    def predict(self, data: str | Path | Series | Any, start: str | None = None) -> Forecast | Forecasts:
        """The steps that follow the end of a series or, with a column of ids, of each series.

        `data` is a CSV file, a Series, a table with the columns of the training data (a DataFrame, a mapping), a pandas
        Series with an index of times, or numbers, (T,) for one variable or (T, V), None or NaN where missing; `start`
        is the time of the first of those numbers, unless the model was trained without times.

        With columns known ahead, the data has rows for the steps to forecast, in which the variables are empty. A
        series whose id was not in the training data is scaled by the first rows that a forecast needs.
        """
        panel = self._panel(data, start)
        self._check_known(panel)
        source = Source.of(self.network, panel)
        values = source.plain(source.ends, source.roll(source.ends))  # (h, S, V, Q)
        levels, h = self.settings.levels, self.settings.horizon
        each = {
            name: Forecast(one, one.times_ahead(h), levels, values[:, k])
            for k, (name, one) in enumerate(panel.series.items())
        }
        return each[""] if self.settings.series_id is None else Forecasts(each)

    def _check_known(self, panel: Panel) -> None:
        """Refuse a file without a value of some variable, or without what is known of the steps to forecast."""
        for one in panel.series.values():
            for name, column in zip(one.names, one.values.T, strict=True):
                if np.isnan(column).all():
                    problem = f"{name} has no value, so there is nothing to forecast it from"
                    raise DataError(one.label, None, problem, "give a series with values")
        h = self.settings.horizon
        for one in panel.series.values() if self.frame.future else ():
            rows = len(one) - one.end
            names = ", ".join(one.future_names)
            if rows < h:
                problem = f"{counted(rows, 'row')} after the last value, but {counted(h, 'step')} to forecast"
                remedy = f"add rows with {names} alone, the variables empty"
                raise DataError(one.label, int(one.lines[-1]) or None, problem, remedy)
            for r, k in np.argwhere(np.isnan(one.future[one.end : one.end + h]))[:1].tolist():
                problem = (
                    f"{one.future_names[k]} is missing at {one.time(int(one.ticks[one.end + r]))}, a step to forecast"
                )
                raise DataError(
                    one.label, int(one.lines[one.end + r]) or None, problem, f"give the rows ahead with {names}"
                )

    def _panel(self, data: str | Path | Series | Any, start: str | None = None) -> Panel:
        """What `predict` is given, as series that this model can read."""
        if isinstance(data, (str, Path, Series, Panel)):
            if data == "":
                raise ArgumentError("the name of the file is empty; give a CSV file, or numbers")
            if start is not None:
                raise ArgumentError(f"start: {start} is given, but a file has times of its own; leave it out")
            return self.open_panel(data)
        frame, several = self.frame, self.settings.series_id is not None or self.frame.future
        if start is None and (several or is_table(data, frame.names, timed=frame.unit != "row")):
            return self._written(data)
        if several:
            raise ArgumentError("start: the model reads a table with times of its own; leave it out")
        if isinstance(data, Iterator):
            data = list(data)
        return self.open_panel(series_of(data, frame.names, (frame.unit, frame.step), start))

    def _written(self, data: Any) -> Panel:
        """A table, or numbers with times, read as a file of them would be."""
        with TemporaryDirectory() as folder:
            path = write_series(data, Path(folder) / "values")
            try:
                return self.open_panel(path)
            except DataError as error:
                raise DataError("data", error.line, error.problem, error.remedy) from None

    def predict_lines(self, lines: Iterable[str]) -> Iterator[dict[str, Any]]:
        endings = either(self.task.predict_extensions)
        raise ArgumentError(f"a forecaster reads a whole series; give it as a file whose name ends in {endings}")

    def predict_file(self, path: Path) -> Iterator[dict[str, Any]]:
        return iter(self.predict(path).rows())

    @with_members
    def evaluate(self, data: str | Path | Series | Any, start: str | None = None) -> dict[str, Any]:
        """Rolling origin: the steps ahead of every row after the training rows, compared with the actual values.

        `data` and `start` are as `predict` takes them.

        MASE is the mean absolute error in units of that of the value a season before, on the training rows, averaged
        over series and variables; `scaled_crps` is the CRPS in the same units. `seasonal_naive` is what repeating the
        last season gets on the same steps, with what is missing of it filled as the model's input is. `values` counts
        what was compared: missing values are not. `dev_values` of them also chose the model's epoch, shares and bounds;
        if there are such, `cross_fitted_coverage` is the coverage with bounds calibrated on the other half of the rows.
        """
        source = Source.of(self.network, self._panel(data, start))
        errors, chosen = source.measure(), source.count_chosen()
        cross = source.measure(cross_fitted=True).result()["coverage"] if chosen else None
        return {
            **errors.result(), **({} if cross is None else {"cross_fitted_coverage": cross}),
            "seasonal_naive": errors.naive_mase, "origins": errors.origins, "values": errors.values,
            "dev_values": chosen, "intervals": errors.by_interval(), "variables": errors.by_variable(),
            **({"series": errors.by_series()} if self.settings.series_id is not None else {}),
            "steps_ahead": errors.by_step(),
        }  # fmt: skip

    def batches(self, path: str | Path) -> WindowBatches:
        source = Source.of(self.network, self.open_panel(path))
        return dev_windows(self.settings, self.frame, source.rows, source.find_origins())

    def trace(
        self, item: Any, *, start: str | None = None, part: str | None = None,
        gradients_of: Callable[..., Tensor] | None = None,
    ) -> Trace:  # fmt: skip
        """As that of other models; `item` and `start` are as `predict` takes them, or a list of files or Series."""
        return super().trace(item if start is None else self._panel(item, start), part=part, gradients_of=gradients_of)

    def intervene(
        self, item: Any, *clamps: Clamp, start: str | None = None, part: str | None = None,
        gradients_of: Callable[..., Tensor] | None = None,
    ) -> Trace:  # fmt: skip
        item = item if start is None else self._panel(item, start)
        return super().intervene(item, *clamps, part=part, gradients_of=gradients_of)

    def _items(self, item: Any) -> list[Any]:
        files = isinstance(item, list) and bool(item) and all(isinstance(one, (str, Path, Series)) for one in item)
        return item if files else [item]  # another list is a series of numbers, or a table

    def _read_items(self, items: Sequence[Any]) -> LayerInput:
        """Of the window before the end of each series; steps have their times."""
        reads, tokens = [], []
        for panel in map(self._panel, items):
            source = Source.of(self.network, panel)
            reads.append(self.layer_input(source.windows(source.ends)))
            steps = len(reads[-1].x)
            ends = ((one, one.ticks[one.end - steps : one.end].tolist()) for one in panel.series.values())
            tokens += [tuple(map(one.time, ticks)) for one, ticks in ends]
        x, lengths = torch.cat([read.x for read in reads], 1), torch.cat([read.lengths for read in reads])
        return reads[0]._replace(x=x, lengths=lengths, tokens=tuple(tokens))

    def layer_input(self, batch: WindowBatch) -> LayerInput:
        x = self.network.read(batch)
        return LayerInput("layers", self.network.layers, x, torch.full((x.shape[1],), len(x)))

    def open_panel(self, data: str | Path | Series | Panel) -> Panel:
        """Series that this model can read, or a DataError."""
        frame = self.frame
        if isinstance(data, Panel):
            panel = data
        elif isinstance(data, Series):
            panel = Panel({data.name: data})
        else:
            panel = open_more(self.settings, data, frame.names, (frame.unit, frame.step))
        need = self.network.reach.read
        for one in panel.series.values():
            one.check_step(frame.unit, frame.step)
        short = [one for one in panel.series.values() if one.end < need]
        if short:
            first, more = short[0], f"; so have {len(short) - 1:,} more series" if len(short) > 1 else ""
            problem = f"{counted(first.end, 'row')}, but the model reads {need}{more}"
            remedy = "give more rows" + (", or leave these series out" if first.name else "")
            raise DataError(first.label, None, problem, remedy)
        return panel


def quantile_names(levels: Sequence[float]) -> list[str]:
    """The columns of the quantiles beside the median.

    >>> quantile_names([0.1, 0.5, 0.9])
    ['q0.1', 'q0.9']
    """
    return [f"q{level:g}" for level in levels if level != 0.5]


@dataclass(frozen=True)
class Forecast:
    """The steps after the end of a series: times, and the quantiles of each, (h, V, Q)."""

    series: Series
    times: list[str]
    levels: list[float]
    quantiles: np.ndarray

    @property
    def median(self) -> np.ndarray:
        """(h, V)."""
        return self.quantiles[..., len(self.levels) // 2]

    @property
    def low(self) -> np.ndarray:
        """The lowest quantile, (h, V)."""
        return self.quantiles[..., 0]

    @property
    def high(self) -> np.ndarray:
        """The highest quantile, (h, V)."""
        return self.quantiles[..., -1]

    def rows(self) -> list[dict[str, Any]]:
        """One for each time and variable."""
        names, middle = quantile_names(self.levels), len(self.levels) // 2
        rows = []
        for t, time in enumerate(self.times):
            for v, variable in enumerate(self.series.names):
                median, others = self.median[t, v], np.delete(self.quantiles[t, v], middle)
                row = {"time": time, "variable": variable, "forecast": _short(median)}
                rows.append(row | dict(zip(names, map(_short, others), strict=True)))
        return rows

    def __repr__(self) -> str:
        ends = [quantile_names(self.levels)[k] for k in (0, -1)]
        return "\n".join(
            f"{row['time']}  {row['variable']}  {row['forecast']:g}  ({row[ends[0]]:g} to {row[ends[1]]:g})"
            for row in self.rows()
        )


class Forecasts(dict[str, Forecast]):
    """The forecast of each series, by its id."""

    def rows(self) -> list[dict[str, Any]]:
        """One for each series, time and variable."""
        return [{"series": name, **row} for name, one in self.items() for row in one.rows()]

    def __repr__(self) -> str:
        return "\n".join(f"{name}  {line}" for name, one in self.items() for line in repr(one).splitlines())


def _short(value: float) -> float:
    return float(f"{value:.6g}")
