"""A run of the forecaster."""

import pytest

from carousel.tasks.forecast.settings import ForecastSettings
from carousel.tasks.forecast.task import Forecast
from carousel.training import trainer


@pytest.fixture(scope="session")
def trained(flights, tmp_path_factory):
    run = tmp_path_factory.mktemp("runs") / "run"
    given = {"train": flights / "one.csv", "hidden": 8, "epochs": 12, "lr": 0.01, "horizon": 6}
    trainer.train(Forecast, ForecastSettings.read(given), run, quiet=True)
    return run
