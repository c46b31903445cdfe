"""A forecaster beside the two things everyone should try first: the last season again, and a plain autoregression.

    python evaluation/forecast_baselines.py RUN SERIES.csv

All three forecast from the same origins, every row after the run's training rows, and are measured by MASE, the mean
absolute error in units of the seasonal-naive error on the training rows. The autoregression is statsmodels' `AutoReg`
with a constant, its order chosen by AIC up to two seasons (at most 60), fitted to the training rows of each variable.
What is missing is filled as for the forecaster, with what was known at each origin.
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np

import carousel
from carousel.data.sources.filling import fill_missing
from carousel.tasks.forecast.data import open_more
from carousel.tasks.forecast.rolling import Source


def autoregression(train: np.ndarray, past: np.ndarray, horizon: int) -> np.ndarray:
    """Forecasts of one variable, (origins, horizon), after each row of `past`, (origins, lags); fitted to `train`."""
    from statsmodels.tsa.ar_model import AutoReg, ar_select_order

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        lags = ar_select_order(train, maxlag=past.shape[1], ic="aic").ar_lags or [1]
        parameters = AutoReg(train, lags=lags).fit().params
    constant, weights = parameters[0], parameters[1:]
    for _ in range(horizon):
        ahead = constant + past[:, [-lag for lag in lags]] @ weights
        past = np.concatenate((past, ahead[:, None]), 1)
    return past[:, -horizon:]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run")
    parser.add_argument("series")
    given = parser.parse_args()
    model = carousel.load(given.run)
    frame, horizon = model.frame, model.settings.horizon
    panel = open_more(model.settings, given.series, frame.names, (frame.unit, frame.step))
    series = panel.first
    fill, there = fill_missing(series.values, model.settings.missing), ~np.isnan(series.values)
    rows = int(np.searchsorted(series.ticks, frame.scales[""].last, side="right"))
    origins = Source.of(model.network, panel).find_origins()
    most = min(2 * frame.season, 60, rows // 3)
    log, exp = (np.log, np.exp) if frame.logarithm else (np.asarray, np.asarray)
    train = log(fill.seen(np.arange(rows)[:, None], np.array([rows])))[:, 0]  # as known when the training rows end
    past = log(
        fill.seen(origins + np.arange(-most, 0)[:, None], origins)
    )  # (most, origins, V), as known at each origin
    past = np.where(np.isnan(past), train.mean(0), past)
    errors = []
    for v, unit in enumerate(frame.scales[""].naive):
        found = exp(autoregression(train[:, v], past[..., v].T, horizon))
        after = origins[:, None] + np.arange(horizon)
        off = np.where(there[after, v], np.abs(found - series.values[after, v]), 0)
        if there[after, v].any():
            errors.append(off.sum() / there[after, v].sum() / unit)
    said = model.evaluate(given.series)
    print(f"origins {said['origins']:,}  horizon {horizon}")
    print(f"MASE  carousel {said['mase']:.3f}  autoregression {np.mean(errors):.3f}  "
          f"seasonal naive {said['seasonal_naive']:.3f}  coverage {said['coverage']:.1%}")  # fmt: skip


if __name__ == "__main__":
    main()
