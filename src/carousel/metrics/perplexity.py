"""Perplexity."""

from __future__ import annotations

import math


def perplexity(loss: float) -> float:
    """exp of the mean negative log-probability of a token; infinite where that is more than a float can hold.

    >>> perplexity(0.0), perplexity(1e4)
    (1.0, inf)
    """
    return math.exp(loss) if loss < 700 else math.inf
