"""The forecaster: its loss and its errors by hand, no look ahead, runs end to end, and bad files."""

import json
import math

import numpy as np
import pytest
import torch

import carousel
from carousel.data import DataError
from carousel.data.series import read_series
from carousel.models.forecast import Forecaster, ForecastSettings, Frame
from carousel.training import engine


def write_series(path, rows=120, variables=("x",), noise=0.05, seed=0):
    """Months with a trend, a season of 12 and some noise."""
    draw = np.random.default_rng(seed)
    lines = ["month," + ",".join(variables)]
    for t in range(rows):
        cells = [10 + 0.05 * t + (1 + k) * math.sin(2 * math.pi * t / 12) + noise * draw.standard_normal()
                 for k in range(len(variables))]  # fmt: skip
        lines.append(f"{1990 + t // 12}-{t % 12 + 1:02d}," + ",".join(f"{c:.4f}" for c in cells))
    path.write_text("\n".join(lines) + "\n")


@pytest.fixture(scope="session")
def flights(tmp_path_factory):
    folder = tmp_path_factory.mktemp("flights")
    write_series(folder / "one.csv")
    write_series(folder / "two.csv", variables=("x", "y"))
    return folder


@pytest.fixture
def settings(flights):
    def make(**given):
        small = {"hidden": 6, "epochs": 2, "lr": 0.01, "batch_size": 16, "horizon": 4, "threads": 1, "dropout": 0.0}
        return ForecastSettings.read({"train": flights / "two.csv", **small, **given})

    return make


@pytest.fixture(scope="session")
def trained(flights, tmp_path_factory):
    run = tmp_path_factory.mktemp("runs") / "run"
    given = {"train": flights / "one.csv", "hidden": 8, "epochs": 12, "lr": 0.01, "horizon": 6, "threads": 1}
    engine.train(Forecaster, ForecastSettings.read(given), run, quiet=True)
    return run


@pytest.mark.parametrize("decoding", ["direct", "autoregressive"])
@pytest.mark.parametrize("around", ["season", "last", "none"])
def test_the_future_is_not_looked_at(settings, decoding, around):
    torch.manual_seed(0)
    model, data = Forecaster.prepare(settings(decoding=decoding, around=around))
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    model.eval()
    batch = next(iter(data.dev))
    bounds = model.bounds(batch)
    low, median, high = bounds.unbind(-1)
    assert (low <= median).all() and (median <= high).all()
    assert bounds.shape == (4, batch.past.shape[1], 2, 3)
    other = type(batch)(batch.past, batch.known, batch.future + 100, ~batch.there, batch.phase, batch.origins)
    torch.testing.assert_close(model.bounds(other), bounds)
    alone = type(batch)(*(part[..., :1] if part.dim() == 1 else part[:, :1] for part in (
        batch.past, batch.known, batch.future, batch.there, batch.phase, batch.origins)))  # fmt: skip
    if decoding == "direct":  # paths are drawn for a batch
        torch.testing.assert_close(model.bounds(alone), bounds[:, :1])


def test_one_step_ahead_sees_the_past_alone(settings):
    torch.manual_seed(0)
    model, data = Forecaster.prepare(settings(decoding="autoregressive"))
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    batch = next(iter(data.train))
    bounds, truth = model.eval().one_ahead(batch)
    assert bounds.shape[:3] == truth.shape
    torch.testing.assert_close(truth[-4:], batch.future)
    changed = batch.future.clone()
    changed[2] += 5
    again, _ = model.one_ahead(type(batch)(batch.past, batch.known, changed, batch.there, batch.phase, batch.origins))
    torch.testing.assert_close(again[: len(bounds) - 1], bounds[:-1])  # the third future value shows in the last alone
    assert not torch.allclose(again[-1], bounds[-1])


def test_an_untrained_forecast_repeats_the_last_season(settings, flights):
    model, _ = Forecaster.prepare(settings(horizon=14, linear=True))
    values = read_series(flights / "two.csv").values
    found = model.predict(flights / "two.csv")
    np.testing.assert_allclose(found.median[:12], values[-12:], rtol=1e-5)
    np.testing.assert_allclose(found.median[12:], values[-12:-10], rtol=1e-5)
    assert found.times[0] == "2000-01"


def test_loss_and_errors_by_hand(settings):
    torch.manual_seed(0)
    model, data = Forecaster.prepare(settings(interval=0.5))
    torch.nn.init.normal_(model.output.weight, std=0.3)
    model.eval()
    batch = next(iter(data.dev))
    bounds = model.bounds(batch).detach().double()
    total = 0.0
    for level, k in ((0.25, 0), (0.5, 1), (0.75, 2)):
        for y, q in zip(batch.future.flatten().tolist(), bounds[..., k].flatten().tolist(), strict=True):
            total += 2 * (level * (y - q) if y > q else (1 - level) * (q - y)) / 3
    loss = model.loss(batch)
    assert loss.weight == batch.future.numel()
    assert loss.mean.item() == pytest.approx(total / loss.weight, rel=1e-4)
    meter = model.meter()
    meter.add(batch)
    scale, mean = np.array(model.frame.scale), np.array(model.frame.mean)
    truth, median = batch.future.numpy() * scale + mean, bounds[..., 1].numpy() * scale + mean
    mase = (np.abs(truth - median).mean((0, 1)) / np.array(model.frame.naive)).mean()
    assert meter.result()["mase"] == pytest.approx(mase, rel=1e-5)
    inside = (bounds[..., 0].numpy() <= batch.future.numpy()) & (batch.future.numpy() <= bounds[..., 2].numpy())
    assert meter.result()["coverage"] == pytest.approx(inside.mean())
    naive = batch.past[-12:-8].numpy() * scale + mean
    assert meter.naive_mase == pytest.approx(
        (np.abs(truth - naive).mean((0, 1)) / np.array(model.frame.naive)).mean(), rel=1e-4
    )


