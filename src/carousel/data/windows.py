"""Windows of a series: what was, to read; what came, to forecast."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .bucketed import Bucketed


@dataclass(frozen=True)
class WindowBatch:
    """Some windows, time first."""

    past: Tensor  # (L + lag, B, V) float32
    known: Tensor  # (L + lag, B, V) bool: whether the past value was there, or was made up
    future: Tensor  # (h, B, V) float32
    there: Tensor  # (h, B, V) bool: whether the future value is there to be compared with
    phase: Tensor  # (L + lag + h, B) int64: each step's place in its season
    origins: Tensor  # (B,) int64: the row of the first future step

    def reading(self, steps: int) -> WindowBatch:
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
    """A series ready to be cut into windows: scaled, with missing values made up."""

    values: np.ndarray  # (T, V) float32
    there: np.ndarray  # (T, V) bool
    phase: np.ndarray  # (T,) int64

    @property
    def fingerprint(self) -> str:
        made = hashlib.blake2b(digest_size=16)
        for part in (self.values, self.there, self.phase):
            made.update(np.ascontiguousarray(part).tobytes())
        return made.hexdigest()

    def window(self, origins: np.ndarray, past: int, ahead: int) -> WindowBatch:
        """The windows whose first future rows are `origins`; what lies past the end of the series is not there."""
        before = origins + np.arange(-past, 0)[:, None]
        after = origins + np.arange(ahead)[:, None]
        inside = after < len(self.values)
        row = np.minimum(after, len(self.values) - 1)
        period = int(self.phase.max()) + 1
        phase = np.concatenate((self.phase[before], np.where(inside, self.phase[row], 0)))
        for k in range(past, past + ahead):  # the season goes on past the end
            phase[k] = (phase[past - 1] + k - past + 1) % period
        return WindowBatch(
            *(torch.from_numpy(np.ascontiguousarray(part)) for part in (
                self.values[before], self.there[before], self.values[row], self.there[row] & inside[..., None], phase,
                origins,
            ))
        )  # fmt: skip


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
