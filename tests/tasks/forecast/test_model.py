"""The forecaster: no look ahead, runs end to end, and bad files."""

import json

import pytest
import torch

import carousel
from carousel.data.sources.series import read_series
from carousel.errors import ArgumentError, DataError
from carousel.tasks.forecast.model import Forecaster, ForecastSettings
from carousel.training import trainer


@pytest.fixture(scope="session")
def trained(flights, tmp_path_factory):
    run = tmp_path_factory.mktemp("runs") / "run"
    given = {"train": flights / "one.csv", "hidden": 8, "epochs": 12, "lr": 0.01, "horizon": 6}
    trainer.train(Forecaster, ForecastSettings.read(given), run, quiet=True)
    return run


@pytest.mark.parametrize("decoding", ["direct", "autoregressive"])
@pytest.mark.parametrize("around", ["season", "last", "none"])
def test_the_future_is_not_looked_at(forecast_settings, decoding, around):
    torch.manual_seed(0)
    model, data = Forecaster.prepare(forecast_settings(decoding=decoding, around=around))
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


def test_one_step_ahead_sees_the_past_alone(forecast_settings):
    torch.manual_seed(0)
    model, data = Forecaster.prepare(forecast_settings(decoding="autoregressive"))
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


def test_columns_by_number_as_yaml_reads_them(tmp_path, flights):
    (tmp_path / "s.yaml").write_text(f"train: {flights / 'two.csv'}\ntime_column: 1\ncolumns: 3\n")
    found = ForecastSettings.read({}, tmp_path / "s.yaml")
    assert (found.time_column, found.columns) == ("1", "3")
    assert found.read_file(found.train).names == ["y"]


def test_a_dev_file_goes_on_where_train_ends(forecast_settings, flights, tmp_path):
    head, *rows = (flights / "two.csv").read_text().splitlines()
    for name, part in (("train", rows[:96]), ("dev", rows[96:])):
        (tmp_path / f"{name}.csv").write_text("\n".join([head, *part]))
    files = {name: tmp_path / f"{name}.csv" for name in ("train", "dev")}
    (_, one), (_, two) = (Forecaster.prepare(forecast_settings(**given)) for given in ({}, files))
    for a, b in ((one.train, two.train), (one.dev, two.dev)):
        batches = zip(a, b, strict=True)
        assert all(torch.equal(x.past, y.past) and torch.equal(x.future, y.future) for x, y in batches)
    (tmp_path / "dev.csv").write_text("\n".join([head, *rows[96:100], rows[100].split(",")[0] + ",,"]))
    with pytest.raises(DataError, match=r"dev.csv:6: a value of x is missing"):
        Forecaster.prepare(forecast_settings(**files, missing="error"))


@pytest.mark.learning
def test_it_learns(trained, flights, reached):
    model = carousel.load(trained)
    found = model.evaluate(flights / "one.csv")
    reached("MASE beside the naive one", found["mase"] / found["seasonal_naive"], below=0.5)
    assert found["origins"] == 24 - 6 + 1
    assert list(found["steps_ahead"]) == ["1", "2", "3", "4", "5", "6"]
    assert "forecast after the last row" in (trained / "report.html").read_text("utf-8")
    said = repr(model.predict(flights / "one.csv")).splitlines()
    assert len(said) == 6
    assert said[0].startswith("2000-01  x  ")


def test_a_run_goes_on_where_it_was_killed(forecast_settings, goes_on):
    noisy = forecast_settings(dropout=0.2, decoding="autoregressive", average=0.9)
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


def test_numbers_instead_of_a_file(trained, flights):
    model = carousel.load(trained)
    values = read_series(flights / "one.csv").values[:, 0].tolist()
    assert repr(model.predict(values, start="1990-01")) == repr(model.predict(flights / "one.csv"))
    with pytest.raises(ArgumentError, match=r"give start, the time of the first one: .*: \(T,\) or \(T, 1\) for x"):
        model.predict([1.0, 2.0, 3.0])
    with pytest.raises(DataError, match="values: 3 rows, but the model reads 36"):
        model.predict([1.0, 2.0, 3.0], start="1990-01")


def test_the_columns_are_printed_before_training(command, tmp_path):
    rows = "".join(f"{1950 + k // 12},{k % 12 + 1},{k % 7 + k / 10}\n" for k in range(90))
    (tmp_path / "s.csv").write_text("year,month,x\n" + rows)
    _, out, err = command("train", "forecast", tmp_path / "s.csv", "--epochs", "1", "--out", tmp_path / "run")
    text = " ".join((out + err).split())
    assert "s.csv: no column of times; variables: year, month, x" in text
    assert "month is read as a variable; name the column of times with --time-column, or the variables" in text
    code, out, _ = command("check", tmp_path / "s.csv", "--task", "forecast", "--json")
    assert (code, json.loads(out)["time_column"]) == (0, None)


def test_the_report_reaches_beyond_the_data(trained):
    page = (trained / "report.html").read_text("utf-8")
    assert all(f"2000-{month:02d}" in page for month in range(1, 7))  # the data ends in 1999-12


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
