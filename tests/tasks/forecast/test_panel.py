"""Many series in one file, columns known ahead, and files that cannot be forecast."""

import json

import numpy as np
import pytest
import torch
from helpers.forecasters import untrained
from helpers.pages import rows as table_rows
from helpers.panels import SMALL, month, write

import carousel
from carousel.errors import DataError
from carousel.tasks.forecast.settings import ForecastSettings
from carousel.tasks.forecast.task import Forecast
from carousel.training import trainer


@pytest.fixture(scope="module")
def run(shops, tmp_path_factory):
    folder = tmp_path_factory.mktemp("shops")
    path = write(folder / "shops.csv", shops)
    settings = ForecastSettings.read({**SMALL, "train": path, "series_id": "shop"})
    trainer.train(Forecast, settings, folder / "run", quiet=True)
    return folder / "run", path


def test_series_are_scaled_and_left_out_by_name(run, shops):
    _, path = run
    model, data = untrained(ForecastSettings.read({**SMALL, "train": path, "series_id": "shop"}))
    assert list(model.frame.scales) == ["a", "b"]
    for name, rows in (("a", 48), ("b", 72)):
        scale, values = model.frame.scales[name], shops[name][:rows]
        assert scale.mean == pytest.approx([values.mean()]) and scale.scale == pytest.approx([values.std()])
        assert scale.naive == pytest.approx([np.abs(values[4:] - values[:-4]).mean()])
    note = next(note for note in data.notes if "left out" in note)
    assert "2 of 4 series" in note and "tiny (5 rows to train on" in note and "flat (sales is 3" in note


def test_windows_never_cross_series(run, shops):
    """Every window is a piece of one series: found in it by brute force."""
    _, path = run
    model, data = untrained(ForecastSettings.read({**SMALL, "train": path, "series_id": "shop"}))
    count = 0
    for batch in data.train:
        whole = model.frame.plain(torch.cat((batch.past, batch.future)), batch.series)[..., 0].numpy()
        for k, number in enumerate(batch.series.tolist()):
            values = shops["ab"[number]]
            windows = np.lib.stride_tricks.sliding_window_view(values, len(whole))
            assert np.isclose(windows, whole[:, k], rtol=1e-4).all(1).sum() == 1
            count += 1
    reach = model.network.reach.read
    assert count == (48 - reach - 2) + (72 - reach - 2)


def test_mase_is_the_mean_over_series(run, shops):
    folder, path = run
    model = carousel.load(folder)
    result = model.evaluate(path.parent / write(path.parent / "two.csv", {n: shops[n] for n in "ab"}).name)
    each = result["series"]
    assert list(each) == ["a", "b"]
    assert result["mase"] == pytest.approx(np.mean([one["mase"] for one in each.values()]))
    for name in "ab":
        alone = model.evaluate(write(path.parent / "one.csv", {name: shops[name]}))
        assert alone["mase"] == pytest.approx(each[name]["mase"])


def test_new_ids_are_scaled_by_their_first_rows(run, shops, tmp_path):
    model = carousel.load(run[0])
    need = model.network.reach.compared
    series = {"new": shops["a"] * 100, "a": shops["a"]}
    forecasts = model.predict(write(tmp_path / "s.csv", series))
    assert list(forecasts) == ["new", "a"]
    other = shops["a"] * 100
    other[: need - 1] *= 1.5
    changed = model.predict(write(tmp_path / "t.csv", {"new": other, "a": shops["a"]}))
    assert not np.array_equal(changed["new"].quantiles, forecasts["new"].quantiles)
    np.testing.assert_array_equal(changed["a"].quantiles, forecasts["a"].quantiles)
    assert model.evaluate(tmp_path / "s.csv")["series"].keys() == {"new", "a"}
    frame = {"when": [month(t) for t in range(60)], "shop": ["a"] * 60, "sales": shops["a"].tolist()}
    np.testing.assert_array_equal(model.predict(frame)["a"].quantiles, forecasts["a"].quantiles)


def test_commands(run, shops, command, tmp_path):
    folder, path = run
    code, _, err = command("predict", folder, path)
    assert code == 1 and len(err.splitlines()) == 1
    assert "series tiny: 6 rows, but the model reads" in err and "leave these series out" in err
    good = write(tmp_path / "s.csv", {name: shops[name] for name in "ab"})
    code, out, _ = command("predict", folder, good)
    lines = [line.split("\t") for line in out.splitlines()]
    assert code == 0 and lines[0][:4] == ["series", "time", "variable", "forecast"]
    ends = {"a": 60, "b": 90}
    assert [line[:2] for line in lines[1:]] == [[name, month(end + k)] for name, end in ends.items() for k in range(3)]
    code, out, _ = command("eval", folder, good, "--json")
    assert json.loads(out)["series"].keys() == {"a", "b"}
    code, out, _ = command("check", "forecast", path, "--series-id", "shop", "--json")
    assert (json.loads(out)["series"], json.loads(out)["id_column"]) == (4, "shop")
    page = (folder / "report.html").read_text("utf-8")
    shown = table_rows(page, "series", "MASE", "of seasonal naive", "inside the interval")
    assert {row[0] for row in shown} == {"a", "b"}


BAD_PANELS = {
    "when,shop,sales\n2020-01,,1\n": "s.csv:2: the id in column shop is empty",
    "when,shop,sales\n2020-01,a,1\n2020-02,b,1\n2020-01,a,2\n": "s.csv:4: the time 2020-01 is that of line 2 too",
    "when,shop,sales\n2020-02,a,1\n2020-01,a,2\n": "s.csv:3: the time 2020-01 comes before that of line 2",
    "when,sales\n2020-01,1\n": "there is no column 'shop'",
    "when,shop\n2020-01,a\n": "there is no column of numbers to forecast",
    "when,shop,sales\n2020-01,a,1\n2020-02,b,1\n": "0 rows|1 row to train on",
}


