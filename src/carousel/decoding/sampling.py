"""Greedy search and sampling: one token for each row at each step, without alternatives."""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np
from torch import Tensor

from ..errors import ArgumentError
from ..ops.prediction import Chooser as NativeChooser
from .backpointers import Backpointers
from .constraint import NEVER
from .frontier import Frontier
from .hypothesis import Hypothesis
from .length_norm import Mean
from .rng import Uniforms
from .samplers import Candidates, Sampler, draw, native_chooser
from .strategy import Choice, Run
from .topk import top1
from .tree import COMPLETED, LIVE, BeamTree


class Greedy:
    """The most probable token at every step; ties go to the lower token.

    >>> from carousel.decoding import StepFunction, search
    >>> table = torch.tensor([[0.1, 0.5, 0.4], [0.6, 0.3, 0.1], [0.1, 0.8, 0.1]]).log()
    >>> lm = StepFunction(lambda tokens, state: (table[tokens], state), 3)
    >>> search(lm, 1, Greedy(), start=2, end=0, max_length=5)[0][0].tokens
    (1, 0)
    """

    def check(self, vocab_size: int) -> None:
        pass

    def run(self, frontier: Frontier) -> Run:
        return (yield from extend(frontier, _Argmax(), copies=1))

    def __repr__(self) -> str:
        return "Greedy()"


class Sample:
    """Sampling from the model's distribution, transformed by `samplers` in turn: `Sample(Temperature(2), TopK(9))`.

    `copies` samples for each item, in the order sampled. A sample depends on the seed, the number of the item, the copy
    and the position, not on the batch.

    >>> from carousel.decoding import StepFunction, TopK, search
    >>> table = torch.tensor([[0.1, 0.5, 0.4], [0.6, 0.3, 0.1], [0.1, 0.8, 0.1]]).log()
    >>> lm = StepFunction(lambda tokens, state: (table[tokens], state), 3)
    >>> samples = search(lm, 1, Sample(TopK(2), copies=3), start=2, end=0, max_length=5, seed=4)
    >>> [h.tokens for h in samples[0]]
    [(1, 1, 0), (0,), (1, 1, 0)]
    """

    def __init__(self, *samplers: Sampler, copies: int = 1):
        if copies < 1:
            raise ArgumentError(f"Sample: copies must be at least 1, got {copies}")
        self.samplers = samplers
        self.copies = copies

    def check(self, vocab_size: int) -> None:
        for sampler in self.samplers:
            sampler.check(vocab_size)

    def run(self, frontier: Frontier) -> Run:
        request = frontier.request
        items = np.repeat(request.items, self.copies)
        copies = np.tile(np.arange(self.copies), len(request.items))
        chooser = _Sampled(self.samplers, Uniforms(request.seed, items, copies))
        return (yield from extend(frontier, chooser, self.copies))

    def __repr__(self) -> str:
        return f"Sample({', '.join([*map(repr, self.samplers), f'copies={self.copies}'])})"


class Chooser(Protocol):
    """Chooses a token for each row of (N, V) log-probabilities: tokens, their values, whether there was one."""

    def choose(self, log_probs: Tensor, position: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]: ...

    def select(self, rows: np.ndarray) -> None: ...


