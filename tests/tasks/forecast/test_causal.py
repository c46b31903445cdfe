"""Nothing after an origin changes its forecast, and `eval` forecasts what `predict` would have at that row."""

import math

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from helpers.forecasters import untrained
from hypothesis import HealthCheck, given, settings

from carousel.data.sources.series import read_panel
from carousel.errors import DataError
from carousel.tasks.forecast.rolling import Source
from carousel.tasks.forecast.settings import ForecastSettings

HELD_OUT = 14
quick = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
few = settings(quick, max_examples=12)


def write(path, values, future=None, series=("",)):
    """A CSV of (T, V) values, the cells of those that are NaN empty; `future` (T + ahead, 1) is a column known ahead.

    With several ids the same rows are written for each, each shifted by its number, interleaved.
    """
    names = [
        "month",
        *"ab"[: values.shape[1]],
        *(["plan"] if future is not None else []),
        *(["id"] * (len(series) > 1)),
    ]
    lines = [",".join(names)]
    for t in range(len(values) if future is None else len(future)):
        row = values[t] if t < len(values) else [math.nan] * values.shape[1]
        for k, name in enumerate(series):
            cells = ["" if math.isnan(value) else repr(float(value) + k) for value in row]
            cells += [repr(float(future[t, 0]))] if future is not None else []
            cells += [name] if len(series) > 1 else []
            lines.append(f"{2000 + t // 12}-{t % 12 + 1:02d}," + ",".join(cells))
    path.write_text("\n".join(lines) + "\n")
    return path


@st.composite
def cases(draw):
    """Settings, a series with gaps, and a copy of it that differs from some origin on."""
    missing = draw(st.sampled_from(["interpolate", "forward", "error"]))
    keys = {
        "missing": missing,
        "decoding": draw(st.sampled_from(["direct", "direct", "autoregressive"])),
        "around": draw(st.sampled_from(["season", "last", "none"])),
        "horizon": draw(st.integers(1, 4)),
        "context": draw(st.integers(2, 8)),
        "season": draw(st.sampled_from([1, 2, 3])),  # with 2 the autoregression reads 14 rows, more than the context
        "quantiles": draw(st.sampled_from(["0.1,0.5,0.9", "0.05,0.25,0.5,0.75,0.95"])),
        "logarithm": draw(st.booleans()),
    }
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    total, variables = draw(st.integers(64, 74)), draw(st.integers(1, 2))

    def readings():
        values = random.uniform(5, 20, (total, variables))
        for v in range(variables if missing != "error" else 0):
            for _ in range(draw(st.integers(0, 5))):
                start = draw(st.integers(0, total - 1))
                values[start : start + draw(st.integers(1, 12)), v] = np.nan
        return values

    values, later = readings(), readings()
    values[-HELD_OUT - 9 : -HELD_OUT - 7] = [[7.0] * variables, [9.0] * variables]  # two readings to learn scales from
    for rows in (values, later):
        if np.isnan(rows[-HELD_OUT:]).all():  # there is nothing to compare forecasts with
            rows[-1] = 8.0
    origin = draw(st.integers(total - HELD_OUT, total - keys["horizon"]))
    later[:origin] = values[:origin]
    later[origin:] *= 100
    return keys, values, later, origin


def make(path, **keys):
    small = {"train": path, "hidden": 3, "holdout": HELD_OUT, "dropout": 0.0, "threads": 1}
    return untrained(ForecastSettings.read({**small, **keys}), std=0.3)


def rolled(model, path):
    """Every origin of a file by id, and the quantiles of its steps ahead, (origins, h, V, Q), as `eval` has them."""
    s = model.settings
    panel = read_panel(path, series_id=s.series_id, future=[s.future] if s.future else [])
    source = Source.of(model.network, panel)
    origins = source.find_origins()
    values = source.plain(origins, source.roll(origins)).swapaxes(0, 1)
    series = source.rows.series_of(origins)
    local = (origins - source.rows.starts[series]).tolist()
    names = list(panel.series)
    return [(names[k], row) for k, row in zip(series, local, strict=True)], values


@quick
@given(case=cases())
def test_nothing_after_an_origin_changes_its_forecast(tmp_path, case):
    keys, values, later, origin = case
    path, other = write(tmp_path / "s.csv", values), write(tmp_path / "later.csv", later)
    model, _ = make(path, **keys)
    (origins, one), (_, two) = rolled(model, path), rolled(model, other)
    upto = origins.index(("", origin)) + 1
    np.testing.assert_array_equal(one[:upto], two[:upto])
    assert np.isfinite(one).all()