@pytest.mark.parametrize("text", BAD_PANELS)
def test_bad_panels(tmp_path, text):
    path = tmp_path / "s.csv"
    path.write_text(text)
    with pytest.raises(DataError, match=BAD_PANELS[text]):
        untrained(ForecastSettings.read({**SMALL, "train": path, "series_id": "shop"}))


# ---------------------------------------------------------------- columns known ahead


@pytest.fixture
def promotions(tmp_path):
    """Sales that rise by 5 in months with a promotion, which nothing in the past announces."""
    draw = np.random.default_rng(4)
    plan = draw.integers(0, 2, 203).astype(float)
    sales = 20 + 5 * plan[:200] + 0.1 * draw.normal(size=200)
    return write(tmp_path / "sales.csv", {"a": sales}, {"a": plan}, ahead=3), sales, plan


def columns(path, *keep):
    """The file with some of its columns."""
    head, *lines = [line.split(",") for line in path.read_text().splitlines()]
    places = [head.index(name) for name in keep]
    path.write_text("\n".join(",".join(row[k] for k in places) for row in [head, *lines]) + "\n")
    return path


@pytest.mark.learning
def test_a_known_promotion_is_forecast(promotions, tmp_path, reached):
    path, _, plan = promotions
    columns(path, "when", "sales", "plan")
    keys = {**SMALL, "future": "plan", "quiet": True, "report": False}
    model = carousel.train("forecast", path, out=tmp_path / "run", **keys)
    blind = {**SMALL, "columns": "sales", "quiet": True, "report": False}
    without = carousel.train("forecast", path, out=tmp_path / "other", **blind)
    ratio = model.evaluate(path)["mase"] / without.evaluate(path)["mase"]
    reached("MASE with the plan beside that without", ratio, below=0.5)
    forecast = model.predict(path)
    assert forecast.times == [month(200 + k) for k in range(3)]
    np.testing.assert_allclose(forecast.median[:, 0], 20 + 5 * plan[200:], atol=1.5)


def test_missing_plans_are_refused(promotions, tmp_path):
    path, _, _ = promotions
    columns(path, "when", "sales", "plan")
    model, _ = untrained(ForecastSettings.read({**SMALL, "train": path, "future": "plan"}))
    lines = path.read_text().splitlines()
    path.write_text("\n".join(lines[:-1]) + "\n")
    with pytest.raises(DataError, match=r"2 rows after the last value, but 3 steps to forecast; add rows with plan al"):
        model.predict(path)
    path.write_text("\n".join([*lines[:-1], lines[-1].rsplit(",", 1)[0] + ","]) + "\n")
    with pytest.raises(DataError, match=r"sales.csv:204: plan is missing at 2016-11, a step to forecast"):
        model.predict(path)
    assert model.evaluate(path)["values"] > 0
    columns(path, "when", "sales")
    with pytest.raises(DataError, match="there is no column 'plan'"):
        model.predict(path)
    with pytest.raises(DataError, match="sales is both a variable and known ahead"):
        untrained(ForecastSettings.read({**SMALL, "train": path, "columns": "sales", "future": "sales"}))


def test_the_calendar_is_known_ahead(tmp_path):
    from carousel.data.sources.calendar import calendar, cycles_of

    assert cycles_of("second", 3600, 24, 14_000) == ["week"]
    assert cycles_of("month", 1, 4, 48) == ["year"] and cycles_of("month", 1, 12, 48) == []
    days = np.arange("2019-01-01", "2021-12-31", dtype="datetime64[D]")
    table = calendar(days.astype("datetime64[s]").astype(np.int64), "second", ["week", "year"])
    years = days.astype("datetime64[Y]")
    place = (days - years).astype(int) / np.where(years == np.datetime64("2020"), 366, 365)
    np.testing.assert_allclose(table[:, 2], np.sin(2 * np.pi * place), atol=1e-9)
    np.testing.assert_allclose(table[:-7, :2], table[7:, :2], atol=1e-9)


# ---------------------------------------------------------------- files that cannot be forecast


BAD = {
    "one row": ("when,x\n2020-01,1\n", "1 row to train on"),
    "no rows": ("when,x\n", "there is no row of numbers"),
    "irregular": ("when,x\n2020-01-01,1\n2020-01-02,2\n2020-01-03,2\n2020-01-04 07:00,3\n", "times on a regular grid"),
    "comma": ("when;x\n2020-01;1,5\n", "write 1.5 rather than 1,5"),
    "infinite": ("when,x\n2020-01,1e999\n", "is too large"),
    "all missing": ("when,x\n" + "".join(f"{month(t)},NA\n" for t in range(60)), "x has no value in the training rows"),
}


@pytest.mark.parametrize("kind", BAD)
def test_bad_series(tmp_path, kind):
    path = tmp_path / "s.csv"
    path.write_text(BAD[kind][0])
    with pytest.raises(DataError, match=BAD[kind][1]):
        untrained(ForecastSettings.read({**SMALL, "train": path}))


@pytest.mark.parametrize("horizon", [0, -3])
def test_a_horizon_is_at_least_one(tmp_path, horizon):
    with pytest.raises(carousel.errors.SettingsError, match="horizon"):
        ForecastSettings.read({"train": tmp_path / "s.csv", "horizon": horizon})
