"""What the trainer reads: batches to train on and to measure on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol


class Batches(Protocol):
    """Batches in an order that (seed, epoch) fixes; reading can stop and resume anywhere."""

    def __iter__(self) -> Iterator[Any]: ...

    def __len__(self) -> int: ...

    def set_epoch(self, epoch: int) -> None: ...

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: dict[str, Any]) -> None: ...


@dataclass
class Data:
    """What a run reads. `info` goes into the report (sizes, vocabulary, unknown tokens), `notes` are printed first.

    `held_out` says which part of the training data `dev` is, for result.json; None: `dev` is other data.
    """

    train: Batches
    dev: Batches | None
    info: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    held_out: dict[str, Any] | None = None
