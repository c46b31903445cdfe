"""The rows that a search is extending: the model's state and the constraints' states, kept in step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from .constraint import NEVER, Constraint, ConstraintError, SearchContext
from .stepper import State, Stepper, select_rows
from .topk import on_host, pick, topk

if TYPE_CHECKING:
    from .tree import BeamTree


@dataclass(frozen=True)
class Request:
    """What is asked of a search, checked: B items, each beginning with its prompt."""

    prompts: np.ndarray  # (B, P) int64, padded with 0
    lengths: np.ndarray  # (B,) of the prompts
    items: np.ndarray  # (B,) the numbers that the random draws of an item depend on
    start: int | None
    end: int | None
    max_length: int
    constraints: Sequence[Constraint]
    seed: int
    record: BeamTree | None
    streaming: bool  # whether choices are yielded as they are made
    tokens: Sequence[str] | None  # the texts of the tokens, for constraints


class Frontier:
    """Rows in the making. `feed` gives each its next token, `select` keeps, repeats and reorders them."""

    def __init__(self, stepper: Stepper, request: Request):
        self.request = request
        self.stepper = stepper
        self.items = np.arange(len(request.lengths))  # the item of each row
        self._first = int(request.lengths.min())  # what every prompt has
        self.vocab_size = stepper.vocab_size
        self.end = -1 if request.end is None else request.end
        self.biased = any(c.biases for c in request.constraints)
        context = SearchContext(
            len(self.items), self.vocab_size, request.end, request.max_length, stepper.device, request.tokens
        )
        self._held = [c.start(context) for c in request.constraints]
        self._state = stepper.start(len(self.items))
        self._raw: Tensor | None = None  # what the model said last, (N, V); None: only its best were asked for,
        self._asked: tuple[Tensor, State] | None = None  # of these tokens after this state
        self._on_cpu = torch.device(stepper.device).type == "cpu"

    def begin(self, copies: int = 1) -> tuple[Tensor, int]:
        """Read the start token and what every prompt has, then make `copies` rows of each.

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
        """As `begin`, but only the `k` best of each row, as `feed_best` has them."""
        tokens, advance = self._read_prompts()
        return self.feed_best(tokens, k, whole, advance), self._first

    def _read_prompts(self) -> tuple[np.ndarray, bool]:
        """Read the start token and what every prompt has, but for the last of it. Returns that, and whether it is a
        prompt's."""
        start = self.request.start
        opening = [] if start is None else [(-1, np.full(len(self.items), start))]
        opening += [(position, self.request.prompts[:, position]) for position in range(self._first)]
        for position, tokens in opening:  # without a start token every prompt has one
            if position >= 0:
                self.check_prompt(position, np.arange(len(tokens)), tokens)
            if position < self._first - 1:
                self.feed(tokens, position >= 0)
        return tokens, position >= 0

    def feed(self, tokens: np.ndarray, advance: bool = True) -> Tensor:
        """Give each row its token, (N,). The log-probabilities of the next, constrained: (N, V)."""
        given = self._tensor(tokens)
        if advance:
            self._advance(given)
        return self._constrained(given)

    def feed_best(self, tokens: np.ndarray, k: int, whole: bool, advance: bool = True) -> tuple[np.ndarray, np.ndarray]:
        """As `feed`, but only the `k` best of each row: log-probabilities and tokens, (N, k) each, best first.

        Unless the `whole` row is wanted too, where the model has a shorter way to the best, and the constraints only
        forbid the same tokens in all rows, the others never exist, and `model_says` has nothing to look at; but nothing
        is added to what is found either.
        """
        given = self._tensor(tokens)
        if advance:
            self._advance(given)
        step_best, never = None if whole else getattr(self.stepper, "step_best", None), self._bans()
        found = None if step_best is None or never is None else step_best(given, self._state, k, never)
        if found is None:
            return topk(self._constrained(given), k)
        self._raw, self._asked = None, (given, self._state)
        values, index, self._state = found
        return on_host(values), on_host(index)

    def _advance(self, given: Tensor) -> None:
        self._held = [c.advance(held, given) for c, held in zip(self.request.constraints, self._held, strict=True)]

    def _bans(self) -> list[int] | None:
        """The tokens that the constraints forbid in every row, if they do no more now."""
        every = [c.bans(held) for c, held in zip(self.request.constraints, self._held, strict=True)]
        return None if any(bans is None for bans in every) else [token for bans in every for token in bans or ()]

    def _constrained(self, given: Tensor) -> Tensor:
        log_probs, self._state = self.stepper.step(given, self._state)
        if log_probs.shape != (len(given), self.vocab_size):
            raise ValueError(
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
        """The model's log-probabilities, before constraints, of `tokens` (M,) in `rows` (M,), by default one a row."""
        assert self._raw is not None
        return pick(self._raw, tokens, rows)

    def check_prompt(self, position: int, rows: np.ndarray, tokens: np.ndarray) -> None:
        """Refuse a prompt that breaks a constraint which binds it, before its tokens (M,) go to rows `rows` (M,)."""
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

    def explain(self, row: int, position: int) -> ValueError:
        """The error for a row that has no token to go on with."""
        if self._raw is None:
            assert self._asked is not None
            self._raw = self.stepper.step(*self._asked)[0]
        where = f"at position {position} of item {self.items[row]}"
        one = self._raw[row : row + 1].clone()
        if bool(one.isnan().any()):
            return ValueError(f"the step function returned NaN {where}")
        left = int((one > NEVER).sum())
        if left == 0:
            return ValueError(f"the step function gave no token a probability {where}")
        told = [f"the model allows {left} tokens"]
        at = self._tensor(np.array([row]))
        for constraint, held in zip(self.request.constraints, self._held, strict=True):
            constraint.apply(one, select_rows(held, at, constraint.rows))
            if bool(one.isnan().any()):
                return ValueError(f"{constraint!r} made a NaN {where}")
            after = int((one > NEVER).sum())
            if after != left:
                told.append(f"{constraint!r} leaves {after or 'none'}")
            left = after
            if left == 0:
                break
        return ConstraintError(
            f"the constraints cannot be met {where}: {', '.join(told)}. Relax one, or search with a wider beam"
        )

    def _tensor(self, values: np.ndarray) -> Tensor:
        tensor = torch.from_numpy(np.ascontiguousarray(values))
        return tensor if self._on_cpu else tensor.to(self.stepper.device)


def _check_mass(log_probs: Tensor) -> None:
    """Refuse scores that are no log-probabilities. (Less than 1 in all may be: models that leave something out.)"""
    mass = on_host(log_probs.logsumexp(-1))
    if (mass > 0.01).any():
        raise ValueError(
            f"the step function's probabilities sum to exp({mass.max():.3g}) instead of 1; it must return "
            "log-probabilities: log_softmax of the model's output"
        )
