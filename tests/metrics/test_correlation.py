"""Correlations against scipy."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from carousel.metrics import pearson, spearman


@given(st.lists(st.tuples(st.integers(-5, 5), st.integers(-5, 5)), min_size=3, max_size=12))
def test_correlations(pairs):
    a, b = ([float(pair[k]) for pair in pairs] for k in (0, 1))
    if len(set(a)) > 1 and len(set(b)) > 1:
        assert pearson(a, b) == pytest.approx(stats.pearsonr(a, b)[0], abs=1e-9)
        assert spearman(a, b) == pytest.approx(stats.spearmanr(a, b)[0], abs=1e-9)
    else:
        assert pearson(a, b) == spearman(a, b) == 0


def test_numbers_that_never_change_have_none():
    """Their mean differs from 0.1 by rounding."""
    assert pearson([0.1] * 3, [1.0, 2.0, 4.0]) == pearson([1.0, 2.0, 4.0], [0.1] * 3) == 0