@quick
@given(case=cases())
def test_eval_forecasts_what_predict_would_have(tmp_path, case):
    keys, values, _, origin = case
    path = write(tmp_path / "s.csv", values)
    model, _ = make(path, **keys)
    origins, forecasts = rolled(model, path)
    for row in {origins[0][1], origin, origins[-1][1]}:
        cut = write(tmp_path / "cut.csv", values[:row])
        np.testing.assert_array_equal(model.predict(cut).quantiles, forecasts[origins.index(("", row))])


@few
@given(case=cases(), plans=st.integers(0, 2**32))
def test_with_columns_known_ahead(tmp_path, case, plans):
    """What is known of the steps ahead counts; of later steps, and readings after the origin, nothing does."""
    keys, values, later, origin = case
    h = keys["horizon"]
    for row in (origin - 1, len(values) - 1):  # what is empty at the end would be to forecast
        values[row], later[row] = 8.0, 8.0
    plan = np.random.default_rng(plans).normal(size=(len(values) + 6, 1))
    other = np.concatenate((plan[: origin + h], plan[origin + h :] + 100))
    model, _ = make(write(tmp_path / "s.csv", values, plan), **keys, future="plan", calendar=True)
    (origins, one), (_, two) = (
        rolled(model, write(tmp_path / f"{name}.csv", *both))
        for name, both in (("s", (values, plan)), ("later", (later, other)))
    )
    k = origins.index(("", origin))
    np.testing.assert_array_equal(one[: k + 1][-1], two[: k + 1][-1])
    cut = write(tmp_path / "cut.csv", values[:origin], plan[: origin + h])
    np.testing.assert_array_equal(model.predict(cut).quantiles, one[k])
    changed = plan.copy()
    changed[origin + h - 1] += 1
    third = rolled(model, write(tmp_path / "s.csv", values, changed))[1]
    assert not np.array_equal(third[k], one[k])


@few
@given(case=cases())
def test_with_several_series(tmp_path, case):
    """Each series is forecast as if it were alone, whatever follows its origin and whichever others are in the file."""
    keys, values, later, origin = case
    ids = ("p", "q", "r")
    path = write(tmp_path / "s.csv", values, series=ids)
    model, _ = make(path, **keys, series_id="id")
    (origins, one), (_, two) = (
        rolled(model, write(tmp_path / f"{name}.csv", some, series=ids)) for name, some in (("s", values), ("l", later))
    )
    cut = model.predict(write(tmp_path / "cut.csv", values[:origin], series=ids))
    for name in ids:
        k = origins.index((name, origin))
        np.testing.assert_array_equal(one[k], two[k])
        np.testing.assert_array_equal(cut[name].quantiles, one[k])


@quick
@given(case=cases())
def test_what_is_held_out_does_not_reach_the_training(tmp_path, case):
    keys, values, later, _ = case
    later[:-HELD_OUT] = values[:-HELD_OUT]
    (model, one), (other, two) = (
        make(write(tmp_path / "s.csv", some), **keys) for some in (values, later)
    )  # fmt: skip
    assert model.frame == other.frame
    if model.network.fitted is not None:
        assert torch.equal(model.network.fitted, other.network.fitted)
    for a, b in zip(one.train, two.train, strict=True):
        for part in ("past", "known", "there", "phase", "origins"):
            assert torch.equal(getattr(a, part), getattr(b, part))
        assert torch.equal(a.future * a.there, b.future * b.there)
    if keys["missing"] != "error":
        assert np.allclose(model.frame.scales[""].mean, np.nanmean(np.log(values[:-HELD_OUT]) if keys["logarithm"] else
                                                        values[:-HELD_OUT], 0))  # fmt: skip


@quick
@given(case=cases())
def test_a_training_window_holds_what_was_known_at_its_origin(tmp_path, case):
    """The same window out of a series that ends where the window's past does."""
    keys, values, _, _ = case
    model, data = make(write(tmp_path / "s.csv", values), **keys)
    for batch in data.train:
        for k, origin in enumerate(batch.origins.tolist()):
            cut = model.frame.rows(
                read_panel(write(tmp_path / "cut.csv", values[:origin])),
                keys["missing"],
                keys["horizon"],
                stepwise=not model.settings.direct,
            )
            alone = cut.window(np.array([origin]), len(batch.past), keys["horizon"])
            assert torch.equal(alone.past[:, 0], batch.past[:, k])
            assert torch.equal(alone.known[:, 0], batch.known[:, k])
        break


