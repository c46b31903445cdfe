"""RMSprop's and SGD's rates for large and small gradients, from numbers made by hand."""

import pytest

from carousel.lab import finding_class
from carousel.lab.claims.saddle import effective_rates

[LARGE] = [claim for claim in finding_class("saddle").claims if claim.key == "large"]


def rates(rmsprop, sgd):
    rows = zip((0.1, 1.0), rmsprop, sgd, strict=True)
    return {"rates": [{"gradient": g, "rate": rate, "sgd": other} for g, rate, other in rows]}


def test_the_whole_sentence_is_decided():
    """It says two things: RMSprop's rate falls with the gradient, and SGD's rises. The second is so of its step."""
    assert LARGE.quote.endswith("different from SGD, where learning rate is large for large gradient.")
    only = LARGE.verdict(rates((0.2, 0.02), (0.01, 0.01)))
    assert only.short == "holds for RMSprop"
    assert "SGD's rate is 0.01 for both" in only.reason and "its step, 0.001 and 0.01" in only.reason
    assert LARGE.verdict(rates((0.2, 0.02), (0.01, 0.1))).short == "holds"
    assert LARGE.verdict(rates((0.2, 0.2), (0.01, 0.01))).short == "does not hold as printed"


def test_the_rates_by_hand():
    rows = effective_rates(0.01)
    assert [row["sgd"] for row in rows] == pytest.approx([0.01] * 4)
    by_hand = [0.01 / (0.01 * g * g + 1e-8) ** 0.5 for g in (0.01, 0.1, 1.0, 10.0)]
    assert [row["rate"] for row in rows] == pytest.approx(by_hand)
