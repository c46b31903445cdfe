"""What a page shows of a forecaster: forecasts against what came."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..data.series import Series
from ..report import figure
from .forecast_errors import measure
from .forecasting import roll

if TYPE_CHECKING:
    from ..report import Page
    from .forecast import Forecaster


def show_forecasts(model: Forecaster, page: Page, series: Series, rows: int) -> None:
    """The errors after the first `rows` rows of a series, and for each of some variables a picture."""
    meter = measure(model, series)
    found = meter.result()
    page.heading("Forecasts against what came").text(
        f"From every origin after `{series.time(model.frame.last)}`, {model.settings.horizon} steps ahead: MASE "
        f"*{found['mase']:.3f}*, where repeating the last season gets {meter.naive_mase:.3f}; "
        f"{found['coverage']:.0%} of the values lie between the bounds, which {model.settings.interval:.0%} should."
    )
    h = model.settings.horizon
    origins = np.arange(rows, len(series) - h + 1, h)[-24:]
    _, bounds = roll(model, series, origins)
    bounds = model.frame.plain(bounds.movedim(-1, 0)).transpose(1, 2)  # (3, B, h, V)
    for k, name in enumerate(model.frame.names[:4]):
        drawn = forecasts_picture(model, series, k, int(origins[0]), bounds[..., k].flatten(1).tolist())
        page.figure(drawn, name, "A new forecast begins where the one before it ends.")


def forecasts_picture(
    model: Forecaster, series: Series, variable: int, first: int, bounds: Sequence[Sequence[float]]
) -> Any:
    """What came of one variable, and the low, median and high of forecasts for the steps from row `first` on."""
    low, median, high = bounds
    shown = slice(max(0, first - 2 * model.settings.horizon), len(series))
    times = [series.time(int(tick)) for tick in series.ticks]
    ahead = times[first : first + len(median)]
    drawn = figure(420, hovermode="x")
    drawn.add_scatter(x=ahead, y=high, mode="lines", line={"width": 0}, showlegend=False, hoverinfo="skip")
    said = f"{model.settings.interval:.0%} between the bounds"
    drawn.add_scatter(x=ahead, y=low, mode="lines", line={"width": 0}, name=said, fill="tonexty",
                      fillcolor="rgba(0,114,178,.2)")  # fmt: skip
    drawn.add_scatter(x=ahead, y=median, mode="lines", name="forecast", line={"color": "#0072b2"})
    drawn.add_scatter(x=times[shown], y=series.values[shown, variable].tolist(), mode="lines", name="what came",
                      line={"color": "#d55e00", "width": 1.5})  # fmt: skip
    return drawn
