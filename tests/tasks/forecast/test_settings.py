"""The forecaster's settings: levels of quantiles."""

import pytest

from carousel.errors import SettingsError
from carousel.tasks.forecast.settings import ForecastSettings


@pytest.mark.parametrize("given", ["0.1, 0.5,0.9", [0.1, 0.5, 0.9], (0.1, 0.5, 0.9)])
def test_levels(given):
    assert ForecastSettings.read({"train": "x.csv", "quantiles": given}).levels == [0.1, 0.5, 0.9]


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ("0.5", "3 to 99 levels"),
        ("0.1,0.9", "3 to 99 levels"),
        ("0.1,0.4,0.9", "0.5 .the median. among them"),
        ("0.9,0.5,0.1", "numbers between 0 and 1 that rise"),
        ("0.1,0.1,0.5,0.9,0.9", "numbers between 0 and 1 that rise"),
        ("0,0.5,1", "numbers between 0 and 1 that rise"),
        ("0.1,0.5,x", "numbers between 0 and 1 that rise"),
        ("0.1,0.5,nan", "numbers between 0 and 1 that rise"),
        ("", "numbers between 0 and 1 that rise"),
        ("0.1,0.5,0.8", "1 - p with each p"),
        (0.5, "3 to 99 levels"),
        ([], "numbers between 0 and 1 that rise"),
    ],
)
def test_levels_that_cannot_be(given, problem):
    with pytest.raises(SettingsError, match=rf"quantiles.*{problem}"):
        ForecastSettings.read({"train": "x.csv", "quantiles": given})