def test_the_season_may_be_longer_than_the_context(settings, flights):
    model, data = Forecaster.prepare(settings(context=4, around="last", season=12))
    assert (model.reach, model.compared) == (5, 12)
    meter = model.eval().meter()
    for batch in data.dev:
        meter.add(batch)
    values = read_series(flights / "two.csv").values
    errors = [np.abs(values[o : o + 4] - values[o - 12 : o - 8]) for o in range(96, 117)]
    assert meter.naive_mase == pytest.approx((np.mean(errors, (0, 1)) / model.frame.naive).mean(), rel=1e-4)


def test_scaling_is_that_of_the_training_rows(settings, flights):
    series = read_series(flights / "two.csv")
    frame = Frame.of(settings(), series, 96)
    np.testing.assert_allclose(frame.mean, series.values[:96].mean(0))
    np.testing.assert_allclose(frame.naive, np.abs(series.values[12:96] - series.values[:84]).mean(0))
    logged = Frame.of(settings(logarithm=True), series, 96)
    np.testing.assert_allclose(logged.plain(torch.from_numpy(logged.scaled(series.values))), series.values, rtol=1e-5)


def test_missing_values_are_neither_learnt_nor_measured(settings, tmp_path, flights):
    text = (flights / "one.csv").read_text().splitlines()
    text[-3] = text[-3].split(",")[0] + ","
    path = tmp_path / "holes.csv"
    path.write_text("\n".join(text[:40] + text[42:]))
    model, data = Forecaster.prepare(settings(train=path))
    assert len(data.notes) == 2
    assert sum(int((~batch.there).sum()) for batch in data.dev) > 0
    meter = model.eval().meter()
    for batch in data.dev:
        meter.add(batch)
    assert math.isfinite(meter.result()["mase"])


def test_it_learns(trained, flights):
    model = carousel.load(trained)
    found = model.evaluate(flights / "one.csv")
    assert found["mase"] < 0.5 * found["seasonal_naive"]
    assert found["origins"] == 24 - 6 + 1
    assert list(found["steps_ahead"]) == ["1", "2", "3", "4", "5", "6"]
    assert "Forecasts against what came" in (trained / "report.html").read_text("utf-8")
    said = repr(model.predict(flights / "one.csv")).splitlines()
    assert len(said) == 6
    assert said[0].startswith("2000-01  x  ")


def test_a_run_goes_on_where_it_was_killed(settings, goes_on):
    noisy = settings(dropout=0.2, decoding="autoregressive", average=0.9)
    goes_on(Forecaster, noisy, index=2)


# ---------------------------------------------------------------- the command line


def test_commands(command, trained, flights, tmp_path):
    code, out, _ = command("predict", trained, flights / "one.csv")
    assert code == 0
    assert out.splitlines()[0] == "time\tvariable\tforecast\tlow\thigh"
    assert len(out.splitlines()) == 7
    upper = tmp_path / "ONE.CSV"
    upper.write_bytes((flights / "one.csv").read_bytes())
    assert command("predict", trained, upper) == (0, out, "")
    code, out, err = command("predict", trained)
    assert (code, out, len(err.splitlines())) == (1, "", 1)
    assert "give it as a file whose name ends in .csv, .tsv or .txt" in err
    code, out, _ = command("eval", trained, flights / "one.csv")
    assert (code, "seasonal naive" in out, "steps ahead" in out) == (0, True, True)
    code, out, _ = command("check", flights / "two.csv", "--task", "forecast", "--json")
    assert json.loads(out)["variables"].keys() == {"x", "y"}


BAD = {
    "constant": (
        "t,x\n" + "".join(f"{1990 + k // 12}-{k % 12 + 1:02d},5\n" for k in range(99)),
        "x is 5 in all training",
    ),
    "short": (
        "t,x\n2020-01,1\n2020-02,2\n2020-03,4\n",
        "2 rows to train on, but a window takes 36 to read and 12 ahead",
    ),
    "twice": ("t,x\n2020-01,1\n2020-01,2\n", "s.csv:3: the time 2020-01 is that of line 2 too"),
}


@pytest.mark.parametrize("kind", BAD)
def test_bad_data_leaves_nothing_behind(command, tmp_path, kind):
    text, said = BAD[kind]
    (tmp_path / "s.csv").write_text(text)
    code, out, err = command("train", "forecast", tmp_path / "s.csv", "--out", tmp_path / "run")
    assert (code, out) == (1, "")
    assert said in err
    assert len(err.splitlines()) == 1
    assert not (tmp_path / "run").exists()


def test_other_series(trained, tmp_path, flights):
    model = carousel.load(trained)
    path = tmp_path / "days.csv"
    path.write_text("t,x\n" + "".join(f"2020-01-{k + 1:02d},{k}\n" for k in range(31)))
    with pytest.raises(DataError, match="its rows are 1 day apart, those of the training 1 month"):
        model.predict(path)
    path.write_text("\n".join((flights / "one.csv").read_text().splitlines()[:20]))
    with pytest.raises(DataError, match="19 rows, but the model reads 36"):
        model.predict(path)
    path.write_text((flights / "one.csv").read_text().replace("month,x", "month,z"))
    with pytest.raises(DataError, match="there is no column 'x'"):
        model.predict(path)
