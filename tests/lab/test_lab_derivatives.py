"""Labs of derivatives: against autograd of whole layers, numpy, torch's own clipping, and counts by hand."""

import json
import math

import numpy as np
import pytest
import torch
from helpers.references import KINDS, build, draw

import carousel
from carousel import lab
from carousel.lab.claim import Outcome
from carousel.lab.claims import bptt, clipping, jacobian, vanishing
from carousel.lab.derivatives import StepDerivatives

STEPWISE = [kind for kind in KINDS if kind != "rnn-relu"]  # which has no derivative at 0


def through_time(layer, x, back):
    """∂(h, c) after the last step by (h, c) `back` steps before, by autograd of the layer's call: (S, S)."""
    names = layer.cell.states
    with torch.no_grad():
        state = layer(x[: len(x) - back])[1]
    parts = state if isinstance(state, tuple) else (state,)

    def run(flat):
        given = tuple(part.reshape(1, 1, -1) for part in flat.split(layer.hidden_size))
        _, final = layer(x[len(x) - back :], given if len(names) > 1 else given[0])
        return torch.cat([part.flatten() for part in (final if len(names) > 1 else (final,))])

    return torch.autograd.functional.jacobian(run, torch.cat([part.flatten() for part in parts]))


@pytest.mark.parametrize("kind", STEPWISE)
@pytest.mark.parametrize("back", [1, 3])
def test_a_product_of_closed_forms_is_the_derivative_of_the_layer(kind, back):
    layer, x = build(kind), draw(6, 1, 3)
    derivatives = StepDerivatives(layer, x)
    product = torch.eye(sum(derivatives.sizes), dtype=torch.float64)
    for t in range(5, 5 - back, -1):
        product = product @ derivatives.jacobian(t)
    torch.testing.assert_close(product, through_time(layer, x, back), atol=1e-12, rtol=1e-9)


# ---------------------------------------------------------------- jacobian


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


# ---------------------------------------------------------------- bptt


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


def test_finite_differences_of_a_known_function():
    x = torch.tensor([[1.0, 2.0]], dtype=torch.float64)
    own = {"w": torch.tensor([3.0, -1.0], dtype=torch.float64)}
    found = bptt.by_differences(lambda given: float((own["w"] ** 3 * given).sum()), x, own)
    assert found["w"].tolist() == pytest.approx([3 * 9 * 1, 3 * 1 * 2])
    assert found["x"].flatten().tolist() == pytest.approx([27, -1])
    assert own["w"].tolist() == [3, -1]


# ---------------------------------------------------------------- vanishing


@pytest.mark.parametrize("kind", ["rnn-tanh", "lstm", "gru"])
def test_norms_are_those_of_the_layer_s_derivative(kind):
    layer, x = build(kind), draw(7, 1, 3)
    found = vanishing.fade(layer, x, "", "")
    for k in (1, 2, 6):
        whole = through_time(layer, x, k)
        assert found.h[k - 1] == pytest.approx(math.log10(np.linalg.norm(whole[:4, :4].numpy(), 2)), abs=1e-9)
        if found.c:
            assert found.c[k - 1] == pytest.approx(math.log10(np.linalg.norm(whole[:4, 4:].numpy(), 2)), abs=1e-9)


def test_the_bound_holds_and_eigenvalues_do_not_decide():
    found = lab.vanishing(60, hidden=6, seed=4)
    assert all(one.excess <= 1e-9 for one in (*found.every, *found.counter) if one.bound)
    rnn, lstm = found.cells[:2]
    assert len(rnn.bound) == len(rnn.h) and not lstm.bound
    assert vanishing.horizon(rnn.h) < (vanishing.horizon(lstm.h) or 61)
    rotation, shear, nilpotent = found.counter
    assert max(map(abs, rotation.h)) < 1e-9
    assert max(shear.h) > 1
    growth = nilpotent.h[-1] - nilpotent.h[-2]
    assert growth == pytest.approx(math.log10(2.4), abs=1e-3)  # 10 (¼ − 0.01), though no eigenvalue is but 0
    shorts = {key: verdict.short for key, verdict in found.verdicts().items()}
    wrong = dict.fromkeys(("step", "product", "eigenvalues"), "does not hold as printed")
    assert shorts == {**wrong, "small": "holds", "bound": "holds"}


def test_a_verdict_speaks_of_the_steps_that_were_run():
    """The network of two units with σ is followed for 20 steps, the others for all."""
    found = lab.vanishing(60, hidden=4, seeds=5)
    reason = found.verdicts()["bound"].reason
    assert reason.endswith("for any k that was run: up to 60; eigenvalue 0 only, with σ: up to 20.")
    assert lab.vanishing(20, hidden=3, seeds=5).verdicts()["bound"].reason.endswith("that was run: up to 20.")


