"""The random numbers of a run, kept apart from those of the program that calls it."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch


@contextmanager
def own_random_numbers(seed: int | None = None) -> Iterator[None]:
    """Python's, NumPy's and torch's global generators begin with `seed`; afterwards they are as they were before.

    >>> before = torch.get_rng_state()
    >>> with own_random_numbers(0):
    ...     round(torch.rand(()).item(), 4)
    0.4963
    >>> torch.equal(before, torch.get_rng_state())
    True
    """
    states = random.getstate(), np.random.get_state(), torch.get_rng_state()
    if seed is not None:
        random.seed(seed)
        np.random.seed(seed)
        torch.default_generator.manual_seed(seed)
    try:
        yield
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])
        torch.set_rng_state(states[2])
