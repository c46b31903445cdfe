"""The linear autoregression beside the network: its fit, how far back it reads, its share of a forecast."""

import numpy as np
import pytest
import torch
from helpers.forecasters import untrained
from sklearn.linear_model import Ridge

import carousel
from carousel.tasks.forecast import linear
from carousel.tasks.forecast.data import prepare
from carousel.tasks.forecast.frame import choose_lags
from carousel.tasks.forecast.linear import apply_linear, choose_windows, fit_linear
from carousel.tasks.forecast.network import DevErrors
from carousel.tasks.forecast.settings import ForecastSettings

ROWS, HELD_OUT, LAGS, AHEAD = 160, 40, 21, 2  # seven seasons of 3


@pytest.fixture
def walks(tmp_path):
    """Two random walks of which the second one has gaps: their file, (T, V) values, settings."""
    values = np.random.default_rng(3).normal(size=(ROWS, 2)).cumsum(0)
    values[[30, 31, 77, 110], 1] = np.nan
    path = tmp_path / "walks.csv"
    rows = (",".join("" if np.isnan(value) else repr(float(value)) for value in row) for row in values)
    path.write_text("a,b\n" + "\n".join(rows) + "\n")
    keys = {"train": path, "season": 3, "context": 4, "holdout": HELD_OUT, "horizon": AHEAD, "hidden": 3}
    return path, values, ForecastSettings.read({**keys, "missing": "forward", "calibrate": False})


def test_an_untrained_model_is_scikit_learns_ridge(walks):
    path, values, settings = walks
    model, _ = untrained(settings)
    assert (model.frame.lags, model.network.reach.read) == (LAGS, LAGS)
    found = model.predict(path).median
    for v, column in enumerate(values.T):
        trained = column[: ROWS - HELD_OUT]
        z = (column - np.nanmean(trained)) / np.nanstd(trained)
        filled = z[np.maximum.accumulate(np.where(np.isnan(z), 0, np.arange(ROWS)))]  # the last reading
        x = np.stack([filled[o - LAGS : o - 1] - filled[o - 1] for o in range(LAGS, ROWS + 1)])
        fit = [o for o in range(LAGS, ROWS - HELD_OUT - AHEAD + 1) if not np.isnan(z[o : o + AHEAD]).any()]
        y = np.stack([z[o : o + AHEAD] - filled[o - 1] for o in fit])
        ahead = Ridge(0.1).fit(x[np.array(fit) - LAGS], y).predict(x[-1:])[0] + filled[-1]
        np.testing.assert_allclose(found[:, v], ahead * np.nanstd(trained) + np.nanmean(trained), rtol=1e-3, atol=1e-4)


def test_few_variables_at_a_time_and_few_windows_give_the_same(walks, monkeypatch):
    _, _, settings = walks
    assets, data = prepare(settings)
    monkeypatch.setattr(linear, "SQUARES", 1)
    monkeypatch.setattr(linear, "CHUNK", 7)
    origins = choose_windows(np.arange(LAGS, ROWS - HELD_OUT - AHEAD + 1), 2)
    torch.testing.assert_close(fit_linear(data.train.store, origins, LAGS, AHEAD), assets.linear)


def test_nothing_to_fit_stays_at_the_last_value(walks):
    _, _, settings = walks
    _, data = prepare(settings)
    weights = fit_linear(data.train.store, np.array([30]), LAGS, AHEAD)  # b is missing there
    batch = data.train.store.window(np.arange(60, 65), LAGS, AHEAD)
    torch.testing.assert_close(apply_linear(weights, batch, LAGS)[..., 1], batch.past[-1, :, 1].expand(AHEAD, 5))


def test_windows_are_spread_over_long_series():
    some = choose_windows(np.arange(168, 10_000_000 - 23), 321)
    assert len(some) == 2000 and (some[0], some[-1]) == (168, 9_999_976) and (np.diff(some) > 0).all()
    assert choose_windows(np.arange(10, 96), 1).tolist() == list(range(10, 96))


@pytest.mark.parametrize(
    ("season", "context", "rows", "lags"),
    [
        (24, 48, 14_000, 168),
        (24, 48, 527, 168),  # 336 windows: twice the lags
        (24, 48, 526, 48),
        (12, 24, 115, 24),
        (1, 30, 5000, 30),  # no season
        (24, 300, 14_000, 300),
        (1440, 2880, 500_000, 1000),
    ],
)
def test_lags_shrink_on_short_series(season, context, rows, lags):
    assert choose_lags(season, context, rows, 24) == lags


def test_shares_are_the_best_of_each_variable(walks):
    """The network's own change ruins the first variable and is the truth for the second one."""
    _, _, settings = walks
    model, data = untrained(settings)
    network = model.network
    batch = next(iter(data.dev))
    fitted = apply_linear(network.fitted, batch, LAGS)
    raw = torch.zeros(*fitted.shape, 5)
    raw[..., 0, 2] = 50.0
    raw[..., 1, 2] = (batch.future - fitted)[..., 1] / 0.6
    network.parts = lambda batch: (raw, fitted)
    metric = network.metric()
    assert isinstance(metric, DevErrors)
    metric.add(batch)
    found = metric.result()
    assert network.shares[1].tolist() == pytest.approx([0, 0.6])
    again = network.errors()
    again.add(batch)
    assert again.result() == pytest.approx(found)
    assert metric.by_variable()["b"]["mae"] == pytest.approx(0, abs=1e-5)


def test_a_model_is_never_worse_than_ridge_on_the_dev_set(walks, tmp_path):
    """Even if training ruins it: the share of what was trained is 0 then."""
    path, _, settings = walks
    given = {k: v for k, v in settings.model_dump(exclude_unset=True).items() if k not in ("task", "train")}
    for lr in (0.001, 0.5):
        run = tmp_path / f"run{lr}"
        model = carousel.train("forecast", path, out=run, **given, lr=lr, epochs=1, quiet=True)
        ridge = untrained(settings)[0].evaluate(path)["mase"]
        assert model.evaluate(path)["mase"] <= ridge * 1.00001
        torch.testing.assert_close(model.network.fitted, untrained(settings)[0].network.fitted)
        assert not torch.equal(model.network.linear, model.network.fitted)
