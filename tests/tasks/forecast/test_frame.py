"""What a forecaster knows of its series: scales and seasons of the training rows."""

import numpy as np
import torch

from carousel.data.sources.series import read_series
from carousel.tasks.forecast.frame import Frame


def test_scaling_is_that_of_the_training_rows(forecast_settings, flights):
    series = read_series(flights / "two.csv")
    frame = Frame.of(forecast_settings(), series, 96)
    np.testing.assert_allclose(frame.mean, series.values[:96].mean(0))
    np.testing.assert_allclose(frame.naive, np.abs(series.values[12:96] - series.values[:84]).mean(0))
    logged = Frame.of(forecast_settings(logarithm=True), series, 96)
    np.testing.assert_allclose(logged.plain(torch.from_numpy(logged.scaled(series.values))), series.values, rtol=1e-5)
