"""What a forecaster's report shows: forecasts and actual values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...data.sources.series import Series
from ...report import Page, figure
from .data import read_all
from .predictor import Forecaster
from .rolling import measure, roll


def report(model: Forecaster, page: Page) -> None:
    """Forecasts of what was held out, and of what follows the data."""
    show_forecasts(model, page, *read_all(model.settings))


def show_forecasts(model: Forecaster, page: Page, series: Series, rows: int) -> None:
    """The errors after the first `rows` rows of a series, and a picture of each of some variables, to past its end."""
    h = model.settings.horizon
    page.heading("Forecast vs actual")
    if len(series) - rows >= h and not np.isnan(series.values[rows:]).all():
        errors = measure(model.network, series)
        result = errors.result()
        page.text(
            f"From every origin after `{series.time(model.frame.last)}`, {h} steps ahead: MASE *{result['mase']:.3f}*, "
            f"where repeating the last season gets {errors.naive_mase:.3f}; {result['coverage']:.0%} of the values lie "
            f"between the bounds, which {model.settings.interval:.0%} should."
        )
    origins = np.arange(len(series), rows - 1, -h)[::-1][-25:]
    _, bounds = roll(model.network, series, origins)
    bounds = model.frame.plain(bounds.movedim(-1, 0)).transpose(1, 2)  # (3, B, h, V)
    for k, name in enumerate(model.frame.names[:4]):
        picture = forecasts_picture(model, series, k, int(origins[0]), bounds[..., k].flatten(1).tolist())
        page.figure(picture, name, "Each forecast begins where the previous one ends; the last one follows the data.")


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
    picture.add_scatter(x=ahead[-h:], y=median[-h:], mode="lines+markers", name="forecast after the last row",
                        line={"color": "#0072b2"}, marker={"size": 4})  # fmt: skip
    picture.add_scatter(x=times[shown], y=series.values[shown, variable].tolist(), mode="lines", name="actual",
                        line={"color": "#d55e00", "width": 1.5})  # fmt: skip
    return picture
