"""Gates of a model that reads: against gates held by their biases, and means by hand."""

import pytest
import torch

from carousel.inspect import LayerReading
from carousel.lab.by_hand import set_gates
from carousel.lab.cells import CELLS
from carousel.lab.gate_use import by_token, gate_use, keeping_gate, label
from carousel.layers import LSTM


def reading(layer, x, lengths=None, tokens=()):
    every = torch.full((x.shape[1],), len(x))
    return LayerReading("encoder", layer, x, every if lengths is None else lengths, "made by hand", tokens)


def test_gates_held_shut_and_open():
    layer = set_gates(LSTM(2, 3), {"f": (0, 0, 100), "i": (0, 0, -100)})
    use = {one.gate: one for one in gate_use(reading(layer, torch.randn(4, 2, 2)))}
    assert use.keys() == {"i", "f", "o"}  # g is no gate between 0 and 1
    assert use["f"].open == (1, 1, 1) and use["i"].shut == (1, 1, 1)
    assert use["o"].open == use["o"].shut == (0, 0, 0) and use["o"].mean == pytest.approx(0.5)
    assert use["f"].layer == "encoder.l0" == label("encoder", 0, 0)


def test_padding_is_not_counted():
    layer = set_gates(LSTM(1, 1), {"f": (100, 0, 0)})
    x = torch.tensor([[1.0], [1.0], [-1.0]]).unsqueeze(1)
    shares = [next(u for u in gate_use(reading(layer, x, lengths)) if u.gate == "f").open for lengths in
              (None, torch.tensor([2]))]  # fmt: skip
    assert shares[0] == pytest.approx((2 / 3,)) and shares[1] == (1,)


def test_tokens_that_make_it_let_go_come_first():
    layer = set_gates(LSTM(1, 1), {"f": (2, 0, 0)})
    tokens = ["keep", "drop"] * 5 + ["rare"]
    x = torch.tensor([{"keep": 1.0, "drop": -1.0, "rare": 0.0}[token] for token in tokens]).view(-1, 1, 1)
    rows = by_token(reading(layer, x, tokens=[tokens]))
    assert [(token, count) for token, _, count in rows] == [("drop", 5), ("keep", 5)]  # what is rare is left out
    assert [mean for _, mean, _ in rows] == pytest.approx([torch.sigmoid(torch.tensor(s)).item() for s in (-2.0, 2.0)])


def test_which_gate_keeps_the_past():
    gates = {name: keeping_gate(CELLS[name].cell) for name in ("rnn", "lstm", "gru")}
    assert gates == {"rnn": None, "lstm": "f", "gru": "z"}
