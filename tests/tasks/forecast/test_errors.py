"""Errors of forecasts, by hand."""

import math
from statistics import NormalDist

import numpy as np
import pytest
import torch
from helpers.forecasters import untrained

from carousel.data.sources.series import read_panel
from carousel.tasks.forecast.errors import crps


def test_loss_and_errors_by_hand(forecast_settings):
    model, data = untrained(forecast_settings(quantiles="0.25,0.5,0.75", linear=False, calibrate=False))
    network = model.network
    torch.nn.init.normal_(network.output.weight, std=0.3)
    batch = next(iter(data.dev))
    bounds = network.bounds(batch).detach().double()
    total = 0.0
    for level, k in ((0.25, 0), (0.5, 1), (0.75, 2)):
        for y, q in zip(batch.future.flatten().tolist(), bounds[..., k].flatten().tolist(), strict=True):
            total += 2 * (level * (y - q) if y > q else (1 - level) * (q - y)) / 3
    loss = network.loss(batch)
    assert loss.weight == batch.future.numel()
    assert loss.mean.item() == pytest.approx(total / loss.weight, rel=1e-4)
    metric = network.metric()
    metric.add(batch)
    metric.result()
    scale, mean = np.array(model.frame.scales[""].scale), np.array(model.frame.scales[""].mean)
    truth, median = batch.future.numpy() * scale + mean, bounds[..., 1].numpy() * scale + mean
    mase = (np.abs(truth - median).mean((0, 1)) / np.array(model.frame.scales[""].naive)).mean()
    assert metric.result()["mase"] == pytest.approx(mase, rel=1e-5)
    inside = (bounds[..., 0].numpy() <= batch.future.numpy()) & (batch.future.numpy() <= bounds[..., 2].numpy())
    assert metric.result()["coverage"] == pytest.approx(inside.mean())
    naive = batch.past[-12:-8].numpy() * scale + mean
    assert metric.naive_mase == pytest.approx(
        (np.abs(truth - naive).mean((0, 1)) / np.array(model.frame.scales[""].naive)).mean(), rel=1e-4
    )


def test_the_season_may_be_longer_than_the_context(forecast_settings, flights):
    model, data = untrained(forecast_settings(context=4, around="last", season=12, linear=False))
    assert model.network.reach == (1, 5, 12)
    metric = model.network.metric()
    for batch in data.dev:
        metric.add(batch)
    metric.result()
    values = read_panel(flights / "two.csv").first.values
    errors = [np.abs(values[o : o + 4] - values[o - 12 : o - 8]) for o in range(96, 117)]
    assert metric.naive_mase == pytest.approx((np.mean(errors, (0, 1)) / model.frame.scales[""].naive).mean(), rel=1e-4)


def test_missing_values_are_neither_learnt_nor_measured(forecast_settings, tmp_path, flights):
    text = (flights / "one.csv").read_text().splitlines()
    text[-3] = text[-3].split(",")[0] + ","
    path = tmp_path / "holes.csv"
    path.write_text("\n".join(text[:40] + text[42:]))
    model, data = untrained(forecast_settings(train=path))
    assert len(data.notes) == 3  # the columns, two rows, a value
    assert sum(int((~batch.there).sum()) for batch in data.dev) > 0
    metric = model.network.metric()
    for batch in data.dev:
        metric.add(batch)
    assert math.isfinite(metric.result()["mase"])


@pytest.mark.parametrize("levels", [[0.1, 0.5, 0.9], [0.05, 0.25, 0.5, 0.75, 0.95]])
def test_crps_is_the_integral(levels):
    """∫ (F(x) - [x ≥ y])² dx by the midpoint rule; and twice the integral of the quantile loss over all levels."""
    draw = np.random.default_rng(0)
    for _ in range(20):
        quantiles, y = np.sort(draw.normal(size=len(levels))), draw.normal() * 2
        score = crps(torch.from_numpy(quantiles), torch.tensor(y, dtype=torch.float64), levels).item()
        x = -8 + 16 * (np.arange(400_000) + 0.5) / 400_000
        F = np.interp(x, quantiles, levels, left=0.0, right=1.0)
        assert score == pytest.approx(((F - (x >= y)) ** 2).mean() * 16, abs=1e-4)
        p = (np.arange(200_000) + 0.5) / 200_000
        off = y - np.interp(p, levels, quantiles)
        assert score == pytest.approx(2 * np.maximum(p * off, (p - 1) * off).mean(), abs=1e-4)


def test_crps_of_many_quantiles_is_that_of_the_distribution():
    """The closed form for a standard normal: y (2Φ(y) - 1) + 2φ(y) - 1/√π."""
    levels = [k / 1000 for k in range(1, 1000)]
    normal = NormalDist()
    quantiles = torch.tensor([normal.inv_cdf(level) for level in levels], dtype=torch.float64)
    for y in (-1.5, 0.0, 0.3, 2.5):
        exact = y * (2 * normal.cdf(y) - 1) + 2 * normal.pdf(y) - 1 / math.sqrt(math.pi)
        assert crps(quantiles, torch.tensor(y, dtype=torch.float64), levels).item() == pytest.approx(exact, abs=1e-3)
    same = crps(torch.full((5,), 2.0), torch.tensor(-1.5), [0.1, 0.25, 0.5, 0.75, 0.9])
    assert same.item() == pytest.approx(3.5)  # a point forecast: the absolute error


def test_intervals_by_hand(forecast_settings):
    model, data = untrained(forecast_settings(calibrate=False, linear=False))
    errors, batch = model.network.errors(), next(iter(data.dev))
    bounds = model.network.bounds(batch).detach()
    errors.add(batch)
    plain = bounds.double().numpy() * np.array(model.frame.scales[""].scale)[:, None]
    for name, low, high in (("0.1 to 0.9", 0, 4), ("0.25 to 0.75", 1, 3)):
        one = errors.by_interval()[name]
        inside = (bounds[..., low] <= batch.future) & (batch.future <= bounds[..., high])
        width = plain[..., high] - plain[..., low]
        assert one["coverage"] == pytest.approx(inside.double().mean().item())
        assert one["width"] == pytest.approx(width.mean(), rel=1e-5)
        assert one["scaled_width"] == pytest.approx(
            (width.mean((0, 1)) / model.frame.scales[""].naive).mean(), rel=1e-5
        )
