"""One step of the Elman network, against the equations and `nn.RNNCell`."""

import pytest
import torch
from helpers.one_step import H, I, compare
from torch import nn

from carousel.cells import Elman


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("nonlinearity", ["tanh", "relu", "sigmoid"])
def test_the_equations(nonlinearity, bias):
    parameters, x, (h,), (new,) = compare(f"rnn-{nonlinearity}", Elman(nonlinearity), bias=bias)
    if nonlinearity != "sigmoid":
        theirs = nn.RNNCell(I, H, bias, nonlinearity, dtype=torch.float64)
        theirs.load_state_dict(parameters)
        torch.testing.assert_close(new, theirs(x, h), rtol=1e-9, atol=1e-11)


def test_what_is_declared_follows_the_nonlinearity():
    for name, mode in (("tanh", "RNN_TANH"), ("relu", "RNN_RELU"), ("sigmoid", None)):
        cell = Elman(name)
        assert (cell.gates["h"].activation, cell.kernel(), cell.torch_mode()) == (name, f"elman-{name}", mode)
    assert Elman.gates["h"].activation == "tanh"  # the class is left as it was


def test_an_unknown_nonlinearity_is_refused_in_torchs_words():
    with pytest.raises(ValueError, match=r"Unknown nonlinearity 'gelu'\. Select from 'tanh', 'relu' or 'sigmoid'\."):
        Elman("gelu")
