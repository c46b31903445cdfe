"""What the trainer trains: a network with a loss, and a metric for the dev set."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol, Self

from torch import Tensor, nn

from ..wording import label_of
from .data import Data


class Loss(NamedTuple):
    """The loss of one batch: the mean to be minimised, and how many items (tokens, sentences) it is the mean of."""

    mean: Tensor  # ()
    weight: int


class Metric(ABC):
    """Accumulates batches of a data set; parts of the data set can be accumulated apart and merged."""

    best: str  # the result by which the best epoch is chosen
    lower_is_better: bool = False
    tie_breaker: str = "loss"  # the result (lower is better) that decides between epochs with equal `best`

    @abstractmethod
    def add(self, batch: Any) -> None: ...

    @abstractmethod
    def merge(self, other: Self) -> None: ...

    @abstractmethod
    def result(self) -> dict[str, float]:
        """The results for everything added, by name; `best` is among the names."""

    def label(self, name: str) -> str:
        """What a reader calls the result `name`."""
        return label_of(name)


class SummedMetric(Metric):
    """A metric whose parts are added up: numbers, lists, tensors, and whatever has a method `merge`."""

    sums: ClassVar[tuple[str, ...]]  # the names of these attributes

    def merge(self, other: Self) -> None:
        for name in self.sums:
            own, more = getattr(self, name), getattr(other, name)
            if hasattr(own, "merge"):
                own.merge(more)
            else:
                setattr(self, name, own + more)


class Trainable(Protocol):
    """What the trainer knows of a task."""

    name: ClassVar[str]
    Settings: ClassVar[Any]

    @classmethod
    def prepare(cls, settings: Any, assets: Any | None = None) -> tuple[Any, Data]: ...

    @classmethod
    def load_assets(cls, settings: Any, folder: Path) -> Any: ...

    @classmethod
    def make_network(cls, settings: Any, assets: Any) -> Network: ...

    @classmethod
    def start_network(cls, network: Any, assets: Any) -> list[str]: ...

    @classmethod
    def make_ensemble(cls, networks: Sequence[Any]) -> Network: ...

    @classmethod
    def make_model(cls, network: Any, assets: Any) -> Any: ...

    @classmethod
    def report(cls, model: Any, page: Any) -> None: ...

    @classmethod
    def baselines(cls, settings: Any, assets: Any, data: Data) -> Mapping[str, Callable[[], float]]: ...


class Network(nn.Module, ABC):
    """A module that the trainer can train. Its vocabularies and labels are the task's (`Assets`)."""

    unit: ClassVar[str] = "tokens"  # what Loss.weight counts
    settings: Any
    progress: float = 0.0  # the share of the training that is done; the trainer sets it before each batch

    @abstractmethod
    def loss(self, batch: Any) -> Loss: ...

    @abstractmethod
    def metric(self) -> Metric:
        """A new metric of this network."""

    @property
    def carried(self) -> dict[str, Tensor]:
        """What is carried from one training batch to the next besides parameters; part of every checkpoint."""
        return {}

    @carried.setter
    def carried(self, state: dict[str, Tensor]) -> None:
        if state:
            raise ValueError(f"{type(self).__name__} carries nothing from batch to batch")

    def row_names(self, assets: Any) -> Mapping[str, tuple[Sequence[str], ...]]:
        """What the rows of parameters belong to, such as words or labels: of each of the first axes of a parameter the
        names, in their order. `start_from` matches rows by them."""
        return {}

    def describe_choice(self) -> tuple[str, bool]:
        """What was chosen on the dev set besides the epoch, for the log, empty if nothing; and whether the choice makes
        training useless: then more of it is not what to try."""
        return "", False

    def describe_loss(self) -> Callable[[float], str]:
        """How the progress bar shows a training loss."""
        return lambda loss: f"loss {loss:.4f}"

    @property
    def size(self) -> int:
        """The number of parameters."""
        return sum(parameter.numel() for parameter in self.parameters())
