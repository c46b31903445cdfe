"""Length normalisation: the score of a sequence from its total log-probability and its length.

A length counts the generated tokens, the end token included, without the prompt.
"""

from __future__ import annotations

from typing import Any, Protocol

from ..errors import ArgumentError


class LengthNorm(Protocol):
    """Score from total log-probability and length. With equal totals, a longer sequence must not score lower.

    Totals and lengths are numbers or arrays of one shape.
    """

    def score(self, total: Any, length: Any) -> Any: ...


class Mean:
    """total / length ** penalty: with the default penalty of 1, the mean log-probability of a token.

    Larger penalties favour longer sequences; this is Hugging Face's `length_penalty`.

    >>> Mean().score(-6.0, 4), Mean(penalty=0.5).score(-6.0, 4)
    (-1.5, -3.0)
    """

    def __init__(self, penalty: float = 1.0):
        if not 0 < penalty < float("inf"):
            raise ArgumentError(f"penalty must be a number above 0, got {penalty}; Unnormalised() applies none")
        self.penalty = penalty

    def score(self, total: Any, length: Any) -> Any:
        return total / length**self.penalty

    def __repr__(self) -> str:
        return "Mean()" if self.penalty == 1 else f"Mean(penalty={self.penalty})"


class GNMT:
    """Wu et al. (2016): total / ((5 + length) / 6) ** alpha, for alpha > 0. Larger values favour longer sequences.

    >>> GNMT(alpha=1.0).score(-6.0, 7)
    -3.0
    """

    def __init__(self, alpha: float = 0.6):
        if not 0 < alpha < float("inf"):
            raise ArgumentError(f"alpha must be a number above 0, got {alpha}; Unnormalised() applies no penalty")
        self.alpha = alpha

    def score(self, total: Any, length: Any) -> Any:
        return total / ((5 + length) / 6) ** self.alpha

    def __repr__(self) -> str:
        return f"GNMT(alpha={self.alpha})"


class Unnormalised:
    """The total log-probability: ranks by probability, which favours short sequences.

    >>> Unnormalised().score(-6.0, 4)
    -6.0
    """

    def score(self, total: Any, length: Any) -> Any:
        return total

    def __repr__(self) -> str:
        return "Unnormalised()"
