"""The interface of search strategies."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator
from typing import NamedTuple, Protocol

import numpy as np

from .frontier import Frontier
from .hypothesis import Hypothesis


class Choice(NamedTuple):
    """Tokens that are final after one step, (M,) each."""

    items: np.ndarray
    copies: np.ndarray
    tokens: np.ndarray
    log_probs: np.ndarray
    last: np.ndarray  # bool: the sequence ends here


Run = Generator[Choice, None, list[list[Hypothesis]]]


class Strategy(Protocol):
    """A search strategy. `run` yields final choices if streaming, and returns hypotheses for each item, best first."""

    def check(self, vocab_size: int) -> None:
        """Raise if the vocabulary is too small."""

    def run(self, frontier: Frontier) -> Run: ...


class WholeSearch(ABC):
    """A strategy whose choices are final only at the end of the search."""

    @abstractmethod
    def search(self, frontier: Frontier) -> list[list[Hypothesis]]:
        """The hypotheses of each item, best first."""

    def run(self, frontier: Frontier) -> Run:
        hypotheses = self.search(frontier)
        if frontier.request.streaming:
            yield best_choice(hypotheses)
        return hypotheses


def best_choice(hypotheses: list[list[Hypothesis]]) -> Choice:
    """All tokens of the best hypothesis of each item."""
    tokens = [(item, h.tokens, h.token_log_probs) for item, (h, *_) in enumerate(hypotheses)]
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
