"""A forecaster beside the two things everyone should try first: the last season again, and a plain autoregression.

    python evaluation/forecast_baselines.py RUN SERIES.csv

All three forecast from the same origins, every row after the run's training rows, and are measured by MASE, the mean
absolute error in units of the seasonal-naive error on the training rows. The autoregression is statsmodels' `AutoReg`
with a constant, its order chosen by AIC up to two seasons (at most 60), fitted to the training rows of each variable.
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np

import carousel
from carousel.data.series import read_series
from carousel.models.forecasting import find_origins


def autoregression(train: np.ndarray, values: np.ndarray, origins: np.ndarray, horizon: int, most: int) -> np.ndarray:
    """Forecasts of one variable from each origin, (origins, horizon)."""
    from statsmodels.tsa.ar_model import AutoReg, ar_select_order

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        lags = ar_select_order(train, maxlag=most, ic="aic").ar_lags or [1]
        parameters = AutoReg(train, lags=lags).fit().params
    constant, weights = parameters[0], parameters[1:]
    past = np.stack([values[origins - lag] for lag in range(max(lags), 0, -1)], 1)  # (origins, most lag)
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
    series = read_series(given.series, model.settings.time_column, frame.names, model.settings.gaps)
    values, there = series.filled(model.settings.missing), ~np.isnan(series.values)
    rows = int(np.searchsorted(series.ticks, frame.last, side="right"))
    origins = find_origins(model, series)
    errors = []
    for v, unit in enumerate(frame.naive):
        column = values[:, v]
        z = np.log(column) if frame.logarithm else column
        most = min(2 * frame.season, 60, rows // 3)
        found = autoregression(z[:rows], z, origins, horizon, most)
        found = np.exp(found) if frame.logarithm else found
        after = origins[:, None] + np.arange(horizon)
        off = np.abs(found - column[after]) * there[after, v]
        errors.append(off.sum() / there[after, v].sum() / unit)
    said = model.evaluate(given.series)
    print(f"origins {said['origins']:,}  horizon {horizon}")
    print(f"MASE  carousel {said['mase']:.3f}  autoregression {np.mean(errors):.3f}  "
          f"seasonal naive {said['seasonal_naive']:.3f}  coverage {said['coverage']:.1%}")  # fmt: skip


if __name__ == "__main__":
    main()
