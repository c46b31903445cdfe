"""Kinds of attention: verdicts from numbers made by hand, and what the run measures."""

import pytest
from helpers.lab import SEEDS, check_verdict, same

from carousel.lab import finding_class
from carousel.lab.claim import Outcome
from carousel.lab.claims import attention


def translated(networks, longer=0.0):
    return {
        "right": {name: same(value) for name, value in networks.items()},
        "longer": {name: same(longer) for name in networks},
    }


def aligned(name, **kinds):
    return {"aligned": {name: {kind.replace("_", "-"): same(share) for kind, share in kinds.items()}}}


@pytest.mark.parametrize(
    ("key", "numbers", "expected"),
    [
        ("forgetting", translated({"dot": 0.9, "none": 0.3}), Outcome.HOLDS_FOR),  # no longer sentences
        ("forgetting", translated({"dot": 0.3, "none": 0.3}), Outcome.FAILS),
        ("learned", aligned("dot", one_to_one=0.9, many_to_one=0.7), Outcome.HOLDS),
        ("learned", aligned("dot", one_to_one=0.9, many_to_one=0.2), Outcome.FAILS),  # the worst kind decides
        ("kinds", aligned("additive (Bahdanau)", one_to_one=0.9, many_to_one=0.2), Outcome.HOLDS_FOR),
    ],
)
def test_a_verdict_follows_from_the_numbers(key, numbers, expected):
    check_verdict("attention", key, numbers, expected)


def test_what_longer_sentences_show_is_said():
    [forgetting, *_] = finding_class("attention").claims
    verdict = forgetting.verdict({"seeds": SEEDS, **translated({"dot": 0.9, "none": 0.3}, longer=0.07)})
    assert verdict.cases == "sentences as long as in training"
    assert "none translates more than 7 % with any seed" in verdict.reason


def test_every_network_is_measured():
    result = attention.run(1, seeds=1)
    assert set(result.data["right"]) == set(result.data["longer"]) == set(attention.NETWORKS)
    assert set(result.data["aligned"]) == set(attention.NETWORKS) - {"none"}
    for row in result.data["example"]["weights"]:
        assert sum(row) == pytest.approx(1, abs=1e-5)
