"""What a forecaster's report shows: forecasts and actual values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...data.sources.series import Series
from ...report import Page, figure, verbatim
from ...wording import counted
from .data import read_all
from .predictor import Forecaster
from .rolling import measure, roll

VARIABLES = 4  # that have a picture
STEPS = 24  # in a table of the steps ahead


def report(model: Forecaster, page: Page) -> None:
    """The forecast after the last row of the data, and forecasts of what was held out."""
    show_forecasts(model, page, *read_all(model.settings))


def show_forecasts(model: Forecaster, page: Page, series: Series, rows: int) -> None:
    """The errors after the first `rows` rows of a series, and a picture of each of some variables, to past its end."""
    h = model.settings.horizon
    origins = np.arange(len(series), rows - 1, -h)[::-1][-25:]
    _, bounds = roll(model.network, series, origins)
    bounds = model.frame.plain(bounds.movedim(-1, 0)).transpose(1, 2)  # (3, B, h, V)
    if len(series) - rows >= h and not np.isnan(series.values[rows:]).all():
        show_errors(model, page, series)
    names = model.frame.names
    for k, name in enumerate(names[:VARIABLES]):
        picture = forecasts_picture(model, series, k, int(origins[0]), bounds[..., k].flatten(1).tolist())
        text = "Each forecast begins where the previous one ends; the last one is beyond the end of the data."
        page.figure(picture, verbatim(f"Forecast vs actual: {name}" if len(names) > 1 else "Forecast vs actual"), text)
    show_next(model, page, series, bounds[:, -1].numpy())


def show_errors(model: Forecaster, page: Page, series: Series) -> None:
    """The errors of forecasts from every origin: of all, of each variable, of each step ahead."""
    s, errors = model.settings, measure(model.network, series)
    result = errors.result()
    page.heading("Forecast errors").text(
        f"From every origin after `{series.time(model.frame.last)}`, {counted(s.horizon, 'step')} ahead: MASE "
        f"*{result['mase']:.3f}* (seasonal naive: {errors.naive_mase:.3f}); {result['coverage']:.0%} of the actual "
        f"values lie inside the {s.interval:.0%} interval."
    )
    rows = [
        [verbatim(name), f"{one['mae']:.4g}", f"{one['seasonal_naive_mae']:.4g}", f"{one['coverage']:.1%}"]
        for name, one in errors.by_variable().items()
    ]
    page.table(["variable", "mean absolute error", "of seasonal naive", "inside the interval"], rows)
    steps = errors.by_step()
    if len(steps) > 1:
        drawn = figure(300, showlegend=False)
        ahead = [int(step) for step in steps]
        drawn.add_scatter(x=ahead, y=[one["mase"] for one in steps.values()], mode="lines+markers", name="MASE")
        drawn.update_xaxes(title_text="steps ahead").update_yaxes(title_text="MASE", rangemode="tozero")
        page.figure(drawn, "Error by steps ahead", "MASE of each step of the horizon.")


def show_next(model: Forecaster, page: Page, series: Series, bounds: np.ndarray) -> None:
    """The steps after the last row; bounds (3, h, V)."""
    times, names = series.times_ahead(model.settings.horizon), model.frame.names[:VARIABLES]
    low, median, high = bounds
    rows = [
        [verbatim(time), *([verbatim(name)] if len(names) > 1 else []), f"{median[t, v]:.5g}", f"{low[t, v]:.5g}",
         f"{high[t, v]:.5g}"]
        for v, name in enumerate(names) for t, time in enumerate(times[:STEPS])
    ]  # fmt: skip
    left = f" The first {STEPS} of {len(times)} steps." if len(times) > STEPS else ""
    left += (
        f" The first {VARIABLES} of {len(model.frame.names)} variables." if len(model.frame.names) > VARIABLES else ""
    )
    page.heading("Forecast beyond the data").text(
        f"The steps after `{series.time(int(series.ticks[-1]))}`, with a {model.settings.interval:.0%} interval.{left}"
    )
    page.table(["time", *(["variable"] if len(names) > 1 else []), "forecast", "low", "high"], rows)


def forecasts_picture(
    model: Forecaster, series: Series, variable: int, first: int, bounds: Sequence[Sequence[float]]
) -> Any:
    """One variable, and low, median and high of forecasts from row `first` to a horizon past its last row."""
    low, median, high = bounds
    h = model.settings.horizon
    shown = slice(max(0, first - 2 * h), len(series))
    times = [series.time(int(tick)) for tick in series.ticks] + series.times_ahead(h)
    ahead = times[first:]
    picture = figure(420, hovermode="x")
    picture.add_scatter(x=ahead, y=high, mode="lines", line={"width": 0}, showlegend=False, hoverinfo="skip")
    picture.add_scatter(x=ahead, y=low, mode="lines", line={"width": 0}, name=f"{model.settings.interval:.0%} interval",
                        fill="tonexty", fillcolor="rgba(0,114,178,.2)")  # fmt: skip
    picture.add_scatter(x=ahead[:-h], y=median[:-h], mode="lines", name="forecast", line={"color": "#0072b2"})
    picture.add_scatter(x=ahead[-h:], y=median[-h:], mode="lines+markers", name="forecast beyond the data",
                        line={"color": "#009e73"}, marker={"size": 4})  # fmt: skip
    picture.add_scatter(x=times[shown], y=series.values[shown, variable].tolist(), mode="lines", name="actual",
                        line={"color": "#d55e00", "width": 1.5})  # fmt: skip
    return picture
