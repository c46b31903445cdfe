"""Coupled gates: decay and growth against closed forms, and verdicts from numbers made by hand."""

import numpy as np
import pytest
from helpers.lab import SEEDS, check_verdict, same

from carousel import lab
from carousel.lab.claim import Outcome
from carousel.lab.claims.coupled import held, wander
from carousel.layers import LSTM, CoupledLSTM


def test_constant_gates_against_closed_forms():
    assert held(CoupledLSTM, 4, f=0.0, g=0.0) == [0.5, 0.25, 0.125, 0.0625]
    f = 1 / (1 + np.exp(-2.0))
    assert held(CoupledLSTM, 3, start=0.0, f=2.0, g=40.0) == pytest.approx([1 - f**t for t in (1, 2, 3)])
    assert held(LSTM, 5, start=0.0, f=40.0, g=40.0, i=40.0) == pytest.approx([1, 2, 3, 4, 5])


def test_without_an_activation_growth_is_that_of_a_power():
    path = wander("none", 6, 1.5, 60, seed=3)
    assert path[-1] ** (1 / 60) == pytest.approx(1.5, rel=0.1)
    assert max(wander("tanh", 6, 1.5, 60, seed=3)) <= 1


def test_decay_is_exact():
    decay = lab.coupled(6, hidden=2, updates=1, seeds=1).verdicts()["decay"]
    assert decay.outcome is Outcome.FAILS and "it is 2⁻ᵗ exactly" in decay.reason


def stored(before, after):
    return {"binary": {"before": same(before), "after": same(after)}}


def test_largest_activations_are_means_with_their_range():
    """The seeds by hand: one of two stays small with ReLU, and the mean alone would hide it."""
    largest = {"tanh": [0.96, 0.98], "relu": [0.04, 28284.0], "none": [34484.0, 608442.0]}
    claim = next(claim for claim in lab.finding_class("coupled").claims if claim.key == "exploding")
    verdict = claim.verdict({"largest": largest, "radius": 1.5, "steps": 30, "seeds": SEEDS})
    assert verdict.outcome is Outcome.HOLDS
    assert "is 0.97 (0.96 to 0.98) with tanh, 14,142 (0.04 to 28,284) with ReLU" in verdict.reason
    assert verdict.reason.endswith(
        "321,463 (34,484 to 608,442) with no activation. With ReLU it exceeds 100 with 1 of 2 seeds."
    )


@pytest.mark.parametrize(
    ("key", "numbers", "expected"),
    [
        ("binary", stored(0.1, 0.8), Outcome.HOLDS),
        ("binary", stored(0.1, 0.4), Outcome.HOLDS_FOR),
        ("binary", stored(0.1, 0.1), Outcome.FAILS),
    ],
)
def test_a_verdict_follows_from_the_numbers(key, numbers, expected):
    check_verdict("coupled", key, numbers, expected)
