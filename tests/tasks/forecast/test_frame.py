"""What a forecaster knows of its series: scales and seasons of the training rows."""

import numpy as np
import torch

from carousel.data.sources.series import read_panel
from carousel.tasks.forecast.frame import Frame


def test_scaling_is_that_of_the_training_rows(forecast_settings, flights):
    panel = read_panel(flights / "two.csv")
    series = panel.first
    frame, notes = Frame.of(forecast_settings(), panel, {"": 96})
    assert notes == []
    np.testing.assert_allclose(frame.scales[""].mean, series.values[:96].mean(0))
    np.testing.assert_allclose(frame.scales[""].naive, np.abs(series.values[12:96] - series.values[:84]).mean(0))
    logged, _ = Frame.of(forecast_settings(logarithm=True), panel, {"": 96})
    z = torch.from_numpy(logged.scaled(series.values))
    np.testing.assert_allclose(logged.plain(z, torch.zeros(len(z), dtype=torch.long)), series.values, rtol=1e-5)
