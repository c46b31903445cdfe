"""Beam search: the k best unfinished hypotheses are extended together; complete ones are kept aside."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ..errors import ArgumentError
from .backpointers import Backpointers
from .constraint import NEVER
from .frontier import Frontier
from .hypothesis import Hypothesis
from .length_norm import LengthNorm, Mean
from .strategy import WholeSearch
from .topk import take_columns
from .tree import COMPLETED, LIVE, PRUNED, BeamTree


class Beam(WholeSearch):
    """Beam search with `width` beams.

    At each step the continuations of an item's hypotheses are ranked by total log-probability. Those among the best
    `width` that end are complete, and the `n_best` with the highest scores are kept. The best `width` that do not end
    are extended.

    The search for an item stops at `max_length`; when `completed` hypotheses are complete (default: `width`;
    `math.inf`: no such limit); or when no unfinished hypothesis can reach the score of the `n_best`-th complete one.
    The last rule changes no result.

    `length` (`length_norm.py`) turns a total log-probability into a score: `Mean()`, `GNMT(alpha)` or
    `Unnormalised()`. At `max_length` unfinished hypotheses fill the remaining places, after the complete ones. Ties:
    the continuation of the better hypothesis comes first, then the lower token. A beam wider than the vocabulary is
    usually a mistake and needs `wide=True`.

    >>> from carousel.decoding import StepFunction, search
    >>> table = torch.tensor([[0.1, 0.5, 0.4], [0.6, 0.3, 0.1], [0.1, 0.8, 0.1]]).log()
    >>> lm = StepFunction(lambda tokens, state: (table[tokens], state), 3)
    >>> for h in search(lm, 1, Beam(3, n_best=2), start=2, end=0, max_length=5)[0]:
    ...     print(h.tokens, f"{h.score:.3f}")
    (1, 0) -0.367
    (1, 1, 0) -0.646
    """

    def __init__(
        self,
        width: int,
        *,
        n_best: int = 1,
        length: LengthNorm | None = None,
        completed: float | None = None,
        wide: bool = False,
    ):
        if isinstance(width, bool) or not isinstance(width, int) or width < 1:
            raise ArgumentError(f"Beam: width must be a whole number above 0, got {width!r}")
        if not 1 <= n_best <= width:
            raise ArgumentError(f"Beam: n_best must lie between 1 and the width of {width}, got {n_best}")
        self.width = width
        self.n_best = n_best
        self.length = Mean() if length is None else length
        self.completed = width if completed is None else completed
        self.wide = wide
        if not self.completed >= n_best:
            raise ArgumentError(f"Beam: completed must be at least n_best, {n_best}, got {completed}")

    def check(self, vocab_size: int) -> None:
        if self.width > vocab_size and not self.wide:
            raise ArgumentError(
                f"Beam: width is {self.width}, wider than the vocabulary of {vocab_size}; take a narrower one "
                "(in Python, wide=True allows it)"
            )

    def search(self, frontier: Frontier) -> list[list[Hypothesis]]:
        return _search(frontier, self)

    def __repr__(self) -> str:
        return f"Beam({self.width}, n_best={self.n_best}, length={self.length!r}, completed={self.completed})"


@dataclass
class _Finished:
    """The best complete hypotheses of each item, (B, n_best), best first; an empty place has the score -inf."""

    score: np.ndarray
    step: np.ndarray  # of the backpointers: that of the last token before the end token
    row: np.ndarray
    end_log_prob: np.ndarray
    count: np.ndarray  # (B,) complete so far, kept or not

    @classmethod
    def none(cls, items: int, n_best: int) -> _Finished:
        low, zero = np.full((items, n_best), NEVER), np.zeros((items, n_best), np.int64)
        return cls(low, zero, zero.copy(), low.copy(), np.zeros(items, np.int64))

    def take(self, frontier: Frontier, beam: Beam, ranked: _Ranked, position: int, step: int) -> None:
        """Keep what is complete at `position`, after step `step` of the backpointers, if it is among the best."""
        items, completing = ranked.items, ranked.completing
        length = np.maximum(position + 1 - frontier.request.lengths[items], 1)[:, None]
        score = np.where(completing, beam.length.score(ranked.sums, length), NEVER)
        end_log_prob = np.full(score.shape, NEVER)
        end_log_prob[completing] = ranked.log_probs[completing]
        self.count[items] += completing.sum(1)
        order = np.argsort(-np.concatenate([self.score[items], score], 1), axis=1, kind="stable")[:, : beam.n_best]
        for kept, offered in (
            (self.score, score),
            (self.step, np.full(score.shape, step)),
            (self.row, ranked.parents),
            (self.end_log_prob, end_log_prob),
        ):
            [kept[items]] = take_columns(order, np.concatenate([kept[items], offered], 1))


@dataclass
class _Ranked:
    """One step's candidates, best first: R of each of n items."""

    items: np.ndarray  # (n,)
    forced: np.ndarray  # (n,) bool: the token comes from the prompt
    sums: np.ndarray  # (n, R) total log-probability, -inf if impossible
    tokens: np.ndarray  # (n, R)
    log_probs: np.ndarray  # (n, R) of these tokens, without constraints
    parents: np.ndarray  # (n, R) rows of the frontier
    ending: np.ndarray  # (n, R) bool
    completing: np.ndarray  # (n, R) bool: ending, and among the best `width`


