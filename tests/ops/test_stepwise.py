"""One layer, a step per native call, against the whole sequence by torch: outputs, and gradients of everything."""

import pytest
import torch
from torch import nn

from carousel import cells
from carousel.cells import Weights
from carousel.ops import backend
from carousel.ops.stepwise import Stepwise

pytestmark = pytest.mark.skipif(not backend.available(), reason=backend.why_not())
I, H, SIZES = 3, 5, [4, 3, 3, 1]  # sequences of 4, 3, 3 and 1 steps


def setup(name, dtype=torch.float64):
    theirs = getattr(nn, name)(I, H, dtype=dtype)
    parameters = {n.removesuffix("_l0"): p for n, p in theirs.named_parameters()}
    cell = getattr(cells, name)()
    state = [torch.randn(SIZES[0], H, dtype=dtype, requires_grad=True) for _ in cell.states]
    x = [torch.randn(n, I, dtype=dtype, requires_grad=True) for n in SIZES]
    packed = nn.utils.rnn.PackedSequence(torch.cat(x), torch.tensor(SIZES))
    hx = [s.unsqueeze(0) for s in state]
    expected = theirs(packed, tuple(hx) if len(hx) > 1 else hx[0])[0].data.split(SIZES)
    return Stepwise(cell, Weights(cell, parameters), SIZES, state), x, expected, [*x, *state, *theirs.parameters()]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", ["LSTM", "GRU"])
def test_as_a_packed_sequence(name, dtype):
    layer, x, expected, leaves = setup(name, dtype)
    outputs = [layer.step(x_t) for x_t in x]
    for y, right in zip(outputs, expected, strict=True):
        torch.testing.assert_close(y, right)
    weights = [torch.randn_like(y) for y in outputs]
    losses = [sum((y * w).sum() for y, w in zip(ys, weights, strict=True)) for ys in (outputs, expected)]
    found, right = (torch.autograd.grad(loss, leaves) for loss in losses)
    for ours, theirs in zip(found, right, strict=True):
        torch.testing.assert_close(ours, theirs)


def test_backward_again_from_another_step():
    """Steps whose output is not used have no gradient, and a kept graph can be read from again."""
    layer, x, expected, leaves = setup("LSTM")
    outputs = [layer.step(x_t) for x_t in x]
    for t in (1, 3):
        ours, theirs = (
            torch.autograd.grad(
                ys[t].square().sum(), leaves, retain_graph=True, allow_unused=True, materialize_grads=True
            )
            for ys in (outputs, expected)
        )
        torch.testing.assert_close(ours, theirs)


def test_a_gradient_of_a_gradient_is_refused():
    layer, x, _, _ = setup("GRU")
    with pytest.raises(RuntimeError, match=r"can not be differentiated again; use layer\.step"):
        torch.autograd.grad(layer.step(x[0]).sum(), x[0], create_graph=True)
