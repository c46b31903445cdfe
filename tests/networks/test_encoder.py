"""Recurrent layers of an encoder, by the name of their cell."""

import pytest
import torch

from carousel.networks.characters import CharacterRNN
from carousel.networks.encoder import encoder


@pytest.mark.parametrize("nonlinearity", ["tanh", "relu", "sigmoid"])
def test_a_layer_by_name_has_it(nonlinearity):
    x = torch.randn(4, 2, 3)
    layer = encoder("rnn", 3, 5, nonlinearity=nonlinearity)
    φ = {"tanh": torch.tanh, "relu": torch.relu, "sigmoid": torch.sigmoid}[nonlinearity]
    h = torch.zeros(2, 5)
    for step in x:
        h = φ(step @ layer.weight_ih_l0.T + layer.bias_ih_l0 + h @ layer.weight_hh_l0.T + layer.bias_hh_l0)
    torch.testing.assert_close(layer(x)[1][0], h)
    assert CharacterRNN(9, 3, 4, "rnn", nonlinearity).layer.cell.nonlinearity == nonlinearity
    assert encoder("gru", 3, 5, nonlinearity=nonlinearity).cell.label == "GRU"
