"""A run of the forecaster."""

import math

import numpy as np
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


@pytest.fixture(scope="module")
def shops():
    """Series of different levels, scales and lengths; the last two cannot be learnt."""
    draw = np.random.default_rng(0)

    def wave(total, level, size):
        return level + size * (np.sin(np.arange(total) * math.pi / 2) + 0.1 * draw.normal(size=total))

    return {"a": wave(60, 10, 1), "b": wave(90, 1000, 50), "tiny": wave(6, 1, 1), "flat": np.full(60, 3.0)}
