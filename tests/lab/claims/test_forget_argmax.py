"""The gate that opens widest: against every direction of the plane, and traces of a model."""

import json
import math

import numpy as np
import pytest
import torch

import carousel
from carousel import lab
from carousel.inspect import read_layers
from carousel.lab.claims import forget_argmax


def test_no_direction_opens_a_gate_wider_than_its_own():
    found = lab.forget_argmax(3, hidden=2, samples=2000)
    for unit in found.units:
        angles = np.linspace(0, 2 * np.pi, 100_001)
        brute = (1 / (1 + np.exp(-unit.norm * np.cos(angles)))).max()  # in two dimensions, every direction
        assert unit.closed == pytest.approx(brute, abs=1e-9)
        assert unit.climbed == pytest.approx(brute, abs=1e-9)
        assert brute - 1e-4 < unit.drawn <= brute
        assert unit.closed == pytest.approx(1 / (1 + math.exp(-unit.norm)))
    assert [verdict.short for verdict in found.verdicts().values()] == ["holds", "does not hold as printed"]


def test_how_many_directions_give_more_is_said_in_words():
    found = lab.forget_argmax(2, hidden=2, samples=50)
    claim, numbers = found.claims[0], found.measured
    assert claim.verdict(numbers).reason.endswith("and for none of them does any of 50 random directions give more.")
    units = [{**numbers["units"][0], "drawn": 1.0}, numbers["units"][1]]
    verdict = claim.verdict({**numbers, "units": units})
    assert verdict.short == "does not hold as printed"
    assert verdict.reason.endswith("and for 1 of them some of 50 random directions give more.")
    assert not [each.quote for each in found.claims if " ," in each.quote or " ." in each.quote]


def test_climbing_finds_the_place_by_itself():
    weights = torch.tensor([3.0, 0.0, -4.0], dtype=torch.float64)
    found = forget_argmax.climb(weights, torch.tensor([0.0, 1.0, 0.0], dtype=torch.float64))
    torch.testing.assert_close(found, torch.tensor([0.6, 0.0, -0.8], dtype=torch.float64), atol=1e-6, rtol=0)


def test_the_gates_of_a_model_reach_where_its_weights_let_them():
    layer = carousel.LSTM(3, 4, num_layers=2, bidirectional=True)
    found = forget_argmax.look(read_layers(torch.nn.Sequential(layer)))
    assert [one.layer for one in found] == ["0.l0", "0.l0_reverse", "0.l1", "0.l1_reverse"]
    unit = layer.weight_hh_l1_reverse[4 + 2].detach()  # rows i f g o: the third unit's f
    h = torch.zeros(4, 1, 4)
    h[3, 0] = unit / unit.norm()
    # nothing comes from below when the weights of the input are zero
    with torch.no_grad():
        layer.weight_ih_l1_reverse.zero_()
    f = layer.trace(torch.zeros(1, 1, 3), (h, torch.zeros(4, 1, 4))).gates["f"][3, 0, 0, 2]
    assert found[3].spans[2][2] == pytest.approx(float(f), abs=1e-6)
    with pytest.raises(ValueError, match="has no gate that keeps the past"):
        forget_argmax.look(read_layers(carousel.RNN(2, 3)))


@pytest.mark.parametrize(
    "found",
    [
        pytest.param(lambda: lab.rnn_in_lstm(2, steps=5, hidden=3), id="rnn-in-lstm"),
        pytest.param(lambda: lab.sentiment(2), id="sentiment"),
        pytest.param(lambda: lab.forget_argmax(2, samples=50, model=carousel.LSTM(2, 3)), id="forget-argmax"),
    ],
)
def test_every_page_is_written_with_its_numbers(found, tmp_path):
    made = found()
    page = made.write(tmp_path / "page").read_text("utf-8")
    assert "hold?" in page
    numbers = json.loads((tmp_path / "page" / "numbers.json").read_text("utf-8"))
    assert numbers["lab"] == made.name
    assert {p.stem for p in (tmp_path / "page").glob("*.svg")} == set(made.figures())
