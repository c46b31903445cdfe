"""Windows of a series: the steps to read, and those after them, to forecast."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..sources.filling import Fill
from .base import TensorBatch
from .bucketed import Bucketed

if TYPE_CHECKING:  # data is read without torch
    from torch import Tensor


@dataclass(frozen=True)
class WindowBatch(TensorBatch):
    """Some windows, time first."""

    past: Tensor  # (L + lag, B, V) float32: missing values are filled with what was known before the origin
    known: Tensor  # (L + lag, B, V) bool: whether the past value is a reading, or was filled
    future: Tensor  # (h, B, V) float32: where a value is missing, the last reading before it
    there: Tensor  # (h, B, V) bool: whether the future value is a reading; others are neither learnt nor measured
    phase: Tensor  # (L + lag + h, B) int64: each step's place in its season
    origins: Tensor  # (B,) int64: the row of the first future step
    series: Tensor  # (B,) int64: the number of each window's series
    covariates: Tensor  # (L + lag + h, B, C) float32: what is known ahead of every step

    def last(self, steps: int) -> WindowBatch:
        """The same with the last `steps` steps of the past alone."""
        cut = len(self.past) - steps
        parts = ("past", "known", "phase", "covariates")
        return replace(self, **{name: getattr(self, name)[cut:] for name in parts})

    def take(self, chosen: Tensor) -> WindowBatch:
        """Some of the windows."""
        return WindowBatch(*(part[chosen] if part.dim() == 1 else part[:, chosen] for part in vars(self).values()))

    @staticmethod
    def join(batches: Sequence[WindowBatch]) -> WindowBatch:
        """The windows of several batches, whose windows are of the same length, in one."""
        import torch

        each = zip(*(vars(batch).values() for batch in batches), strict=True)
        return WindowBatch(*(torch.cat(parts, 0 if parts[0].dim() == 1 else 1) for parts in each))

    def __repr__(self) -> str:
        return f"WindowBatch({len(self.origins)} windows, {len(self.past)} steps, {len(self.future)} ahead)"


@dataclass(frozen=True)
class Rows:
    """Series ready to be cut into windows: scaled, each missing value filled in every way that an origin may see it.

    The rows of all series stand one after the other, each series followed by at least one empty row, so that an origin
    just after its end has a number of its own; windows never reach into another series.

    `stepwise` is for networks that are trained to forecast from every step of a window: each step is an origin of its
    own, so a missing value may never be filled from values after it, and the last reading stands for it.
    """

    fill: Fill  # of (T, V) float32; no NaN
    there: np.ndarray  # (T, V) bool
    covariates: np.ndarray  # (T, C) float32; no NaN; continues in the rows after a series
    starts: np.ndarray  # (S,) int64: the first row of each series
    ends: np.ndarray  # (S,) int64: the row after its last one
    phases: np.ndarray  # (S,) int64: the first row's place in its season
    season: int
    stepwise: bool = False

    @property
    def fingerprint(self) -> str:
        digest = hashlib.blake2b(repr((self.season, self.stepwise)).encode(), digest_size=16)
        for part in (*self.fill, self.there, self.covariates, self.starts, self.ends, self.phases):
            digest.update(np.ascontiguousarray(part).tobytes())
        return digest.hexdigest()

    def part(self, variables: slice) -> Rows:
        """The same of some of the variables."""
        fill = Fill(*(part[:, variables] for part in self.fill))
        return replace(self, fill=fill, there=self.there[:, variables])

    def series_of(self, origins: np.ndarray) -> np.ndarray:
        """The number of the series of each origin."""
        return np.searchsorted(self.starts, origins, side="right") - 1

    def origins(self, first: Sequence[int], end: Sequence[int], ahead: int) -> np.ndarray:
        """The origins of all series from a row `first` of each on that have `ahead` rows before its row `end`."""
        each = zip(self.starts.tolist(), first, end, strict=True)
        return np.concatenate([start + np.arange(low, high - ahead + 1) for start, low, high in each])

    def window(self, origins: np.ndarray, past: int, ahead: int) -> WindowBatch:
        """The windows whose first future rows are `origins`, (B,). Rows before the start or past the end of a series
        are not there.
        """
        import torch

        series = self.series_of(origins)
        start, end = self.starts[series], self.ends[series]
        steps = origins + np.arange(-past, ahead)[:, None]  # (past + ahead, B)
        exists = ((steps >= start) & (steps < end))[..., None]
        row = np.clip(steps, start, end - 1)
        before = self.fill.open[row[:past]] if self.stepwise else self.fill.seen(row[:past], origins)
        there = self.there[row] & exists
        after = np.append(self.starts[1:], len(self.there))[series]  # the start of what follows
        parts = (
            np.where(exists[:past], before, 0), there[:past], self.fill.open[row[past:]], there[past:],
            (steps - start + self.phases[series]) % self.season, origins, series,
            self.covariates[np.clip(steps, start, after - 1)],
        )  # fmt: skip
        return WindowBatch(*(torch.from_numpy(np.ascontiguousarray(part)) for part in parts))


class WindowBatches(Bucketed):
    """Each window once an epoch, in an order that (seed, epoch) fixes."""

    def __init__(
        self,
        rows: Rows,
        origins: np.ndarray,
        past: int,
        ahead: int,
        *,
        windows: int,
        shuffle: bool = True,
        seed: int = 0,
    ) -> None:
        self.origins, self.past, self.ahead = origins, past, ahead
        super().__init__(rows, sequences=windows, shuffle=shuffle, seed=seed)

    def _sequence_lengths(self) -> np.ndarray:
        return np.ones(len(self.origins), np.int64)

    @property
    def settings(self) -> dict[str, Any]:
        return {**super().settings, "past": self.past, "ahead": self.ahead, "windows": len(self.origins)}

    def _of(self, chosen: np.ndarray) -> WindowBatch:
        return self.store.window(self.origins[chosen], self.past, self.ahead)
