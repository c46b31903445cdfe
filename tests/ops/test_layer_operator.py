"""A layer as an operator of torch: what it promises, in graphs and compiled."""

from __future__ import annotations

import pytest
import torch
from helpers.harness import CELLS, layer
from helpers.opcheck import check, recorded
from torch import Tensor

import carousel
from carousel.cells.spec import Weights
from carousel.ops.layer import fused_layer


@pytest.mark.slow
@pytest.mark.parametrize("size, ragged", [(5, False), (16, True)])
@pytest.mark.parametrize("name", ["RNN", "LSTM", "GRU", "PeepholeLSTM", "CoupledLSTM", "LayerNormLSTM"])
def test_opcheck_of_layers(name, size, ragged):
    layer = getattr(carousel, name)(3, size, bidirectional=True)
    x = torch.randn(4, 2, 3, requires_grad=True)
    options = {"lengths": torch.tensor([4, 2]), "reset": torch.rand(4, 2) > 0.5} if ragged else {}
    calls = recorded(lambda: layer(x, **options)[0].sum().backward())
    assert [str(func) for func, _ in calls] == ["carousel.layer.default", "carousel.layer_backward.default"]
    for func, args in calls:
        check(func, args)


names = pytest.mark.parametrize("name", CELLS)


@names
@pytest.mark.parametrize("grad", [False, True])
def test_compiles_without_a_graph_break(name: str, grad: bool) -> None:
    torch.compiler.reset()
    w = layer(name)
    keys = [k for k in vars(w) if isinstance(vars(w)[k], Tensor)]
    x = torch.randn(4, 3, 3, dtype=torch.float64, requires_grad=grad)
    values = [vars(w)[k].requires_grad_(grad) for k in keys]

    def call(x: Tensor, values: list[Tensor]) -> Tensor:
        own = Weights(w.cell, dict(zip(keys, values, strict=True)))
        return fused_layer(w.cell, [own], x, [None], lengths=torch.tensor([4, 0, 2]))[0].square().sum()

    compiled = torch.compile(call, fullgraph=True, backend="aot_eager")
    want, got = call(x, values), compiled(x, values)
    torch.testing.assert_close(got, want)
    if grad:
        for a, b in zip(torch.autograd.grad(want, [x, *values]), torch.autograd.grad(got, [x, *values]), strict=True):
            torch.testing.assert_close(b, a)
