"""Weighted automata from Hankel matrices: one that is known is found again."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from carousel.lab.automata import compile_pattern
from carousel.lab.weighted import WeightedAutomaton, hankel, learn, strings_up_to


@settings(max_examples=30)
@given(st.integers(0, 1000), st.integers(1, 3))
def test_a_known_automaton_is_found_again(seed, states):
    draw = np.random.default_rng(seed)
    known = WeightedAutomaton(
        "ab", draw.normal(size=states), draw.normal(size=(2, states, states)) / states, draw.normal(size=states)
    )
    basis = strings_up_to("ab", 3)
    H = hankel(known, basis, basis)
    assert H[1, 2] == pytest.approx(float(known.start @ known.steps[0] @ known.steps[1] @ known.end))
    values = np.linalg.svd(H, compute_uv=False)
    rank = int((values > 1e-8 * values[0]).sum())
    assert rank <= states
    found = learn(known, "ab", basis, rank)
    strings = ["", "abba", "babab", "aaaaaaa"]
    np.testing.assert_allclose(found(strings), known(strings), rtol=1e-4, atol=1e-6 * np.abs(H).max())


def test_the_rank_is_that_of_the_weighted_automaton_not_of_the_deterministic_one():
    """“The last symbol but one is an a”: four states, rank 3."""
    dfa = compile_pattern("(a|b)*a(a|b)", "ab")
    basis = strings_up_to("ab", 4)
    H = hankel(lambda strings: np.array([float(dfa.accepts(text)) for text in strings]), basis, basis)
    assert np.linalg.matrix_rank(H) == 3
    assert len(np.unique(H, axis=0)) == 4