def test_what_the_gradients_do_follows_from_the_numbers():
    numbers = lab.vanishing(8, hidden=3, seeds=1).measured
    tanh, sigma = numbers["rnns"]
    rows = [{"label": tanh, "horizons_h": [19, 23]}, {"label": sigma, "horizons_h": [8, 8]}]
    both = vanishing.answer({**numbers, "networks": rows})
    assert both.startswith(f"They vanish, with every seed, in these fresh networks: {tanh} and {sigma}.")
    rows[0]["horizons_h"] = [19, None]
    assert f"networks: {sigma}. " in vanishing.answer({**numbers, "networks": rows})
    rows[1]["horizons_h"] = [None, None]
    assert "they do not vanish within 8 steps" in vanishing.answer({**numbers, "networks": rows})


def test_no_two_lines_of_the_figure_look_alike():
    fading = lab.vanishing(20, hidden=3, model=carousel.LSTM(2, 3), seeds=1).figures()["fading"]
    lines = [(trace.line.color, trace.line.dash) for trace in fading.data if trace.showlegend is not False]
    assert len(lines) == len(set(lines)) > 9
    bound = next(trace for trace in fading.data if trace.name == "the RNN's bound")
    assert [trace.line.color for trace in fading.data].count(bound.line.color) == 1


def test_the_recurrent_weights_of_the_notes_are_w_h():
    found = lab.vanishing(4, hidden=3, seeds=1)
    assert "W_h × 8" in str(found) and "U ×" not in str(found)  # U is the output's
    step = found.claims[0]
    assert "W_x" in step.printed[0] and "W_e" in step.corrected[0]
    forms = {"with_slope": 0.5, "with_sigmoid": 0.0}
    assert "they agree exactly" in step.decide({"forms": forms}, 1e-10).reason
    assert "agree to 2·10⁻¹⁶" in step.decide({"forms": {**forms, "with_sigmoid": 2e-16}}, 1e-10).reason


def test_the_horizon_is_of_every_k_and_of_h_alone():
    """From the first k on that no later one exceeds; not on a grid, and not the better of h and c."""
    layer, x = carousel.LSTM(2, 3, dtype=torch.float64), torch.randn(120, 1, 2, dtype=torch.float64)
    fading = vanishing.fade(layer, x, "", "")
    assert len(fading.h) == len(fading.c) == 120
    first = vanishing.horizon(fading.h)
    assert fading.h[first - 1] < -6 <= fading.h[first - 2]
    result = lab.vanishing(5, hidden=3, seeds=1)
    assert "not within 5" in str(result) and "never" not in str(result)


def test_nothing_underflows():
    layer = carousel.RNN(2, 3, dtype=torch.float64)
    with torch.no_grad():
        layer.weight_hh_l0.copy_(1e-3 * torch.eye(3))
    found = vanishing.fade(layer, torch.zeros(400, 1, 2, dtype=torch.float64), "", "")
    slope = 1 - layer(torch.zeros(400, 1, 2, dtype=torch.float64))[0][-1, 0].square()
    assert found.h[-1] == pytest.approx(400 * (math.log10(slope.max().item()) - 3), rel=1e-3)


def test_the_layer_of_a_trained_model():
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn = carousel.LSTM(3, 4, num_layers=2, bidirectional=True)

    model = Model()
    found = lab.vanishing(30, hidden=4, model=model, seeds=1)
    assert found.trained.label == "rnn of the model"
    assert found.trained.c
    with pytest.raises(ValueError, match="the model has no recurrent layer"):
        lab.vanishing(5, model=torch.nn.Linear(2, 2))


@pytest.mark.parametrize("name", ["vanishing", "jacobian", "forget_argmax"])
def test_labs_take_torchs_modules(name):
    """The same numbers as of our layer with the same weights."""
    theirs = torch.nn.LSTM(2, 3, num_layers=2, bidirectional=True)
    options = {
        "vanishing": {"steps": 10, "seeds": 1},
        "jacobian": {"hidden": 4, "seeds": 1},
        "forget_argmax": {"samples": 50},
    }[name]
    found = []
    for model in (theirs, carousel.LSTM.from_torch(theirs)):
        torch.manual_seed(0)
        found.append(getattr(lab, name)(**options, model=torch.nn.Sequential(model)).numbers() | {"seconds": 0})
    assert found[0] == found[1]


def test_a_torch_module_alone_and_what_is_no_module():
    assert lab.vanishing(5, hidden=3, model=torch.nn.GRU(2, 3), seeds=1).trained.label == "GRU of the model"
    with pytest.raises(ValueError, match="model must be a model of a run or a torch module, got str"):
        lab.vanishing(5, model="run")


# ---------------------------------------------------------------- clipping


@pytest.mark.parametrize("threshold", [0.1, 5.0, 100.0])
def test_clipping_is_torch_s_own(threshold):
    given = torch.tensor([3.0, -4.0])
    one = torch.nn.Parameter(torch.zeros(2))
    one.grad = given.clone()
    torch.nn.utils.clip_grad_norm_([one], threshold)
    torch.testing.assert_close(clipping.clip(given, "norm", threshold), one.grad, atol=1e-5, rtol=1e-5)
    one.grad = given.clone()
    torch.nn.utils.clip_grad_value_([one], threshold)
    assert torch.equal(clipping.clip(given, "value", threshold), one.grad)


