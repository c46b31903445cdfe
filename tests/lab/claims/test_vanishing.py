"""Norms of derivatives over many steps: against the layer's own, numpy, and closed forms."""

import json
import math

import numpy as np
import pytest
import torch
from helpers.lab import through_time
from helpers.references import build, draw

import carousel
from carousel import lab
from carousel.lab import finding_class
from carousel.lab.claims import (
    vanishing,
)
from carousel.lab.claims.vanishing import counterexamples


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


def test_no_eigenvalue_above_one_and_the_norm_grows_for_137_steps():
    """0.9 on the diagonal and ones above it, 16 units: the largest norm of a power, by numpy."""
    shear = 0.9 * np.eye(16) + np.triu(np.ones((16, 16)), 1)
    norms = [np.linalg.norm(np.linalg.matrix_power(shear, k), 2) for k in range(1, 200)]
    found = counterexamples(199, 16, 2)[1].h
    assert found == pytest.approx(np.log10(norms), abs=1e-6)
    assert int(np.argmax(norms)) + 1 == 137 and max(norms) == pytest.approx(4.1e14, rel=0.01)
    measured, claim = lab.vanishing(25, hidden=3, seeds=1).measured, finding_class("vanishing").claims[4]
    for gain, said in ((1.07, True), (0.98, False)):  # below 1 it shows nothing
        reason = claim.verdict({**measured, "fresh": {**measured["fresh"], "gain": gain, "last": -9.0}}).reason
        assert "sufficient" in reason and ("It is not necessary" in reason) is said
