"""Sequences of numbers as batches: scaled, padded, similar lengths together."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from ...data.batches.base import TensorBatch
from ...data.batches.bucketed import Bucketed
from ...masks import length_mask

if TYPE_CHECKING:  # data is read without torch
    from torch import Tensor


@dataclass(frozen=True)
class SequenceBatch(TensorBatch):
    """Some sequences, time first; zeros past each one's end."""

    x: Tensor  # (T, B, I) float32
    lengths: Tensor  # (B,) int64
    rows: Tensor  # (B,) int64: which sequences of the store these are
    labels: Tensor | None = None  # (B,) int64: classes
    targets: Tensor | None = None  # (B, 1) float32: numbers, scaled
    linear: ClassVar[None] = None  # there is no linear model

    def spans(self, rows: Tensor, starts: Tensor, lengths: Tensor) -> SequenceBatch:
        """Parts of its sequences as a batch of their own, without labels: from the rows (C,) the steps from `starts`
        (C,) on, as many as `lengths` (C,)."""
        import torch

        real = length_mask(lengths, int(lengths.max()))
        at = (starts + torch.arange(len(real), device=rows.device).unsqueeze(1)).clamp(max=len(self.x) - 1)
        return SequenceBatch(self.x[at, rows].masked_fill(~real.unsqueeze(2), 0), lengths, self.rows[rows])


@dataclass
class Scale:
    """The mean and the standard deviation of each variable, (V,); whether numbers may be missing."""

    mean: np.ndarray
    deviation: np.ndarray
    missing: bool

    @classmethod
    def learn(cls, sequences: Sequence[np.ndarray]) -> Scale:
        whole = np.concatenate(sequences).astype(np.float64)
        known = ~np.isnan(whole)
        count = np.maximum(known.sum(0), 1)
        mean = np.where(known, whole, 0).sum(0) / count
        deviation = np.sqrt(np.where(known, whole - mean, 0).__pow__(2).sum(0) / count)
        return cls(mean, np.where(deviation > 0, deviation, 1), bool((~known).any()))

    @property
    def inputs(self) -> int:
        """How many numbers a step has for the network."""
        return len(self.mean) * (2 if self.missing else 1)

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """(T, V) → (T, inputs): standard scores, 0 where a number is missing; if some were in training, then also, for
        each variable, 1 where it is missing and 0 elsewhere."""
        unknown = np.isnan(x)
        scaled = np.where(unknown, 0, (x - self.mean) / self.deviation).astype(np.float32)
        return np.concatenate([scaled, unknown.astype(np.float32)], 1) if self.missing else scaled


def collate(sequences: Sequence[np.ndarray], rows: np.ndarray, **labels: Tensor) -> SequenceBatch:
    """The batch of these scaled sequences, (T, I) each."""
    import torch

    lengths = torch.tensor([len(x) for x in sequences])
    padded = np.zeros((max(map(len, sequences)), len(sequences), sequences[0].shape[1]), np.float32)
    for k, x in enumerate(sequences):
        padded[: len(x), k] = x
    return SequenceBatch(torch.from_numpy(padded), lengths, torch.from_numpy(rows), **labels)


class SequenceStore:
    """Scaled sequences in memory, with their classes (N,) int64 or numbers (N, 1) float32."""

    def __init__(self, sequences: list[np.ndarray], labels: np.ndarray) -> None:
        self.sequences, self.labels = sequences, labels

    @property
    def lengths(self) -> np.ndarray:
        return np.array([len(x) for x in self.sequences])

    @property
    def fingerprint(self) -> str:
        """A hash of all numbers and labels."""
        digest = hashlib.blake2b(self.labels.tobytes(), digest_size=16)
        for x in self.sequences:
            digest.update(x.tobytes())
        return digest.hexdigest()

    def __len__(self) -> int:
        return len(self.sequences)


class SequenceBatches(Bucketed):
    """Each sequence once an epoch, those of similar length together; as in `Bucketed`."""

    store: SequenceStore

    def _of(self, chosen: np.ndarray) -> SequenceBatch:
        import torch

        labels = torch.from_numpy(self.store.labels[chosen])
        name = "labels" if labels.dim() == 1 else "targets"
        return collate([self.store.sequences[k] for k in chosen], chosen, **{name: labels})
