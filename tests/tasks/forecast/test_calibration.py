"""Calibrated bounds: by hand, and their coverage on values that did not choose them."""

import math

import numpy as np
import pytest
import torch
from helpers.forecasters import untrained

from carousel.data.batches.windows import WindowBatch
from carousel.tasks.forecast.calibration import choose_stretch, count_horizons, cross_stretch, scores, stretched


def batch_of(origins, h, series=None):
    origins = torch.tensor(origins)
    B = len(origins)
    series = torch.zeros(B, dtype=torch.long) if series is None else torch.tensor(series)
    none = torch.zeros(h, B, 1)
    return WindowBatch(none, none.bool(), none, none.bool(), none[..., 0].long(), origins, series, none)


def test_stretch_by_hand():
    bounds = torch.tensor([0.0, 3.0, 4.0, 6.0, 12.0]).expand(1, 4, 1, 5)
    truth = torch.tensor([[[2.0], [4.0], [8.0], [20.0]]])
    off = scores(bounds, truth)
    assert off[0, :, 0].tolist() == [[0.5, 2.0], [0.0, 0.0], [0.5, 2.0], [2.0, 8.0]]
    used = torch.tensor([[[True], [True], [True], [False]]])
    stretch = choose_stretch(off, used, 4, [0.8, 0.5])
    assert stretch[0, 0].tolist() == pytest.approx(  # of three origins, at 4/3 of each level
        [np.quantile([0, 0.5, 0.5], 1.0), np.quantile([0, 2.0, 2.0], 2 / 3)]
    )
    assert choose_stretch(off, used & False, 4, [0.8, 0.5]).tolist() == [[[1, 1]]]


def test_stretched_quantiles_never_cross():
    bounds = torch.tensor([0.0, 3.0, 4.0, 6.0, 12.0]).expand(2, 1, 1, 5)
    plain = stretched(bounds, torch.tensor([[[0.5, 2.0]], [[0.1, 10.0]]]))
    assert plain[0, 0, 0].tolist() == [2.0, 2.0, 4.0, 8.0, 8.0]  # 4 - 2, 4 - 2, 4 + 4, 4 + 4
    assert plain[1, 0, 0].tolist() == [-6.0, -6.0, 4.0, 24.0, 24.0]


def test_no_row_chooses_its_own_bounds():
    """Values of the second half of the rows, of each series, have no influence on its stretch, and the reverse."""
    draw = torch.Generator().manual_seed(0)
    batch = batch_of([10, 11, 12, 13, 50, 51], 3, [0, 0, 0, 0, 1, 1])  # rows 10 to 15 and 50 to 53
    off, there = torch.rand(3, 6, 1, 2, generator=draw), torch.ones(3, 6, 1, dtype=torch.bool)
    rows = batch.origins + torch.arange(3)[:, None]
    later = torch.where(batch.series == 0, rows > 12, rows > 51)
    one = cross_stretch(off, there, batch, [0.8, 0.5])
    for half in (later, ~later):
        changed = off.clone()
        changed[half] += 10
        two = cross_stretch(changed, there, batch, [0.8, 0.5])
        assert torch.equal(one[half], two[half])
        assert (two[~half] > one[~half]).all()
    assert count_horizons(batch) == pytest.approx(6 / 3 + 4 / 3)


@pytest.mark.parametrize("noise", [0.2, 5.0])
def test_coverage_on_later_rows(forecast_settings, tmp_path, noise):
    """However wrong the learnt widths are: an untrained network, calibrated on 200 rows, covers 400 more as asked."""
    draw = np.random.default_rng(1)
    y = np.sin(np.arange(800) * 2 * math.pi / 12) + noise * draw.normal(size=800)
    path, later = tmp_path / "train.csv", tmp_path / "all.csv"
    for file, rows in ((path, 400), (later, 800)):
        file.write_text("x\n" + "\n".join(map(repr, y[:rows].tolist())) + "\n")
    keys = {"train": path, "holdout": 200, "season": 12, "quantiles": "0.05,0.25,0.5,0.75,0.95", "linear": False}
    model, data = untrained(forecast_settings(**keys))
    assert model.evaluate(later)["intervals"]["0.05 to 0.95"]["coverage"] != pytest.approx(0.9, abs=0.05)
    metric = model.network.metric()
    for batch in data.dev:
        metric.add(batch)
    on_dev = metric.result()["coverage"]
    result = model.evaluate(later)
    shares = {name: one["coverage"] for name, one in result["intervals"].items()}
    assert shares == pytest.approx({"0.05 to 0.95": 0.9, "0.25 to 0.75": 0.5}, abs=0.07)
    assert on_dev == pytest.approx(0.9, abs=0.07)
    assert result["dev_values"] == sum(min(4, 400 - origin) for origin in range(200, 400))  # of all 597 origins
    assert result["values"] == 4 * 597
    alone = model.evaluate(path)
    assert alone["dev_values"] == alone["values"] and 0.8 < alone["cross_fitted_coverage"] < 0.98
    assert "cross_fitted_coverage" in result


def test_no_calibration(forecast_settings):
    model, data = untrained(forecast_settings(calibrate=False))
    metric = model.network.metric()
    metric.add(next(iter(data.dev)))
    metric.result()
    assert (model.network.stretch == 1).all()


def test_a_large_dev_set_is_thinned(forecast_settings, monkeypatch):
    """Every second origin: the errors are those of these origins."""
    model, data = untrained(forecast_settings(linear=False, calibrate=False))
    metric = model.network.metric()
    monkeypatch.setattr(type(metric), "MOST", 4 * 2 * 15)  # 15 of 21 windows of 4 steps, 2 variables
    for batch in data.dev:
        metric.add(batch)
    result, origins = metric.result(), [o for o in range(96, 117) if o % 2 == 0]
    expected = model.network.errors()
    expected.add(data.dev.store.window(np.array(origins), model.network.reach.compared, 4))
    assert metric.origins == len(origins)
    assert result == pytest.approx(expected.result())
