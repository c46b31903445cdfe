"""The random numbers of a run are its own."""

import random

import numpy as np
import pytest
import torch
from helpers.tiny import fit, language

from carousel.training.isolation import own_random_numbers


def test_the_seed_of_the_moment_does_not_matter(tmp_path):
    torch.manual_seed(1)
    first = fit(language(tmp_path), tmp_path / "a").weights.read_bytes()
    torch.manual_seed(2)
    assert fit(language(tmp_path), tmp_path / "b").weights.read_bytes() == first


def draw():
    """A number of each generator."""
    return random.random(), float(np.random.rand()), float(torch.rand(()))


def test_generators_begin_with_the_seed_and_are_given_back():
    random.seed(5), np.random.seed(5), torch.manual_seed(5)
    expected = draw()
    random.seed(5), np.random.seed(5), torch.manual_seed(5)
    with own_random_numbers(7):
        inside = draw()
    with pytest.raises(KeyError), own_random_numbers(7):
        assert draw() == inside
        raise KeyError
    with own_random_numbers():
        assert draw() == expected  # without a seed they continue, for a while
    assert draw() == expected