@quick
@given(case=cases())
def test_autoregression_learns_each_step_from_those_before(tmp_path, case):
    """In training every step of a window is forecast from: a reading may show in later steps alone."""
    keys, values, later, _ = case
    keys |= {"decoding": "autoregressive"} | ({"missing": "interpolate"} if keys["missing"] == "error" else {})
    end = len(values) - HELD_OUT
    at = end - 6
    values[at - 1, 0], values[at, 0], later[at, 0] = np.nan, 8, 800  # a gap that closes before the window's origin
    later[:at] = values[:at]
    model, _ = make(write(tmp_path / "s.csv", values), **keys)
    windows = []
    for some in (values, later):
        panel = read_panel(write(tmp_path / "s.csv", some))
        rows = model.frame.rows(panel, keys["missing"], keys["horizon"], stepwise=True)
        windows.append(rows.window(np.array([end - 4]), model.network.reach.read, keys["horizon"]))
    (one, _), (two, _) = (model.network.one_ahead(window) for window in windows)
    steps = (
        at - (end - 4 - model.network.reach.read) - model.network.lag
    )  # forecasts of rows up to `at`, whose inputs are all before it
    if steps > 0:
        assert torch.equal(one[:steps], two[:steps])


# ---------------------------------------------------------------- worked by hand


def series_of_trend(total=40):
    return 10.0 + np.arange(total)[:, None]


@pytest.mark.parametrize("late", [12.0, 900.0])
@pytest.mark.parametrize("missing", ["interpolate", "forward"])
def test_an_open_gap_repeats_the_last_reading(tmp_path, missing, late):
    """Untrained, a forecast is the last value that is known: 10 + 27, until row 31 is read."""
    values = series_of_trend()
    values[28:31], values[31] = np.nan, late
    path = write(tmp_path / "s.csv", values)
    keys = {"train": path, "season": 3, "holdout": 14, "horizon": 2, "around": "last", "missing": missing,
            "linear": False}  # fmt: skip
    model, _ = untrained(ForecastSettings.read(keys))
    origins, quantiles = rolled(model, path)
    medians = dict(zip((row for _, row in origins), quantiles[:, 0, 0, 2].tolist(), strict=True))
    for origin, known in {28: 37, 29: 37, 30: 37, 31: 37, 32: late, 33: 42}.items():
        assert medians[origin] == pytest.approx(known)


def test_a_closed_gap_is_bridged_by_a_line(tmp_path):
    """Untrained, around season: the value three rows before the step, as known at the origin."""
    values = series_of_trend()
    values[28:31], values[31] = np.nan, 61.0  # the line from 37 at row 27 to 61 at row 31: 43, 49, 55
    path = write(tmp_path / "s.csv", values)
    for missing, line in (("interpolate", [49, 55]), ("forward", [37, 37])):
        keys = {"train": path, "season": 3, "holdout": 14, "horizon": 3, "missing": missing, "linear": False}
        model, _ = untrained(ForecastSettings.read(keys))
        origins, quantiles = rolled(model, path)
        medians = dict(zip((row for _, row in origins), quantiles[:, :, 0, 2].tolist(), strict=True))
        assert medians[31] == pytest.approx([37, 37, 37])  # rows 28 to 30, nothing of them known yet
        assert medians[32] == pytest.approx([*line, 61])  # rows 29 to 31


def test_gaps_at_the_start_and_the_end(tmp_path):
    values = np.concatenate((series_of_trend(), series_of_trend() * 2), 1)
    values[:20, 1] = np.nan  # b begins at row 20 with 60
    values[36:, 0] = np.nan
    path = write(tmp_path / "s.csv", values)
    keys = {"train": path, "season": 3, "holdout": 10, "horizon": 2, "context": 2, "around": "last",
            "linear": False}  # fmt: skip
    model, data = untrained(ForecastSettings.read(keys))
    assert model.frame.scales[""].mean == pytest.approx(
        [np.mean(10 + np.arange(30)), np.mean(2 * (10 + np.arange(20, 30)))]
    )
    pasts = {origin: batch.past[-3:, k, 1] for batch in data.train for k, origin in enumerate(batch.origins.tolist())}
    assert pasts[20].tolist() == [0, 0, 0]  # no reading yet: the mean of the training rows
    both = torch.stack((pasts[21], pasts[21]), -1).unsqueeze(1)
    assert model.frame.plain(both, torch.tensor([0]))[:, 0, 1].tolist() == pytest.approx([60] * 3)
    found = model.predict(path)
    assert found.median[0].tolist() == pytest.approx([45, 98])  # the last readings


def test_a_variable_that_is_never_read_is_not_measured(tmp_path):
    values = np.concatenate((series_of_trend(), series_of_trend()), 1)
    values[-10:, 1] = np.nan
    path = write(tmp_path / "s.csv", values)
    keys = {"train": path, "season": 3, "holdout": 10, "horizon": 2, "around": "last", "linear": False}
    model, _ = untrained(ForecastSettings.read(keys))
    found = model.evaluate(path)
    assert list(found["variables"]) == ["a"]
    assert found["values"] == 18
    assert found["mase"] == pytest.approx(1.5 / 3)  # off by 1 and 2; a season of 3 rows before, by 3
    values[-10:] = np.nan
    with pytest.raises(DataError, match=r"every value after 2002-06, the last trained on, is missing"):
        model.evaluate(write(path, values))