def test_a_step_of_descent_by_differences():
    result = lab.clipping(20, thresholds=[1.0], starts=2)
    loss = lambda w, b: float(clipping.surface(*(torch.tensor([v], dtype=torch.float64) for v in (w, b))))  # noqa: E731
    free = result.descents[0]
    w, b = free.path[7, 1].tolist()
    assert free.losses[7, 1].item() == pytest.approx(loss(w, b))
    slope = ((loss(w + 1e-6, b) - loss(w - 1e-6, b)) / 2e-6, (loss(w, b + 1e-6) - loss(w, b - 1e-6)) / 2e-6)
    assert free.path[8, 1].tolist() == pytest.approx((w - 0.1 * slope[0], b - 0.1 * slope[1]), abs=1e-6)


def test_a_clipped_descent_that_falls_off_the_cliff_does_not_count():
    """At this rate threshold 10 ends where plain descent ends, which is no success of clipping."""
    result = lab.clipping(300, lr=0.5, starts=1, thresholds=[10.0, 1.0], seeds=1)
    free, late, early, by_value = result.measured["descents"]
    assert free["first"]["losses"][-1] == pytest.approx(late["first"]["losses"][-1], abs=1e-4)
    assert (free["arrived"], late["arrived"], early["arrived"]) == ([0], [0], [1])
    assert early["turned"] < 1e-6 < by_value["turned"]
    assert result.verdicts()["algorithm"].short == "holds"
    assert result.verdicts()["region"].short == "not decided by this run"  # it takes five seeds
    region = result.claims[1]
    assert region.decide(result.measured, region.tolerance).short == "holds for threshold 1"
    descents = [free, late, by_value]
    assert region.decide({**result.measured, "descents": descents}, region.tolerance).outcome is Outcome.FAILS


def test_starts_are_counted_for_each_seed():
    together = lab.clipping(20, thresholds=[1.0], starts=3, seeds=2).measured
    alone = lab.clipping(20, thresholds=[1.0], starts=3, seeds=1, seed=1).measured
    for both, one in zip(together["descents"], alone["descents"], strict=True):
        assert both["final"][4:] == pytest.approx(one["final"][1:])  # the very first start is not drawn
        assert len(both["arrived"]) == together["seeds"][-1] + 1 == 2


def test_a_descent_that_cannot_be():
    for wrong, said in (({"thresholds": [0.0]}, "thresholds must be"), ({"lr": 0.0}, "lr must be above 0")):
        with pytest.raises(ValueError, match=said):
            lab.clipping(5, **wrong)


# ---------------------------------------------------------------- parameters


def test_counts_by_hand():
    found = lab.parameters([1, 3, 8], inputs=2, hidden=5, outputs=4)
    counts = {kind.label: kind.counts for kind in found.kinds}
    head = 5 * 4 + 4
    assert counts["fully connected"] == tuple(t * 2 * 5 + 5 + head for t in (1, 3, 8))
    for stride, layers in ((1, (1, 1, 4)), (2, (1, 1, 3))):  # two layers of stride 2 see 7 steps, three 15
        expected = tuple(2 * 5 * 3 + 5 + (n - 1) * (5 * 5 * 3 + 5) + head for n in layers)
        assert counts[f"convolutional, stride {stride}"] == expected
    assert counts["RNN (tanh)"] == (2 * 5 + 5 * 5 + 2 * 5 + head,) * 3
    assert counts["LSTM"] == (4 * (2 * 5 + 5 * 5 + 2 * 5) + head,) * 3
    assert counts["GRU"] == (3 * (2 * 5 + 5 * 5 + 2 * 5) + head,) * 3
    shorts = {key: verdict.short for key, verdict in lab.parameters().verdicts().items()}
    holds = {"connected": "holds", "shared": "holds", "tensors": "holds"}
    assert shorts == {**holds, "convolutional": "holds for stride 2"}
    assert "105,674 with stride 2" in lab.parameters().decision()
    with pytest.raises(ValueError, match="horizons must be some numbers from 1 on"):
        lab.parameters([0])


@pytest.mark.slow
@pytest.mark.parametrize(
    "find",
    [
        pytest.param(lambda: lab.vanishing(30, hidden=3, model=carousel.LSTM(2, 3), seeds=1), id="vanishing"),
    ],
)
def test_pages_and_numbers(find, tmp_path):
    made = find()
    page = made.write(tmp_path / "page").read_text("utf-8")
    assert "hold?" in page
    assert str(made)
    numbers = json.loads((tmp_path / "page" / "numbers.json").read_text("utf-8"))
    assert numbers["lab"] == made.name
    assert {p.stem for p in (tmp_path / "page").glob("*.svg")} == set(made.figures())
