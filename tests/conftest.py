"""What every test needs: one thread, fixed seeds, and in CI the same hypothesis examples on every machine."""

import os

import pytest
import torch
from hypothesis import settings

torch.set_num_threads(1)

settings.register_profile("local", deadline=None, max_examples=25)
settings.register_profile("ci", settings.get_profile("local"), derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "local")


@pytest.fixture(autouse=True)
def seed():
    """The same random numbers for every test; and no test may leave gradients off."""
    torch.manual_seed(0)
    yield
    on = torch.is_grad_enabled()
    torch.set_grad_enabled(True)
    assert on, "left gradients off"
