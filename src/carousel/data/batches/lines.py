"""Batches of whole lines: similar lengths together, so that little is padding."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch

from ...errors import check_count
from ...masks import length_mask, row_positions
from ..stores.tokens import TokenStore
from ..text.tokenizers import END, START
from .base import TextBatch
from .bucketed import Bucketed


class LineBatches(Bucketed):
    """Each line of a store once an epoch: `[START]` and the line read, the line and `[END]` to be predicted.

    A batch holds at most `tokens` targets, padding included, and at most `sequences` lines; give either or both. Lines
    of similar length come together. With `shuffle`, which lines of one length meet and the order of batches are drawn
    from (seed, epoch); without, the longest come first, always in the same order.

    A single line longer than `tokens` is a batch by itself. `max_length` cuts lines that have more targets than that:
    each part continues where the one before ended, but from a fresh state; every token is still predicted once.

    >>> import pathlib, tempfile
    >>> from carousel.data import LineBatches, Lines, Vocabulary, tokenize
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "poems.txt")
    ...     _ = file.write_text("abba\\nba\\n")
    ...     store = tokenize(Lines(file), Vocabulary.train(Lines(file)), folder)
    ...     batches = LineBatches(store, sequences=2, shuffle=False)
    >>> batch, = batches
    >>> batch.inputs.T.tolist(), batch.lengths.tolist()
    ([[1, 4, 5, 5, 4], [1, 5, 4, 0, 0]], [5, 3])
    >>> batch.targets.T.tolist(), batches.padding
    ([[4, 5, 5, 4, 2], [5, 4, 2, 0, 0]], 0.2)
    """

    def __init__(
        self,
        store: TokenStore,
        *,
        tokens: int | None = None,
        sequences: int | None = None,
        max_length: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
    ) -> None:
        check_count("max_length", max_length, optional=True)
        self.max_length = max_length
        self._parts = _cut(store, max_length)
        super().__init__(store, tokens=tokens, sequences=sequences, shuffle=shuffle, seed=seed)

    def _sequence_lengths(self) -> np.ndarray:
        return self._parts.length

    @property
    def settings(self) -> dict[str, Any]:
        return {**super().settings, "max_length": self.max_length}

    def _of(self, parts: np.ndarray) -> TextBatch:
        row, start, length, last = (field[parts] for field in self._parts)
        time = np.arange(length.max())[:, None]
        real = length_mask(length, len(time))
        # Target t of a part is the token at start + t, except [END], which follows a line's last token.
        tokens = self.store.tokens
        targets = tokens.take(start + time, mode="clip").astype(np.int64)
        targets *= real
        targets[length[last] - 1, np.flatnonzero(last)] = END
        inputs = np.empty_like(targets)
        first = start == self.store.offsets[row]
        inputs[0] = np.where(first, START, tokens.take(start - 1, mode="clip"))
        np.multiply(targets[:-1], real[1:], out=inputs[1:])
        return TextBatch(
            torch.from_numpy(inputs),
            torch.from_numpy(targets),
            torch.from_numpy(length),
            torch.from_numpy(row),
            int(length.sum()),
        )


class _Parts(NamedTuple):
    """Lines, or parts of lines: each is (parts,)."""

    row: np.ndarray  # the line it belongs to
    start: np.ndarray  # where its first target stands among the tokens
    length: np.ndarray  # how many targets it has; a line's last part has [END] among them
    last: np.ndarray  # whether it is a line's last part


def _cut(store: TokenStore, max_length: int | None) -> _Parts:
    start, length = store.offsets[:-1], np.diff(store.offsets) + 1
    row = np.arange(len(store))
    if max_length is None or not len(length) or length.max() <= max_length:
        return _Parts(row, start, length, np.ones(len(row), bool))
    count = -(-length // max_length)  # parts of each line
    row = np.repeat(row, count)
    before = max_length * row_positions(count)  # targets in parts before
    rest = length[row] - before
    return _Parts(row, start[row] + before, np.minimum(rest, max_length), rest <= max_length)
