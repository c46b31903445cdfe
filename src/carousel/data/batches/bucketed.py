"""Batches of whole sequences: similar lengths together, so that little is padding."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np

from ...errors import ArgumentError, check_count
from .base import Batches, Store


class Bucketed(Batches):
    """Each sequence once an epoch, in batches of similar length; a subclass says what a batch is made of.

    A batch holds at most `tokens`, padding included, and at most `sequences`; give either or both. A single sequence
    longer than `tokens` is a batch by itself. With `shuffle`, which sequences of one length meet and the order of
    batches are drawn from (seed, epoch); without, the longest come first, always in the same order.
    """

    def __init__(
        self,
        store: Store,
        *,
        tokens: int | None = None,
        sequences: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
    ) -> None:
        super().__init__(store, seed)
        check_count("tokens", tokens, optional=True)
        check_count("sequences", sequences, optional=True)
        if tokens is None and sequences is None:
            raise ArgumentError("give tokens or sequences, or both: neither says how large a batch is")
        self.budget = tokens
        self.sequences = sequences
        self.shuffle = shuffle
        self._lengths = lengths = self._sequence_lengths()
        self._longest_first = np.argsort(-lengths, kind="stable")
        self._bounds = self._divide(lengths[self._longest_first])

    def _sequence_lengths(self) -> np.ndarray:
        """How long each sequence of the store is, (sequences,)."""
        return self.store.lengths

    @abstractmethod
    def _of(self, chosen: np.ndarray) -> Any:
        """The batch of these sequences, (B,), the longest first."""

    @property
    def settings(self) -> dict[str, Any]:
        return {"tokens": self.budget, "sequences": self.sequences, "shuffle": self.shuffle, "seed": self.seed}

    @property
    def tokens(self) -> int:
        return int(self._lengths.sum())

    @property
    def padding(self) -> float:
        steps = self._lengths[self._longest_first[self._bounds[:-1]]]
        places = int(steps @ np.diff(self._bounds))
        return (places - self.tokens) / places

    def __len__(self) -> int:
        return len(self._bounds) - 1

    def _divide(self, lengths: np.ndarray) -> np.ndarray:
        """Where each batch begins, and the end, (batches + 1,), for sequences with these `lengths`, the longest first.

        Since only lengths matter, every epoch has batches of the same shapes.
        """
        bounds = [0]
        while bounds[-1] < len(lengths):
            size = len(lengths) if self.sequences is None else self.sequences
            if self.budget is not None:
                size = min(size, max(1, self.budget // max(1, int(lengths[bounds[-1]]))))
            bounds.append(min(bounds[-1] + size, len(lengths)))
        return np.array(bounds)

    def _plan(self, epoch: int) -> tuple[np.ndarray, np.ndarray]:
        """The sequences, longest first, (sequences,), and the order of the batches, (batches,)."""
        if not self.shuffle:
            return self._longest_first, np.arange(len(self))
        random = self._random(epoch)
        mixed = random.permutation(len(self._longest_first))
        mixed = mixed[np.argsort(-self._lengths[mixed], kind="stable")]
        return mixed, random.permutation(len(self))

    def _batch(self, plan: tuple[np.ndarray, np.ndarray], index: int) -> Any:
        order, batches = plan
        at = batches[index]
        chosen = order[self._bounds[at] : self._bounds[at + 1]]
        return self._shared(self._of(self._part(chosen)), chosen)
