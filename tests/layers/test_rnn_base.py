"""What programs do with `nn.LSTM` beside calling it: attributes of `nn.RNNBase`, whole-model files, conversion."""

import subprocess
import sys

import pytest
import torch
from helpers.references import close
from torch import nn

import carousel

T, B, I, H = 5, 3, 4, 6
PAIRS = {"LSTM": nn.LSTM, "GRU": nn.GRU, "RNN": nn.RNN}


def make(name, **options):
    return getattr(carousel, name)(I, H, num_layers=2, bidirectional=True, **options)


@pytest.mark.parametrize("name", PAIRS)
def test_what_nn_RNNBase_has(name):
    layer, theirs, x = make(name), PAIRS[name](I, H, 2, bidirectional=True), torch.randn(T, B, I)
    assert layer._all_weights == theirs._all_weights
    assert layer._flat_weights_names == theirs._flat_weights_names
    assert [w.shape for w in layer._flat_weights] == [w.shape for w in theirs._flat_weights]
    assert layer.get_expected_hidden_size(x, None) == theirs.get_expected_hidden_size(x, None)
    state = torch.zeros(4, B, H)
    hidden = (state, state) if name == "LSTM" else state
    layer.check_forward_args(x, hidden, None)
    layer.check_input(x, None)
    layer.check_hidden_size(state, (4, B, H))
    wrong = (state[:, :1], state) if name == "LSTM" else state[:, :1]
    with pytest.raises(RuntimeError, match="Expected hidden"):
        layer.check_forward_args(x, wrong, None)
    order = torch.tensor([2, 0, 1])
    close(layer.permute_hidden(hidden, order), theirs.permute_hidden(hidden, order))
    if name == "LSTM":
        assert layer.get_expected_cell_size(x, None) == theirs.get_expected_cell_size(x, None)


@pytest.mark.parametrize("name", PAIRS)
def test_assigned_flat_weights_are_used(name):
    """As torch does, and as programs for weight dropping rely on."""
    layer, x = make(name).double(), torch.randn(T, B, I, dtype=torch.float64)
    theirs = layer.to_torch()
    for module in (layer, theirs):
        module._flat_weights = [w.detach() / 2 for w in module._flat_weights]
    close(layer(x)[0], theirs(x)[0])


def test_conversion_does_not_look_torchs_classes_up_again():
    """A program may have put our class into torch.nn: from_torch and to_torch still mean torch's own."""
    code = """
import torch, carousel
theirs, lstm = torch.nn.RNN(3, 4, nonlinearity="relu"), torch.nn.LSTM(3, 4, proj_size=2)
torch.nn.RNN, torch.nn.LSTM, torch.nn.GRU = carousel.RNN, carousel.LSTM, carousel.GRU
x = torch.randn(5, 2, 3)
ours = carousel.RNN.from_torch(theirs)
assert ours.nonlinearity == "relu" and torch.allclose(ours(x)[0], theirs(x)[0], atol=1e-6)
assert type(ours.to_torch()).__module__ == "torch.nn.modules.rnn" and ours.to_torch().nonlinearity == "relu"
projected = carousel.LSTM.from_torch(lstm)
assert projected.proj_size == 2 and torch.allclose(projected(x)[0], lstm(x)[0], atol=1e-6)
"""
    subprocess.run([sys.executable, "-c", code], check=True)
