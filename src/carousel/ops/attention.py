"""Attention in one native call, forwards and back: nothing is computed for padding, and the tanh of all pairs of query
and key is never in memory."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from .backend import empty_from_pool, gradients_by_reference, load, unsupported_reason


class Sequences(NamedTuple):
    """Which queries and which places belong together. Queries stand sequence by sequence; so do places, or some of
    them, or some of them again."""

    num_queries: Tensor  # (B,) int64: how many queries each sequence has
    starts: Tensor  # (B,): where its places begin
    counts: Tensor  # (B,): how many it has
    most: int  # S: the most that one may have
    queries_each: int | None = None  # how many queries each sequence has, where that is one number


def attend(
    query: Tensor, key: Tensor | None, value: Tensor, of: Sequences, v: Tensor | None = None, base: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """The mean of a sequence's values for each of its queries, weighted by the softmax of their scores:
    query (N, D), key (M, D), value (M, O) → contexts (N, O), weights (N, S), 0 past a sequence's places.

    A score is q · k; with `v` (D) it is v · tanh(q + k); without keys a query's own numbers are its scores, and places
    beyond them get no weight. With `base` (N, O) the result is tanh(base + context).

    >>> of = Sequences(torch.tensor([2, 1]), torch.tensor([0, 3]), torch.tensor([3, 2]), 3)
    >>> q, k, x = torch.randn(3, 4), torch.randn(5, 4), torch.randn(5, 6)
    >>> context, weights = attend(q, k, x, of)
    >>> expected = (k[3:] @ q[2]).softmax(0)
    >>> torch.allclose(weights[2, :2], expected), torch.allclose(context[2], expected @ x[3:], atol=1e-6)
    (True, True)
    """
    if of.most == 0 or unsupported_reason("attend", query, key, value, v, base, *of[:3]) is not None:
        return _reference(query, key, value, v, base, of)
    query, key, value, v, base = (None if t is None else t.contiguous() for t in (query, key, value, v, base))  # type: ignore
    num_queries, starts, counts = (t.to("cpu", torch.int64).contiguous() for t in of[:3])
    found: tuple[Tensor, Tensor] = Fused.apply(
        query, key, value, v, base, of._replace(num_queries=num_queries, starts=starts, counts=counts)
    )
    return found


def _reference(
    query: Tensor, key: Tensor | None, value: Tensor, v: Tensor | None, base: Tensor | None, of: Sequences
) -> tuple[Tensor, Tensor]:
    """The same in torch, of sequences that are padded: with the row of zeros past the last place."""
    num_queries, starts, counts, most, each = of
    steps = each if each is not None else int(num_queries.max()) if len(num_queries) else 0
    place, step = torch.arange(most, device=query.device), torch.arange(steps, device=query.device)
    inside, past = step < num_queries.unsqueeze(1), place >= counts.unsqueeze(1)
    if each is None:
        rows = inside.flatten().nonzero().squeeze(1)  # (N,): where each query is in (B, T)
        asking = _padded(query, num_queries.cumsum(0) - num_queries, ~inside, step)  # (B, T, D)
    else:
        rows, asking = None, query.unflatten(0, (num_queries.shape[0], each))
    values = _padded(value, starts, past, place)  # (B, S, O)
    if key is None:
        scores = torch.nn.functional.pad(asking, (0, most - query.shape[1]))  # a negative number of places cuts
        past = past | (place >= query.shape[1])
    else:
        keys = _padded(key, starts, past, place)  # (B, S, D)
        if v is None:
            scores = torch.bmm(asking, keys.transpose(1, 2))
        else:
            scores = torch.tanh(asking.unsqueeze(2) + keys.unsqueeze(1)) @ v
    past = past.unsqueeze(1)  # not -inf: a sequence without places would become NaN
    padded = scores.masked_fill(past, torch.finfo(scores.dtype).min).softmax(2).masked_fill(past, 0)
    context, weights = torch.bmm(padded, values).flatten(0, 1), padded.flatten(0, 1)
    if rows is not None:
        context, weights = context.index_select(0, rows), weights.index_select(0, rows)
    return context if base is None else torch.tanh(base + context), weights


def _padded(x: Tensor, starts: Tensor, past: Tensor, step: Tensor) -> Tensor:
    """Rows of x (N, ·) from `starts` (B,) on → (B, steps, ·), 0 where `past` (B, steps) says."""
    rows = (starts.unsqueeze(1) + step).masked_fill(past, x.shape[0])
    return torch.cat((x, x.new_zeros(1, x.shape[1]))).index_select(0, rows.flatten()).unflatten(0, rows.shape)


def _run(
    query: Tensor, key: Tensor | None, value: Tensor, v: Tensor | None, base: Tensor | None, of: Sequences,
    **out: Tensor | None,
) -> None:  # fmt: skip
    """`out` by name: weights and result; in a backward call also d_result and d_weights, their gradients, and where
    those of the others go."""
    native = load()[0]
    assert native is not None
    run = native.attend32 if query.dtype is torch.float32 else native.attend64
    run(
        rows=len(query),
        sequences=len(of.num_queries),
        places=len(value),
        size=query.shape[1],
        out=value.shape[1],
        most=of.most,
        threads=torch.get_num_threads(),
        query=query.data_ptr(),
        key=0 if key is None else key.data_ptr(),
        value=value.data_ptr(),
        v=0 if v is None else v.data_ptr(),
        base=0 if base is None else base.data_ptr(),
        num_queries=of.num_queries.data_ptr(),
        start=of.starts.data_ptr(),
        count=of.counts.data_ptr(),
        **{name: t.data_ptr() for name, t in out.items() if t is not None},
    )


class Fused(torch.autograd.Function):
    """The call as one node of the graph."""

    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor | None, value: Tensor, v: Tensor | None, base: Tensor | None, of: Sequences
    ) -> tuple[Tensor, Tensor]:
        result, weights = empty_from_pool(query, len(query), value.shape[1]), query.new_empty(len(query), of.most)
        _run(query, key, value, v, base, of, weights=weights, result=result)
        ctx.save_for_backward(query, key, value, v, base, weights, result, *of[:3])
        ctx.most, ctx.each = of.most, of.queries_each
        ctx.set_materialize_grads(False)
        return result, weights

    @staticmethod
    def backward(ctx: Any, d_result: Tensor | None, d_weights: Tensor | None) -> tuple[Tensor | None, ...]:
        query, key, value, v, base, weights, result, num_queries, starts, counts = ctx.saved_tensors
        given, sequences = (query, key, value, v, base), Sequences(num_queries, starts, counts, ctx.most, ctx.each)
        seen = unsupported_reason("attend_backward", d_result, d_weights) is not None
        if torch.is_grad_enabled() or seen:  # differentiated again, or seen by torch
            wanted = ctx.needs_input_grad[:5]
            found = gradients_by_reference(lambda t: _reference(*t, sequences), given, (d_result, d_weights), wanted)  # type: ignore[call-arg]
            return *found, None
        d_result = torch.zeros_like(result) if d_result is None else d_result.contiguous()
        d_weights = None if d_weights is None else d_weights.contiguous()
        d_query, d_key, d_value, d_base = (
            None if t is None else empty_from_pool(t, *t.shape) for t in (query, key, value, base)
        )
        d_v = None if v is None else v.new_empty(len(sequences.num_queries), len(v))
        _run(
            *given, sequences, weights=weights, result=result, d_result=d_result, d_weights=d_weights, d_query=d_query,
            d_key=d_key, d_value=d_value, d_base=d_base, d_v=d_v,
        )  # fmt: skip
        return d_query, d_key, d_value, None if d_v is None else d_v.sum(0), d_base, None


class AdditiveAttentionStep:
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
        self.native: Any = None  # stays None where there is no kernel for it
        if unsupported_reason("additive attention", query, v, of_state, bias) is None:
            native: Any = load()[0]
            single = query.dtype is torch.float32
            make = native.AdditiveAttentionStep32 if single else native.AdditiveAttentionStep64
            places = [t.data_ptr() for t in (self.weight, self.bias, self.v)]
            self.native = make(query.shape[1], self.size, self.out, *places)

    def __call__(self, y: Tensor, key: Tensor, value: Tensor, of: Sequences) -> Tensor:
        """y (N, H), key (M, D), value (M, O) → (N, O)."""
        vectors = y.new_empty(len(y), self.out)
        places = (t.data_ptr() for t in (y, key, value, *of[:3], vectors))
        self.native.run(len(y), len(of.num_queries), of.most, torch.get_num_threads(), *places)
        return vectors
