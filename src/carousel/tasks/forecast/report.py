"""What a page shows of a forecaster: forecasts against what came."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...data.sources.series import Series
from ...report import figure
from .errors import measure
from .rolling import roll

if TYPE_CHECKING:
    from ...report import Page
    from .model import Forecaster


def show_forecasts(model: Forecaster, page: Page, series: Series, rows: int) -> None:
    """The errors after the first `rows` rows of a series, and a picture of each of some variables, to past its end."""
    h = model.settings.horizon
    page.heading("Forecast vs actual")
    if len(series) - rows >= h and not np.isnan(series.values[rows:]).all():
        meter = measure(model, series)
        found = meter.result()
        page.text(
            f"From every origin after `{series.time(model.frame.last)}`, {h} steps ahead: MASE *{found['mase']:.3f}*, "
            f"where repeating the last season gets {meter.naive_mase:.3f}; {found['coverage']:.0%} of the values lie "
            f"between the bounds, which {model.settings.interval:.0%} should."
        )
    origins = np.arange(len(series), rows - 1, -h)[::-1][-25:]
    _, bounds = roll(model, series, origins)
    bounds = model.frame.plain(bounds.movedim(-1, 0)).transpose(1, 2)  # (3, B, h, V)
    for k, name in enumerate(model.frame.names[:4]):
        drawn = forecasts_picture(model, series, k, int(origins[0]), bounds[..., k].flatten(1).tolist())
        page.figure(drawn, name, "Each forecast begins where the one before it ends; the last one follows the data.")


def forecasts_picture(
    model: Forecaster, series: Series, variable: int, first: int, bounds: Sequence[Sequence[float]]
) -> Any:
    """One variable, and the low, median and high of forecasts from row `first` to a horizon past its last row."""
    low, median, high = bounds
    h = model.settings.horizon
    shown = slice(max(0, first - 2 * h), len(series))
    times = [series.time(int(tick)) for tick in series.ticks] + series.times_ahead(h)
    ahead = times[first:]
    drawn = figure(420, hovermode="x")
    drawn.add_scatter(x=ahead, y=high, mode="lines", line={"width": 0}, showlegend=False, hoverinfo="skip")
    drawn.add_scatter(x=ahead, y=low, mode="lines", line={"width": 0}, name=f"{model.settings.interval:.0%} interval",
                      fill="tonexty", fillcolor="rgba(0,114,178,.2)")  # fmt: skip
    drawn.add_scatter(x=ahead[:-h], y=median[:-h], mode="lines", name="forecast", line={"color": "#0072b2"})
    drawn.add_scatter(x=ahead[-h:], y=median[-h:], mode="lines+markers", name="forecast after the last row",
                      line={"color": "#0072b2"}, marker={"size": 4})  # fmt: skip
    drawn.add_scatter(x=times[shown], y=series.values[shown, variable].tolist(), mode="lines", name="actual",
                      line={"color": "#d55e00", "width": 1.5})  # fmt: skip
    return drawn
