"""What a forecaster's report shows: forecasts and actual values."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...data.sources.series import Panel, Series
from ...report import Page, figure, verbatim
from ...wording import an, counted
from .calibration import nominal
from .data import read_all
from .errors import Errors
from .predictor import Forecaster
from .rolling import Source

VARIABLES = 4  # that have a picture
SERIES = 4  # that have pictures
STEPS = 24  # in a table of the steps ahead
MOST_SERIES = 20  # in the table of series


def report(model: Forecaster, page: Page) -> None:
    """The forecast after the last row of the data, and forecasts of what was held out."""
    panel, rows = read_all(model.settings)
    panel = panel.only(model.frame.scales)
    show_forecasts(model, page, panel, rows)


def show_forecasts(model: Forecaster, page: Page, panel: Panel, rows: dict[str, int]) -> None:
    """The errors after the first `rows` rows of each series, and pictures of some of them, to past the end."""
    source, h = Source.of(model.network, panel), model.settings.horizon
    if any(one.end - rows[n] >= h and not np.isnan(one.values[rows[n] :]).all() for n, one in panel.series.items()):
        show_errors(model, page, source)
    for k, (name, one) in enumerate(list(panel.series.items())[:SERIES]):
        origins = np.arange(one.end, max(rows[name] - 1, 0), -h)[::-1][-25:] + source.rows.starts[k]
        values = source.plain(origins, source.roll(origins))  # (h, origins, V, Q)
        first = int(origins[0] - source.rows.starts[k])
        for v, variable in enumerate(model.frame.names[:VARIABLES]):
            drawn = forecasts_picture(
                model, one, v, first, values[:, :, v].swapaxes(0, 1).reshape(-1, values.shape[-1])
            )
            text = "Each forecast begins where the previous one ends; the last one is beyond the end of the data."
            parts = [*([name] if name else []), *([variable] if len(model.frame.names) > 1 else [])]
            page.figure(drawn, verbatim(": ".join(["Forecast vs actual", *parts])), text)
        show_next(model, page, one, values[:, -1])
    if len(panel.series) > SERIES:
        page.text(f"Pictures are of the first {SERIES} of {len(panel.series):,} series.")


def show_errors(model: Forecaster, page: Page, source: Source) -> None:
    """The errors of forecasts from every origin: of all, of each variable, of each step ahead."""
    s, errors = model.settings, source.measure(cross_fitted=True)
    result, share = errors.result(), nominal(s.levels)[0]
    last = source.panel.first
    after = "" if s.series_id is not None else f" after `{last.time(model.frame.scales[last.name].last)}`"
    calibrated = (
        " (the bounds of each half of these rows are calibrated on the other half; those of the run on all of them)"
        if s.calibrate
        else " (the bounds are not calibrated)"
    )
    page.heading("Forecast errors").text(
        f"From every origin{after}, {counted(s.horizon, 'step')} ahead: MASE *{result['mase']:.3f}* (seasonal naive: "
        f"{errors.naive_mase:.3f}); CRPS in the same unit *{result['scaled_crps']:.3f}*; {result['coverage']:.0%} of "
        f"the actual values lie inside the {share:.0%} interval{calibrated}."
    )
    rows = [
        [verbatim(name), f"{one['mae']:.4g}", f"{one['seasonal_naive_mae']:.4g}", f"{one['crps']:.4g}",
         f"{one['coverage']:.1%}", f"{one['width']:.4g}"]
        for name, one in errors.by_variable().items()
    ]  # fmt: skip
    page.table(["variable", "mean absolute error", "of seasonal naive", "CRPS", f"inside the {share:.0%} interval",
                "mean width"], rows)  # fmt: skip
    intervals = errors.by_interval().items()
    page.table(["interval", "nominal", "coverage", "mean width"], [
        [name, f"{one['nominal']:.0%}", f"{one['coverage']:.1%}", f"{one['width']:.4g}"] for name, one in intervals
    ])  # fmt: skip
    if s.series_id is not None:
        show_series(page, errors)
    steps = errors.by_step()
    if len(steps) > 1:
        drawn = figure(300, showlegend=False)
        ahead = [int(step) for step in steps]
        drawn.add_scatter(x=ahead, y=[one["mase"] for one in steps.values()], mode="lines+markers", name="MASE")
        drawn.update_xaxes(title_text="steps ahead").update_yaxes(title_text="MASE", rangemode="tozero")
        page.figure(drawn, "Error by steps ahead", "MASE of each step of the horizon.")


def show_series(page: Page, errors: Errors) -> None:
    """The series with the largest errors."""
    each = sorted(errors.by_series().items(), key=lambda item: -item[1]["mase"])
    some = f"The {MOST_SERIES} with the largest MASE" if len(each) > MOST_SERIES else "All"
    page.heading("Series").text(f"{some} of {len(each):,} series, the largest MASE first.")
    page.table(["series", "MASE", "of seasonal naive", "inside the interval"], [
        [verbatim(name), f"{one['mase']:.3f}", f"{one['seasonal_naive']:.3f}", f"{one['coverage']:.1%}"]
        for name, one in each[:MOST_SERIES]
    ])  # fmt: skip


def show_next(model: Forecaster, page: Page, series: Series, quantiles: np.ndarray) -> None:
    """The steps after the last row; quantiles (h, V, Q)."""
    times, names = series.times_ahead(model.settings.horizon), model.frame.names[:VARIABLES]
    low, median, high = quantiles[..., 0], quantiles[..., quantiles.shape[-1] // 2], quantiles[..., -1]
    rows = [
        [verbatim(time), *([verbatim(name)] if len(names) > 1 else []), f"{median[t, v]:.5g}", f"{low[t, v]:.5g}",
         f"{high[t, v]:.5g}"]
        for v, name in enumerate(names) for t, time in enumerate(times[:STEPS])
    ]  # fmt: skip
    left = f" The first {STEPS} of {len(times)} steps." if len(times) > STEPS else ""
    left += (
        f" The first {VARIABLES} of {len(model.frame.names)} variables." if len(model.frame.names) > VARIABLES else ""
    )
    of = f" of `{series.name}`" if series.name else ""
    share = nominal(model.settings.levels)[0]
    page.heading("Forecast beyond the data").text(
        f"The steps{of} after `{series.time(int(series.ticks[series.end - 1]))}`, "
        f"with {an(f'{share:.0%}')} interval.{left}"
    )
    page.table(["time", *(["variable"] if len(names) > 1 else []), "forecast", "low", "high"], rows)


def forecasts_picture(model: Forecaster, series: Series, variable: int, first: int, quantiles: np.ndarray) -> Any:
    """One variable, and a fan of quantiles, (steps, Q), of forecasts from row `first` to a horizon past its end."""
    h, levels = model.settings.horizon, model.settings.levels
    shown = slice(max(0, first - 2 * h), series.end)
    times = [series.time(int(tick)) for tick in series.ticks[: series.end]] + series.times_ahead(h)
    ahead, median = times[first:], quantiles[:, len(levels) // 2].tolist()
    picture = figure(420, hovermode="x")
    for p, share in enumerate(nominal(levels)):
        low, high = quantiles[:, p].tolist(), quantiles[:, -1 - p].tolist()
        picture.add_scatter(x=ahead, y=high, mode="lines", line={"width": 0}, showlegend=False, hoverinfo="skip")
        picture.add_scatter(x=ahead, y=low, mode="lines", line={"width": 0}, name=f"{share:.0%} interval",
                            fill="tonexty", fillcolor="rgba(0,114,178,.2)")  # fmt: skip
    picture.add_scatter(x=ahead[:-h], y=median[:-h], mode="lines", name="forecast", line={"color": "#0072b2"})
    picture.add_scatter(x=ahead[-h:], y=median[-h:], mode="lines+markers", name="forecast beyond the data",
                        line={"color": "#009e73"}, marker={"size": 4})  # fmt: skip
    picture.add_scatter(x=times[shown], y=series.values[shown, variable].tolist(), mode="lines", name="actual",
                        line={"color": "#d55e00", "width": 1.5})  # fmt: skip
    return picture
