"""Forecasts from the end of a series and from earlier rows, and how their bounds are calibrated."""

import numpy as np
import torch
from helpers.forecasters import untrained

from carousel.data.sources.series import read_series
from carousel.tasks.forecast.rolling import roll


def test_an_untrained_forecast_repeats_the_last_season(forecast_settings, flights):
    model, _ = untrained(forecast_settings(horizon=14, linear=False))
    values = read_series(flights / "two.csv").values
    found = model.predict(flights / "two.csv")
    np.testing.assert_allclose(found.median[:12], values[-12:], rtol=1e-5)
    np.testing.assert_allclose(found.median[12:], values[-12:-10], rtol=1e-5)
    assert found.times[0] == "2000-01"


def test_bounds_are_stretched_by_the_errors_that_had_come(forecast_settings, flights):
    model, _ = untrained(forecast_settings(calibration=30, interval=0.7))
    network = model.network
    torch.nn.init.normal_(network.output.weight, std=0.3)
    series = read_series(flights / "two.csv")
    rows = network.frame.rows(series, "interpolate")
    batch, found = roll(network, series, np.array([100, 101, 115]))
    assert batch.origins.tolist() == [100, 101, 115]
    for k, origin in enumerate((100, 101, 115)):
        for v in range(2):
            ratios = []
            for earlier in range(origin - 4 - 30 + 1, origin - 4 + 1):  # 4 steps ahead: the last one ends here
                raw = network.bounds(rows.window(np.array([earlier]), network.reach.compared, 4))[:, 0, v].tolist()
                for (low, median, high), came in zip(
                    raw, rows.fill.open[earlier : earlier + 4, v].tolist(), strict=True
                ):
                    ratios.append(
                        (came - median) / (high - median) if came > median else (median - came) / (median - low)
                    )
            raw = network.bounds(rows.window(np.array([origin]), network.reach.compared, 4))[:, 0, v].detach().numpy()
            stretch = np.quantile(ratios, 0.7)
            wanted = raw[:, 1:2] + stretch * (raw - raw[:, 1:2])
            np.testing.assert_allclose(found[:, k, v], wanted, rtol=1e-4, atol=1e-5)
