"""The frontier of a search: its rows, with the states of the model and of the constraints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from ..errors import ArgumentError, CarouselError
from .constraint import NEVER, Constraint, ConstraintError, SearchContext
from .stepper import State, Stepper, select_rows
from .topk import on_host, pick, topk

if TYPE_CHECKING:
    from .tree import BeamTree


@dataclass(frozen=True)
class Request:
    """The validated arguments of a search: B items, each with its prompt."""

    prompts: np.ndarray  # (B, P) int64, padded with 0
    lengths: np.ndarray  # (B,) of the prompts
    items: np.ndarray  # (B,) numbers of the items, on which their random numbers depend
    start: int | None
    end: int | None
    max_length: int
    constraints: Sequence[Constraint]
    seed: int
    record: BeamTree | None
    streaming: bool  # whether choices are yielded as they are made
    tokens: Sequence[str] | None  # the texts of the tokens, for constraints


class Frontier:
    """The unfinished rows. `feed` gives each its next token; `select` keeps, repeats and reorders rows."""

    def __init__(self, stepper: Stepper, request: Request):
        self.request = request
        self.stepper = stepper
        self.items = np.arange(len(request.lengths))  # the item of each row
        self._first = int(request.lengths.min())  # tokens that every prompt has
        self.vocab_size = stepper.vocab_size
        self.end = -1 if request.end is None else request.end
        self.biased = any(c.biases for c in request.constraints)
        context = SearchContext(
            len(self.items), self.vocab_size, request.end, request.max_length, stepper.device, request.tokens
        )
        self._held = [c.start(context) for c in request.constraints]
        self._state = stepper.start(len(self.items))
        self._raw: Tensor | None = None  # the model's last log-probabilities (N, V); None after `step_best`,
        self._asked: tuple[Tensor, State] | None = None  # which was called with these
        self._on_cpu = torch.device(stepper.device).type == "cpu"

    def begin(self, copies: int = 1) -> tuple[Tensor, int]:
        """Feed the start token and the tokens that every prompt has, then make `copies` rows of each item.

        Returns the first log-probabilities, (B·copies, V), and their position.
        """
        log_probs = self.feed(*self._read_prompts())
        if copies > 1:
            assert self._raw is not None
            rows = np.repeat(self.items, copies)
            self.select(rows)
            log_probs, self._raw = log_probs[rows], self._raw[rows]
        return log_probs, self._first

    def begin_best(self, k: int, whole: bool) -> tuple[tuple[np.ndarray, np.ndarray], int]:
        """As `begin`, but only the `k` best tokens of each row, as in `feed_best`."""
        tokens, advance = self._read_prompts()
        return self.feed_best(tokens, k, whole, advance), self._first

    def _read_prompts(self) -> tuple[np.ndarray, bool]:
        """Feed all but the last of the start token and the tokens that every prompt has. Returns the last, (B,), and
        whether it is of a prompt."""
        start = self.request.start
        opening = [] if start is None else [(-1, np.full(len(self.items), start))]
        opening += [(position, self.request.prompts[:, position]) for position in range(self._first)]
        for position, tokens in opening:  # not empty: without a start token no prompt is
            if position >= 0:
                self.check_prompt(position, np.arange(len(tokens)), tokens)
            if position < self._first - 1:
                self.feed(tokens, position >= 0)
        return tokens, position >= 0

    def feed(self, tokens: np.ndarray, advance: bool = True) -> Tensor:
        """Give each row its token, (N,). Returns the constrained log-probabilities of the next: (N, V)."""
        given = self._tensor(tokens)
        if advance:
            self._advance(given)
        return self._constrained(given)

    def feed_best(self, tokens: np.ndarray, k: int, whole: bool, advance: bool = True) -> tuple[np.ndarray, np.ndarray]:
        """As `feed`, but only the `k` best of each row: log-probabilities and tokens, (N, k) each, best first.

        If the stepper has `step_best`, the constraints only forbid the same tokens in all rows, and the `whole` row is
        not needed, the other log-probabilities are never computed, and `model_says` cannot be called.
        """
        given = self._tensor(tokens)
        if advance:
            self._advance(given)
        step_best, never = None if whole else getattr(self.stepper, "step_best", None), self._bans()
        best = None if step_best is None or never is None else step_best(given, self._state, k, never)
        if best is None:
            return topk(self._constrained(given), k)
        self._raw, self._asked = None, (given, self._state)
        values, index, self._state = best
        return on_host(values), on_host(index)

    def _advance(self, given: Tensor) -> None:
        self._held = [c.advance(held, given) for c, held in zip(self.request.constraints, self._held, strict=True)]

    def _bans(self) -> list[int] | None:
        """The tokens that the constraints forbid in every row; None if they do anything else."""
        every = [c.bans(held) for c, held in zip(self.request.constraints, self._held, strict=True)]
        return None if any(bans is None for bans in every) else [token for bans in every for token in bans or ()]

    def _constrained(self, given: Tensor) -> Tensor:
        log_probs, self._state = self.stepper.step(given, self._state)
        if log_probs.shape != (len(given), self.vocab_size):
            raise ArgumentError(
                f"the step function returned log-probabilities of shape {tuple(log_probs.shape)}, "
                f"expected {(len(given), self.vocab_size)}: a row for each token, a column for each of vocab_size"
            )
        if log_probs.dtype not in (torch.float32, torch.float64):
            log_probs = log_probs.float()
        if self._raw is None and self._asked is None:
            _check_mass(log_probs)
        self._raw, self._asked = log_probs, None
        if not self._held:
            return log_probs
        log_probs = log_probs.clone()
        for constraint, held in zip(self.request.constraints, self._held, strict=True):
            constraint.apply(log_probs, held)
        return log_probs

    def select(self, rows: np.ndarray) -> None:
        """Make row `rows[j]` the new row j."""
        picked = self._tensor(rows)
        self._state = self.stepper.select(self._state, picked)
        self._held = [
            select_rows(held, picked, c.rows) for c, held in zip(self.request.constraints, self._held, strict=True)
        ]
        self.items = self.items[rows]

    def model_says(self, tokens: np.ndarray, rows: np.ndarray | None = None) -> np.ndarray:
        """The log-probabilities without constraints of `tokens` (M,) in `rows` (M,); default: one token of each row."""
        assert self._raw is not None
        return pick(self._raw, tokens, rows)

    def check_prompt(self, position: int, rows: np.ndarray, tokens: np.ndarray) -> None:
        """Raise if tokens (M,) of prompts, for rows `rows` (M,), break a constraint that binds prompts."""
        for constraint, held in zip(self.request.constraints, self._held, strict=True):
            if not constraint.binds_prompt:
                continue
            open_rows = torch.zeros(len(self.items), self.vocab_size, device=self.stepper.device)
            constraint.apply(open_rows, held)
            allowed = on_host(open_rows)[rows, tokens]
            if (allowed == NEVER).any():
                row = int(np.flatnonzero(allowed == NEVER)[0])
                raise ConstraintError(
                    f"prompts[{self.items[rows[row]]}] breaks {constraint!r} at its token {position}, {tokens[row]}"
                )

    def explain(self, row: int, position: int) -> CarouselError:
        """The error for a row without a possible token."""
        if self._raw is None:
            assert self._asked is not None
            self._raw = self.stepper.step(*self._asked)[0]
        where = f"at position {position} of item {self.items[row]}"
        one = self._raw[row : row + 1].clone()
        if bool(one.isnan().any()):
            return ArgumentError(f"the step function returned NaN {where}")
        left = int((one > NEVER).sum())
        if left == 0:
            return ArgumentError(f"the step function gave no token a probability {where}")
        parts = [f"the model allows {left} tokens"]
        at = self._tensor(np.array([row]))
        for constraint, held in zip(self.request.constraints, self._held, strict=True):
            constraint.apply(one, select_rows(held, at, constraint.rows))
            if bool(one.isnan().any()):
                return ArgumentError(f"{constraint!r} made a NaN {where}")
            after = int((one > NEVER).sum())
            if after != left:
                parts.append(f"{constraint!r} leaves {after or 'none'}")
            left = after
            if left == 0:
                break
        return ConstraintError(
            f"the constraints cannot be met {where}: {', '.join(parts)}. Relax one, or search with a wider beam"
        )

    def _tensor(self, values: np.ndarray) -> Tensor:
        tensor = torch.from_numpy(np.ascontiguousarray(values))
        return tensor if self._on_cpu else tensor.to(self.stepper.device)


def _check_mass(log_probs: Tensor) -> None:
    """Raise if values are not log-probabilities. (A sum below 1 is allowed: some models omit tokens.)"""
    mass = on_host(log_probs.logsumexp(-1))
    if (mass > 0.01).any():
        raise ArgumentError(
            f"the step function's probabilities sum to exp({mass.max():.3g}) instead of 1; it must return "
            "log-probabilities: log_softmax of the model's output"
        )
