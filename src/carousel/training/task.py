"""What the engine knows of a task: a network with settings, batches to read, a loss, and a meter for the dev set."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol, Self

from torch import Tensor, nn

from ..errors import ArgumentError
from ..tasks import register
from ..wording import an
from .settings import Settings, group_of

ESSENTIAL = ("cell", "embedding", "hidden", "layers", "attention", "composition")  # settings that a model prints


class Loss(NamedTuple):
    """What one batch gives: the mean to be minimised, and of how many things (tokens, sentences) it is the mean."""

    mean: Tensor  # ()
    weight: int


class Batches(Protocol):
    """Batches in an order that (seed, epoch) fixes, which can be left and taken up again anywhere."""

    def __iter__(self) -> Iterator[Any]: ...

    def __len__(self) -> int: ...

    def set_epoch(self, epoch: int) -> None: ...

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: dict[str, Any]) -> None: ...


class Meter(Protocol):
    """Adds up batches; `result` is the measures of all of them. Parts of a data set can be merged."""

    def add(self, batch: Any) -> None: ...

    def merge(self, other: Any) -> None: ...

    def result(self) -> dict[str, float]: ...


@dataclass
class Data:
    """What a run reads. `facts` are said in the report: sizes, vocabulary, unknown tokens; `notes` before training."""

    train: Batches
    dev: Batches | None
    facts: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


class LayerInput(NamedTuple):
    """What the recurrent layers of a model read of a batch."""

    name: str  # of the layers in the model
    layer: nn.Module
    x: Tensor  # (T, B, I)
    lengths: Tensor  # (B,)
    tokens: tuple[tuple[str, ...], ...] = ()  # of each sequence, step by step, if it is text


class Option(NamedTuple):
    """An option that a command has for the runs of one task: a keyword of `predict_lines`, `predict_file`, `format`,
    or of `evaluate`; the command line writes it with dashes."""

    kind: type  # bool: a flag
    help: str
    metavar: str | None = None
    minimum: int | None = None
    reads_file: bool = False  # a flag of `predict`: the file is one for `predict_file`, whatever its name


class Task(nn.Module, ABC):
    """A network that the engine can train, keep and load again.

    A subclass has a `name`, `Settings`, and the `metric` by which the best epoch is chosen. With its name it registers
    itself: `carousel train NAME`, `carousel.train(NAME, …)` and `carousel.load` know it then. Everything that commands
    need to know of a task is declared here.
    """

    name: ClassVar[str]
    help: ClassVar[str] = ""  # of `carousel train NAME`: a line on what is trained, then examples
    Settings: ClassVar[type[Settings]]
    metric: ClassVar[str]
    lower_is_better: ClassVar[bool] = True
    unit: ClassVar[str] = "tokens"  # what Loss.weight counts
    extensions: ClassVar[tuple[str, ...]] = ()  # of files that are data for this task and no other
    predict_extensions: ClassVar[tuple[str, ...]] = ()  # of files for `predict_file`; others have one item on each line
    num_files: ClassVar[int] = 1  # the most files of a set of data: 2 for texts and their translations
    columns: ClassVar[tuple[str, ...]] = ()  # the parts of a prediction that `format` puts in a table, if it is one
    commands: ClassVar[tuple[str, ...]] = ()  # what runs can do besides train, eval, predict and check
    predict_options: ClassVar[Mapping[str, Option]] = {}
    evaluate_options: ClassVar[Mapping[str, Option]] = {}

    settings: Any
    origin: str = ""  # where it was loaded from, and what it reached there
    progress: float = 0.0  # the share of the training that is done; the engine says it before each batch

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "name" not in cls.__dict__:  # part of a task, or a variant of one
            return
        fields = cls.Settings.model_fields
        if "task" not in fields or fields["task"].default != cls.name:
            line = f'task: Literal["{cls.name}"] = key("{cls.name}", "the task", "data")'
            raise ArgumentError(f"{cls.__qualname__}: its Settings do not name the task; add the line {line}")
        register(cls)

    @classmethod
    @abstractmethod
    def prepare(cls, settings: Any, network: Self | None = None) -> tuple[Self, Data]:
        """Read the data that `settings` name and make a new network for it; parameters from torch's generator.

        `network` is that of a run that is resumed, as `restore` gives it: it is used, with its vocabularies and labels
        for the data, and nothing is learned again from the training file.
        """

    @classmethod
    @abstractmethod
    def restore(cls, settings: Any, folder: Path) -> Self:
        """The network of a run directory, its parameters not yet loaded."""

    @abstractmethod
    def keep(self, folder: Path) -> None:
        """Write what `restore` reads besides settings and parameters: vocabularies, labels."""

    @abstractmethod
    def loss(self, batch: Any) -> Loss: ...

    @abstractmethod
    def meter(self) -> Meter:
        """A new meter; its results include `metric`."""

    def batches(self, *files: Any) -> Iterable[Any]:
        """A set of data in batches as `evaluate` reads them, in an order that does not change."""
        raise ArgumentError(f"{an(self.name)} model does not give the batches of a file")

    def layer_input(self, batch: Any) -> LayerInput:
        """The layers that read a batch first, and what they read of it; with dropout in training mode."""
        raise ArgumentError(f"{an(self.name)} model has no recurrent layer that reads step by step")

    @property
    def carried(self) -> dict[str, Tensor]:
        """What goes from one training batch to the next besides parameters; part of every checkpoint."""
        return {}

    @carried.setter
    def carried(self, state: dict[str, Tensor]) -> None:
        if state:
            raise ValueError(f"{type(self).__name__} carries nothing from batch to batch")

    def show(self, page: Any) -> None:
        """Add to the report what this task has to show: samples, pictures."""

    def evaluate(self, *files: Any, **options: Any) -> dict[str, Any]:
        """The measures of the model on a set of data, in JSON's terms: numbers, and tables by row and column."""
        raise ArgumentError(f"{an(self.name)} model has no evaluation")

    def predict_lines(self, lines: Iterable[str]) -> Iterator[dict[str, Any]]:
        """A prediction for each line of raw text, in JSON's terms; blank lines have their place too."""
        raise ArgumentError(f"{an(self.name)} model does not predict; it has other commands (see carousel --help)")

    def predict_file(self, path: Path) -> Iterator[dict[str, Any]]:
        """The same for a file of the task's own kind."""
        raise ArgumentError(f"{an(self.name)} model reads plain text, an item a line; {path} is not that")

    def format(self, found: dict[str, Any], **options: Any) -> str:
        """One item of `predict_lines` as text: its `columns` with tabs between, or in the task's own form."""
        parts = [found[name] for name in self.columns]
        return "\t".join("" if part is None else str(part).replace("\t", " ") for part in parts)

    @classmethod
    def write_data(cls, data: Any, stem: Path, settings: Mapping[str, Any]) -> Path | tuple[Path, ...]:
        """Write data in memory to files: `stem` with an extension. `settings` are those given with it."""
        raise ArgumentError(f"{cls.name}: data is given in files, not as {type(data).__name__}")

    @classmethod
    def check(cls, settings: Any) -> Any:
        """What is in the data that `settings` name: prints with Rich, and has `warnings` and `as_dict()`."""
        raise ArgumentError(f"there is no check of data for {cls.name} yet")

    def describe_loss(self) -> Callable[[float], str]:
        """How the progress bar words a training loss."""
        return lambda loss: f"loss {loss:.4f}"

    @property
    def size(self) -> int:
        """How many parameters the network has."""
        return sum(parameter.numel() for parameter in self.parameters())

    @property
    def facts(self) -> dict[str, Any]:
        """What it knows besides its weights, for whoever prints it: vocabularies, labels."""
        return {}

    def __repr__(self) -> str:
        """What a reader wants to know of a model; `print(model.layers)` and so on show the modules."""
        keys = [
            f"{name} {value}"
            for name, field in type(self.settings).model_fields.items()
            for value in (getattr(self.settings, name),)
            if group_of(field) == "model" and (name in ESSENTIAL or value != field.default)
        ]
        told = {"from": self.origin, "settings": ", ".join(keys), **self.facts}
        lines = [f"{self.name} model, {self.size:,} parameters"]
        for name, value in told.items():
            shown = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
            if shown:
                lines.append(f"  {name:<9} {shown if len(shown) <= 110 else shown[:109] + '…'}")
        return "\n".join(lines)
