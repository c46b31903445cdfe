"""Optimizers at a saddle: against torch's own, and verdicts from numbers made by hand."""

from functools import partial

import pytest
import torch
from helpers.lab import check_verdict, same

from carousel.lab import finding_class
from carousel.lab.claim import Outcome
from carousel.lab.claims.saddle import Rule, constant_gradients, effective_rates, gradient, loss

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


def test_rmsprop_is_pytorchs_and_not_the_printed_formula():
    by_hand = [(-0.3245, -0.3245), (-0.3244, -0.2649), (-0.3031, -0.0005)]
    for row, (ours, printed) in zip(constant_gradients(), by_hand, strict=True):
        assert (row["torch"], row["report"]) == pytest.approx((ours, printed), abs=6e-5)


@pytest.mark.parametrize("kind", ["SGD", "momentum", "Adam", "RMSprop, torch"])
def test_each_rule_is_torchs(kind):
    """Twenty steps on the loss itself, from one place."""
    make = {
        "SGD": torch.optim.SGD, "momentum": partial(torch.optim.SGD, momentum=0.9), "Adam": torch.optim.Adam,
        "RMSprop, torch": torch.optim.RMSprop,
    }[kind]  # fmt: skip
    place = torch.tensor([[0.8, 1e-3]], dtype=torch.float64)
    parameter = torch.nn.Parameter(place.clone())
    theirs, ours = make([parameter], lr=0.01), Rule(kind, 0.01)
    for _ in range(20):
        place = place + ours.step(gradient(place))
        theirs.zero_grad()
        loss(parameter).sum().backward()
        theirs.step()
    torch.testing.assert_close(place, parameter.detach(), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("rmsprop", "expected"), [(27, Outcome.HOLDS), (400, Outcome.FAILS)])
def test_an_escape_follows_from_the_numbers(rmsprop, expected):
    steps = {"RMSprop, torch": same(rmsprop), "SGD": same(650)}
    check_verdict("saddle", "escape", {"escapes": [{"distance": 1e-3, "steps": steps}]}, expected)
