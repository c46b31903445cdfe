"""The output may be changed in place before it is differentiated, as torch's own layers allow."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import carousel

T, B, I, H = 6, 3, 5, 7
STANDARD: dict[str, tuple[Any, Any]] = {
    "lstm": (carousel.LSTM, nn.LSTM),
    "gru": (carousel.GRU, nn.GRU),
    "rnn": (carousel.RNN, nn.RNN),
}
LAYERS: dict[str, Any] = {
    "lstm": carousel.LSTM,
    "gru": carousel.GRU,
    "rnn": carousel.RNN,
    "peephole": carousel.PeepholeLSTM,
    "coupled": carousel.CoupledLSTM,
    "layernorm": carousel.LayerNormLSTM,
    "reset-before": carousel.ResetBeforeGRU,
}


def gradients(layer: nn.Module, x: Tensor, change: Any, **options: Any) -> list[Tensor]:
    """Of the sum of squares of what `change` makes of the output, by the input and all parameters."""
    x = x.clone().requires_grad_()
    y = change(layer(x, **options)[0])
    return list(torch.autograd.grad(y.square().sum(), [x, *layer.parameters()]))


@pytest.mark.parametrize("name", STANDARD)
def test_against_torch(name: str) -> None:
    ours, theirs = STANDARD[name]
    torch.manual_seed(0)
    layer = ours(I, H).double()
    reference = theirs(I, H).double()
    reference.load_state_dict(layer.state_dict())
    x = torch.randn(T, B, I, dtype=torch.float64)
    with torch.backends.mkldnn.flags(enabled=False):  # whose LSTM does not allow it
        expected = gradients(reference, x, lambda y: y.mul_(2).tanh_())
    for found, right in zip(gradients(layer, x, lambda y: y.mul_(2).tanh_()), expected, strict=True):
        torch.testing.assert_close(found, right, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("options", [{}, {"lengths": [6, 0, 2]}], ids=["whole", "lengths"])
@pytest.mark.parametrize("name", LAYERS)
def test_the_same_bits_as_out_of_place(name: str, options: dict[str, Any]) -> None:
    torch.manual_seed(0)
    layer = LAYERS[name](I, H, num_layers=2, bidirectional=True)
    x = torch.randn(T, B, I)
    expected = gradients(layer, x, lambda y: y * 2, **options)
    found = gradients(layer, x, lambda y: y.mul_(2), **options)
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))


@pytest.mark.parametrize("name", LAYERS)
def test_a_view_that_is_changed_counts_too(name: str) -> None:
    torch.manual_seed(0)
    layer, x = LAYERS[name](I, H), torch.randn(T, B, I, requires_grad=True)
    leaves = [x, *layer.parameters()]
    y = layer(x)[0]
    expected = torch.autograd.grad((y[-1] * 3).sum(), leaves)
    y = layer(x)[0]
    last = y[-1]
    last.mul_(3)
    assert all(torch.equal(a, b) for a, b in zip(torch.autograd.grad(last.sum(), leaves), expected, strict=True))


def test_noise_is_the_same_when_the_output_is_computed_again() -> None:
    layer = carousel.LSTM(I, H, recurrent_dropout=0.5, zoneout=0.3)
    x = torch.randn(T, B, I)
    torch.manual_seed(1)
    expected = gradients(layer, x, lambda y: y * 2)
    torch.manual_seed(1)
    assert all(torch.equal(a, b) for a, b in zip(gradients(layer, x, lambda y: y.mul_(2)), expected, strict=True))


def test_a_changed_input_is_still_refused() -> None:
    layer, x = carousel.GRU(I, H), torch.randn(T, B, I)
    y = layer(x)[0]
    x.zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_the_output_is_not_kept_after_the_graph_is_freed() -> None:
    """The tensor that has the output's version counter holds no memory."""
    layer, x = carousel.GRU(I, H), torch.randn(T, B, I)
    y = layer(x)[0]
    counter = y.grad_fn.counter
    assert counter.untyped_storage().nbytes() == 0
    y.mul_(2)
    assert counter._version == y._version


@pytest.mark.parametrize("given", [{}, {"lengths": [4, 2]}])
def test_inference_mode_with_gradients_enabled(given):
    layer = carousel.LSTM(3, 5)
    x = torch.randn(4, 2, 3)
    expected = layer(x, **given)[0].detach()
    with torch.inference_mode(), torch.enable_grad():
        assert torch.equal(layer(x, **given)[0], expected)
