"""Windows of a series: what was, to read; what came, to forecast."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..sources.filling import Fill
from .bucketed import Bucketed


@dataclass(frozen=True)
class WindowBatch:
    """Some windows, time first."""

    past: Tensor  # (L + lag, B, V) float32: missing values are filled with what was known before the origin
    known: Tensor  # (L + lag, B, V) bool: whether the past value is a reading, or was filled
    future: Tensor  # (h, B, V) float32: where a value is missing, the last reading before it
    there: Tensor  # (h, B, V) bool: whether the future value is a reading; others are neither learnt nor measured
    phase: Tensor  # (L + lag + h, B) int64: each step's place in its season
    origins: Tensor  # (B,) int64: the row of the first future step

    def last(self, steps: int) -> WindowBatch:
        """The same with the last `steps` steps of the past alone."""
        cut = len(self.past) - steps
        return replace(self, past=self.past[cut:], known=self.known[cut:], phase=self.phase[cut:])

    def to(self, device: torch.device | str, non_blocking: bool = False) -> WindowBatch:
        """This batch on another device."""
        parts = ("past", "known", "future", "there", "phase", "origins")
        return replace(self, **{n: getattr(self, n).to(device, non_blocking=non_blocking) for n in parts})

    def __repr__(self) -> str:
        return f"WindowBatch({len(self.origins)} windows, {len(self.past)} steps, {len(self.future)} ahead)"


@dataclass(frozen=True)
class Rows:
    """A series ready to be cut into windows: scaled, each missing value filled in every way that an origin may see it.

    `stepwise` is for networks that are trained to forecast from every step of a window: each step is an origin of its
    own, so a missing value may never be filled with what came after it, and the last reading stands for it.
    """

    fill: Fill  # of (T, V) float32; no NaN
    there: np.ndarray  # (T, V) bool
    season: int
    phase: int  # the first row's place in its season
    stepwise: bool = False

    @property
    def fingerprint(self) -> str:
        digest = hashlib.blake2b(repr((self.season, self.phase, self.stepwise)).encode(), digest_size=16)
        for part in (*self.fill, self.there):
            digest.update(np.ascontiguousarray(part).tobytes())
        return digest.hexdigest()

    def part(self, variables: slice) -> Rows:
        """The same of some of the variables."""
        fill = Fill(*(part[:, variables] for part in self.fill))
        return replace(self, fill=fill, there=self.there[:, variables])

    def window(self, origins: np.ndarray, past: int, ahead: int) -> WindowBatch:
        """The windows whose first future rows are `origins`, (B,). Rows before the start or past the end of the series
        are not there.
        """
        last = len(self.there) - 1
        steps = origins + np.arange(-past, ahead)[:, None]  # (past + ahead, B)
        exists = ((steps >= 0) & (steps <= last))[..., None]
        row = np.clip(steps, 0, last)
        before = self.fill.open[row[:past]] if self.stepwise else self.fill.seen(row[:past], origins)
        there = self.there[row] & exists
        parts = (
            np.where(exists[:past], before, 0), there[:past], self.fill.open[row[past:]], there[past:],
            (steps + self.phase) % self.season, origins,
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
        super().__init__(rows, np.ones(len(origins), np.int64), sequences=windows, shuffle=shuffle, seed=seed)

    @property
    def settings(self) -> dict[str, Any]:
        return {**super().settings, "past": self.past, "ahead": self.ahead, "windows": len(self.origins)}

    def _of(self, chosen: np.ndarray) -> WindowBatch:
        return self.store.window(self.origins[chosen], self.past, self.ahead)
