"""Scores of whole sequences from their log-probability and length."""

import math

import numpy as np
import pytest
from helpers.toys import peaked
from hypothesis import given
from hypothesis import strategies as st

from carousel.decoding import GNMT, Beam, Mean, Unnormalised, search


@pytest.mark.parametrize(
    ("norm", "tokens", "score"),
    [
        (Unnormalised(), (0,), math.log(0.4)),
        (Mean(), (1, 0), math.log(0.3) / 2),
        (GNMT(1.0), (0,), math.log(0.4)),  # log 0.3 / (7/6) = -1.032 < -0.916
        (GNMT(3.0), (1, 0), math.log(0.3) / (7 / 6) ** 3),  # -0.758
    ],
    ids=repr,
)
def test_length_normalisation_by_hand(norm, tokens, score):
    """Ending at once has probability 0.4; one word and the end 0.6 · 0.5 = 0.3."""
    lm = peaked(3, _2={0: 0.4, 1: 0.6}, _1={0: 0.5, 1: 0.5})
    [[best]] = search(lm, 1, Beam(2, length=norm, completed=math.inf), start=2, end=0, max_length=2)
    assert best.tokens == tokens
    assert best.score == pytest.approx(score)


@pytest.mark.parametrize("norm", [Mean(), Mean(0.5), GNMT(), GNMT(1.0), Unnormalised()], ids=repr)
def test_a_longer_sequence_with_the_same_total_scores_no_lower(norm):
    """What a beam relies on when it stops early; arrays are scored like numbers."""
    lengths = np.arange(1, 50)
    scores = norm.score(np.full(49, -7.5), lengths)
    assert (np.diff(scores) >= 0).all()
    assert scores.tolist() == pytest.approx([norm.score(-7.5, n) for n in range(1, 50)])


@given(st.floats(-100, 0), st.integers(1, 200), st.floats(0.1, 3))
def test_published_formulas(total, length, penalty):
    """Wu et al. (2016), equation 14; Hugging Face's BeamHypotheses.add: score / length ** length_penalty."""
    assert GNMT(penalty).score(total, length) == pytest.approx(total * 6**penalty / (5 + length) ** penalty)
    assert Mean(penalty).score(total, length) == pytest.approx(total * length**-penalty)


@pytest.mark.parametrize("bad", [0, -1, math.inf, math.nan])
def test_penalties_are_above_nought(bad):
    with pytest.raises(ValueError, match="alpha must be a number above 0"):
        GNMT(bad)
    with pytest.raises(ValueError, match="penalty must be a number above 0"):
        Mean(bad)


def test_they_print_as_they_are_made():
    assert [repr(n) for n in (Mean(), Mean(2), GNMT(0.5), Unnormalised())] == [
        "Mean()", "Mean(penalty=2)", "GNMT(alpha=0.5)", "Unnormalised()",
    ]  # fmt: skip
