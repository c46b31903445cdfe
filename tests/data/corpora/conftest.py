"""No test needs a network: pip and npm are replaced by what leaves a tiny package where they would."""

from functools import partial

import pytest
from helpers.corpora import Registry


@pytest.fixture
def registry(monkeypatch, tmp_path):
    """Stands in for pip and npm; the directory is `tmp_path`."""
    monkeypatch.chdir(tmp_path)
    return Registry.install(monkeypatch)


@pytest.fixture
def carousel_data(carousel):
    """Runs `carousel data …`: exit code, stdout, stderr."""
    return partial(carousel, "data")
