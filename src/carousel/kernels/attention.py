"""Additive attention's scores in one native call: the tanh of all pairs of query and key is never in memory."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from . import load, takes
from .ops import block


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
    if not takes(query, key, v):
        return _reference(query, key, v, queries, keys)
    if not query.transpose(0, 1).is_contiguous():  # as time-first layers give it, it is taken as it is
        query = query.contiguous()
    counts = [None if n is None else n.to("cpu", torch.int64).contiguous() for n in (queries, keys)]
    return Fused.apply(query, key.contiguous(), v.contiguous(), *counts)


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
        d_query = block(query, query.numel()).as_strided(query.shape, query.stride())
        d_key, d_v = block(key, *key.shape), v.new_empty(len(query), len(v))
        _run(*given, grad.contiguous(), d_query, d_key, d_v)
        return d_query, d_key, d_v.sum(0), None, None


class AdditiveLook:
    """Additive attention in a search, from the layers' output to the vector that predicts a token, in one native call.

    `query` (D, H) makes queries of the output y, `v` (D) makes scores; the vector is tanh(U y + context + b), with
    U = `of_state` (O, H) and b = `bias` (O). The first call packs the weights for all that follow, so it is for as long
    as they stay as they are. No gradient flows.
    """

    def __init__(self, query: Tensor, v: Tensor, of_state: Tensor, bias: Tensor) -> None:
        self.size, self.out = len(query), len(of_state)
        self.weight = torch.cat((query, of_state)).detach()
        self.bias = torch.cat((bias.new_zeros(self.size), bias)).detach()
        self.v = v.detach().contiguous()
        native = load()[0] if takes(query, v, of_state, bias) else None
        self.native: Any = None
        if native is not None:
            make = native.AdditiveLook32 if query.dtype is torch.float32 else native.AdditiveLook64
            places = [t.data_ptr() for t in (self.weight, self.bias, self.v)]
            self.native = make(query.shape[1], self.size, self.out, places)

    def __call__(self, y: Tensor, keys: Tensor, values: Tensor, lengths: Tensor | None, each: int) -> Tensor:
        """y (N, H) → (N, O); `each` rows for every sequence of keys (B, S, D), values (B, S, O) and lengths (B,)."""
        vectors = y.new_empty(len(y), self.out)
        places = (0 if t is None else t.data_ptr() for t in (y, keys, values, lengths, vectors))
        self.native.run(len(y), each, keys.shape[1], torch.get_num_threads(), *places)
        return vectors
