"""Forecasts from the end of a series and from earlier rows, and how their bounds are calibrated."""

import numpy as np
from helpers.forecasters import untrained

from carousel.data.sources.series import read_panel


def test_an_untrained_forecast_repeats_the_last_season(forecast_settings, flights):
    model, _ = untrained(forecast_settings(horizon=14, linear=False))
    values = read_panel(flights / "two.csv").first.values
    found = model.predict(flights / "two.csv")
    np.testing.assert_allclose(found.median[:12], values[-12:], rtol=1e-5)
    np.testing.assert_allclose(found.median[12:], values[-12:-10], rtol=1e-5)
    assert found.times[0] == "2000-01"
