"""`search` and `stream`: check the arguments, then run a strategy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from numbers import Integral
from typing import Any

import numpy as np
import torch

from ..errors import ArgumentError
from .constraint import Constraint
from .frontier import Frontier, Request
from .hypothesis import Chosen, Hypothesis
from .rng import read_seed
from .sampling import Greedy
from .stepper import Stepper
from .strategy import Run, Strategy
from .tree import BeamTree


def search(
    stepper: Stepper,
    prompts: int | Sequence[Sequence[int]],
    strategy: Strategy | None = None,
    *,
    start: int | None = None,
    end: int | None,
    max_length: int,
    constraints: Sequence[Constraint] = (),
    seed: int | torch.Generator | None = None,
    items: Sequence[int] | None = None,
    record: BeamTree | None = None,
    tokens: Sequence[str] | None = None,
) -> list[list[Hypothesis]]:
    """Continue each prompt by a strategy; returns the hypotheses of each, best first.

    `prompts` are lists of tokens, of any lengths, or the number of sequences without prompts. They are not scored and
    not part of the result. `start` precedes them; without it no prompt may be empty. `end` completes a sequence (None:
    no token does). `max_length` is the maximum number of tokens of a sequence, prompt and end token included, `start`
    not.

    `strategy` is `Greedy()` (the default), `Sample(...)`, `Beam(...)` or `Exhaustive(...)`. `seed` is for `Sample`: a
    number, or a torch generator from which one is drawn (None: the global one). The samples of a prompt depend on the
    seed and on its number in `items`, by default 0, 1, 2 …, not on the batch: a file can be divided into batches in any
    way, if each line keeps its number. `record` records the tree of the search. `tokens` are the
    texts of the tokens, for constraints that need them (`SearchContext.tokens`).

    >>> table = torch.tensor([[0.1, 0.5, 0.4], [0.6, 0.3, 0.1], [0.1, 0.8, 0.1]]).log()
    >>> from carousel.decoding import StepFunction
    >>> lm = StepFunction(lambda tokens, state: (table[tokens], state), vocab_size=3)
    >>> [[best]] = search(lm, [[2]], end=0, max_length=5)
    >>> best.tokens, best.finished
    ((1, 0), True)
    """
    with torch.no_grad():
        run = _run(stepper, prompts, strategy, start, end, max_length, constraints, seed, items, record, tokens, False)
        while True:
            try:
                next(run)
            except StopIteration as stop:
                return stop.value


@torch.no_grad()
def stream(
    stepper: Stepper,
    prompts: int | Sequence[Sequence[int]],
    strategy: Strategy | None = None,
    *,
    start: int | None = None,
    end: int | None,
    max_length: int,
    constraints: Sequence[Constraint] = (),
    seed: int | torch.Generator | None = None,
    items: Sequence[int] | None = None,
    record: BeamTree | None = None,
    tokens: Sequence[str] | None = None,
) -> Iterator[Chosen]:
    """Continue each prompt as `search` does, and yield every token as soon as it is final.

    The tokens of several prompts are interleaved. Beam and exhaustive search yield the best hypothesis of each prompt
    at their end.

    >>> table = torch.tensor([[0.1, 0.5, 0.4], [0.6, 0.3, 0.1], [0.1, 0.8, 0.1]]).log()
    >>> from carousel.decoding import StepFunction
    >>> lm = StepFunction(lambda tokens, state: (table[tokens], state), vocab_size=3)
    >>> for chosen in stream(lm, [[2]], end=0, max_length=5):
    ...     print(chosen.token, chosen.last)
    1 False
    0 True
    """
    for choice in _run(
        stepper, prompts, strategy, start, end, max_length, constraints, seed, items, record, tokens, True
    ):
        for parts in zip(*(part.tolist() for part in choice), strict=True):
            yield Chosen(*parts)


def _run(
    stepper: Stepper,
    prompts: Any,
    strategy: Strategy | None,
    start: int | None,
    end: int | None,
    max_length: int,
    constraints: Sequence[Constraint],
    seed: int | torch.Generator | None,
    items: Sequence[int] | None,
    record: BeamTree | None,
    tokens: Sequence[str] | None,
    streaming: bool,
) -> Run:
    """Check the arguments and run the strategy."""
    strategy = Greedy() if strategy is None else strategy
    vocab_size = stepper.vocab_size
    for name, token in (("start", start), ("end", end)):
        if token is not None and not 0 <= token < vocab_size:
            raise ArgumentError(f"{name} is {token}, outside the vocabulary of {vocab_size}")
    if max_length < 1:
        raise ArgumentError(f"max_length must be at least 1, got {max_length}")
    strategy.check(vocab_size)
    lists = _read_prompts(prompts, start, max_length, vocab_size)
    lengths = np.array([len(one) for one in lists])
    padded = np.zeros((len(lists), int(lengths.max())), np.int64)
    for row, one in enumerate(lists):
        padded[row, : len(one)] = one
    numbers = np.arange(len(lists)) if items is None else np.array(items, dtype=np.int64)
    if numbers.shape != lengths.shape:
        raise ArgumentError(f"items must have a number for each of the {len(lists)} prompts, got {len(numbers)}")
    for constraint in constraints:
        if not isinstance(constraint, Constraint):
            raise ArgumentError(f"constraints must be Constraint objects, got {type(constraint).__name__}")
    request = Request(
        prompts=padded,
        lengths=lengths,
        items=numbers,
        start=start,
        end=end,
        max_length=max_length,
        constraints=list(constraints),
        seed=read_seed(seed),
        record=record,
        streaming=streaming,
        tokens=tokens,
    )
    return (yield from strategy.run(Frontier(stepper, request)))


def _read_prompts(prompts: Any, start: int | None, max_length: int, vocab_size: int) -> list[list[int]]:
    if isinstance(prompts, Integral):
        prompts = [()] * int(prompts)
    lists = [list(one) for one in (prompts.tolist() if isinstance(prompts, torch.Tensor) else prompts)]
    if not lists:
        raise ArgumentError("prompts is empty; give at least one")
    for k, one in enumerate(lists):
        if not one and start is None:
            raise ArgumentError(f"prompts[{k}] is empty, and there is no start token to begin with")
        if len(one) >= max_length:
            raise ArgumentError(
                f"prompts[{k}] has {len(one)} tokens, which leaves no room below max_length={max_length}"
            )
        for token in one:
            if not isinstance(token, Integral):
                raise TypeError(f"prompts[{k}] must hold token numbers, got {token!r}")
            if not 0 <= int(token) < vocab_size:
                raise ArgumentError(f"prompts[{k}] has {token}, outside the vocabulary of {vocab_size}")
    return lists
