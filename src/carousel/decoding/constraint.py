"""What a constraint is, and what is said when constraints leave nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from .stepper import State

NEVER = float("-inf")


class ConstraintError(ValueError):
    """The constraints of a search cannot be met."""


@dataclass(frozen=True)
class SearchContext:
    """What a constraint is told before the search: the numbers it can check itself against.

    `max_length` counts a sequence's tokens as the search does, the end token with them; `end` is None if there is none.

    >>> SearchContext(items=2, vocab_size=10, end=3, max_length=5).need_length("A rule", 8)
    Traceback (most recent call last):
    carousel.decoding.constraint.ConstraintError: A rule needs 8 tokens, but max_length is 5
    """

    items: int
    vocab_size: int
    end: int | None = None
    max_length: int = 2**31
    device: torch.device | str = "cpu"

    def need_end(self, owner: object) -> int:
        """The end token, for a rule that needs there to be one."""
        if self.end is None:
            raise ConstraintError(f"{owner} needs an end token, but end is None")
        return self.end

    def need_length(self, owner: object, length: int) -> None:
        """Refuse a rule that needs `length` tokens, the end token counted, where the search stops before."""
        if length > self.max_length:
            raise ConstraintError(f"{owner} needs {length} tokens, but max_length is {self.max_length}")


class Constraint:
    """A rule about the next token, with whatever it must remember of the tokens before.

    A search calls `start` once, then before each choice `apply`, and after it `advance`; prompts pass through `advance`
    too. What is remembered is in the state, made of tensors, never in the object: the search reorders it with the beam,
    by `select_rows(state, rows, self.rows)`.

    `rows` is the dimension that counts the rows, 0 unless a class says otherwise, or a structure of them like the
    state's, None for a table that all rows share. `binds_prompt`: a prompt that breaks the rule is an error. `biases`:
    it adds finite numbers, so that a search can no longer infer a bound from log-probabilities being negative.

    >>> class Odd(Constraint):
    ...     '''No even token.'''
    ...     def apply(self, log_probs, state):
    ...         log_probs[:, ::2] = NEVER
    >>> x = torch.zeros(1, 4)
    >>> Odd().apply(x, ())
    >>> x
    tensor([[-inf, 0., -inf, 0.]])
    """

    rows: Any = 0
    binds_prompt = False
    biases = False

    def start(self, context: SearchContext) -> State:
        """The state before any token, one row for each of `context.items`. Raises if the rule cannot be met at all."""
        return ()

    def apply(self, log_probs: Tensor, state: State) -> None:
        """Change `log_probs` (N, V) in place: -inf is never."""
        raise TypeError(f"{type(self).__name__} must define apply(self, log_probs, state)")

    def advance(self, state: State, tokens: Tensor) -> State:
        """The state after `tokens` (N,), one a row."""
        return state

    def bans(self, state: State) -> Sequence[int] | None:
        """The tokens that `apply` would forbid in every row, if that is all it would do now; None: it may do more."""
        return None

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


def check_tokens(owner: object, tokens: Iterable[int], vocab_size: int) -> None:
    """Refuse tokens that the vocabulary does not have.

    >>> check_tokens("Ban", [3, 12], vocab_size=10)
    Traceback (most recent call last):
    ValueError: Ban: token 12 is outside the vocabulary of 10
    """
    for token in tokens:
        if not 0 <= token < vocab_size:
            raise ValueError(f"{owner}: token {token} is outside the vocabulary of {vocab_size}")


def force(log_probs: Tensor, tokens: Tensor) -> None:
    """In place: leave each row of (N, V) only its token of `tokens` (N,); a negative one leaves the row alone.

    >>> x = torch.zeros(2, 3)
    >>> force(x, torch.tensor([1, -1]))
    >>> x
    tensor([[-inf, 0., -inf],
            [0., 0., 0.]])
    """
    column = tokens.clamp_min(0).unsqueeze(1)
    kept = log_probs.gather(1, column)
    log_probs.masked_fill_((tokens >= 0).unsqueeze(1), NEVER).scatter_(1, column, kept)
