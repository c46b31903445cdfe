"""One step of the LSTM, against the equations and `nn.LSTMCell`."""

import pytest
import torch
from helpers.one_step import H, I, compare, initialised
from torch import nn

from carousel.cells import LSTM


@pytest.mark.parametrize("sizes", [{}, {"bias": False}, {"projected": 2}], ids=["plain", "no-bias", "projected"])
def test_the_equations(sizes):
    compare("lstm", LSTM(), **sizes)


def test_torchs_cell():
    parameters, x, state, new = compare("lstm", LSTM())
    theirs = nn.LSTMCell(I, H, dtype=torch.float64)
    theirs.load_state_dict(parameters)
    torch.testing.assert_close(new, theirs(x, state), rtol=1e-9, atol=1e-11)


def test_the_forget_bias_is_set_once():
    """Both biases are added, so the recurrent one is 0 where the other is the forget bias."""
    parameters = initialised(LSTM(), 1.0)
    f = slice(H, 2 * H)
    assert (parameters["bias_ih"][f] == 1).all() and (parameters["bias_hh"][f] == 0).all()
    others = torch.cat([parameters["bias_ih"][:H], parameters["bias_ih"][2 * H :], parameters["weight_hh"].flatten()])
    assert (others.abs() <= H**-0.5).all() and others.std() > 0.1
    assert (initialised(LSTM(), None)["bias_ih"].abs() <= H**-0.5).all()