def _search(frontier: Frontier, beam: Beam) -> list[list[Hypothesis]]:
    request, record = frontier.request, frontier.request.record
    if record is not None:
        record.begin(len(request.lengths))
    columns = min(beam.width + 1, frontier.vocab_size)  # candidates of each row, one of which may be the end token
    shortest, longest = int(request.lengths.min()), int(request.lengths.max())
    # Prompts and records need the log-probabilities of other tokens too.
    best, first = frontier.begin_best(columns, whole=record is not None or shortest < longest)
    backpointers = Backpointers()
    finished = _Finished.none(len(request.lengths), beam.n_best)
    items = frontier.items  # (n,) items that are not done
    total = np.zeros((len(items), 1))  # (n, S) of S hypotheses for each item, best first; -inf marks an unused row

    for position in range(first, request.max_length):
        ranked = _rank(frontier, beam, *best, position, items, total)
        if ranked.completing.any():
            finished.take(frontier, beam, ranked, position, len(backpointers) - 1)
        stopping = ranked.ending | (ranked.sums == NEVER)
        onward = np.argsort(stopping, axis=1, kind="stable")[:, : beam.width]  # the best that do not end
        slots, [total] = total.shape[1], take_columns(onward, np.where(stopping, NEVER, ranked.sums))

        # An item is done if no hypothesis is left, if enough are complete, or if none can change the result.
        lost = total[:, 0] == NEVER
        stuck = lost & (finished.count[items] == 0)
        if stuck.any():
            raise frontier.explain(int(stuck.argmax()) * slots, position)
        done = lost | (finished.count[items] >= beam.completed)
        if not frontier.biased:
            reach = beam.length.score(total[:, 0], request.max_length - request.lengths[items])
            done |= reach < finished.score[items, -1]
        on = np.flatnonzero(~done)
        if record is not None:
            _record_step(record, frontier, ranked, onward, on)
        items, total = items[on], total[on]
        if len(on) == 0:
            break
        chosen = take_columns(onward, ranked.parents, ranked.tokens, ranked.log_probs)
        rows, tokens, log_probs = (part[on].reshape(-1) for part in chosen)
        backpointers.push(tokens, log_probs, rows)
        if position + 1 < request.max_length:
            if len(rows) != len(frontier.items) or (rows != np.arange(len(rows))).any():
                frontier.select(rows)
            best = frontier.feed_best(tokens, columns, whole=record is not None or position + 1 < longest)
    return _gather(frontier, beam, finished, backpointers, first, items, total)


