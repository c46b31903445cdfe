"""What every kind of batches has in common: epochs, a position in them, and resuming from it."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np

from ...errors import DataError, check_count

if TYPE_CHECKING:  # data is read without torch
    import torch
    from torch import Tensor


class TensorBatch:
    """Base class of batches, which are dataclasses: their tensors, and batches within them, are moved together."""

    def to(self, device: torch.device | str, non_blocking: bool = False) -> Self:
        """This batch on another device."""
        return self._each("to", device, non_blocking=non_blocking)

    def pin_memory(self) -> Self:
        """This batch in page-locked memory, from where copies to a GPU are faster."""
        return self._each("pin_memory")

    def _each(self, method: str, *args: Any, **options: Any) -> Self:
        """A copy in which every part that has the method is replaced by what the method returns."""
        parts = {name: part for name, part in vars(self).items() if hasattr(part, method)}
        batch: Any = self
        return replace(batch, **{name: getattr(part, method)(*args, **options) for name, part in parts.items()})


@dataclass(frozen=True)
class TextBatch(TensorBatch):
    """What a language model reads and what it should say next, time first; `[PAD]` (0) past each sequence's end.

    >>> import torch
    >>> from carousel.data import TextBatch
    >>> one = torch.ones(3, 2, dtype=torch.int64)
    >>> TextBatch(one, one, torch.tensor([3, 3]), torch.tensor([0, 1]), 6)
    TextBatch(3 steps, 2 sequences, 6 tokens)
    """

    inputs: Tensor  # (T, B) int64
    targets: Tensor  # (T, B) int64: targets[t] follows inputs[t]
    lengths: Tensor  # (B,) int64: how many steps are real
    rows: Tensor  # (B,) int64: which line of the store, or which stream, this is
    tokens: int  # targets that are not [PAD]: lengths.sum()
    reset: bool = True  # whether the state is reset, or carried over from the batch before

    def __repr__(self) -> str:
        steps, sequences = self.inputs.shape
        return f"TextBatch({steps} steps, {sequences} sequences, {self.tokens} tokens)"


def int_tensor(array: np.ndarray) -> Tensor:
    """An array of integers as int64, sharing memory where it can."""
    import torch

    return torch.from_numpy(np.ascontiguousarray(array, np.int64))


class Store(Protocol):
    """What batches are made from, as far as resuming from a position in them is concerned."""

    @property
    def fingerprint(self) -> str: ...


class Batches(ABC):
    """An iterable of batches. Each `iter` is an epoch, and every epoch has the same number of batches.

    The order depends on (seed, epoch) alone. `state_dict` taken after any batch and given to `load_state_dict` of a
    new object makes its next `iter` begin with the very batch that would have come.
    """

    carries = False  # whether the state is carried from batch to batch, so that all are read by one process
    _rank, _size = 0, 1  # of this process and of those that share each batch

    def __init__(self, store: Store, seed: int) -> None:
        check_count("seed", seed, least=0)
        self.store: Any = store
        self.seed = seed
        self._epoch = 0
        self._next = 0  # the batch of the epoch that comes next
        self._placed = True  # whether the next `iter` begins at this place, or with a new epoch

    @property
    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """The arguments that the order depends on."""

    @property
    @abstractmethod
    def tokens(self) -> int:
        """How many tokens an epoch has: targets, or words read."""

    @property
    @abstractmethod
    def padding(self) -> float:
        """The share of `[PAD]` among the tokens of an epoch, from 0 to 1."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def _plan(self, epoch: int) -> Any:
        """What `_batch` needs to know of this epoch."""

    @abstractmethod
    def _batch(self, plan: Any, index: int) -> Any: ...

    def __iter__(self) -> Iterator[Any]:
        if not self._placed and self._next:  # the epoch before was left early
            self._epoch, self._next = self._epoch + 1, 0
        self._placed = False
        epoch, first = self._epoch, self._next
        plan = self._plan(epoch)
        for index in range(first, len(self)):
            batch = self._batch(plan, index)
            # Before the batch is handed out, since a checkpoint is made while it is being used.
            last = index + 1 == len(self)
            self._epoch, self._next = (epoch + 1, 0) if last else (epoch, index + 1)
            yield batch

    def share(self, rank: int, size: int) -> Self:
        """The part of each batch that process `rank` of `size` reads, as (batch, counts): the sequences `rank`,
        `rank + size` and so on. Where there are too few, `counts` is false and the batch is its first sequence."""
        shared = copy.copy(self)
        shared._rank, shared._size = rank, size
        return shared

    def _part(self, items: np.ndarray) -> np.ndarray:
        """This process's part of the items of a batch; the first item if there is none for it."""
        return items[:1] if len(items) <= self._rank else items[self._rank :: self._size]

    def _shared(self, batch: Any, items: np.ndarray) -> Any:
        """The batch of this process's part of `items`, with whether it counts if there are several processes."""
        return batch if self._size == 1 else (batch, len(items) > self._rank)

    @property
    def epoch(self) -> int:
        """The epoch that the next batch belongs to."""
        return self._epoch

    def set_epoch(self, epoch: int) -> None:
        """Let the next `iter` be this epoch, from its beginning unless a place in it was loaded."""
        if epoch != self._epoch or not self._placed:
            self._epoch, self._next, self._placed = epoch, 0, True

    def state_dict(self) -> dict[str, Any]:
        """The place of the next batch, and what the batches are made from."""
        return {"epoch": self._epoch, "batch": self._next, "data": self.store.fingerprint, **self.settings}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Let the next `iter` begin at the place in `state`, which must come from the same data and settings."""
        mine = self.state_dict()
        for name in mine:
            if name not in ("epoch", "batch") and state.get(name) != mine[name]:
                was = "" if name == "data" else f" ({state.get(name)!r} then, {mine[name]!r} now)"
                raise DataError(
                    None, None, f"cannot resume in the middle of an epoch: {name} has changed{was}", "restore it"
                )
        self._epoch, self._next, self._placed = state["epoch"], state["batch"], True

    def _random(self, epoch: int) -> np.random.Generator:
        return np.random.Generator(np.random.PCG64([self.seed, epoch]))

    def __repr__(self) -> str:
        given = ", ".join(f"{name}={value!r}" for name, value in self.settings.items())
        return f"{type(self).__name__}({self.store!r}, {given})"
