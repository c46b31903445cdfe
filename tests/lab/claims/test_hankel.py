"""Weighted automata from Hankel matrices: one that is known is found again, and a trained network's."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from carousel import lab
from carousel.lab.automata import compile_pattern
from carousel.lab.finding import _emphasised
from carousel.lab.weighted import WeightedAutomaton, hankel, learn, strings_up_to
from carousel.report import prose


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


def test_a_trained_network(tmp_path):
    found = lab.hankel(["(a|b)*ab"], units=8, steps=250, unseen=100, seeds=1)
    [one] = found.extracted
    assert (one.known, one.rank) == (3, 3)
    assert one.agreement > 0.95 and one.automaton_right > 0.95
    assert found.verdicts()["path"].short == "holds"
    few = found.verdicts()["approximate"]
    assert few.short == "not decided by this run" and "the rank in 1 of 1 network," in few.reason
    page = found.write(tmp_path / "page").read_text("utf-8")
    assert "The automaton inside a network" in page and "1 small GRU was trained" in page
    assert "λᵀ A(x₁) … A(x_t) ρ" in found.verdicts()["path"].reason  # as in the derivation
    assert found.plot().layout.yaxis.exponentformat == "power"  # not 100µ, of a number without a unit


def test_the_stars_of_a_pattern_are_no_emphasis():
    """A verdict that holds for patterns, as a page shows it."""
    every = {"rank": 2, "known": 2, "agreement": 1.0}
    rows = [{"pattern": pattern, **every} for pattern in ("b*(ab*ab*)*", "(a|b)*ab") for _ in range(5)]
    claim = next(claim for claim in lab.finding_class("hankel").claims if claim.key == "approximate")
    verdict = claim.verdict({"languages": rows, "seeds": [0, 1, 2, 3, 4]})
    assert prose(_emphasised(verdict)).startswith(
        "<em>Holds for <code>b*(ab*ab*)*</code> and <code>(a|b)*ab</code>.</em> <code>b*(ab*ab*)*</code>: the rank"
    )


def test_the_rank_is_that_of_the_weighted_automaton_not_of_the_deterministic_one():
    """“The last symbol but one is an a”: four states, rank 3."""
    dfa = compile_pattern("(a|b)*a(a|b)", "ab")
    basis = strings_up_to("ab", 4)
    H = hankel(lambda strings: np.array([float(dfa.accepts(text)) for text in strings]), basis, basis)
    assert np.linalg.matrix_rank(H) == 3
    assert len(np.unique(H, axis=0)) == 4
