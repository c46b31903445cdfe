"""Attention: which places of a memory each query looks at, and the mean of what stands there, weighted so.

    context, weights = attention(query, memory, lengths)

query (T, B, D), memory (S, B, E), lengths (B,) → context (T, B, E), weights (T, B, S). All T queries are answered at
once. With `batch_first` the batch is first in every argument and result: (B, T, D), (B, S, E) → (B, T, E), (B, T, S).
The weights of a query are at least 0, sum to 1 over the places that its sequence has, and are exactly 0 past its end;
whatever stands there, NaN included, reaches nothing. A memory of length 0 gives weights and context 0.

Instead of `lengths`, `key_padding_mask` may say which positions a sequence has, anywhere in it: bool (B, S) whatever
`batch_first` says, true where a place is ignored (the convention of `nn.MultiheadAttention`).

Six kinds, by how query q and place m are scored before the softmax:

Additive     v · tanh(W q + U m + b)      (Bahdanau, who has no b: bias=False)
Dot          q · m
ScaledDot    q · m / √D
General      q · W m                      (Luong)
Content      β cos(q, m)
Location     (W q)[place]                 what stands there does not matter
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Literal, NamedTuple, get_args

import torch
from torch import Tensor, nn

from ..layers.batch import read_lengths
from ..masks import flat_positions, length_mask
from ..ops.attention import Sequences, attend
from ..ops.backend import empty_from_pool, has_values, unsupported_reason

AttentionName = Literal["additive", "dot", "scaled-dot", "general", "content", "location"]


class Unpadded:
    """Which steps of a batch are real: what is done step by step need not be done for padding.

    N steps are real among T of B sequences, and come sequence by sequence.

    >>> real = Unpadded(torch.tensor([2, 1]), 3)
    >>> real.take(torch.arange(6).reshape(3, 2))
    tensor([0, 2, 1])
    >>> real.put(torch.tensor([7, 8, 9]))
    tensor([[7, 9],
            [8, 0],
            [0, 0]])
    """

    def __init__(self, lengths: Tensor, steps: int) -> None:
        self.lengths = lengths = lengths.clamp(0, steps)  # (B,)
        self.steps = steps
        self.rows = flat_positions(lengths, steps)  # (N,): where each is in (T, B)

    def take(self, x: Tensor) -> Tensor:
        """x (T, B, ...) → (N, ...)."""
        flat = x.flatten(0, 1)
        if unsupported_reason("take", flat, self.rows) is not None:
            return flat.index_select(0, self.rows)
        return Taken.apply(flat, self.rows)

    def put(self, x: Tensor) -> Tensor:
        """x (N, ...) → (T, B, ...), 0 where nothing is real."""
        size = self.steps * len(self.lengths)
        if unsupported_reason("put", x, self.rows) is None:
            whole = Put.apply(x, self.rows, size)
        else:
            whole = x.new_zeros(size, *x.shape[1:]).index_copy(0, self.rows, x)
        return whole.unflatten(0, (self.steps, len(self.lengths)))


class Taken(torch.autograd.Function):
    """Rows of x, each at most once, so that its derivative has nothing to add up: it puts them back."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, rows: Tensor) -> Tensor:
        ctx.save_for_backward(rows)
        ctx.size = len(x)
        return x.index_select(0, rows)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        [rows] = ctx.saved_tensors
        if unsupported_reason("take_backward", grad, rows) is not None:
            return grad.new_zeros(ctx.size, *grad.shape[1:]).index_copy(0, rows, grad), None
        return Put.apply(grad, rows, ctx.size), None


