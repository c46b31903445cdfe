"""One step of both GRUs, against the equations and `nn.GRUCell`."""

import pytest
import torch
from helpers.one_step import H, I, compare, random_parameters, step
from helpers.references import draw
from torch import nn

from carousel.cells import GRU, ResetBeforeGRU

CELLS = {"gru": GRU, "gru-reset-before": ResetBeforeGRU}


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("kind", CELLS)
def test_the_equations(kind, bias):
    compare(kind, CELLS[kind](), bias=bias)


def test_torchs_cell():
    parameters, x, (h,), (new,) = compare("gru", GRU())
    theirs = nn.GRUCell(I, H, dtype=torch.float64)
    theirs.load_state_dict(parameters)
    torch.testing.assert_close(new, theirs(x, h), rtol=1e-9, atol=1e-11)


def test_before_and_after_differ_only_in_the_candidate():
    parameters = random_parameters(GRU())
    x, state = draw(2, I), (draw(2, H, seed=2),)
    (one, _), (two, _) = (step(cell(), parameters, x, state) for cell in CELLS.values())
    assert torch.equal(one["r"], two["r"]) and torch.equal(one["z"], two["z"])
    assert not torch.allclose(one["n"], two["n"])
    from_zero = [step(cell(), parameters, x, (torch.zeros(2, H, dtype=torch.float64),))[0] for cell in CELLS.values()]
    r, b = from_zero[0]["r"], parameters["bias_hh"][2 * H :]  # without h₋ only the bias is reset, or not
    difference = torch.atanh(from_zero[1]["n"]) - torch.atanh(from_zero[0]["n"])
    torch.testing.assert_close(difference, (1 - r) * b, rtol=1e-7, atol=1e-9)
