"""Derivatives of one step: against autograd of the layer, and what the sources leave out."""

import torch
from helpers.lab import through_time
from helpers.references import build, draw

from carousel import lab
from carousel.lab.claim import Outcome
from carousel.lab.claims import jacobian
from carousel.lab.derivatives import StepDerivatives


def test_closed_forms_and_what_their_product_leaves_out():
    found = lab.jacobian(8, hidden=4, seed=3)
    labels = {kind.label for kind in lab.claims.jacobian.CELLS.values()} | {"RNN (sigmoid)"}
    assert {one["label"] for one in found.cells} == labels
    for one in found.cells:
        assert jacobian.worst(one)[0] < 1e-10
        assert {"x", "h₋", "weight_ih", "weight_hh", "bias_ih", "bias_hh"} <= set(one["relative_errors"])
    lstm = next(one for one in found.cells if one["label"] == "LSTM")
    assert {"i", "f", "g", "o", "c", "c₋"} <= set(lstm["relative_errors"])
    assert found.printed < 1e-10
    assert found.product[0] < 1e-10 < 0.01 < min(found.product[1:])
    assert found.verdicts()["partial"].reason.startswith("With c₋ held")
    *shorts, local = (verdict.short for verdict in found.verdicts().values())
    assert shorts == ["holds", "holds for one step", "does not hold as printed"]
    assert local == "holds for ∂y/∂W, ∂y/∂b, ∂y/∂z, ∂c/∂c₋, ∂c/∂f, ∂c/∂i and ∂tanh(y)/∂y"  # and not ∂σ(y)/∂y


def test_local_derivatives_that_are_wrong_or_not_given():
    """Of the concatenation two of the wrong size; of the roots, and by g, none."""
    found = lab.jacobian(6, hidden=4, inputs=3, seeds=5)
    claim = next(claim for claim in found.claims if claim.key == "slope")
    reason = claim.verdict(found.measured).reason
    assert "∂z/∂h₋ with 7 × 7 entries where it has 7 × 4 and ∂z/∂x with 7 × 7 entries where it has 7 × 3" in reason
    assert "∂c/∂g, ∂h/∂o and ∂h/∂tanh(c), which the chain rule takes, are not given" in reason
    right = {
        name: {"printed": each["right"], "right": each["right"]} for name, each in found.forms["concatenation"].items()
    }
    slope = {"printed": 0.0, "corrected": 0.0}
    every = {**found.measured, "concatenation": right, "slope": slope}
    assert claim.verdict(every).outcome is Outcome.HOLDS_FOR  # the formulas of all have not been given
    assert claim.verdict({**every, "left_out": []}).outcome is Outcome.HOLDS


def test_a_task_is_answered_and_no_claim():
    """“Differentiate …” and “What will the gradients do?” have no verdict; the pages answer them."""
    for name, asked in (("jacobian", "Differentiate one step"), ("vanishing", "What will the gradients do?")):
        assert not [claim for claim in lab.finding_class(name).claims if asked in claim.quote]
        assert asked in lab.module_of(name).run(6, hidden=2, seeds=1).page().html()
    headings = ("Forget gate derivative", "Backpropagation through time (BPTT)")
    claims = [claim for name in ("jacobian", "bptt") for claim in lab.finding_class(name).claims]
    assert not [claim for claim in claims if claim.quote in headings]


def test_the_printed_formula_is_the_partial_derivative():
    layer, x = build("lstm"), draw(3, 1, 3)
    expected = through_time(layer, x, 1)[:4, :4]
    torch.testing.assert_close(jacobian.printed(StepDerivatives(layer, x), 2), expected, atol=1e-12, rtol=1e-9)
