"""The forecaster in use: learning, numbers and files, other series, the command line."""

import json

import pytest

import carousel
from carousel.data.sources.series import read_panel
from carousel.errors import ArgumentError, DataError


@pytest.mark.learning
def test_it_learns(trained, flights, reached):
    model = carousel.load(trained)
    found = model.evaluate(flights / "one.csv")
    reached("MASE beside the naive one", found["mase"] / found["seasonal_naive"], below=0.5)
    assert found["origins"] == 24 - 6 + 1
    assert list(found["steps_ahead"]) == ["1", "2", "3", "4", "5", "6"]
    assert "Forecast beyond the data" in (trained / "report.html").read_text("utf-8")
    said = repr(model.predict(flights / "one.csv")).splitlines()
    assert len(said) == 6
    assert said[0].startswith("2000-01  x  ")


def test_numbers_instead_of_a_file(trained, flights):
    model = carousel.load(trained)
    values = read_panel(flights / "one.csv").first.values[:, 0].tolist()
    assert repr(model.predict(values, start="1990-01")) == repr(model.predict(flights / "one.csv"))
    with pytest.raises(ArgumentError, match="give start, the time of the first one, or a CSV file"):
        model.predict([1.0, 2.0, 3.0])
    with pytest.raises(DataError, match="values: 3 rows, but the model reads 36"):
        model.predict([1.0, 2.0, 3.0], start="1990-01")


def test_nothing_is_forecast_from_no_value(trained, flights, tmp_path):
    model = carousel.load(trained)
    with pytest.raises(
        DataError, match="values: x has no value, so there is nothing to forecast it from; give a series"
    ):
        model.predict([None] * 60, start="1990-01")
    head, *rows = (flights / "one.csv").read_text().splitlines()
    (tmp_path / "none.csv").write_text("\n".join([head, *(row.partition(",")[0] + ",NA" for row in rows)]))
    with pytest.raises(DataError, match=r"none\.csv: x has no value"):
        model.predict(tmp_path / "none.csv")


def test_evaluating_numbers_instead_of_a_file(trained, flights):
    model = carousel.load(trained)
    series = read_panel(flights / "one.csv").first
    values, expected = series.values[:, 0], model.evaluate(flights / "one.csv")
    start = series.time(int(series.ticks[0]))
    assert model.evaluate(values, start=start) == expected == model.evaluate(values.tolist(), start=start)
    assert carousel.evaluate(model, {"month": list(map(series.time, series.ticks.tolist())), "x": values}) == expected
    with pytest.raises(ArgumentError, match="give start, the time of the first one, or a CSV file"):
        model.evaluate(values)
    for call in (model.predict, model.trace):
        with pytest.raises(ArgumentError, match="the name of the file is empty"):
            call("")
    with pytest.raises(ArgumentError, match="a file has times of its own; leave it out"):
        model.evaluate(flights / "one.csv", start=start)


def test_a_table_has_times_of_its_own(trained, flights):
    model = carousel.load(trained)
    expected, series = repr(model.predict(flights / "one.csv")), read_panel(flights / "one.csv").first
    times, values = [series.time(int(t)) for t in series.ticks], series.values[:, 0].tolist()
    assert repr(model.predict({"month": times, "x": values})) == expected
    assert repr(model.predict(iter(values), start="1990-01")) == expected
    with pytest.raises(DataError, match=r"^data: 20 rows, but the model reads 36"):
        model.predict({"month": times[:20], "x": values[:20]})


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


# ---------------------------------------------------------------- the command line


def test_commands(command, trained, flights, tmp_path):
    code, out, _ = command("predict", trained, flights / "one.csv")
    assert code == 0
    assert out.splitlines()[0] == "time\tvariable\tforecast\tq0.1\tq0.25\tq0.75\tq0.9"
    assert len(out.splitlines()) == 7
    upper = tmp_path / "ONE.CSV"
    upper.write_bytes((flights / "one.csv").read_bytes())
    assert command("predict", trained, upper) == (0, out, "")
    code, out, err = command("predict", trained)
    assert (code, out, len(err.splitlines())) == (1, "", 1)
    assert "give it as a file whose name ends in .csv, .tsv or .txt" in err
    code, out, _ = command("eval", trained, flights / "one.csv")
    assert (code, "seasonal naive" in out, "steps ahead" in out) == (0, True, True)
    code, out, _ = command("check", "forecast", flights / "two.csv", "--json")
    assert json.loads(out)["train"]["variables"].keys() == {"x", "y"}
