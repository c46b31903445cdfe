"""Softmax and cross-entropy: by hand, and the printed form of an error beside the corrected one."""

import math

import pytest
import torch

from carousel import lab
from carousel.lab.claim import Outcome
from carousel.lab.claims import softmax


def claims():
    return {claim.key: claim for claim in lab.finding_class("softmax").claims}


def test_what_is_wrong_before_equation_25_is_shown_as_printed_and_corrected():
    outer, total = claims()["outer"], claims()["sum"]
    assert (outer.printed[0], outer.corrected[0]) == (r"q^t = U \cdot h^{(t)}", r"q^t = U \cdot h^{(t)} + b_2")
    assert r"\partial V_{ij}" in outer.printed[1]
    assert r"\partial V" not in outer.corrected[1] and r"\partial q_l^t}{\partial U_{ij}}" in outer.corrected[1]
    assert total.where == "003 §5.2.1, before equation 24, and equation 37"  # equation 24 itself is right
    assert total.printed[0] == r"L^t = -y_k^t \log \hat{y}_k^t"
    assert total.corrected[0] == r"L^t = -\sum_k y_k^t \log \hat{y}_k^t"


def test_softmax_is_shown_as_a_map_of_vectors():
    claim = claims()["jacobian"]
    assert claim.printed[0] == r"\hat{y}_k^t = \text{softmax}(q_l^t)"
    assert claim.corrected[0] == r"\hat{y}^t = \text{softmax}(q^t)"
    assert claim.printed[1].replace(r"\hat{y}_k^t :", r"\hat{y}^t :") == claim.corrected[1] != claim.printed[1]


def test_the_gradient_of_u_is_the_outer_product_with_a_bias_too():
    """U = 0: ŷ is the softmax of b₂ alone, ¾ and ¼, where it would be ½ and ½ without b₂."""
    U, h = torch.zeros(2, 2, dtype=torch.float64), torch.tensor([1.0, 2.0], dtype=torch.float64)
    b, target = torch.tensor([[math.log(3), 0.0], [1.0, 0.0]], dtype=torch.float64)
    assert softmax.of_output(U, h, b, target) < 1e-15


def test_what_is_one_hot_is_the_target():
    found = lab.softmax(4, hidden=3, seeds=2)
    verdict = found.verdicts()["gradient"]
    assert verdict.short == "holds for y^t in the place of t^t"
    assert "The notes define no t^t" in verdict.reason and "exactly 1" in verdict.reason
    numbers = {**found.measured, "apart": {**found.measured["apart"], "target_sum": [0.1, 0.0]}}
    assert claims()["gradient"].verdict(numbers).short == "does not hold as printed"


def test_which_equations_hold():
    """The chain rule, and equations 36, 37, 40 and 45."""
    outcomes = {key: verdict.outcome for key, verdict in lab.softmax(4, hidden=3, seeds=2).verdicts().items()}
    holds, fails = Outcome.HOLDS, Outcome.FAILS
    assert outcomes == {
        "chain": holds, "jacobian": holds, "sum": fails, "gradient": Outcome.HOLDS_FOR, "outer": fails,
    }  # fmt: skip


def test_the_printed_sum_by_hand():
    """y = (1, 0) and ŷ = (¾, ¼): printed −1 and −¼, where the gradient is ŷ − y = −¼ and ¼."""
    q, target = torch.tensor([math.log(3), 0.0], dtype=torch.float64), torch.tensor([1.0, 0.0], dtype=torch.float64)
    measured, steps = softmax.of_softmax(q, target)
    assert measured["printed_sum"] == pytest.approx(0.75)
    assert measured["corrected_sum"] < 1e-12 and measured["gradient"] < 1e-12 and max(steps.values()) < 1e-8
