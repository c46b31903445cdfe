"""Errors of forecasts, by hand."""

import math

import numpy as np
import pytest
import torch
from helpers.forecasters import untrained

from carousel.data.sources.series import read_series


def test_loss_and_errors_by_hand(forecast_settings):
    model, data = untrained(forecast_settings(interval=0.5, linear=False))
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
    scale, mean = np.array(model.frame.scale), np.array(model.frame.mean)
    truth, median = batch.future.numpy() * scale + mean, bounds[..., 1].numpy() * scale + mean
    mase = (np.abs(truth - median).mean((0, 1)) / np.array(model.frame.naive)).mean()
    assert metric.result()["mase"] == pytest.approx(mase, rel=1e-5)
    inside = (bounds[..., 0].numpy() <= batch.future.numpy()) & (batch.future.numpy() <= bounds[..., 2].numpy())
    assert metric.result()["coverage"] == pytest.approx(inside.mean())
    naive = batch.past[-12:-8].numpy() * scale + mean
    assert metric.naive_mase == pytest.approx(
        (np.abs(truth - naive).mean((0, 1)) / np.array(model.frame.naive)).mean(), rel=1e-4
    )


def test_the_season_may_be_longer_than_the_context(forecast_settings, flights):
    model, data = untrained(forecast_settings(context=4, around="last", season=12, linear=False))
    assert model.network.reach == (1, 5, 12)
    metric = model.network.metric()
    for batch in data.dev:
        metric.add(batch)
    values = read_series(flights / "two.csv").values
    errors = [np.abs(values[o : o + 4] - values[o - 12 : o - 8]) for o in range(96, 117)]
    assert metric.naive_mase == pytest.approx((np.mean(errors, (0, 1)) / model.frame.naive).mean(), rel=1e-4)


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
