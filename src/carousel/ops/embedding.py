"""Rows of a table, with a gradient that does not cost new memory at every step.

The gradient of an embedding is as large as the table, nearly all zeros. In fresh pages it takes longer to zero than the
rows take to add, often longer than the layer that follows; from the kernels' pool the pages are there already.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from .backend import empty_from_pool, unsupported_reason


def embedding(tokens: Tensor, weight: Tensor, padding: int = 0) -> Tensor:
    """tokens (...) int64, weight (V, E) → (..., E). The row of `padding` has no gradient.

    >>> weight = torch.randn(10, 4, requires_grad=True)
    >>> embedding(torch.tensor([[1, 2], [1, 0]]), weight).sum().backward()
    >>> weight.grad[:3, 0]
    tensor([0., 2., 1.])
    """
    if unsupported_reason("embedding", weight, tokens) is not None:
        return functional.embedding(tokens, weight, padding)
    return Fused.apply(weight, tokens, padding)


class Fused(torch.autograd.Function):
    """The call as one node of the graph."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, tokens: Tensor, padding: int) -> Tensor:
        ctx.save_for_backward(tokens)
        ctx.shape, ctx.padding = weight.shape, padding
        return functional.embedding(tokens, weight)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        [tokens] = ctx.saved_tensors
        added = grad.reshape(-1, ctx.shape[1])
        if (
            torch.is_grad_enabled() or unsupported_reason("embedding_backward", grad) is not None
        ):  # differentiated again, or seen
            added = torch.where((tokens.reshape(-1, 1) == ctx.padding), 0, added)
            return grad.new_zeros(ctx.shape).index_add(0, tokens.reshape(-1), added), None, None
        found = empty_from_pool(grad, *ctx.shape).zero_()
        found.index_add_(0, tokens.reshape(-1), added)
        found[ctx.padding] = 0
        return found, None, None
