"""What a constraint is, and how one is loaded from a user's file."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..errors import ArgumentError, CarouselError
from ..user_code import load_place
from .stepper import State

NEVER = float("-inf")


class ConstraintError(CarouselError, ValueError):
    """The constraints of a search cannot be met together."""


@dataclass(frozen=True)
class SearchContext:
    """What a constraint knows of a search before it starts.

    `items` is the number of prompts, `vocab_size` the number of tokens, and `tokens` their texts by number, None if the
    search was not given them. `end` is the end token, None if there is none. `max_length` counts the tokens of a
    sequence, the end token included.

    >>> SearchContext(items=2, vocab_size=10, end=3, max_length=5).need_length("A rule", 8)
    Traceback (most recent call last):
    carousel.decoding.constraint.ConstraintError: A rule needs 8 tokens, but max_length is 5
    """

    items: int
    vocab_size: int
    end: int | None = None
    max_length: int = 2**31
    device: torch.device | str = "cpu"
    tokens: Sequence[str] | None = None

    def need_end(self, owner: object) -> int:
        """The end token; raises if there is none."""
        if self.end is None:
            raise ConstraintError(f"{owner} needs an end token, but end is None")
        return self.end

    def need_length(self, owner: object, length: int) -> None:
        """Raise if `length` tokens, the end token included, are more than the search allows."""
        if length > self.max_length:
            raise ConstraintError(f"{owner} needs {length} tokens, but max_length is {self.max_length}")


class Constraint:
    """A rule about the next token. Derive from it for a rule of your own.

    A search calls `start` once, then `apply` before each choice and `advance` after it; the tokens of a prompt pass
    through `advance` too. What a rule remembers of the tokens so far is its state: tensors, in tuples, lists or dicts,
    which the search keeps and reorders with its rows. The object itself never changes during a search, so that one
    object serves many searches.

    `rows` is the dimension of the state's tensors that counts rows, 0 by default; or a structure like the state's, with
    None for a tensor that all rows share. `binds_prompt`: a prompt that breaks the rule is an error. `biases`: the rule
    adds finite numbers, so that log-probabilities are no longer bounds on scores.

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
        """The state before any token, one row for each of `context.items`. Raises if the rule can never be met."""
        return ()

    def apply(self, log_probs: Tensor, state: State) -> None:
        """Change `log_probs` (N, V) in place; -inf forbids a token."""
        raise TypeError(f"{type(self).__name__} must define apply(self, log_probs, state)")

    def advance(self, state: State, tokens: Tensor) -> State:
        """The state after `tokens` (N,), one for each row."""
        return state

    def bans(self, state: State) -> Sequence[int] | None:
        """The tokens that `apply` would forbid in every row, if it would do nothing else; None: it may do more.

        A beam then asks the model for its best tokens only, which is faster.
        """
        return None

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


def load_constraint(place: str) -> Constraint:
    """The constraint that `FILE.py:NAME` names: an object, or a class or function that makes one without arguments.

    This runs the file, so it is only for files that the user names.
    """
    constraint = load_place(place, "a constraint")
    if callable(constraint) and not isinstance(constraint, Constraint):
        try:
            inspect.signature(constraint).bind()
        except TypeError as error:
            raise ArgumentError(f"{place}: it cannot be made without arguments ({error})") from error
        constraint = constraint()
    if not isinstance(constraint, Constraint):
        raise ArgumentError(f"{place}: not a carousel.decoding.Constraint, but of type {type(constraint).__name__}")
    return constraint


def check_tokens(owner: object, tokens: Iterable[int], vocab_size: int) -> None:
    """Refuse tokens that the vocabulary does not have.

    >>> check_tokens("Ban", [3, 12], vocab_size=10)
    Traceback (most recent call last):
    carousel.errors.ArgumentError: Ban: token 12 is outside the vocabulary of 10
    """
    for token in tokens:
        if not 0 <= token < vocab_size:
            raise ArgumentError(f"{owner}: token {token} is outside the vocabulary of {vocab_size}")


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
