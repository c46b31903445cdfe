"""The forecaster's network: no look ahead; runs that are resumed."""

from dataclasses import replace

import pytest
import torch
from helpers.forecasters import untrained

from carousel.tasks.forecast.task import Forecast


@pytest.mark.parametrize("decoding", ["direct", "autoregressive"])
@pytest.mark.parametrize("around", ["season", "last", "none"])
def test_the_future_is_not_looked_at(forecast_settings, decoding, around):
    model, data = untrained(forecast_settings(decoding=decoding, around=around), std=0.2)
    network = model.network
    batch = next(iter(data.dev))
    bounds = network.bounds(batch)
    assert (bounds.diff(dim=-1) >= 0).all()
    assert bounds.shape == (4, batch.past.shape[1], 2, 5)
    other = replace(batch, future=batch.future + 100, there=~batch.there)
    torch.testing.assert_close(network.bounds(other), bounds)
    alone = batch.take(torch.tensor([0]))
    if decoding == "direct":  # paths are drawn for a batch
        torch.testing.assert_close(network.bounds(alone), bounds[:, :1])


def test_one_step_ahead_sees_the_past_alone(forecast_settings):
    model, data = untrained(forecast_settings(decoding="autoregressive"), std=0.2)
    network = model.network
    batch = next(iter(data.train))
    bounds, truth = network.one_ahead(batch)
    assert bounds.shape[:3] == truth.shape
    torch.testing.assert_close(truth[-4:], batch.future)
    changed = batch.future.clone()
    changed[2] += 5
    again, _ = network.one_ahead(replace(batch, future=changed))
    torch.testing.assert_close(again[: len(bounds) - 1], bounds[:-1])  # the third future value shows in the last alone
    assert not torch.allclose(again[-1], bounds[-1])


@pytest.mark.parametrize("decoding", ["direct", "autoregressive"])
def test_a_run_goes_on_where_it_was_killed(forecast_settings, goes_on, decoding):
    noisy = forecast_settings(dropout=0.2, decoding=decoding, average=0.9)
    goes_on(Forecast, noisy, index=2)
