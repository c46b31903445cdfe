"""Batches of running text: parallel streams in windows, for truncated backpropagation with a state that is carried."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from ...errors import DataError, check_count
from ...wording import counted
from ..stores.tokens import TokenStore
from ..text.tokenizers import START
from .base import Batches, TextBatch


class StreamBatches(Batches):
    """A store's tokens in `streams` parallel streams of equal length, `bptt` steps of all of them in a batch.

    Sequence b of a batch continues where sequence b of the batch before ended, so the state is carried from batch to
    batch; `reset` is true on the first batch of an epoch. Every token is predicted once: the first from `first`, the
    first of another stream from the last token of the stream before it. Where the tokens do not divide evenly, the
    last step of some streams is `[PAD]`.

    `vary` draws the lengths of windows from (seed, epoch), as AWD-LSTM does, so that windows do not end at the same
    places in every epoch: most are near `bptt`, one in twenty near half of it. Their number is the same every epoch.

    >>> import pathlib, tempfile
    >>> from carousel.data import RunningText, StreamBatches, Vocabulary, tokenize
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "play.txt")
    ...     _ = file.write_text("abcdefghijk")
    ...     store = tokenize(RunningText(file), Vocabulary.train(RunningText(file)), folder)
    ...     batches = StreamBatches(store, streams=2, bptt=4)
    >>> for batch in batches:
    ...     print(batch.inputs.T.tolist(), batch.targets.T.tolist(), batch.reset)
    [[1, 4, 5, 6], [9, 10, 11, 12]] [[4, 5, 6, 7], [10, 11, 12, 13]] True
    [[7, 8], [13, 0]] [[8, 9], [14, 0]] False
    """

    carries = True

    def __init__(
        self, store: TokenStore, *, streams: int, bptt: int, vary: bool = False, seed: int = 0, first: int = START
    ) -> None:
        super().__init__(store, seed)
        check_count("streams", streams)
        check_count("bptt", bptt)
        if len(store.tokens) < streams:
            problem = f"{counted(len(store.tokens), 'token is', 'tokens are')} too few for {streams} parallel streams"
            raise DataError(store.source, None, problem, f"give more text, or at most {len(store.tokens)} streams")
        self.streams = streams
        self.bptt = bptt
        self.vary = vary
        self.first = first
        shortest, longer = divmod(len(store.tokens), streams)
        self._lengths = shortest + (np.arange(streams) < longer)  # (B,)
        self._starts = np.cumsum(self._lengths) - self._lengths  # (B,)
        self._steps = int(self._lengths[0])
        mean = 0.975 * bptt if vary else bptt  # 0.95 bptt + 0.05 bptt/2
        self._count = min(self._steps, int(np.ceil(self._steps / mean)))

    @property
    def settings(self) -> dict[str, Any]:
        return {"streams": self.streams, "bptt": self.bptt, "vary": self.vary, "seed": self.seed}

    @property
    def tokens(self) -> int:
        return len(self.store.tokens)

    @property
    def padding(self) -> float:
        places = self._steps * self.streams
        return (places - self.tokens) / places

    def __len__(self) -> int:
        return self._count

    def _plan(self, epoch: int) -> np.ndarray:
        """The step at which each window begins, and the end, (windows + 1,)."""
        if not self.vary:
            return np.minimum(np.arange(self._count + 1) * self.bptt, self._steps)
        random = self._random(epoch)
        middle = np.where(random.random(self._count) < 0.95, self.bptt, self.bptt / 2)
        length = np.maximum(random.normal(middle, min(5, self.bptt / 7)), min(5, self.bptt))
        # Stretched so that they fill the steps there are, each at least one step long.
        share = np.cumsum(length) / length.sum()
        ends = np.arange(1, self._count + 1) + np.round(share * (self._steps - self._count)).astype(np.int64)
        return np.concatenate([[0], ends])

    def _batch(self, plan: np.ndarray, index: int) -> TextBatch:
        first, end = plan[index], plan[index + 1]
        time = np.arange(first, end)[:, None]
        place = self._starts + time
        tokens = self.store.tokens
        targets = tokens.take(place, mode="clip").astype(np.int64)
        inputs = tokens.take(place - 1, mode="clip").astype(np.int64)
        if first == 0:
            inputs[0, 0] = self.first
        real = time < self._lengths
        if not real[-1, -1]:  # the last step: some streams are one step shorter
            targets *= real
            inputs *= real
        length, streams = real.sum(0), np.arange(self.streams)
        mine = self._part(streams)
        batch = TextBatch(
            torch.from_numpy(np.ascontiguousarray(inputs[:, mine])),
            torch.from_numpy(np.ascontiguousarray(targets[:, mine])),
            torch.from_numpy(length[mine]),
            torch.from_numpy(mine),
            int(length[mine].sum()),
            reset=bool(first == 0),
        )
        return self._shared(batch, streams)