def _rank(
    frontier: Frontier,
    beam: Beam,
    values: np.ndarray,
    tokens: np.ndarray,
    position: int,
    items: np.ndarray,
    total: np.ndarray,
) -> _Ranked:
    """The best continuations of hypotheses with `total` (n, S), from the best C tokens of each: two arrays (n·S, C)."""
    request = frontier.request
    n, slots = total.shape
    columns = values.shape[1]
    if np.isnan(values[:, 0]).any():
        raise frontier.explain(int(np.isnan(values[:, 0]).argmax()), position)
    sums = (total[:, :, None] + values.reshape(n, slots, columns)).reshape(n, -1)
    tokens = tokens.reshape(n, -1)
    forced = position < request.lengths[items]
    if forced.any():  # one hypothesis for each item, with one continuation
        sums[forced], sums[forced, 0] = NEVER, 0.0
        tokens[forced, 0] = request.prompts[items[forced], position]
        frontier.check_prompt(position, np.flatnonzero(forced) * slots, tokens[forced, 0])
    # Twice the width is enough: at most one continuation of each hypothesis ends it.
    order = np.argsort(-sums, axis=1, kind="stable")[:, : 2 * beam.width]
    sums, tokens, log_probs = take_columns(order, sums, tokens, values.reshape(n, -1))
    parents = np.arange(n)[:, None] * slots + order // columns
    if frontier.biased or request.record is not None or forced.any():
        log_probs = frontier.model_says(tokens.reshape(-1), parents.reshape(-1)).reshape(tokens.shape)
    ending = (tokens == frontier.end) & (sums > NEVER) & ~forced[:, None]
    completing = ending.copy()
    completing[:, beam.width :] = False
    return _Ranked(items, forced, sums, tokens, log_probs, parents, ending, completing)


def _gather(
    frontier: Frontier,
    beam: Beam,
    finished: _Finished,
    backpointers: Backpointers,
    first: int,
    items: np.ndarray,
    total: np.ndarray,
) -> list[list[Hypothesis]]:
    """The hypotheses of every item: complete ones, then the best of the unfinished ones with `total` (n, S)."""
    request = frontier.request
    item, place = np.nonzero(finished.score > NEVER)
    # For each hypothesis: item, step and row of the backpointers, score, log-probability of the end token or NaN
    lines = list(
        zip(
            item.tolist(),
            finished.step[item, place].tolist(),
            finished.row[item, place].tolist(),
            finished.score[item, place].tolist(),
            finished.end_log_prob[item, place].tolist(),
            strict=True,
        )
    )
    free = beam.n_best - (finished.score > NEVER).sum(1)
    score = beam.length.score(total, (request.max_length - request.lengths[items])[:, None])
    for k, one in enumerate(items.tolist()):
        left = [slot for slot in range(total.shape[1]) if total[k, slot] > NEVER][: free[one]]
        lines += [(one, len(backpointers) - 1, k * total.shape[1] + s, float(score[k, s]), math.nan) for s in left]

    tokens, log_probs = backpointers.read(np.array([line[1] for line in lines]), np.array([line[2] for line in lines]))
    results: list[list[Hypothesis]] = [[] for _ in request.lengths]
    for m, (one, _, _, its_score, end_log_prob) in enumerate(lines):
        skip = int(request.lengths[one]) - first
        ended = not math.isnan(end_log_prob)
        sequence = tuple(tokens[m][skip:]) + ((frontier.end,) if ended else ())
        parts = tuple(log_probs[m][skip:]) + ((end_log_prob,) if ended else ())
        results[one].append(Hypothesis(sequence, math.fsum(parts), its_score, parts, ended))
    return results


def _record_step(record: BeamTree, frontier: Frontier, ranked: _Ranked, onward: np.ndarray, on: np.ndarray) -> None:
    """Record one step: all candidates, and those that are extended, columns `onward` (n, S) of the items `on`."""
    possible = ranked.sums > NEVER
    extended = np.zeros_like(possible)
    np.put_along_axis(extended, onward, True, 1)
    fates = np.where(ranked.completing, COMPLETED, np.where(extended & ~ranked.ending, LIVE, PRUNED))
    number = (possible.cumsum() - 1).reshape(possible.shape).clip(0)
    record.grow(
        items=np.broadcast_to(ranked.items[:, None], possible.shape)[possible],
        parents=ranked.parents[possible],
        tokens=ranked.tokens[possible],
        log_probs=ranked.log_probs[possible],
        totals=ranked.sums[possible],
        fates=fates[possible],
        forced=np.broadcast_to(ranked.forced[:, None], possible.shape)[possible],
        rows=np.take_along_axis(number, onward, 1)[on].reshape(-1),
    )