class Put(torch.autograd.Function):
    """The other way: x as the rows of zeros, `size` rows in all."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, rows: Tensor, size: int) -> Tensor:
        ctx.save_for_backward(rows)
        return empty_from_pool(x, size, *x.shape[1:]).zero_().index_copy_(0, rows, x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        [rows] = ctx.saved_tensors
        if unsupported_reason("put_backward", grad, rows) is not None:
            return grad.index_select(0, rows), None, None
        return Taken.apply(grad, rows), None, None


class Memory(NamedTuple):
    """What is looked at, prepared once for any number of queries."""

    values: Tensor  # (M, E): the places of all sequences, one sequence after the other
    keys: Tensor | None  # (M, K): what queries are compared with; None: it does not matter what stands there
    starts: Tensor  # (B,): where each sequence begins
    counts: Tensor  # (B,): how many places it has
    most: int  # S: how many it might have
    order: Tensor | None = None  # (B, S): which of S each place is, those that are left out last; None: as they stand

    def sequences(self, num_queries: Tensor) -> Sequences:
        """With `num_queries` (B,) queries of each sequence."""
        return Sequences(num_queries, self.starts, self.counts, self.most)

    def select(self, rows: Tensor) -> Memory:
        """The memory whose sequence j is sequence `rows[j]` of this one."""
        starts, counts = self.starts.index_select(0, rows), self.counts.index_select(0, rows)
        order = None if self.order is None else self.order.index_select(0, rows)
        return self._replace(starts=starts, counts=counts, order=order)

    def spread(self, weights: Tensor, num_queries: Tensor) -> Tensor:
        """Weights (N, S) of the places that a mask left, one after the other, at where they stand."""
        if self.order is None:
            return weights
        return torch.zeros_like(weights).scatter(1, self.order.repeat_interleave(num_queries, 0), weights)


class Attention(nn.Module):
    """What all kinds share. A kind says what of a query is compared with what of a place."""

    names: ClassVar[tuple[str, ...]] = get_args(AttentionName)
    v: nn.Parameter | None  # (K,), of additive attention

    def __init__(self, query_size: int, memory_size: int, *, batch_first: bool = False) -> None:
        super().__init__()
        self.query_size = query_size
        self.memory_size = memory_size
        self.batch_first = batch_first
        self.register_parameter("v", None)

    def ask(self, query: Tensor) -> Tensor:
        """A query as it is compared with keys: (..., D) → (..., K)."""
        return query

    def make_keys(self, values: Tensor) -> Tensor | None:
        """(..., E) → (..., K)."""
        return values

    def prepare(
        self,
        memory: Tensor,
        lengths: Tensor | Sequence[int] | None = None,
        value: Callable[[Tensor], Tensor] | None = None,
        drop: Callable[[Tensor], Tensor] | None = None,
        key_padding_mask: Tensor | None = None,
    ) -> Memory:
        """memory (S, B, E), lengths (B,) or a mask (B, S) → what `attend` takes, for many calls with one memory.

        A context is a mean of the memory's places; with `value`, (..., E) → (..., O), of what that makes of them.
        `drop`, (..., E) → (..., E), is for the places before anything else.
        """
        if memory.dim() != 3 or memory.shape[2] != self.memory_size:
            layout = "B, S" if self.batch_first else "S, B"
            raise ValueError(f"memory must be ({layout}, {self.memory_size}), got {tuple(memory.shape)}")
        memory = memory.transpose(0, 1) if self.batch_first else memory
        steps, sequences = memory.shape[:2]
        counts, order = None, None
        if lengths is not None:
            counts = read_lengths(lengths, steps, sequences, memory.device, of="memory")
        if key_padding_mask is not None:
            if lengths is not None:
                raise ValueError("lengths and key_padding_mask both say which places a memory has; give one of them")
            counts, order = self._read_mask(key_padding_mask, steps, sequences, memory.device)
        if order is not None:
            memory = memory.gather(0, order.T.unsqueeze(2).expand_as(memory))
        if counts is None:
            counts = torch.full((sequences,), steps, device=memory.device)
            starts, places = counts.cumsum(0) - counts, memory.transpose(0, 1).flatten(0, 1)
        elif has_values(counts):
            starts, places = counts.cumsum(0) - counts, Unpadded(counts, steps).take(memory)
        else:  # how many places are real is not known while a program is recorded: padding stays, as zeros
            past = torch.arange(steps, device=memory.device).unsqueeze(1) >= counts
            places = memory.masked_fill(past.unsqueeze(2), 0).transpose(0, 1).flatten(0, 1)
            starts = torch.arange(sequences, device=memory.device) * steps
        places = places if drop is None else drop(places)
        values, keys = places if value is None else value(places), self.make_keys(places)
        return Memory(values, keys, starts, counts, steps, order)

    def _read_mask(
        self, ignore: Tensor, steps: int, sequences: int, device: torch.device
    ) -> tuple[Tensor, Tensor | None]:
        """A mask (B, S) as how many places each sequence has, (B,), and as `Memory.order`, None if they come first."""
        if not isinstance(ignore, Tensor) or ignore.dtype != torch.bool or ignore.shape != (sequences, steps):
            given = (
                f"{ignore.dtype} of shape {tuple(ignore.shape)}"
                if isinstance(ignore, Tensor)
                else type(ignore).__name__
            )
            raise ValueError(
                f"key_padding_mask must be bool of shape ({sequences}, {steps}), true at places to ignore; got {given}"
            )
        ignore = self.unreachable(steps, ignore.to(device))
        counts = steps - ignore.sum(1)
        if has_values(ignore) and torch.equal(ignore, ~length_mask(counts, steps, batch_first=True)):
            return counts, None
        return counts, ignore.int().argsort(dim=1, stable=True)

    def unreachable(self, steps: int, ignore: Tensor) -> Tensor:
        """`ignore` (B, S), also true at places that no query can reach."""
        return ignore

    def reorder(self, asked: Tensor, order: Tensor) -> Tensor:
        """What `ask` made of queries (N, K), for places that stand in another order, (N, S)."""
        return asked

    def attend(
        self, query: Tensor, memory: Memory, num_queries: Tensor | None = None, base: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """query (T, B, D) → context (T, B, E), weights (T, B, S).

        With `num_queries`, (B,), the sequences have so many queries, which stand one sequence after the other:
        query (N, D) → context (N, E), weights (N, S). With `base`, like the context, the first result is
        tanh(base + context).
        """
        sequences, ragged = memory.counts.shape[0], num_queries is not None
        self._check_query(query, sequences, ragged)
        if num_queries is not None:
            of = memory.sequences(num_queries)
        else:
            query, base = self._batch_first(query), None if base is None else self._batch_first(base).flatten(0, 1)
            steps, query = query.shape[1], query.flatten(0, 1)
            num_queries = torch.full_like(memory.counts, steps)
            of = memory.sequences(num_queries)._replace(queries_each=steps)
        asked = self.ask(query)
        if memory.order is not None:
            asked = self.reorder(asked, memory.order.repeat_interleave(num_queries, 0))
        context, weights = attend(asked, memory.keys, memory.values, of, self.v, base)
        weights = memory.spread(weights, num_queries)
        if ragged:
            return context, weights
        context, weights = (x.unflatten(0, (sequences, steps)) for x in (context, weights))
        return self._batch_first(context), self._batch_first(weights)

    def _batch_first(self, x: Tensor) -> Tensor:
        """x (T, B, ·) → (B, T, ·) or back; as it is if that is the caller's layout."""
        return x if self.batch_first else x.transpose(0, 1)

    def _check_query(self, query: Tensor, sequences: int, ragged: bool) -> None:
        wanted = ("N",) if ragged else (sequences, "T") if self.batch_first else ("T", sequences)
        wanted = (*wanted, self.query_size)
        shape = tuple(query.shape)
        if len(shape) != len(wanted) or any(isinstance(w, int) and w != s for w, s in zip(wanted, shape, strict=True)):
            raise ValueError(f"query must be ({', '.join(map(str, wanted))}), got {shape}")

    def forward(
        self,
        query: Tensor,
        memory: Tensor,
        lengths: Tensor | Sequence[int] | None = None,
        key_padding_mask: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """query (T, B, D), memory (S, B, E), lengths (B,) → context (T, B, E), weights (T, B, S)."""
        return self.attend(query, self.prepare(memory, lengths, key_padding_mask=key_padding_mask))

    def extra_repr(self) -> str:
        return f"{self.query_size}, {self.memory_size}{', batch_first=True' if self.batch_first else ''}"

    def _need_equal_sizes(self) -> None:
        if self.query_size != self.memory_size:
            name = type(self).__name__
            raise ValueError(
                f"{name} compares a query with the memory itself, so both need one size; got "
                f"query_size={self.query_size}, memory_size={self.memory_size}. General or Additive take any sizes"
            )


class Additive(Attention):
    """v · tanh(W q + U m + b), with `size` units (by default as many as a query has); without b if `bias` is false.

    >>> context, weights = Additive(8, 6)(torch.randn(5, 2, 8), torch.randn(7, 2, 6), torch.tensor([7, 3]))
    >>> context.shape, weights.shape, weights[:, 1, 3:].abs().max().item()
    (torch.Size([5, 2, 6]), torch.Size([5, 2, 7]), 0.0)
    """

    v: nn.Parameter

    def __init__(
        self, query_size: int, memory_size: int, size: int | None = None, *, bias: bool = True,
        batch_first: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(query_size, memory_size, batch_first=batch_first)
        self.size = query_size if size is None else size
        self.query = nn.Linear(query_size, self.size, bias=False)
        self.key = nn.Linear(memory_size, self.size, bias=bias)
        v = torch.empty(self.size).uniform_(-1, 1)
        # where there are no values, torch would import its compiler to divide them
        self.v = nn.Parameter(v if v.is_meta else v / math.sqrt(self.size))

    def make_keys(self, values: Tensor) -> Tensor:
        return self.key(values)

    def ask(self, query: Tensor) -> Tensor:
        return self.query(query)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, size={self.size}{'' if self.key.bias is not None else ', bias=False'}"


class Dot(Attention):
    """q · m. Query and memory have one size.

    >>> context, weights = Dot(4)(torch.zeros(1, 1, 4), torch.randn(2, 1, 4))
    >>> weights.flatten().tolist()
    [0.5, 0.5]
    """

    def __init__(self, query_size: int, memory_size: int | None = None, *, batch_first: bool = False) -> None:
        super().__init__(query_size, query_size if memory_size is None else memory_size, batch_first=batch_first)
        self._need_equal_sizes()


class ScaledDot(Dot):
    """q · m / √D, so that scores do not grow with the size D.

    >>> a = ScaledDot(4)
    >>> q, m = torch.ones(1, 1, 4), torch.eye(4)[:2].unsqueeze(1)
    >>> a(q, m)[1].flatten().tolist()
    [0.5, 0.5]
    """

    def ask(self, query: Tensor) -> Tensor:
        return query / math.sqrt(self.query_size)


class General(Attention):
    """q · W m.

    >>> General(3, 5)(torch.randn(2, 1, 3), torch.randn(4, 1, 5))[0].shape
    torch.Size([2, 1, 5])
    """

    def __init__(self, query_size: int, memory_size: int, *, batch_first: bool = False) -> None:
        super().__init__(query_size, memory_size, batch_first=batch_first)
        self.key = nn.Linear(memory_size, query_size, bias=False)

    def make_keys(self, values: Tensor) -> Tensor:
        return self.key(values)


class Content(Attention):
    """β cos(q, m). A cosine lies between -1 and 1, so its softmax is nearly flat; β is learned, and 1 at first.

    The cosine with a vector of zeros is 0.

    >>> far, near = torch.tensor([0.0, 2.0]), torch.tensor([3.0, 0.0])
    >>> Content(2)(torch.tensor([[[5.0, 0.0]]]), torch.stack([far, near]).unsqueeze(1))[1].flatten().tolist()
    [0.2689414322376251, 0.7310585975646973]
    """

    def __init__(self, query_size: int, memory_size: int | None = None, *, batch_first: bool = False) -> None:
        super().__init__(query_size, query_size if memory_size is None else memory_size, batch_first=batch_first)
        self._need_equal_sizes()
        self.log_sharpness = nn.Parameter(torch.zeros(()))

    def make_keys(self, values: Tensor) -> Tensor:
        return nn.functional.normalize(values, dim=-1, eps=1e-8)

    def ask(self, query: Tensor) -> Tensor:
        return nn.functional.normalize(query, dim=-1, eps=1e-8) * self.log_sharpness.exp()


class Location(Attention):
    """(W q)[place], for the first `places` of a memory; those after them get no weight.

    >>> _, weights = Location(3, 5, places=2)(torch.randn(1, 1, 3), torch.randn(4, 1, 5))
    >>> weights[0, 0, 2:].tolist()
    [0.0, 0.0]
    """

    def __init__(self, query_size: int, memory_size: int, places: int, *, batch_first: bool = False) -> None:
        super().__init__(query_size, memory_size, batch_first=batch_first)
        self.places = places
        self.place = nn.Linear(query_size, places, bias=False)

    def ask(self, query: Tensor) -> Tensor:
        return self.place(query)

    def make_keys(self, values: Tensor) -> None:
        return None

    def unreachable(self, steps: int, ignore: Tensor) -> Tensor:
        return ignore | (torch.arange(steps, device=ignore.device) >= self.places)

    def reorder(self, asked: Tensor, order: Tensor) -> Tensor:
        return asked.gather(1, order.clamp(max=self.places - 1))  # places past the last are left out anyway

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, places={self.places}"


def make_attention(name: AttentionName, query_size: int, memory_size: int, **options: Any) -> Attention:
    """The attention `name`; `options` are `batch_first` and its own: `size`, `bias` of additive, `places` of location.

    >>> make_attention("general", 8, 6)
    General(
      8, 6
      (key): Linear(in_features=6, out_features=8, bias=False)
    )
    """
    kinds: dict[str, type[Attention]] = {
        "additive": Additive,
        "dot": Dot,
        "scaled-dot": ScaledDot,
        "general": General,
        "content": Content,
        "location": Location,
    }
    if name not in kinds:
        raise ValueError(f"attention must be one of {', '.join(kinds)}; got {name!r}")
    return kinds[name](query_size, memory_size, **options)
