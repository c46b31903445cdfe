"""Exhaustive search over all sequences: the exact optimum, for small vocabularies and few steps."""

from __future__ import annotations

import math

import numpy as np

from ..errors import ArgumentError
from .backpointers import Backpointers
from .constraint import NEVER
from .frontier import Frontier
from .hypothesis import Hypothesis
from .length_norm import LengthNorm, Mean
from .strategy import WholeSearch
from .topk import on_host


class Exhaustive(WholeSearch):
    """The `n_best` best of all sequences up to the search's `max_length`: complete ones first, by score.

    There are at most V^T sequences, fewer because some end early; more than `limit` at a time is an error. Ties: the
    shorter sequence comes first, then the one with the lower tokens.

    >>> from carousel.decoding import StepFunction, search
    >>> table = torch.tensor([[0.1, 0.5, 0.4], [0.6, 0.3, 0.1], [0.1, 0.8, 0.1]]).log()
    >>> lm = StepFunction(lambda tokens, state: (table[tokens], state), 3)
    >>> search(lm, 1, Exhaustive(), start=2, end=0, max_length=5)[0][0].tokens
    (1, 0)
    """

    def __init__(self, *, n_best: int = 1, length: LengthNorm | None = None, limit: int = 1_000_000):
        if n_best < 1:
            raise ArgumentError(f"Exhaustive: n_best must be at least 1, got {n_best}")
        self.n_best = n_best
        self.length = Mean() if length is None else length
        self.limit = limit

    def check(self, vocab_size: int) -> None:
        pass

    def search(self, frontier: Frontier) -> list[list[Hypothesis]]:
        return _search(frontier, self)

    def __repr__(self) -> str:
        return f"Exhaustive(n_best={self.n_best}, length={self.length!r})"


def _search(frontier: Frontier, strategy: Exhaustive) -> list[list[Hypothesis]]:
    request, backpointers = frontier.request, Backpointers()
    log_probs, first = frontier.begin()
    total = np.zeros(len(frontier.items))  # of each unfinished sequence
    # Of each item: (complete?, score, step, row of the backpointers, log-probability of the end token)
    ends: list[list[tuple[bool, float, int, int, float]]] = [[] for _ in request.lengths]

    for position in range(first, request.max_length):
        values = on_host(log_probs).astype(np.float64)
        if np.isnan(values).any():
            raise frontier.explain(int(np.isnan(values).any(1).argmax()), position)
        forced = position < request.lengths[frontier.items]
        if forced.any():
            at = np.flatnonzero(forced)
            tokens = request.prompts[frontier.items[at], position]
            frontier.check_prompt(position, at, tokens)
            values[at] = NEVER
            values[at, tokens] = 0.0
        sums = total[:, None] + values  # (n, V)
        if frontier.end >= 0:
            over = np.flatnonzero((sums[:, frontier.end] > NEVER) & ~forced)
            length = position + 1 - request.lengths[frontier.items[over]]
            score = strategy.length.score(sums[over, frontier.end], length)
            own = frontier.model_says(np.full(len(over), frontier.end), over)
            columns = (over, frontier.items[over], score, own)
            for row, item, its_score, log_prob in zip(*(c.tolist() for c in columns), strict=True):
                ends[item].append((True, its_score, len(backpointers) - 1, row, log_prob))
            sums[~forced, frontier.end] = NEVER
        rows, tokens = np.nonzero(sums > NEVER)
        if len(rows) > strategy.limit:
            raise ArgumentError(
                f"Exhaustive: {len(rows)} sequences at position {position}, more than limit={strategy.limit}; "
                "lower max_length, or use Beam"
            )
        alive = np.bincount(frontier.items[rows], minlength=len(ends))
        for item, count in enumerate(alive.tolist()):
            if count == 0 and not ends[item]:
                raise frontier.explain(int((frontier.items == item).argmax()), position)
        total = sums[rows, tokens]
        backpointers.push(tokens, frontier.model_says(tokens, rows), rows)
        items = frontier.items[rows]
        if len(rows) == 0 or position + 1 == request.max_length:
            break
        frontier.select(rows)
        log_probs = frontier.feed(tokens)

    score = strategy.length.score(total, request.max_length - request.lengths[items])
    for row, (item, its_score) in enumerate(zip(items.tolist(), score.tolist(), strict=True)):
        ends[item].append((False, its_score, len(backpointers) - 1, row, 0.0))
    return [_best(frontier, strategy, backpointers, first, item, of_item) for item, of_item in enumerate(ends)]


def _best(
    frontier: Frontier,
    strategy: Exhaustive,
    backpointers: Backpointers,
    first: int,
    item: int,
    ends: list[tuple[bool, float, int, int, float]],
) -> list[Hypothesis]:
    """The best sequences of an item."""
    ends = sorted(ends, key=lambda end: (not end[0], -end[1]))[: strategy.n_best]
    tokens, log_probs = backpointers.read(np.array([end[2] for end in ends]), np.array([end[3] for end in ends]))
    skip = int(frontier.request.lengths[item]) - first
    best = []
    for m, (complete, score, _, _, end_log_prob) in enumerate(ends):
        sequence, parts = tuple(tokens[m][skip:]), tuple(log_probs[m][skip:])
        if complete:
            sequence, parts = (*sequence, frontier.end), (*parts, end_log_prob)
        best.append(Hypothesis(sequence, math.fsum(parts), score, parts, complete))
    return best
