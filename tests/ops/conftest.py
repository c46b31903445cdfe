"""The fused kernels are tested where they were built."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from carousel.ops import backend


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if not backend.available():
        skip = pytest.mark.skip(reason=backend.why_not())
        for item in items:
            if "ops" in item.path.parts:
                item.add_marker(skip)


@pytest.fixture(autouse=True)
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)
