"""The interface between a search and a model: an initial state, one step, and selection of rows of the state.

A row is one unfinished sequence. Language models, encoder–decoders and ensembles all implement this interface.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from ..errors import ArgumentError

State = Any  # tensors in tuples, lists and dicts, nested to any depth


class Stepper(Protocol):
    """A model in a search.

    `vocab_size` is V, and `device` is that of the tokens. `start(items)` returns the state before any token, with one
    row for each of `items` sequences; `step(tokens, state)` reads one token for each row, (N,), and returns the
    log-probabilities of the next, (N, V), with the new state; `select(state, rows)` returns the state whose row j is
    row `rows[j]` of `state`, where a row may be selected more than once or not at all.

    A row must not depend on the other rows, and `step` must not change the state it was given.

    A stepper may also have `step_best(tokens, state, k, never)`, if that is faster than `step`: the `k` highest
    log-probabilities of each row and their tokens, (N, k) each, best first and ties by the lower token, without the
    tokens `never` (-inf where fewer than k are left, NaN where a log-probability is NaN), and the new state. It returns
    None if it has no advantage over `step`.
    """

    @property
    def vocab_size(self) -> int: ...

    @property
    def device(self) -> torch.device: ...

    def start(self, items: int) -> State: ...

    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, State]: ...

    def select(self, state: State, rows: Tensor) -> State: ...


class StepFunction:
    """A `Stepper` from functions.

    `step(tokens (N,), state)` returns `(log_probs (N, V), state)` and `start(items)` the initial state (None without
    one). `rows` is the dimension that counts rows: one number for every tensor of the state, or a structure like the
    state's with a number for each tensor, None for a tensor that all rows share. It is 1 for a recurrent state
    (layers, N, H), 0 for an attention memory (N, S, E).

    >>> lstm, out = torch.nn.LSTM(8, 8), torch.nn.Linear(8, 5)
    >>> words = torch.nn.Embedding(5, 8)
    >>> def step(tokens, state):
    ...     y, state = lstm(words(tokens).unsqueeze(0), state)
    ...     return out(y[0]).log_softmax(-1), state
    >>> lm = StepFunction(step, 5, start=lambda n: (torch.zeros(1, n, 8), torch.zeros(1, n, 8)), rows=1)
    >>> log_probs, state = lm.step(torch.tensor([1, 2, 3]), lm.start(3))
    >>> log_probs.shape, lm.select(state, torch.tensor([2, 2]))[0].shape
    (torch.Size([3, 5]), torch.Size([1, 2, 8]))
    """

    def __init__(
        self,
        step: Callable[[Tensor, State], tuple[Tensor, State]],
        vocab_size: int,
        *,
        start: Callable[[int], State] | None = None,
        rows: Any = 0,
        device: torch.device | str = "cpu",
    ):
        if vocab_size < 1:
            raise ArgumentError(f"vocab_size must be at least 1, got {vocab_size}")
        self._step = step
        self._start = start
        self.vocab_size = vocab_size
        self.rows = rows
        self.device = torch.device(device)

    def start(self, items: int) -> State:
        return None if self._start is None else self._start(items)

    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        return self._step(tokens, state)

    def select(self, state: State, rows: Tensor) -> State:
        return select_rows(state, rows, self.rows)


class Ensemble:
    """Several steppers with one vocabulary: the mean of their probabilities at every step.

    >>> heads, tails = torch.tensor([0.9, 0.1]).log(), torch.tensor([0.3, 0.7]).log()
    >>> one, two = (StepFunction(lambda t, s, x=x: (x.expand(len(t), 2), s), 2) for x in (heads, tails))
    >>> both = Ensemble([one, two])
    >>> both.step(torch.tensor([0]), both.start(1))[0].exp()
    tensor([[0.6000, 0.4000]])
    """

    def __init__(self, steppers: Sequence[Stepper]):
        if not steppers:
            raise ArgumentError("steppers is empty; an ensemble needs at least one")
        sizes = [s.vocab_size for s in steppers]
        if len(set(sizes)) > 1:
            raise ArgumentError(f"steppers must share one vocabulary, got vocabularies of {sizes} tokens")
        self.steppers = list(steppers)
        self.vocab_size = sizes[0]
        self.device = self.steppers[0].device

    def start(self, items: int) -> State:
        return [s.start(items) for s in self.steppers]

    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        votes, states = [], []
        for stepper, own in zip(self.steppers, state, strict=True):
            log_probs, own = stepper.step(tokens.to(stepper.device), own)
            votes.append(log_probs.to(self.device))
            states.append(own)
        mean = torch.logsumexp(torch.stack(votes), 0) - torch.log(torch.tensor(float(len(votes))))
        return mean, states

    def select(self, state: State, rows: Tensor) -> State:
        return [s.select(own, rows.to(s.device)) for s, own in zip(self.steppers, state, strict=True)]


def select_rows(state: State, rows: Tensor, dim: Any = 0) -> State:
    """`state` with its rows selected by `rows` (M,), in order and with repeats.

    `dim` is the dimension that counts rows: an int for every tensor, or a structure like the state's, None for a tensor
    that all rows share.

    >>> h, memory = torch.arange(3.0).reshape(1, 3, 1), torch.arange(6.0).reshape(3, 2)
    >>> h, memory = select_rows((h, memory), torch.tensor([2, 0]), (1, 0))
    >>> h.flatten().tolist(), memory.tolist()
    ([2.0, 0.0], [[4.0, 5.0], [0.0, 1.0]])
    """
    if state is None or dim is None:
        return state
    if isinstance(state, Tensor):
        if not isinstance(dim, int):
            raise TypeError(f"rows must give one dimension for a tensor of the state, got {dim!r}")
        return state.index_select(dim, rows)
    if isinstance(state, Mapping):
        dims = dim if isinstance(dim, Mapping) else dict.fromkeys(state, dim)
        if dims.keys() != state.keys():
            raise ArgumentError(f"rows has the keys {list(dims)}, but the state has {list(state)}")
        return {key: select_rows(value, rows, dims[key]) for key, value in state.items()}
    if isinstance(state, tuple | list):
        each = list(dim) if isinstance(dim, tuple | list) else [dim] * len(state)
        if len(each) != len(state):
            raise ArgumentError(f"rows has {len(each)} parts, but the state has {len(state)}")
        parts = [select_rows(value, rows, d) for value, d in zip(state, each, strict=True)]
        if isinstance(state, list):
            return parts
        return type(state)(*parts) if hasattr(state, "_fields") else tuple(parts)
    raise TypeError(f"a state is made of tensors in tuples, lists and dicts, found {type(state).__name__}")
