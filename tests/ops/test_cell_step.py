"""A step of a single cell with gradients, as one node of the graph, against torch's cells."""

import pytest
import torch
from helpers.references import close, states_of
from helpers.twin_cells import TWINS, inputs, pair

from carousel.ops import backend

B, I, H = 3, 4, 5
twins = pytest.mark.parametrize("name", TWINS)


@pytest.mark.skipif(not backend.available(), reason="needs the kernels")
@pytest.mark.parametrize("batch", [1, 4, 5])
@twins
def test_few_rows_with_gradients_are_one_native_call(name, batch):
    _, ours = pair(name, torch.float32)
    x, hx = inputs(name, batch, dtype=torch.float32)
    node = states_of(ours(x, hx))[0].grad_fn
    assert (type(node).__name__ == "CellStepBackward") == (batch <= 4)


@twins
def test_gradients_of_some_tensors_from_expanded_ones(name):
    theirs, ours = pair(name)
    found = []
    for cell in (theirs, ours):
        cell.weight_ih.requires_grad_(False)
        x, hx = inputs(name, B)
        states_of(cell(x, hx))[0].sum().backward()  # the gradient of a sum is one number, expanded
        found.append([p.grad for p in cell.parameters() if p.requires_grad])
        assert cell.weight_ih.grad is None
    close(found[1], found[0])


@twins
def test_many_gradients_at_once(name):
    theirs, ours = pair(name)
    found = []
    for cell in (theirs, ours):
        x, hx = inputs(name, 1)
        h = states_of(cell(x, hx))[0]
        grads = torch.eye(H, dtype=h.dtype).unsqueeze(1)
        found.append(torch.autograd.grad(h, list(cell.parameters()), grads, is_grads_batched=True))
    close(found[1], found[0])


@twins
def test_a_new_state_may_be_changed_in_place(name):
    theirs, ours = pair(name)
    found = []
    for cell in (theirs, ours):
        x, hx = inputs(name, B)
        y = states_of(cell(x, hx))[0].clone() if cell is theirs else states_of(cell(x, hx))[0]
        found.append(torch.autograd.grad(y.mul_(2).sum(), list(cell.parameters())))
    close(found[1], found[0])
