"""One step of the layer-norm LSTM, against the equations; its norm, against `F.layer_norm` and autograd."""

import pytest
import torch
import torch.nn.functional as F
from helpers.one_step import H, I, compare, initialised, random_parameters, step
from helpers.references import draw

from carousel.cells import LayerNorm
from carousel.cells.layernorm import layer_norm, layer_norm_backward


@pytest.mark.parametrize("sizes", [{}, {"bias": False}, {"projected": 2}], ids=["plain", "no-bias", "projected"])
def test_the_equations(sizes):
    compare("layernorm", LayerNorm(), **sizes)


def test_the_derivative_of_the_norm():
    v, gain, bias, d = (draw(*shape, seed=k) for k, shape in enumerate([(5, 7), (7,), (7,), (5, 7)]))
    tensors = [t.requires_grad_() for t in (v, gain, bias)]
    expected = torch.autograd.grad(F.layer_norm(v, (7,), gain, bias, 1e-5), tensors, d)
    torch.testing.assert_close(layer_norm_backward(d, v.detach(), gain.detach()), expected)


def test_the_wider_precision_is_kept():
    v, gain = torch.randn(2, 3, dtype=torch.bfloat16), torch.ones(3)
    assert layer_norm(v, gain, gain).dtype == torch.float32
    assert layer_norm(v.double(), gain, gain).dtype == torch.float64


def test_the_scale_of_weights_does_not_matter_where_it_is_normalised():
    parameters = random_parameters(LayerNorm())
    scaled = parameters | {"weight_ih": 100 * parameters["weight_ih"], "weight_hh": 100 * parameters["weight_hh"]}
    x, state = 50 * draw(2, I), (50 * draw(2, H, seed=2), draw(2, H, seed=3))
    one, two = (step(LayerNorm(), p, x, state)[0] for p in (parameters, scaled))
    torch.testing.assert_close(one, two, rtol=1e-5, atol=1e-6)


def test_gains_begin_at_one_and_biases_at_nought():
    parameters = initialised(LayerNorm(), 1.0)
    for name in ("norm_ih", "norm_hh", "norm_c"):
        assert (parameters[f"{name}.weight"] == 1).all() and (parameters[f"{name}.bias"] == 0).all()
    assert (parameters["bias_ih"][H : 2 * H] == 1).all()
