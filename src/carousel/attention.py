"""Attention: which places of a memory each query looks at, and the mean of what stands there, weighted so.

    context, weights = attention(query, memory, lengths)

query (T, B, D), memory (S, B, E), lengths (B,) → context (T, B, E), weights (T, B, S). All T queries are answered at
once. The weights of a query are at least 0, sum to 1 over the places that its sequence has, and are exactly 0 past its
end; whatever stands there, NaN included, reaches nothing. A memory of length 0 gives weights and context 0.

Six kinds, by how query q and place m are scored before the softmax:

Additive     v · tanh(W q + U m)          (Bahdanau)
Dot          q · m
ScaledDot    q · m / √D
General      q · W m                      (Luong)
Content      β cos(q, m)
Location     (W q)[place]                 what stands there does not matter
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Literal, NamedTuple, get_args

import torch
from torch import Tensor, nn

from .kernels.attention import additive_scores

AttentionName = Literal["additive", "dot", "scaled-dot", "general", "content", "location"]


class Real:
    """Which steps of a batch (T, B) are real: what is done step by step need not be done for padding.

    >>> real = Real(torch.tensor([2, 1]), 3)
    >>> real.take(torch.arange(6).reshape(3, 2))
    tensor([0, 1, 2])
    >>> real.put(torch.tensor([7, 8, 9]))
    tensor([[7, 9, 0],
            [8, 0, 0]])
    """

    def __init__(self, lengths: Tensor, steps: int) -> None:
        self.lengths = lengths  # (B,)
        self.steps = steps
        inside = torch.arange(steps, device=lengths.device).unsqueeze(1) < lengths
        self.rows = inside.flatten().nonzero().squeeze(1)  # (N,), step by step

    def take(self, x: Tensor) -> Tensor:
        """x (T, B, ...) → (N, ...)."""
        return x.flatten(0, 1).index_select(0, self.rows)

    def put(self, x: Tensor) -> Tensor:
        """x (N, ...) → (B, T, ...), 0 where nothing is real."""
        steps, sequences = self.steps, len(self.lengths)
        rows = self.rows % sequences * steps + self.rows // sequences
        return x.new_zeros(sequences * steps, *x.shape[1:]).index_copy_(0, rows, x).unflatten(0, (sequences, steps))


class Memory(NamedTuple):
    """What is looked at, prepared once for any number of queries."""

    values: Tensor  # (B, S, E), 0 past the end
    keys: Tensor  # (B, S, K): what queries are compared with
    lengths: Tensor | None  # (B,): how many places each sequence has; None: all S
    past: Tensor | None  # (B, S) bool: True past the end

    def select(self, rows: Tensor) -> Memory:
        """The memory whose sequence j is sequence `rows[j]` of this one."""
        lengths, past = (None if t is None else t.index_select(0, rows) for t in (self.lengths, self.past))
        keys = self.keys.index_select(0, rows)
        return Memory(keys if self.keys is self.values else self.values.index_select(0, rows), keys, lengths, past)


class Attention(nn.Module):
    """What all kinds share. A kind says how a memory becomes keys, and how queries and keys become scores."""

    names: ClassVar[tuple[str, ...]] = get_args(AttentionName)

    def __init__(self, query_size: int, memory_size: int) -> None:
        super().__init__()
        self.query_size = query_size
        self.memory_size = memory_size

    @abstractmethod
    def score(self, query: Tensor, memory: Memory, real: Real | None) -> Tensor:
        """query (T, B, D) → (B, T, S). Nobody looks at scores past an end, of queries (`real`) or of memory."""

    def make_keys(self, values: Tensor) -> Tensor:
        """(..., E) → (..., K)."""
        return values

    def prepare(
        self, memory: Tensor, lengths: Tensor | None = None, value: Callable[[Tensor], Tensor] | None = None
    ) -> Memory:
        """memory (S, B, E), lengths (B,) → what `attend` takes, for many calls with one memory.

        A context is a mean of the memory's places; with `value`, (..., E) → (..., O), of what that makes of them.
        """
        if memory.dim() != 3 or memory.shape[2] != self.memory_size:
            raise ValueError(f"memory must be (S, B, {self.memory_size}), got {tuple(memory.shape)}")
        if lengths is None:
            places = memory.transpose(0, 1).contiguous()
            return Memory(places if value is None else value(places), self.make_keys(places), None, None)
        steps, sequences = memory.shape[:2]
        if lengths.shape != (sequences,):
            raise ValueError(f"lengths must be ({sequences},) as memory is, got {tuple(lengths.shape)}")
        lengths = lengths.to(memory.device)
        past = torch.arange(steps, device=memory.device) >= lengths.unsqueeze(1)
        real = Real(lengths, steps)
        taken = real.take(memory)
        kept, keys = taken if value is None else value(taken), self.make_keys(taken)
        values = real.put(kept)
        return Memory(values, values if keys is kept else real.put(keys), lengths, past)

    def attend(self, query: Tensor, memory: Memory, real: Real | None = None) -> tuple[Tensor, Tensor]:
        """query (T, B, D) → context (T, B, E), weights (T, B, S).

        `real` are the queries that matter: what comes out for others is of no use, and may be cheaper.
        """
        if query.dim() != 3 or query.shape[1:] != (len(memory.values), self.query_size):
            wanted = f"(T, {len(memory.values)}, {self.query_size})"
            raise ValueError(f"query must be {wanted}, got {tuple(query.shape)}")
        scores = self.score(query, memory, real)
        if memory.past is None:
            weights = scores.softmax(2)
        else:
            past = memory.past.unsqueeze(1)  # not -inf: a sequence of length 0 would become NaN
            weights = scores.masked_fill(past, torch.finfo(scores.dtype).min).softmax(2).masked_fill(past, 0)
        context = torch.bmm(weights, memory.values)
        return context.transpose(0, 1), weights.transpose(0, 1)

    def forward(self, query: Tensor, memory: Tensor, lengths: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """query (T, B, D), memory (S, B, E), lengths (B,) → context (T, B, E), weights (T, B, S)."""
        return self.attend(query, self.prepare(memory, lengths))

    def extra_repr(self) -> str:
        return f"{self.query_size}, {self.memory_size}"

    def _need_equal_sizes(self) -> None:
        if self.query_size != self.memory_size:
            name = type(self).__name__
            raise ValueError(
                f"{name} compares a query with the memory itself, so both need one size; got "
                f"query_size={self.query_size}, memory_size={self.memory_size}. General or Additive take any sizes"
            )


class Additive(Attention):
    """v · tanh(W q + U m), with `size` units (by default as many as a query has).

    >>> context, weights = Additive(8, 6)(torch.randn(5, 2, 8), torch.randn(7, 2, 6), torch.tensor([7, 3]))
    >>> context.shape, weights.shape, weights[:, 1, 3:].abs().max().item()
    (torch.Size([5, 2, 6]), torch.Size([5, 2, 7]), 0.0)
    """

    def __init__(self, query_size: int, memory_size: int, size: int | None = None) -> None:
        super().__init__(query_size, memory_size)
        self.size = query_size if size is None else size
        self.query = nn.Linear(query_size, self.size, bias=False)
        self.key = nn.Linear(memory_size, self.size)
        self.v = nn.Parameter(torch.empty(self.size).uniform_(-1, 1) / math.sqrt(self.size))

    def make_keys(self, values: Tensor) -> Tensor:
        return self.key(values)

    def score(self, query: Tensor, memory: Memory, real: Real | None) -> Tensor:
        lengths = None if real is None else real.lengths
        asked = self.query(query).transpose(0, 1) if real is None else real.put(self.query(real.take(query)))
        return additive_scores(asked, memory.keys, self.v, lengths, memory.lengths)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, size={self.size}"


class Dot(Attention):
    """q · m. Query and memory have one size.

    >>> context, weights = Dot(4)(torch.zeros(1, 1, 4), torch.randn(2, 1, 4))
    >>> weights.flatten().tolist()
    [0.5, 0.5]
    """

    def __init__(self, query_size: int, memory_size: int | None = None) -> None:
        super().__init__(query_size, query_size if memory_size is None else memory_size)
        self._need_equal_sizes()

    def score(self, query: Tensor, memory: Memory, real: Real | None) -> Tensor:
        return torch.bmm(query.transpose(0, 1), memory.keys.transpose(1, 2))


class ScaledDot(Dot):
    """q · m / √D, so that scores do not grow with the size D.

    >>> a = ScaledDot(4)
    >>> q, m = torch.ones(1, 1, 4), torch.eye(4)[:2].unsqueeze(1)
    >>> a(q, m)[1].flatten().tolist()
    [0.5, 0.5]
    """

    def score(self, query: Tensor, memory: Memory, real: Real | None) -> Tensor:
        return super().score(query / math.sqrt(self.query_size), memory, real)


class General(Attention):
    """q · W m.

    >>> General(3, 5)(torch.randn(2, 1, 3), torch.randn(4, 1, 5))[0].shape
    torch.Size([2, 1, 5])
    """

    def __init__(self, query_size: int, memory_size: int) -> None:
        super().__init__(query_size, memory_size)
        self.key = nn.Linear(memory_size, query_size, bias=False)

    def make_keys(self, values: Tensor) -> Tensor:
        return self.key(values)

    def score(self, query: Tensor, memory: Memory, real: Real | None) -> Tensor:
        return torch.bmm(query.transpose(0, 1), memory.keys.transpose(1, 2))


class Content(Attention):
    """β cos(q, m). A cosine lies between -1 and 1, so its softmax is nearly flat; β is learned, and 1 at first.

    The cosine with a vector of zeros is 0.

    >>> far, near = torch.tensor([0.0, 2.0]), torch.tensor([3.0, 0.0])
    >>> Content(2)(torch.tensor([[[5.0, 0.0]]]), torch.stack([far, near]).unsqueeze(1))[1].flatten().tolist()
    [0.2689414322376251, 0.7310585975646973]
    """

    def __init__(self, query_size: int, memory_size: int | None = None) -> None:
        super().__init__(query_size, query_size if memory_size is None else memory_size)
        self._need_equal_sizes()
        self.log_sharpness = nn.Parameter(torch.zeros(()))

    def make_keys(self, values: Tensor) -> Tensor:
        return nn.functional.normalize(values, dim=-1, eps=1e-8)

    def score(self, query: Tensor, memory: Memory, real: Real | None) -> Tensor:
        query = nn.functional.normalize(query, dim=2, eps=1e-8) * self.log_sharpness.exp()
        return torch.bmm(query.transpose(0, 1), memory.keys.transpose(1, 2))


class Location(Attention):
    """(W q)[place], for the first `places` of a memory; those after them get no weight.

    >>> _, weights = Location(3, 5, places=2)(torch.randn(1, 1, 3), torch.randn(4, 1, 5))
    >>> weights[0, 0, 2:].tolist()
    [0.0, 0.0]
    """

    def __init__(self, query_size: int, memory_size: int, places: int) -> None:
        super().__init__(query_size, memory_size)
        self.places = places
        self.place = nn.Linear(query_size, places, bias=False)

    def prepare(
        self, memory: Tensor, lengths: Tensor | None = None, value: Callable[[Tensor], Tensor] | None = None
    ) -> Memory:
        whole = super().prepare(memory, lengths, value)
        if len(memory) <= self.places:
            return whole
        beyond = (torch.arange(len(memory), device=memory.device) >= self.places).expand(whole.values.shape[:2])
        return whole._replace(past=beyond if whole.past is None else beyond | whole.past)

    def score(self, query: Tensor, memory: Memory, real: Real | None) -> Tensor:
        scores, missing = self.place(query.transpose(0, 1)), memory.keys.shape[1] - self.places
        return nn.functional.pad(scores, (0, missing))  # a negative number of missing ones cuts

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, places={self.places}"


def make_attention(name: AttentionName, query_size: int, memory_size: int, **options: Any) -> Attention:
    """The attention `name`; `options` are its own: `size` of additive, `places` of location.

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
