"""A plain call takes a shorter way to the kernels; it must be the same call."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize, prune

import carousel
from carousel.layers import native

T, B, I, H = 5, 3, 4, 8
LAYERS: dict[str, tuple[Any, dict[str, Any]]] = {
    "lstm": (carousel.LSTM, {}),
    "gru": (carousel.GRU, {}),
    "rnn": (carousel.RNN, {}),
    "peephole": (carousel.PeepholeLSTM, {}),
    "no bias": (carousel.LSTM, {"bias": False}),
    "stack": (carousel.LSTM, {"num_layers": 3}),
    "two-way": (carousel.GRU, {"num_layers": 2, "bidirectional": True}),
    "projection": (carousel.LSTM, {"proj_size": 3, "num_layers": 2, "bidirectional": True}),
    "batch first": (carousel.LSTM, {"batch_first": True}),
}


def flat(result: Any) -> list[Tensor]:
    output, state = result
    return [output, *(state if isinstance(state, tuple) else (state,))]


def states(layer: Any) -> Any:
    rows = layer.num_layers * layer.num_directions
    given = tuple(torch.randn(rows, B, layer.state_shape(name)[0]) for name in layer.cell.states)
    return given if len(given) > 1 else given[0]


@pytest.mark.parametrize("with_state", [False, True], ids=["zeros", "state"])
@pytest.mark.parametrize("name", LAYERS)
def test_the_same_bits_as_the_general_path(name: str, with_state: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    kind, options = LAYERS[name]
    torch.manual_seed(0)
    layer, x = kind(I, H, **options), torch.randn(T, B, I, requires_grad=True)
    if layer.batch_first:
        x = torch.randn(B, T, I, requires_grad=True)
    hx = states(layer) if with_state else None
    assert native.call_plainly(layer, x, hx) is not None
    leaves = [x, *layer.parameters()]
    with torch.no_grad():
        quiet = flat(layer(x, hx))
    trained = flat(layer(x, hx))
    grads = torch.autograd.grad(sum(t.square().sum() for t in trained), leaves)
    monkeypatch.setattr(native, "call_plainly", lambda *_: None)
    general = flat(layer(x, hx))
    expected = torch.autograd.grad(sum(t.square().sum() for t in general), leaves)
    for a, b, c in zip(quiet, trained, general, strict=True):
        assert torch.equal(a, c) and torch.equal(b, c) and a.shape == c.shape
    assert all(torch.equal(a, b) for a, b in zip(grads, expected, strict=True))


def test_a_gradient_of_a_gradient() -> None:
    layer = carousel.GRU(I, H, num_layers=2, bidirectional=True).double()
    x = torch.randn(3, 2, I, dtype=torch.float64, requires_grad=True)
    assert native.call_plainly(layer, x, None) is not None
    assert torch.autograd.gradgradcheck(lambda x: layer(x)[0], (x,))


class Doubled(nn.Module):
    def forward(self, weight: Tensor) -> Tensor:
        return 2 * weight


def test_changed_parameters_are_noticed() -> None:
    layer, x = carousel.LSTM(I, H), torch.randn(T, B, I)
    before = layer(x)[0]
    reference = nn.LSTM(I, H)

    def agrees() -> None:
        weights = {name: getattr(layer, name).detach() for name in reference.state_dict()}
        reference.load_state_dict(weights)
        for grad in (True, False):
            with torch.set_grad_enabled(grad):
                torch.testing.assert_close(layer(x)[0], reference(x)[0])

    layer.weight_hh_l0.data = torch.randn(4 * H, H)
    agrees()
    layer.weight_hh_l0.data.mul_(0.5)
    agrees()
    layer.weight_ih_l0 = nn.Parameter(torch.randn(I, 4 * H).t())  # not contiguous
    agrees()
    parametrize.register_parametrization(layer, "weight_hh_l0", Doubled())
    agrees()
    parametrize.remove_parametrizations(layer, "weight_hh_l0")
    agrees()
    prune.l1_unstructured(layer, "weight_hh_l0", 0.5)
    agrees()
    assert not torch.allclose(before, layer(x)[0])


def test_options_that_change_are_noticed() -> None:
    layer, x = carousel.LSTM(I, H), torch.randn(T, B, I)
    plain = layer(x)[0]
    layer.zoneout = {"h": 0.5}
    assert not torch.equal(layer.eval()(x)[0], plain)
    layer.zoneout = {}
    assert torch.equal(layer(x)[0], plain)
    layer.batch_first = True
    assert torch.equal(layer(x.transpose(0, 1))[0].transpose(0, 1), plain)
    assert torch.equal(copy.deepcopy(layer)(x.transpose(0, 1))[0].transpose(0, 1), plain)


def test_a_changed_nonlinearity_is_noticed() -> None:
    layer, x = carousel.RNN(I, H), torch.randn(T, B, I)
    layer(x)
    layer.cell.nonlinearity = "relu"
    reference = nn.RNN(I, H, nonlinearity="relu")
    reference.load_state_dict(layer.state_dict())
    torch.testing.assert_close(layer(x)[0], reference(x)[0])


@pytest.mark.parametrize(
    ("x", "hx", "message"),
    [
        (torch.zeros(T, B, I + 1), None, "input.size"),
        (torch.zeros(T, B, I, dtype=torch.float64), None, "dtype"),
        (torch.zeros(0, B, I), None, "sequence length"),
        (torch.zeros(T, B, I), torch.zeros(1, B, H), "tuple"),
        (torch.zeros(T, B, I), (torch.zeros(1, B, H),), "tuple"),
        (torch.zeros(T, B, I), (torch.zeros(1, B, H), torch.zeros(1, B + 1, H)), "size"),
        (torch.zeros(T, B, I), (torch.zeros(1, B, H), torch.zeros(1, B, H, dtype=torch.float64)), "dtype"),
    ],
)
def test_wrong_arguments_are_refused_as_ever(x: Tensor, hx: Any, message: str) -> None:
    with pytest.raises((RuntimeError, ValueError, TypeError), match=message):
        carousel.LSTM(I, H)(x, hx)
