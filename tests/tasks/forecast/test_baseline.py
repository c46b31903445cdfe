"""Baselines of the forecaster: by hand, and scikit-learn itself."""

import math
from datetime import date, timedelta

import numpy as np
import pytest
from helpers.baselines import by_name
from helpers.panels import SMALL, write
from sklearn.linear_model import Ridge

import carousel

pytestmark = pytest.mark.usefixtures("own_cache")


def write_series(path, columns):
    start = date(2020, 1, 1)
    rows = [",".join(["date", *columns])]
    for k, values in enumerate(zip(*columns.values(), strict=True)):
        rows.append(
            ",".join([str(start + timedelta(days=k)), *("" if np.isnan(v) else repr(float(v)) for v in values)])
        )
    path.write_text("\n".join(rows) + "\n")
    return path


def test_naive_forecasts_by_hand(tmp_path):
    draw = np.random.default_rng(0)
    y = np.arange(140) % 7 + draw.normal(size=140).round(2)
    path = write_series(tmp_path / "days.csv", {"y": y})
    values = by_name(carousel.baseline("forecast", path, horizon=3, holdout=40))
    unit = np.abs(y[7:100] - y[:93]).mean()  # the seasonal-naive error of the training rows
    origins = range(100, 138)
    last = np.mean([np.abs(y[o : o + 3] - y[o - 1]).mean() for o in origins])
    season = np.mean([np.abs(y[o : o + 3] - y[o - 7 : o - 4]).mean() for o in origins])
    assert values["last value"] == pytest.approx(last / unit, rel=1e-5)
    assert values["seasonal naive (the last season again)"] == pytest.approx(season / unit, rel=1e-5)


def test_ridge_is_scikit_learns(tmp_path):
    """On values scaled by the training rows, per variable, from the 49 days before each origin, minus the last."""
    draw = np.random.default_rng(1)
    both = {"y": np.arange(260) % 7 + draw.normal(size=260).cumsum(), "z": draw.normal(size=260).cumsum()}
    path = write_series(tmp_path / "days.csv", both)
    values = by_name(carousel.baseline("forecast", path, horizon=2, holdout=60))
    errors = []
    for y in both.values():
        z = (y - y[:200].mean()) / y[:200].std()
        past, ahead = (np.lib.stride_tricks.sliding_window_view(z, n) for n in (49, 2))
        train, dev = np.arange(49, 199), np.arange(200, 259)
        x = past[:, :-1] - past[:, -1:]
        model = Ridge(0.1).fit(x[train - 49], ahead[train] - z[train - 1, None])
        off = model.predict(x[dev - 49]) + z[dev - 1, None] - ahead[dev]
        errors.append(np.abs(off).mean() * y[:200].std() / np.abs(y[7:200] - y[:193]).mean())
    assert values["ridge regression on 49 lags minus the last value"] == pytest.approx(np.mean(errors), rel=1e-4)


def test_missing_values_are_filled_with_what_was_known(tmp_path):
    """A gap just before an origin repeats the last reading, and missing steps ahead are not measured."""
    draw = np.random.default_rng(2)
    y = draw.normal(size=120)
    y[[99, 100, 105]] = np.nan
    path = write_series(tmp_path / "days.csv", {"y": y})
    values = by_name(carousel.baseline("forecast", path, horizon=1, holdout=20))
    known = [(np.flatnonzero(~np.isnan(y[:o]))[-1], o) for o in range(100, 120) if not np.isnan(y[o])]
    pairs = [abs(y[k] - y[k - 7]) for k in range(7, 100) if not np.isnan(y[k] + y[k - 7])]
    wanted = np.mean([abs(y[o] - y[k]) for k, o in known]) / np.mean(pairs)
    assert values["last value"] == pytest.approx(wanted, rel=1e-5)
    assert len(values) == 3 and all(map(math.isfinite, values.values()))


def test_baselines_over_series(shops, tmp_path):
    path = write(tmp_path / "s.csv", {name: shops[name] for name in "ab"})
    keys = {key: SMALL[key] for key in ("season", "horizon", "context")}
    values = {one.name: one.value for one in carousel.baseline("forecast", path, series_id="shop", **keys).results}
    errors = []
    for name, rows in (("a", 48), ("b", 72)):
        y = shops[name]
        off = [np.abs(y[o : o + 3] - y[o - 1]).mean() for o in range(rows, len(y) - 2)]
        errors.append(np.mean(off) / np.abs(y[4:rows] - y[: rows - 4]).mean())
    assert values["last value"] == pytest.approx(np.mean(errors), rel=1e-4)
    assert sum("ridge" in name for name in values) == 2
