"""What a forecaster knows of its series: scales and seasons of the training rows."""

import numpy as np
import pytest
import torch

from carousel.data.sources.series import Panel, read_panel, series_of
from carousel.errors import DataError
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


@pytest.mark.parametrize("value", [0.0, -3.0])
@pytest.mark.parametrize("row", [4, 99])
def test_what_has_no_logarithm_is_refused_wherever_it_is_read(forecast_settings, flights, tmp_path, value, row):
    logged, _ = Frame.of(forecast_settings(logarithm=True), read_panel(flights / "one.csv"), {"": 96})
    lines = (flights / "one.csv").read_text().splitlines()
    lines[row] = f"{lines[row].split(',')[0]},{value}"
    path = tmp_path / "wrong.csv"
    path.write_text("\n".join(lines))
    problem = rf"wrong\.csv:{row + 1}: x is not above 0 here; correct it, or train with logarithm=False"
    with pytest.raises(DataError, match=problem):
        logged.rows(read_panel(path), "interpolate", 6)
    values = read_panel(path).first.values[:, 0]
    with pytest.raises(DataError, match=f"values:{row}: x is not above 0"):
        logged.rows(Panel({"": series_of(values, ["x"], ("month", 1), "2000-01")}), "interpolate", 6)


def test_what_is_missing_needs_no_logarithm(forecast_settings, flights):
    logged, _ = Frame.of(forecast_settings(logarithm=True), read_panel(flights / "one.csv"), {"": 96})
    values = read_panel(flights / "one.csv").first.values[:, 0]
    values[7] = np.nan
    logged.rows(Panel({"": series_of(values, ["x"], ("month", 1), "2000-01")}), "interpolate", 6)
