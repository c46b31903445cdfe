"""Weights set gate by gate: against torch's LSTM with the same matrix."""

import torch
from helpers.lab import in_torch

from carousel.lab.by_hand import set_gates
from carousel.layers import LSTM


def test_each_gate_gets_its_rows_and_the_others_zeros():
    layer = set_gates(LSTM(2, 3), {"f": (0.5, 0, 100), "g": ([[1, 2], [3, 4], [5, 6]], 0.25, [7, 8, 9])})
    weights = torch.zeros(12, 2)
    weights[3:6], weights[6:9] = 0.5, torch.tensor([[1.0, 2], [3, 4], [5, 6]])  # torch's order: i, f, g, o
    assert torch.equal(layer.weight_ih_l0, weights)
    assert layer.bias_ih_l0.tolist() == [0] * 3 + [100] * 3 + [7, 8, 9] + [0] * 3
    assert not layer.bias_hh_l0.any() and not layer.weight_hh_l0[:6].any() and layer.weight_hh_l0[6:9].eq(0.25).all()
    x = torch.randn(5, 2, 2)
    torch.testing.assert_close(layer(x)[0], in_torch(layer)(x)[0])
