"""Fused of a table, against torch's."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from carousel.ops.embedding import embedding


@given(st.lists(st.integers(0, 6), min_size=1, max_size=12), st.integers(0, 6), st.sampled_from([1, 3, 20000]))
def test_rows_and_gradients(tokens, padding, size):
    """The largest size has its gradient from the pool, where the pages have been used before."""
    torch.manual_seed(0)
    weight = torch.randn(7, size, requires_grad=True)
    places = torch.tensor(tokens).reshape(-1, 1)
    factor = torch.randn(len(tokens), 1, size)
    for _ in range(2):
        mine, theirs = embedding(places, weight, padding), F.embedding(places, weight, padding)
        assert mine.grad_fn.name() == "FusedBackward" and torch.equal(mine, theirs)
        [found], [want] = (torch.autograd.grad(y, weight, factor) for y in (mine, theirs))
        torch.testing.assert_close(found, want)
        del found


def test_derivatives_of_derivatives():
    weight = torch.randn(5, 3, dtype=torch.float64, requires_grad=True)
    tokens = torch.tensor([[1, 0, 4], [1, 1, 2]])
    assert torch.autograd.gradgradcheck(lambda w: embedding(tokens, w).tanh(), weight)


def test_tokens_that_are_not_there():
    with pytest.raises(IndexError):
        embedding(torch.tensor([5]), torch.randn(5, 3))


def test_torch_looks_on():
    weight, tokens = torch.randn(5, 3), torch.tensor([1, 1, 4])
    jacobian = torch.func.jacrev(lambda w: embedding(tokens, w).sum(0))(weight)
    assert torch.equal(jacobian.sum((0, 2)), torch.tensor([0.0, 6, 0, 0, 3]))
