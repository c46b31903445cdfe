"""Expected calibration error, against a loop over the intervals."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from carousel.metrics.calibration import expected_calibration_error


@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), max_size=30), st.integers(1, 20))
def test_against_a_loop(predictions, bins):
    """Guo et al. (2017), equation 3: Σ |B|/n · |accuracy(B) − confidence(B)|, where B is ((k − 1)/bins, k/bins]."""
    error = 0.0
    for k in range(1, bins + 1):
        inside = [(c, r) for c, r in predictions if min(max(math.ceil(c * bins), 1), bins) == k]
        if inside:
            accuracy = sum(r for _, r in inside) / len(inside)
            confidence = sum(c for c, _ in inside) / len(inside)
            error += len(inside) / len(predictions) * abs(accuracy - confidence)
    result = expected_calibration_error([c for c, _ in predictions], [r for _, r in predictions], bins)
    assert result == pytest.approx(error, abs=1e-12)


def test_the_ends():
    assert expected_calibration_error([], []) == 0
    assert expected_calibration_error([1.0, 0.0], [True, False]) == 0
    assert expected_calibration_error([1.0], [False]) == 1
