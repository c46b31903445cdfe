"""Baselines of number sequences."""

import numpy as np
import pytest
from helpers.waves import waves

import carousel
from carousel.tasks.sequences.baseline import at_points, summary


def test_baselines():
    found = carousel.baseline("sequences", waves(40), dev=waves(20, 1))
    by_name = {one.name: one.value for one in found.results}
    assert by_name["majority class"] == 0.5 and by_name["nearest neighbour of 32 points"] == 1
    assert by_name["summary statistics + logistic regression"] > 0.9


def test_what_baselines_see():
    line = at_points([np.array([[0.0], [3.1]])])[0]
    np.testing.assert_allclose(line, np.linspace(0, 3.1, 32))
    mean, deviation, *_, first, last, change, length = summary([np.array([[1.0], [2], [6]])])[0]
    assert (mean, first, last, change) == (3, 1, 6, 2.5) and length == pytest.approx(np.log(3))
    assert deviation == pytest.approx(np.std([1, 2, 6]))
