"""Gradients through time: four routes, a wrong one among them, and formulas as they are printed."""

import pytest
import torch

from carousel import lab
from carousel.lab.claim import Outcome
from carousel.lab.claims import bptt
from carousel.lab.derivatives import StepDerivatives


def test_four_routes_agree_and_a_wrong_one_is_seen(monkeypatch):
    found = lab.bptt(5, hidden=3, inputs=2, seed=1, seeds=5)
    shorts = {key: verdict.short for key, verdict in found.verdicts().items()}
    routes = "holds for ŷ^t in the place of y^t"
    assert shorts == {"routes": routes, "literal": "does not hold as printed", "lecture": "holds"}
    assert all(set(by) == set(bptt.ROUTES) for one in found.cells for by in one["gradients"].values())
    assert found.cells[-1]["label"] == "RNN (sigmoid)"  # the notes' own
    right = StepDerivatives.gradients
    monkeypatch.setattr(
        StepDerivatives, "gradients", lambda self, d: {name: 1.001 * g for name, g in right(self, d).items()}
    )
    wrong = lab.bptt(5, hidden=3, inputs=2, seed=1, seeds=5)
    assert wrong.verdicts()["routes"].outcome is Outcome.FAILS


def test_the_five_gradients_of_the_lecture():
    """c, b, V, W and U, each of them decides; there is no gradient of x on the slide."""
    found = lab.bptt(4, hidden=3, inputs=2, seeds=5)
    claim = next(claim for claim in found.claims if claim.key == "lecture")
    assert list(found.measured["lecture"]) == ["c", "b", "V", "W", "U"] and len(claim.printed) == 5
    assert max(found.measured["lecture"].values()) < 1e-12
    assert "of c, b, V, W and U agree" in claim.verdict(found.measured).reason
    for name in found.measured["lecture"]:
        verdict = claim.verdict({**found.measured, "lecture": {**found.measured["lecture"], name: 1e-3}})
        assert verdict.outcome is Outcome.FAILS and verdict.reason.endswith(f"for {name}.")


def test_the_target_does_not_depend_on_a_weight_and_the_output_does():
    found = lab.bptt(3, hidden=3, inputs=2, seeds=5)
    assert "y^t is the target" in found.verdicts()["routes"].reason
    assert lab.bptt(1, hidden=3, inputs=2, seeds=1).dependence["indirectly"] == 0  # no state before, but zeros
    assert min(found.dependence.values()) > 1e-4


def test_equation_52_is_shown_as_printed_and_corrected():
    literal = next(claim for claim in lab.finding_class("bptt").claims if claim.key == "literal")
    assert any(r"\frac{h_n^{(t-2)}}{\partial W_{h_{ij}}}" in tex for tex in literal.printed)
    assert any(r"\frac{\partial^{+} h_n^{(t-2)}}{\partial W_{h_{ij}}}" in tex for tex in literal.corrected)


def test_the_corrected_equations_sum_over_the_repeated_index():
    literal = next(claim for claim in lab.finding_class("bptt").claims if claim.key == "literal")
    assert len(literal.corrected) == 3 and all(tex.count(r"\sum_n ") == 1 for tex in literal.corrected)
    assert not any(r"\sum_n" in tex for tex in literal.printed)


def test_finite_differences_of_a_known_function():
    x = torch.tensor([[1.0, 2.0]], dtype=torch.float64)
    own = {"w": torch.tensor([3.0, -1.0], dtype=torch.float64)}
    found = bptt.by_differences(lambda given: float((own["w"] ** 3 * given).sum()), x, own)
    assert found["w"].tolist() == pytest.approx([3 * 9 * 1, 3 * 1 * 2])
    assert found["x"].flatten().tolist() == pytest.approx([27, -1])
    assert own["w"].tolist() == [3, -1]


def test_two_routes_that_share_a_forward_pass_say_so():
    text, _ = lab.bptt(2, hidden=2, inputs=2, seeds=1).setup()
    assert "The last two share that forward pass" in text
