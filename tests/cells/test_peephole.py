"""One step of the peephole LSTMs, against the equations; without peepholes they are the LSTM."""

import pytest
import torch
from helpers.one_step import H, I, compare, random_parameters, step
from helpers.references import draw

import carousel
from carousel.cells import LSTM, FullPeephole, Peephole, registry
from carousel.cells.peephole import look, look_backward
from carousel.layers import named

CELLS = {"peephole": Peephole, "peephole-full": FullPeephole}


@pytest.mark.parametrize("sizes", [{}, {"bias": False}, {"projected": 2}], ids=["plain", "no-bias", "projected"])
@pytest.mark.parametrize("kind", CELLS)
def test_the_equations(kind, sizes):
    compare(kind, CELLS[kind](), **sizes)


@pytest.mark.parametrize("kind", CELLS)
def test_closed_peepholes_leave_an_lstm(kind):
    parameters = random_parameters(CELLS[kind]())
    parameters["weight_ch"] = torch.zeros_like(parameters["weight_ch"])
    x, state = draw(2, I), (draw(2, H, seed=2), draw(2, H, seed=3))
    named, _ = step(CELLS[kind](), parameters, x, state)
    del parameters["weight_ch"]
    plain, _ = step(LSTM(), parameters, x, state)
    assert all(torch.allclose(named[name], plain[name]) for name in plain)


def test_a_full_peephole_with_diagonal_matrices_is_a_diagonal_one():
    parameters = random_parameters(Peephole())
    full = parameters | {"weight_ch": torch.cat([torch.diag(p) for p in parameters["weight_ch"].chunk(3)])}
    x, state = draw(2, I), (draw(2, H, seed=2), draw(2, H, seed=3))
    torch.testing.assert_close(step(FullPeephole(), full, x, state)[0], step(Peephole(), parameters, x, state)[0])


@pytest.mark.parametrize("shape", [(H,), (H, H)], ids=["diagonal", "full"])
def test_the_derivative_of_a_look(shape):
    p, c, δ = draw(*shape).requires_grad_(), draw(5, H, seed=2).requires_grad_(), draw(5, H, seed=3)
    dc, dp = look_backward(δ, p.detach(), c.detach())
    expected = torch.autograd.grad(look(p, c), (c, p), δ)
    torch.testing.assert_close((dc, dp), expected)


def test_other_peepholes_are_refused():
    with pytest.raises(ValueError, match="peephole must be 'diagonal' or 'full', got 'none'"):
        Peephole("none")
    assert (Peephole().kernel(), FullPeephole().kernel()) == ("peephole", None)


def test_full_peepholes_by_name():
    """004's form: each gate reads [c, h, x] through one matrix."""
    assert "peephole-full" in registry()
    layer = named("peephole-full")(3, 4).double()
    x, h, c = torch.randn(5, 1, 3).double(), torch.zeros(1, 4).double(), torch.zeros(1, 4).double()
    W, U, b = layer.weight_ih_l0, layer.weight_hh_l0, layer.bias_ih_l0 + layer.bias_hh_l0
    P_i, P_f, P_o = layer.weight_ch_l0.chunk(3)
    outputs = layer(x)[0]
    for t in range(5):
        i, f, g, o = (x[t] @ W.T + h @ U.T + b).chunk(4, 1)
        i, f = torch.sigmoid(i + c @ P_i.T), torch.sigmoid(f + c @ P_f.T)
        c = f * c + i * torch.tanh(g)
        h = torch.sigmoid(o + c @ P_o.T) * torch.tanh(c)
        torch.testing.assert_close(outputs[t], h)
    assert carousel.PeepholeLSTM(3, 4, peephole="full").weight_ch_l0.shape == layer.weight_ch_l0.shape
