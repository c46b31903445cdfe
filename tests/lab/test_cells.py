"""The cells that labs compare: a user's own in every lab, and names that are none."""

import json
import math

import pytest
import torch
from helpers.own_cells import OWN

from carousel import lab
from carousel.lab.cells import CELLS, carrying_state, lab_cell, sigmoid_rnn
from carousel.lab.claims import languages as language_lab
from carousel.lab.claims.bptt import worst
from carousel.lab.claims.initialisation import unit_axes
from carousel.lab.latching import Setting

pytestmark = pytest.mark.usefixtures("own_cells")
LABELS = {cell.__name__ for cell, _ in OWN.values()}


def finite(numbers):
    """Whether all numbers are finite; there must be some."""
    numbers = list(numbers)
    return bool(numbers) and all(map(math.isfinite, numbers))


def rows(result):
    """The lines of what `print` shows, by the label they begin with."""
    return {label: line for line in str(result).splitlines() for label in LABELS if line.strip().startswith(label)}


def test_bptt_measures_them_from_autograd(tmp_path):
    result = lab.bptt(4, hidden=4, inputs=2, seeds=1)
    own = {one["label"]: one for one in result.cells if not one["by_hand"]}
    assert own.keys() == LABELS == rows(result).keys()
    for one in own.values():
        assert worst(one, "autograd") is None
        assert {"x", "weight_ih"} <= one["gradients"].keys()
        assert 0 < worst(one, "differences") < 1e-6
        assert "no derivative by hand" in rows(result)[one["label"]]
    assert "all gradients agree" in result.verdicts()["routes"].reason
    assert "no derivative by hand" in (result.write(tmp_path).read_text("utf-8"))


def test_jacobian_leaves_them_out_and_says_so(tmp_path):
    result = lab.jacobian(6, hidden=5, seeds=1)  # five units do not divide into two blocks
    assert set(result.without) == LABELS == rows(result).keys()
    assert "agree with autograd" in result.lead(result.measured)
    result.write(tmp_path)


def test_vanishing_goes_back_through_every_state(tmp_path):
    result = lab.vanishing(12, hidden=4, inputs=3, seeds=1)
    own = {one.label: one for one in result.cells if one.label in LABELS}
    assert own.keys() == LABELS == rows(result).keys()
    for label, one in own.items():
        assert finite(one.c or one.h)
        # but for h₀, which changes a memory that is empty; LinearRecurrence does not read h₋, that derivative is 0
        assert finite(one.h[:-1]) or label == "LinearRecurrence"
    json.dumps(result.numbers(), allow_nan=False)
    result.write(tmp_path)


def test_parameters_counts_them():
    result = lab.parameters([1, 10], inputs=3, hidden=4, outputs=2)
    counts = {kind.label: kind.counts for kind in result.kinds if kind.label in LABELS}
    assert counts.keys() == LABELS == rows(result).keys()
    assert counts["IndependentRNN"] == (4 * 3 + 4 + 4 + 4 + 4 * 2 + 2,) * 2
    assert counts["LinearRecurrence"] == (2 * 4 * 3 + 4 + 4 + 2 * 4 * 4 + 4 * 2 + 2,) * 2


def test_latch_trains_all_that_are_registered():
    small = Setting(relevant=3, irrelevant=5, longest=10, tests=10, hidden=4, batch=4, updates=2)
    result = lab.latch(small, compare=[], seeds=1)
    assert [one.cell for one in result.outcomes] == list(CELLS)
    assert rows(result).keys() == LABELS
    for one in [one for one in result.outcomes if one.cell in OWN]:
        assert finite(one.accuracy) and finite(one.curve)
        assert finite(size for sizes in one.gradient.values() for size in sizes)
        assert 0 < one.gradient_kept < math.inf
    html = result.page().html()
    assert all(label in html for label in LABELS)


def test_languages_takes_them_by_name(tmp_path):
    small = language_lab.Setting(trained=4, tested=8, hidden=4, pool=10, batch=4, updates=2, rates=(0.01,), networks=1)
    result = lab.languages(["anbn"], list(OWN), small)
    assert [one.cell for one in result.outcomes] == list(OWN)
    for one in result.outcomes:
        assert finite([one.loss]) and finite(one.right) and finite(one.unit.values)
        assert -1 <= one.unit.correlation <= 1
    result.write(tmp_path)


def test_initialisation_counts_their_units():
    result = lab.initialisation(list(OWN), hidden=4, lines=64, epochs=1, seeds=1)
    assert result.cells.keys() == OWN.keys()
    assert rows(result).keys() == LABELS
    for name, found in result.cells.items():
        assert all(1 <= most <= 4 for most in found.values()), name
    assert result.cells["own-convolved"] == {"zero": 1, "equal": 1}  # past inputs too have a weight for each unit


def test_units_are_found_in_every_parameter():
    assert unit_axes(CELLS["own-convolved"].cell) == {"weight_ih": [0], "bias_ih": [0], "weight_past": [1]}
    assert unit_axes(CELLS["own-linear"].cell) == {"weight_ih": [0], "decay": [0], "angle": [0], "readout": [0, 1]}


def test_a_cell_by_its_name():
    assert lab_cell("gru").label == "GRU" and "peephole-full" not in list(CELLS)
    assert lab_cell("peephole-full").cell.states == CELLS["peephole"].cell.states  # only where it is asked for
    with pytest.raises(ValueError, match="'lstn': did you mean lstm"):
        lab_cell("lstn")
    assert [carrying_state(lab_cell(name).cell) for name in ("rnn", "lstm")] == ["h", "c"]


def test_the_rnn_of_the_notes_is_the_logistic_one():
    layer = sigmoid_rnn().layer(2, 3)
    x = torch.randn(1, 1, 2)
    expected = torch.sigmoid(x @ layer.weight_ih_l0.T + layer.bias_ih_l0 + layer.bias_hh_l0)
    torch.testing.assert_close(layer(x)[0], expected)
