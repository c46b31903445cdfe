"""How a sequence's log-probability becomes its score, so that long and short ones can be compared.

A length counts the tokens found, the end token among them, without the prompt.
"""

from __future__ import annotations

from typing import Any, Protocol


class LengthNorm(Protocol):
    """Total log-probability and length to score. At equal totals, a longer sequence must not score lower.

    Totals and lengths are numbers or arrays of one shape.
    """

    def score(self, total: Any, length: Any) -> Any: ...


class Mean:
    """The mean log-probability of a token: total / length.

    >>> Mean().score(-6.0, 4)
    -1.5
    """

    def score(self, total: Any, length: Any) -> Any:
        return total / length

    def __repr__(self) -> str:
        return "Mean()"


class GNMT:
    """Wu et al. (2016): total / ((5 + length) / 6) ** alpha, for alpha > 0. Larger values favour longer sequences.

    >>> GNMT(alpha=1.0).score(-6.0, 7)
    -3.0
    """

    def __init__(self, alpha: float = 0.6):
        if not 0 < alpha < float("inf"):
            raise ValueError(f"alpha must be a number above 0, got {alpha}; Unnormalised() is no penalty")
        self.alpha = alpha

    def score(self, total: Any, length: Any) -> Any:
        return total / ((5 + length) / 6) ** self.alpha

    def __repr__(self) -> str:
        return f"GNMT(alpha={self.alpha})"


class Unnormalised:
    """The total log-probability itself: the most probable sequence, which tends to be a short one.

    >>> Unnormalised().score(-6.0, 4)
    -6.0
    """

    def score(self, total: Any, length: Any) -> Any:
        return total

    def __repr__(self) -> str:
        return "Unnormalised()"