class _Argmax:
    def __init__(self) -> None:
        self.native = NativeChooser([("top_k", 1)])

    def choose(self, log_probs: Tensor, position: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        chosen = self.native.choose(log_probs, np.zeros(len(log_probs)))
        if chosen is not None:
            return chosen
        values, tokens = top1(log_probs)
        return tokens, values, values > NEVER

    def select(self, rows: np.ndarray) -> None:
        pass


class _Sampled:
    def __init__(self, samplers: tuple[Sampler, ...], rng: Uniforms):
        self.samplers = samplers
        self.rng = rng
        self.native = native_chooser(samplers)

    def choose(self, log_probs: Tensor, position: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        uniform = self.rng.at(position)
        chosen = None if self.native is None else self.native.choose(log_probs, uniform)
        if chosen is not None:
            return chosen
        candidates = Candidates.all(log_probs)
        for sampler in self.samplers:
            candidates = sampler(candidates)
        return draw(candidates, uniform)

    def select(self, rows: np.ndarray) -> None:
        self.rng.select(rows)


def extend(frontier: Frontier, chooser: Chooser, copies: int) -> Run:
    """Extend every row by the chooser's token until its end. A row that has ended leaves the batch."""
    request = frontier.request
    log_probs, first = frontier.begin(copies)
    n = len(frontier.items)
    prompts, prompt_lengths = request.prompts[frontier.items], request.lengths[frontier.items]
    longest = int(prompt_lengths.max())
    alive = np.arange(n)  # the sequence of each row
    backpointers, parents = Backpointers(), None
    end_step, end_row, finished = np.zeros(n, np.int64), np.zeros(n, np.int64), np.zeros(n, bool)
    extra = np.zeros(n)  # added by constraints
    recorder = None if request.record is None else _TreeRecorder(request.record, frontier)

    for position in range(first, request.max_length):
        tokens, values, possible = chooser.choose(log_probs, position)
        forced = None
        if position < longest:
            forced = position < prompt_lengths[alive]
            tokens = np.where(forced, prompts[alive, position], tokens)
            frontier.check_prompt(position, np.flatnonzero(forced), tokens[forced])
            possible |= forced
        if np.count_nonzero(possible) < len(possible):
            raise frontier.explain(int(possible.argmin()), position)
        token_log_probs = values
        if frontier.biased:
            token_log_probs = frontier.model_says(tokens)
            extra[alive] += (
                values - token_log_probs if forced is None else np.where(forced, 0, values - token_log_probs)
            )
        backpointers.push(tokens, token_log_probs, parents)
        over = tokens == frontier.end
        if forced is not None:
            over &= ~forced
        last = over if position + 1 < request.max_length else np.ones_like(over)
        if recorder is not None:
            recorder.step(frontier, tokens, token_log_probs, over, forced, last)
        if request.streaming:
            choice = Choice(frontier.items, alive % copies, tokens, token_log_probs, last)
            yield choice if forced is None else Choice(*(part[~forced] for part in choice))

        parents = None
        if np.count_nonzero(last):
            gone, parents = np.flatnonzero(last), np.flatnonzero(~last)
            end_step[alive[gone]], end_row[alive[gone]], finished[alive[gone]] = len(backpointers) - 1, gone, over[gone]
            if len(parents) == 0:
                break
            frontier.select(parents)
            chooser.select(parents)
            tokens, alive = tokens[parents], alive[parents]
        log_probs = frontier.feed(tokens)

    best_tokens, best_log_probs = backpointers.read(end_step, end_row)
    hypotheses = []
    for m, skip in enumerate((prompt_lengths - first).tolist()):
        parts = tuple(best_log_probs[m][skip:])
        log_prob = math.fsum(parts)
        score = Mean().score(log_prob + float(extra[m]), len(parts))
        hypotheses.append(Hypothesis(tuple(best_tokens[m][skip:]), log_prob, score, parts, bool(finished[m])))
    return [hypotheses[m : m + copies] for m in range(0, n, copies)]


class _TreeRecorder:
    """Records greedy search or sampling as a tree."""

    def __init__(self, tree: BeamTree, frontier: Frontier):
        self.tree = tree
        self.totals = np.zeros(len(frontier.items))
        tree.begin(len(frontier.request.lengths))
        tree.repeat(frontier.items)

    def step(
        self,
        frontier: Frontier,
        tokens: np.ndarray,
        log_probs: np.ndarray,
        over: np.ndarray,
        forced: np.ndarray | None,
        last: np.ndarray,
    ) -> None:
        forced = np.zeros_like(over) if forced is None else forced
        self.totals = self.totals + np.where(forced, 0, log_probs)
        fates, on = np.where(over, COMPLETED, LIVE), np.flatnonzero(~last)
        self.tree.grow(frontier.items, np.arange(len(tokens)), tokens, log_probs, self.totals, fates, forced, on)
        self.totals = self.totals[on]
