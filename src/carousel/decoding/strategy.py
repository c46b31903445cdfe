"""What a strategy is: a way of going through a frontier."""

from __future__ import annotations

from collections.abc import Generator
from typing import NamedTuple, Protocol

import numpy as np

from .frontier import Frontier
from .hypothesis import Hypothesis


class Choice(NamedTuple):
    """Tokens settled at one step, (M,) each."""

    items: np.ndarray
    copies: np.ndarray
    tokens: np.ndarray
    log_probs: np.ndarray
    last: np.ndarray  # bool: the sequence ends here


Run = Generator[Choice, None, list[list[Hypothesis]]]


class Strategy(Protocol):
    """A way to search. `run` yields choices as they are settled and returns the hypotheses of each item, best first."""

    def check(self, vocab_size: int) -> None:
        """Refuse a vocabulary that the strategy cannot work on."""

    def run(self, frontier: Frontier) -> Run: ...


def settle(found: list[list[Hypothesis]]) -> Choice:
    """All tokens of each item's best hypothesis, for strategies that settle nothing before the end."""
    tokens = [(item, h.tokens, h.token_log_probs) for item, (h, *_) in enumerate(found)]
    counts = [len(t) for _, t, _ in tokens]
    last = np.zeros(sum(counts), bool)
    last[np.cumsum(counts) - 1] = True
    return Choice(
        items=np.repeat([item for item, _, _ in tokens], counts),
        copies=np.zeros(sum(counts), np.int64),
        tokens=np.array([token for _, t, _ in tokens for token in t]),
        log_probs=np.array([log_prob for _, _, p in tokens for log_prob in p]),
        last=last,
    )
