"""The forecaster's data: columns, dev files, bad files, what a run keeps."""

import json
from typing import get_args

import pytest
import torch

from carousel.data.sources.filling import Filling
from carousel.data.sources.series import Gaps
from carousel.errors import DataError, SettingsError
from carousel.tasks.forecast.data import ForecastAssets, check, open_panel, prepare
from carousel.tasks.forecast.settings import ForecastSettings


def test_assets_are_saved_and_used_again(forecast_settings, flights, tmp_path):
    assets, data = prepare(forecast_settings())
    assets.save(tmp_path)
    kept = ForecastAssets.load(forecast_settings(), tmp_path)
    assert kept.frame == assets.frame and json.loads((tmp_path / "series.json").read_text())["names"] == ["x", "y"]
    head, *rows = (flights / "two.csv").read_text().splitlines()  # ten times as large: the scales are not learned again
    larger = [",".join([time, *(str(10 * float(value)) for value in values)])
              for time, *values in (row.split(",") for row in rows)]  # fmt: skip
    (tmp_path / "larger.csv").write_text("\n".join([head, *larger]))
    again, scaled = prepare(forecast_settings(train=tmp_path / "larger.csv"), kept)
    assert again is kept
    mean, scale = (
        torch.tensor(part, dtype=torch.float64) for part in (kept.frame.scales[""].mean, kept.frame.scales[""].scale)
    )
    for a, b in zip(data.train, scaled.train, strict=True):
        torch.testing.assert_close(
            b.past.double() * scale + mean, 10 * (a.past.double() * scale + mean), rtol=1e-4, atol=1e-3
        )


def test_every_way_to_fill_can_be_chosen():
    fields = ForecastSettings.model_fields
    assert get_args(fields["gaps"].annotation) == get_args(Gaps)
    assert get_args(fields["missing"].annotation) == get_args(Filling)


def test_columns_by_number_as_yaml_reads_them(tmp_path, flights):
    (tmp_path / "s.yaml").write_text(f"train: {flights / 'two.csv'}\ntime_column: 1\ncolumns: 3\n")
    settings = ForecastSettings.read({}, tmp_path / "s.yaml")
    assert (settings.time_column, settings.columns) == ("1", "3")
    assert open_panel(settings, settings.train).first.names == ["y"]


def test_a_dev_file_continues_where_train_ends(forecast_settings, flights, tmp_path):
    head, *rows = (flights / "two.csv").read_text().splitlines()
    for name, part in (("train", rows[:96]), ("dev", rows[96:])):
        (tmp_path / f"{name}.csv").write_text("\n".join([head, *part]))
    files = {name: tmp_path / f"{name}.csv" for name in ("train", "dev")}
    (_, one), (_, two) = (prepare(forecast_settings(**given)) for given in ({}, files))
    for a, b in ((one.train, two.train), (one.dev, two.dev)):
        batches = zip(a, b, strict=True)
        assert all(torch.equal(x.past, y.past) and torch.equal(x.future, y.future) for x, y in batches)
    (tmp_path / "dev.csv").write_text("\n".join([head, *rows[96:100], rows[100].split(",")[0] + ",,"]))
    with pytest.raises(DataError, match=r"dev.csv:6: a value of x is missing"):
        prepare(forecast_settings(**files, missing="error"))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (
            {"holdout": 2},
            "holdout: 2 rows held out, but a forecast has 12 steps; give holdout=12 or more, or lower hor",
        ),
        ({"holdout": 0.05}, "holdout: 6 rows held out, but a forecast has 12 steps; give holdout=12 or more, or"),
        ({"holdout": 12}, None),
        ({"holdout": 0}, None),
    ],
)
def test_what_is_held_out_is_a_forecast_or_more(forecast_settings, settings, said):
    given = forecast_settings(horizon=12, **settings)
    if said is None:
        assert (prepare(given)[1].dev is None) == (settings["holdout"] == 0)
    else:
        with pytest.raises(SettingsError, match=said):
            prepare(given)
        assert any(one.startswith(f"cannot be trained on: {said}") for one in check(given).warnings)


def test_values_held_out_that_are_all_missing(tmp_path, forecast_settings):
    rows = [f"{1950 + k // 12}-{k % 12 + 1:02},{k if k < 60 else ''}\n" for k in range(72)]
    (tmp_path / "s.csv").write_text("month,x\n" + "".join(rows))
    with pytest.raises(DataError, match=r"s.csv: every value held out is missing"):
        prepare(forecast_settings(train=tmp_path / "s.csv", holdout=12))


@pytest.mark.parametrize(
    ("rows", "said"),
    [(9, "7 rows to train on, but a window takes 36 to read"), (0, "x has no value in the training rows")],
)
def test_a_check_says_what_cannot_be_trained_on(tmp_path, rows, said):
    values = range(rows) if rows else [""] * 144
    (tmp_path / "s.csv").write_text(
        "month,x\n" + "".join(f"{1950 + k // 12}-{k % 12 + 1:02},{value}\n" for k, value in enumerate(values))
    )
    warnings = check(ForecastSettings.read({"train": tmp_path / "s.csv"})).warnings
    assert any(one.startswith("cannot be trained on: ") and said in one for one in warnings)


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


def test_the_columns_are_printed_before_training(command, tmp_path):
    rows = "".join(f"{1950 + k // 12},{k % 12 + 1},{k % 7 + k / 10}\n" for k in range(90))
    (tmp_path / "s.csv").write_text("year,month,x\n" + rows)
    _, out, err = command("train", "forecast", tmp_path / "s.csv", "--epochs", "1", "--out", tmp_path / "run")
    text = " ".join((out + err).split())
    assert "s.csv: no column of times; variables: year, month, x" in text
    assert "month is read as a variable; name the column of times with --time-column, or the variables" in text
    code, out, _ = command("check", "forecast", tmp_path / "s.csv", "--json")
    assert (code, json.loads(out)["time_column"]) == (0, None)


def test_a_check_counts_each_file_for_itself(command, tmp_path):
    rows = [f"{1950 + k // 12}-{k % 12 + 1:02},{k}\n" for k in range(90)]
    (tmp_path / "a.csv").write_text("month,x\n" + "".join(rows[:60]))
    (tmp_path / "b.csv").write_text("month,x\n" + "".join(rows[60:70] + rows[71:]))
    files = (tmp_path / "a.csv", "--dev", tmp_path / "b.csv")
    code, out, _ = command("check", *files, "--json")
    found = json.loads(out)
    train, dev = found["train"], found["dev"]
    assert code == 0 and found["training_rows"] == 60
    assert [(one["rows"], one["first"], one["last"], one["put_in"]) for one in (train, dev)] == [
        (60, "1950-01", "1954-12", 0), (30, "1955-01", "1957-06", 1),
    ]  # fmt: skip
    assert [[one["variables"]["x"][key] for key in ("least", "most", "missing", "beyond")] for one in (train, dev)] == [
        [0, 59, 0, 0], [60, 89, 1, 29],
    ]  # fmt: skip
    assert any(line.startswith(f"{files[2]}: 29 held-out values of column x are outside") for line in found["warnings"])
    _, out, _ = command("check", *files)
    assert f"{files[0]}: 60 rows, 1950-01 to 1954-12" in " ".join(out.split())
    _, out, _ = command("check", files[0], "--json")
    assert (json.loads(out)["dev"], json.loads(out)["training_rows"]) == (None, 48)
