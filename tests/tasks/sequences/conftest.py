"""A model of sequences that rise or fall."""

import pytest
from helpers.waves import SMALL, waves

import carousel


@pytest.fixture(scope="session")
def trained(tmp_path_factory):
    run = tmp_path_factory.mktemp("sequences") / "run"
    model = carousel.train("sequences", waves(80), dev=waves(20, 1), out=run, **SMALL)
    return run, model
