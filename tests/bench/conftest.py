"""Benchmarks measure on two threads; here on one, because two would wait for those of the tests beside them."""

import pytest

from carousel.bench import claims, layers, output
from carousel.threads import threads


@pytest.fixture(scope="session", autouse=True)
def one_thread():
    with pytest.MonkeyPatch.context() as patch:
        for module in (claims, layers, output):
            patch.setattr(module, "threads", lambda count: threads(1))
        yield


@pytest.fixture
def joey():
    return pytest.importorskip("joeynmt", reason="Joey NMT is not installed")
