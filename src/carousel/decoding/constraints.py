"""General constraints: banned and favoured tokens, length, a forced beginning, no repeated n-grams.

Verse forms are in `forms`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from numbers import Integral
from typing import Any

import torch
from torch import Tensor

from ..errors import ArgumentError
from .constraint import NEVER, Constraint, SearchContext, check_tokens, force
from .stepper import State


class Ban(Constraint):
    """Tokens that are never chosen, such as [UNK], [PAD] and [START].

    >>> ban = Ban([0, 3])
    >>> x = torch.zeros(1, 4)
    >>> ban.apply(x, ban.start(SearchContext(items=1, vocab_size=4)))
    >>> x
    tensor([[-inf, 0., 0., -inf]])
    """

    rows = None

    def __init__(self, tokens: Iterable[int]):
        self.tokens = sorted(set(tokens))

    def start(self, context: SearchContext) -> State:
        check_tokens(self, self.tokens, context.vocab_size)
        return torch.tensor(self.tokens, dtype=torch.int64, device=context.device)

    def apply(self, log_probs: Tensor, state: State) -> None:
        log_probs.index_fill_(1, state, NEVER)

    def bans(self, state: State) -> Sequence[int]:
        return self.tokens

    def __repr__(self) -> str:
        return f"Ban({self.tokens})"


class Bias(Constraint):
    """Numbers added to the log-probabilities of some tokens at every step.

    They are part of the score of a hypothesis, but not of its `log_prob`.

    >>> bias = Bias({2: -1.5})
    >>> x = torch.zeros(1, 3)
    >>> bias.apply(x, bias.start(SearchContext(items=1, vocab_size=3)))
    >>> x
    tensor([[ 0.0000,  0.0000, -1.5000]])
    """

    rows = None
    biases = True

    def __init__(self, amounts: Mapping[int, float]):
        wrong = {token: amount for token, amount in amounts.items() if not math.isfinite(amount)}
        if wrong:
            raise ArgumentError(f"Bias: amounts must be finite, got {wrong}; use Ban to forbid tokens")
        self.amounts = dict(amounts)

    def start(self, context: SearchContext) -> State:
        check_tokens(self, self.amounts, context.vocab_size)
        bias = torch.zeros(context.vocab_size, device=context.device)
        bias[list(self.amounts)] = torch.tensor(list(self.amounts.values()), device=context.device)
        return bias

    def apply(self, log_probs: Tensor, state: State) -> None:
        log_probs.add_(state)

    def __repr__(self) -> str:
        return f"Bias({self.amounts})"


class Length(Constraint):
    """At least `minimum` and at most `maximum` tokens, the prompt included, the end token not.

    `maximum` is one number for all items, or one for each. At the maximum the end token is forced, whereas the
    `max_length` of the search truncates.

    >>> length = Length(minimum=1)
    >>> x = torch.zeros(1, 3)
    >>> length.apply(x, length.start(SearchContext(items=1, vocab_size=3, end=2)))
    >>> x
    tensor([[0., 0., -inf]])
    """

    rows = (0, 0, None)

    def __init__(self, minimum: int = 0, maximum: int | Sequence[int] | None = None):
        if minimum < 0:
            raise ArgumentError(f"Length: minimum must be 0 or more, got {minimum}")
        for most in [maximum] if isinstance(maximum, int) else maximum or ():
            if most < minimum:
                raise ArgumentError(f"Length: maximum is {most}, below the minimum of {minimum}")
        self.minimum = minimum
        self.maximum = maximum

    def start(self, context: SearchContext) -> State:
        end = context.need_end(self)
        context.need_length(self, self.minimum + 1)
        most = context.max_length if self.maximum is None else self.maximum
        given = torch.as_tensor(most, dtype=torch.int64, device=context.device)
        if given.dim() and len(given) != context.items:
            raise ArgumentError(f"Length: maximum has {len(given)} numbers for {context.items} items")
        position = torch.zeros(context.items, dtype=torch.int64, device=context.device)
        return position, given.expand(context.items), end

    def apply(self, log_probs: Tensor, state: State) -> None:
        position, most, end = state
        if self.minimum:
            log_probs[:, end].masked_fill_(position < self.minimum, NEVER)
        over = position >= most
        if bool(over.any()):
            force(log_probs, torch.where(over, end, -1))

    def bans(self, state: State) -> Sequence[int] | None:
        position, most, end = state
        early = position < self.minimum
        if bool((position >= most).any()) or (bool(early.any()) and not bool(early.all())):
            return None
        return [end] if bool(early.any()) else []

    def advance(self, state: State, tokens: Tensor) -> State:
        return state[0] + 1, *state[1:]

    def __repr__(self) -> str:
        return f"Length({self.minimum}, {self.maximum})"


class Prefix(Constraint):
    """A forced beginning, one for all items or one for each. Unlike a prompt it is part of the result and is scored.

    >>> prefix = Prefix([2, 0])
    >>> x = torch.zeros(1, 3)
    >>> prefix.apply(x, prefix.start(SearchContext(items=1, vocab_size=3)))
    >>> x
    tensor([[-inf, -inf, 0.]])
    """

    rows = (0, 0)
    binds_prompt = True

    def __init__(self, tokens: Sequence[int] | Sequence[Sequence[int]]):
        self.tokens = tokens

    def start(self, context: SearchContext) -> State:
        table = per_item(self, self.tokens, context)
        context.need_length(self, table.shape[1] - 1)
        return torch.zeros(context.items, dtype=torch.int64, device=context.device), table

    def apply(self, log_probs: Tensor, state: State) -> None:
        force(log_probs, look_up(*state))

    def bans(self, state: State) -> Sequence[int] | None:
        return None if bool((look_up(*state) >= 0).any()) else []

    def advance(self, state: State, tokens: Tensor) -> State:
        return state[0] + 1, state[1]

    def __repr__(self) -> str:
        return f"Prefix({shorten(self.tokens)})"


class NoRepeat(Constraint):
    """No n-gram of `n` tokens occurs twice, the prompt included. One with a token of `ignore` may.

    >>> rule = NoRepeat(2)
    >>> state = rule.start(SearchContext(items=1, vocab_size=3))
    >>> for token in (0, 1, 0):
    ...     state = rule.advance(state, torch.tensor([token]))
    >>> x = torch.zeros(1, 3)
    >>> rule.apply(x, state)                               # 0 1 has occurred, so no 1 after this 0
    >>> x
    tensor([[0., -inf, 0.]])
    """

    rows = (0, None)

    def __init__(self, n: int, ignore: Iterable[int] = ()):
        if n < 1:
            raise ArgumentError(f"NoRepeat: n must be at least 1, got {n}")
        self.n = n
        self.ignore = sorted(set(ignore))

    def start(self, context: SearchContext) -> State:
        check_tokens(self, self.ignore, context.vocab_size)
        history = torch.zeros(context.items, 0, dtype=torch.int64, device=context.device)
        counts = torch.ones(context.vocab_size, dtype=torch.bool, device=context.device)
        counts[self.ignore] = False
        return history, counts

    def apply(self, log_probs: Tensor, state: State) -> None:
        history, counts = state  # (N, T), (V,)
        stem = self.n - 1
        if history.shape[1] <= stem:
            return
        followers = history[:, stem:]  # (N, T-n+1): the token after each stem
        again = counts[followers]
        for k in range(stem):  # compare the k-th token of every stem with that of the last one
            at = history[:, k : history.shape[1] - stem + k]
            again = again & counts[at] & (at == history[:, history.shape[1] - stem + k, None])
        row, place = again.nonzero(as_tuple=True)
        log_probs[row, followers[row, place]] = NEVER

    def advance(self, state: State, tokens: Tensor) -> State:
        return torch.cat([state[0], tokens.unsqueeze(1)], 1), state[1]

    def __repr__(self) -> str:
        return f"NoRepeat({self.n})" if not self.ignore else f"NoRepeat({self.n}, ignore={self.ignore})"


def per_item(owner: object, tokens: Any, context: SearchContext) -> Tensor:
    """One list of tokens for all items, or one for each, as (items, longest + 1) with -1 after each one's end.

    >>> per_item("Prefix", [[4], [5, 6]], SearchContext(items=2, vocab_size=9))
    tensor([[ 4, -1, -1],
            [ 5,  6, -1]])
    """
    nested = any(not isinstance(one, Integral) for one in tokens)
    lists = [list(one) for one in tokens] if nested else [list(tokens)] * context.items
    if len(lists) != context.items:
        raise ArgumentError(f"{owner} has {len(lists)} lists of tokens, but there are {context.items} prompts")
    for one in lists:
        check_tokens(owner, one, context.vocab_size)
    longest = max(map(len, lists))
    padded = [one + [-1] * (longest + 1 - len(one)) for one in lists]
    return torch.tensor(padded, dtype=torch.int64, device=context.device).reshape(context.items, longest + 1)


def look_up(place: Tensor, table: Tensor) -> Tensor:
    """Each row's entry (N,) of `table` (N, L) at its `place` (N,), the last one if that is past the end.

    >>> look_up(torch.tensor([0, 7]), torch.tensor([[4, -1], [5, -1]]))
    tensor([ 4, -1])
    """
    return table.gather(1, place.clamp_max(table.shape[1] - 1).unsqueeze(1)).squeeze(1)


def shorten(tokens: Any) -> str:
    """A list for an error message, shortened.

    >>> shorten(list(range(100)))
    '[0, 1, 2, 3, 4, 5, 6, 7, …'
    """
    text = str(tokens)
    return text if len(text) <= 40 else text[:24].rstrip() + " …"
