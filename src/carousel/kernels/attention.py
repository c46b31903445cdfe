"""Additive attention's scores in one native call: the tanh of all pairs of query and key is never in memory."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

from . import load

_functorch = torch._C._functorch


def additive_scores(
    query: Tensor, key: Tensor, v: Tensor, queries: Tensor | None = None, keys: Tensor | None = None
) -> Tensor:
    """v · tanh(q + k) for each query and key of a sequence: query (B, T, D), key (B, S, D), v (D) → (B, T, S).

    `queries` and `keys`, (B,) int64, say how many of a sequence are real; the others cost nothing, and their scores
    are 0.

    >>> q, k, v = torch.randn(2, 5, 8), torch.randn(2, 3, 8), torch.randn(8)
    >>> scores = additive_scores(q, k, v)
    >>> torch.allclose(scores[1, 4, 2], v @ torch.tanh(q[1, 4] + k[1, 2]), atol=1e-5)
    True
    """
    if not _fits(query, key, v):
        return _reference(query, key, v, queries, keys)
    if not query.transpose(0, 1).is_contiguous():  # as time-first layers give it, it is taken as it is
        query = query.contiguous()
    counts = [None if n is None else n.to("cpu", torch.int64).contiguous() for n in (queries, keys)]
    return Fused.apply(query, key.contiguous(), v.contiguous(), *counts)


def _fits(*given: Tensor) -> bool:
    """Whether the kernel can run the call."""
    if load()[0] is None or given[0].dtype not in (torch.float32, torch.float64) or torch.compiler.is_compiling():
        return False
    if any(t.device.type != "cpu" or t.dtype != given[0].dtype or not t.numel() for t in given):
        return False
    return _functorch.peek_interpreter_stack() is None and forward_ad._current_level < 0


def _reference(query: Tensor, key: Tensor, v: Tensor, queries: Tensor | None, keys: Tensor | None) -> Tensor:
    scores = torch.tanh(query.unsqueeze(2) + key.unsqueeze(1)) @ v
    for count, dim in ((queries, 1), (keys, 2)):
        if count is not None:
            real = torch.arange(scores.shape[dim], device=scores.device) < count.to(scores.device).unsqueeze(1)
            scores = torch.where(real.unsqueeze(3 - dim), scores, 0)
    return scores


def _run(query: Tensor, key: Tensor, v: Tensor, queries: Tensor | None, keys: Tensor | None, *out: Tensor) -> None:
    """`out` is where the scores go; or the scores' gradient, and where those of query, key and v go."""
    native = load()[0]
    assert native is not None
    run = native.additive32 if query.dtype is torch.float32 else native.additive64
    sizes = [*query.shape[:2], *key.shape[1:], query.stride(0), query.stride(1)]
    places = [query, key, v, queries, keys, *(out if len(out) == 1 else (None, *out))]
    places += [None] * (10 - len(places))
    run(sizes, [0 if t is None else t.data_ptr() for t in places], torch.get_num_threads())


class Fused(torch.autograd.Function):
    """The call as one node of the graph."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, v: Tensor, queries: Tensor | None, keys: Tensor | None) -> Tensor:
        ctx.save_for_backward(query, key, v, queries, keys)
        scores = query.new_empty(*query.shape[:2], key.shape[1])
        _run(query, key, v, queries, keys, scores)
        return scores

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        given = query, key, v, _, _ = ctx.saved_tensors
        if torch.is_grad_enabled():  # to be differentiated again
            wanted = [t for t in (query, key, v) if t.requires_grad]
            found = iter(torch.autograd.grad(_reference(*given), wanted, grad, create_graph=True))
            return *(next(found) if t.requires_grad else None for t in (query, key, v)), None, None
        d_query = torch.empty_strided(query.shape, query.stride(), dtype=query.dtype)
        d_key, d_v = torch.empty_like(key), v.new_empty(len(query), len(v))
        _run(*given, grad.contiguous(), d_query, d_key, d_v)
        return d_query, d_key, d_v.sum(0), None, None
