"""What a task is: a declaration that commands and calls read (`Task`), and what a trained run gives (`Model`).

A task is a folder, or a file of a user's own: settings, data, a network, a predictor, a report. The declaration imports
the other parts when they are needed, so that the help of a command does not wait for them.
"""

from __future__ import annotations

import functools
import html
import importlib
import importlib.util
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, Protocol, Self, TypeVar

from ..errors import ArgumentError, DataError, did_you_mean
from ..training.settings import Settings, group_of
from ..wording import an, capitalized, counted, either
from .registry import find, register

if TYPE_CHECKING:  # help does not wait for torch
    from torch import Tensor, nn

    from ..layers import Clamp, Trace
    from ..training import Data, Network

_CELL_BREAK = re.compile("[\t\n\v\f\r\x1c-\x1e\x85\u2028\u2029]")  # what would begin another cell or line
ESSENTIAL = ("cell", "embedding", "hidden", "layers", "attention", "composition")  # settings that a model prints


class Assets(Protocol):
    """What a network needs besides settings and parameters: vocabularies, labels, scales."""

    def save(self, folder: Path) -> None:
        """Write the files that `Task.load_assets` reads."""


class WithVocabulary(Assets, Protocol):
    """Assets of a task on text."""

    vocabulary: Any


N = TypeVar("N", bound="Network")
A = TypeVar("A", bound=Assets)
W = TypeVar("W", bound=WithVocabulary)
V = TypeVar("V")


class LayerInput(NamedTuple):
    """What the recurrent layers of a model read of a batch."""

    name: str  # of the layers in the network
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


TOKENIZED = Option(bool, "The text is tokenized already: it is split at spaces only.")


class Task(ABC):
    """The declaration of a task. A subclass with a `name` registers itself: `carousel train NAME`, `carousel.train`
    and `carousel.load` know it then. It is never instantiated."""

    name: ClassVar[str]
    help: ClassVar[str] = ""  # of `carousel train NAME`: a line on what is trained, then examples
    Settings: ClassVar[type[Settings]]
    extensions: ClassVar[tuple[str, ...]] = ()  # of files that are data for this task and no other
    contents: ClassVar[
        tuple[str, ...]
    ] = ()  # what `recognise` calls files that are for this task, whatever their names
    predict_extensions: ClassVar[tuple[str, ...]] = ()  # of files for `predict_file`; others have one item on each line
    num_files: ClassVar[int] = 1  # the most files of a data set: 2 for texts and their translations
    commands: ClassVar[tuple[str, ...]] = ()  # what runs can do besides train, eval, predict and check
    predict_options: ClassVar[Mapping[str, Option]] = {}
    evaluate_options: ClassVar[Mapping[str, Option]] = {}

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "name" not in cls.__dict__:  # part of a task, or a variant of one
            return
        fields = cls.Settings.model_fields
        if "task" not in fields or fields["task"].default != cls.name:
            line = f'task: Literal["{cls.name}"] = key("{cls.name}", "the task", "data")'
            raise ArgumentError(f"{cls.__qualname__}: its Settings do not name the task; add the line {line}")
        if "seeds" in fields and not cls.has_ensembles():
            remedy = "define make_ensemble, or leave out EnsembleSettings"
            raise ArgumentError(f"{cls.__qualname__}: its Settings have seeds, but it makes no ensembles; {remedy}")
        register(cls)

    @classmethod
    @abstractmethod
    def prepare(cls, settings: Any, assets: Any | None = None) -> tuple[Any, Data]:
        """Read the data that `settings` name. `assets` are those of a run that is resumed, as `load_assets` gives
        them: they are used and nothing is learned again from the training file."""

    @classmethod
    @abstractmethod
    def load_assets(cls, settings: Any, folder: Path) -> Any:
        """The assets of a run directory."""

    @classmethod
    @abstractmethod
    def make_network(cls, settings: Any, assets: Any) -> Network:
        """A new network; its parameters are drawn from torch's generator."""

    @classmethod
    def start_network(cls, network: Any, assets: Any) -> list[str]:
        """Give a new network the weights of the run `start_from`; lines that say what was taken."""
        from .shared.start import take_weights

        return take_weights(network.settings.start_from, cls.name, network, assets)

    @classmethod
    def make_ensemble(cls, networks: Sequence[Any]) -> Network:
        """Networks that differ by their seeds as one, which averages what they predict (see `shared/ensemble.py`). Only
        for tasks whose settings have `seeds`."""
        raise ArgumentError(f"{cls.name}: there are no ensembles of this task")

    @classmethod
    def has_ensembles(cls) -> bool:
        return cls.make_ensemble.__func__ is not Task.make_ensemble.__func__  # type: ignore[attr-defined]

    @classmethod
    @abstractmethod
    def make_model(cls, network: Any, assets: Any) -> Model[Any, Any]:
        """The network for use."""

    @classmethod  # noqa: B027
    def report(cls, model: Any, page: Any) -> None:
        """Add to a run's report what this task has to show: samples, figures."""

    @classmethod
    def baselines(cls, settings: Any, assets: Any, data: Data) -> Mapping[str, Callable[[], float]]:
        """Simple methods to compare a model with, by name: each is a function that fits it to the training data and
        returns its `Metric.best` on the dev set. `assets` and `data` are what `prepare` gave; there is a dev set.
        """
        return {}

    @classmethod
    def has_baselines(cls) -> bool:
        return cls.baselines.__func__ is not Task.baselines.__func__  # type: ignore[attr-defined]

    @classmethod
    def write_data(cls, data: Any, stem: Path, settings: Mapping[str, Any]) -> Path | tuple[Path, ...]:
        """Write data in memory to files: `stem` with an extension. `settings` are those given with it."""
        raise ArgumentError(f"{cls.name}: data is given in files, not as {type(data).__name__}")

    @classmethod
    def check(cls, settings: Any) -> Any:
        """What is in the data that `settings` name: prints with Rich, and has `warnings` and `as_dict()`."""
        raise ArgumentError(f"there is no check of data for {cls.name} yet")


class PackagedTask(Task):
    """A task whose parts are modules beside its declaration, imported when they are needed.

    data.py has the class `assets` and the functions `prepare` and `check`; network.py the class `network`; predictor.py
    the class `predictor`; report.py the function `report`; if there are such, ensemble.py the class `ensemble` and
    baseline.py the function `baselines`.
    """

    assets: ClassVar[str]
    network: ClassVar[str]
    predictor: ClassVar[str]
    ensemble: ClassVar[str]  # only if there are ensembles

    @classmethod
    def part(cls, module: str, name: str) -> Any:
        """What `name` is in a module of the task's package; a variant of a task has the parts of the task."""
        part = module if module in ("network", "predictor", "ensemble") else "assets"
        return getattr(importlib.import_module(f".{module}", cls._package(part)), name)

    @classmethod
    def _package(cls, part: str) -> str:
        """The package of the class that declares `part`."""
        return next(owner.__module__ for owner in cls.__mro__ if part in owner.__dict__).rpartition(".")[0]

    @classmethod
    def prepare(cls, settings: Any, assets: Any | None = None) -> tuple[Any, Data]:
        return cls.part("data", "prepare")(settings, assets)

    @classmethod
    def load_assets(cls, settings: Any, folder: Path) -> Any:
        return cls.part("data", cls.assets).load(settings, folder)

    @classmethod
    def make_network(cls, settings: Any, assets: Any) -> Network:
        return cls.part("network", cls.network)(settings, assets)

    @classmethod
    def make_ensemble(cls, networks: Sequence[Any]) -> Network:
        if not hasattr(cls, "ensemble"):
            return super().make_ensemble(networks)
        return cls.part("ensemble", cls.ensemble)(networks)

    @classmethod
    def has_ensembles(cls) -> bool:
        own = cls.make_ensemble.__func__ is not PackagedTask.make_ensemble.__func__  # type: ignore[attr-defined]
        return own or hasattr(cls, "ensemble")

    @classmethod
    def make_model(cls, network: Any, assets: Any) -> Model[Any, Any]:
        return cls.part("predictor", cls.predictor)(network, assets)

    @classmethod
    def report(cls, model: Any, page: Any) -> None:
        cls.part("report", "report")(model, page)

    @classmethod
    def baselines(cls, settings: Any, assets: Any, data: Data) -> Mapping[str, Callable[[], float]]:
        return cls.part("baseline", "baselines")(settings, assets, data) if cls.has_baselines() else {}

    @classmethod
    def has_baselines(cls) -> bool:
        own = cls.baselines.__func__ is not PackagedTask.baselines.__func__  # type: ignore[attr-defined]
        return own or importlib.util.find_spec(f"{cls._package('assets')}.baseline") is not None

    @classmethod
    def check(cls, settings: Any) -> Any:
        return cls.part("data", "check")(settings)


def are_files(task: type[Task], data: Any) -> bool:
    """Whether `data` names files: a path, or for a task on several files a list of as many paths."""
    if isinstance(data, str | Path):
        return True
    several = isinstance(data, tuple | list) and 0 < len(data) <= task.num_files and task.num_files > 1
    return several and all(isinstance(file, str | Path) for file in data)


@contextmanager
def errors_of_data(folder: str | Path) -> Iterator[None]:
    """Errors in a file of `folder`, to which data in memory was written, name the data: the file will be gone."""
    try:
        yield
    except DataError as error:
        if error.file is None or not error.file.is_relative_to(folder):
            raise
        raise DataError(error.file.stem, error.line, error.problem, error.remedy) from None


@contextmanager
def files_of(task: type[Task], data: Sequence[Any], settings: Mapping[str, Any]) -> Iterator[list[Any]]:
    """A data set as files: those it names, or ones that data in memory is written to for a while."""
    given = data[0] if len(data) == 1 else data
    with TemporaryDirectory() as folder:
        if not are_files(task, given):
            given = task.write_data(given, Path(folder) / "data", settings)
        files = [given] if isinstance(given, str | Path) else list(given)
        if len(files) > task.num_files:
            raise ArgumentError(f"data: the task {task.name} reads {counted(task.num_files, 'file')}; got {len(files)}")
        with errors_of_data(folder):
            yield files


def _of_any_data(evaluate: Callable[..., Any]) -> Callable[..., Any]:
    """`Model.evaluate` that takes data in memory too; a source of examples that is open already is left as it is."""

    @functools.wraps(evaluate)
    def run(model: Model[Any, Any], *data: Any, **options: Any) -> Any:
        if not data or hasattr(data[0], "part_mark"):
            return evaluate(model, *data, **options)
        with files_of(model.task, data, model.settings.model_dump()) as files:
            return evaluate(model, *files, **options)

    return run


CALLS = ("predict", "translate", "generate", "score", "embed", "similar", "evaluate", "trace", "intervene")
NOTHING = "there is nothing to read: the item has no tokens; give a text"


class Model(ABC, Generic[N, A]):
    """A network for use: it predicts, evaluates, shows its inside. `carousel.load` and `carousel.train` return one."""

    name: ClassVar[str]  # of the task
    kind: ClassVar[str] = "model"  # what a reader calls it
    parts: ClassVar[tuple[str, ...]] = ("layers",)  # what can be traced
    item_types: ClassVar[tuple[type, ...]] = ()  # of what is traced; empty: of any type but those that no model reads
    evaluates_memory: ClassVar[bool] = False  # whether `evaluate` itself reads data in memory; else it is given files
    columns: ClassVar[tuple[str, ...]] = ()  # the parts of a prediction that `format` puts in a table, if it is one
    origin: str = ""  # where it was loaded from, and what it reached there
    declared: type[Task] | None = None  # the task it was trained as, which may be a variant of the model's own

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "evaluate" in cls.__dict__ and not cls.evaluates_memory:
            cls.evaluate = _of_any_data(cls.__dict__["evaluate"])  # type: ignore[method-assign]

    def __init__(self, network: N, assets: A) -> None:
        from ..data.text.usual import Tally

        self.network = network
        self.assets = assets
        self.tally = Tally()  # of the text that was read since

    if not TYPE_CHECKING:  # else a type checker would accept any attribute

        def __getattr__(self, name: str) -> Any:
            """Python asks this for a name that the model does not have, such as a method of other tasks."""
            if name.startswith("_") or hasattr(type(self), name):  # the second: a property that raised
                return object.__getattribute__(self, name)
            public = [known for known in dir(type(self)) if not known.startswith("_")]
            near = did_you_mean(name, public, cutoff=0.8)
            raise AttributeError(f"{an(self.kind)} has no {name}; {near or 'call ' + either(self._calls)}")

    @property
    def _calls(self) -> list[str]:
        """What the model can be asked for."""
        return [name for name in CALLS if hasattr(type(self), name)]

    @property
    def unlike(self) -> str | None:
        """How the text that was read so far differs from what the model was trained on; None if it does not."""
        usual = getattr(self.assets, "usual", None)
        pieces = getattr(self.settings, "tokens", "word") == "bpe"
        return None if usual is None else self.tally.unlike(usual, pieces=pieces)

    @property
    def settings(self) -> Any:
        return self.network.settings

    @property
    def members(self) -> list[Self]:
        """The models of an ensemble, each for itself; none if this is one model."""
        return [type(self)(network, self.assets) for network in getattr(self.network, "members", ())]

    @property
    def task(self) -> type[Task]:
        return self.declared or find(self.name)

    def modules(self) -> Iterator[nn.Module]:
        return self.network.modules()

    def batches(self, *files: Any) -> Iterable[Any]:
        """A data set in batches as `evaluate` reads them, in an order that does not change."""
        raise ArgumentError(f"{an(self.kind)} does not give the batches of a file")

    def layer_input(self, batch: Any) -> LayerInput:
        """The layers that read a batch first, and what they read of it; with dropout in training mode."""
        raise ArgumentError(f"{an(self.kind)} has no recurrent layer that reads step by step")

    def batch_of(self, items: Sequence[Any]) -> Any:
        """Items as `predict` takes them, as one batch."""
        raise ArgumentError(f"{an(self.kind)} does not read items one by one")

    def surface_forms(self, items: Sequence[Any]) -> list[list[str]]:
        """The tokens of items as their texts have them, whether or not the model knows them; `""` for a step that reads
        a mark. Nothing if the model has no unknown tokens."""
        return []

    def trace(self, item: Any, *, part: str | None = None, gradients_of: Callable[..., Tensor] | None = None) -> Trace:
        """Every gate and state of the recurrent layers while they read `item` (or each of a list): see `Trace`.

        `trace.tokens` names the steps. `part` is one of the model's `parts`, if it has several; by default the first.
        With `gradients_of`, a function of the layers' output, the trace has its gradients, as that of a layer has.
        """
        return self._watch(item, (), part, gradients_of)

    def intervene(
        self, item: Any, *clamps: Clamp, part: str | None = None, gradients_of: Callable[..., Tensor] | None = None
    ) -> Trace:
        """As `trace`, with some gates or states held at given values (see `Clamp`)."""
        return self._watch(item, clamps, part, gradients_of)

    def _items(self, item: Any) -> list[Any]:
        """One item, or each of a list of them."""
        items = item if isinstance(item, list) else [item]
        for one in items:
            no_item = one is None or isinstance(one, int | float | bytes | Mapping)
            if no_item or (self.item_types and not isinstance(one, self.item_types)):
                raise ArgumentError(
                    f"item: give one such as {self._calls[0]} takes, or a list of them, got {one!r:.60}"
                )
        return items

    def _watch(
        self, item: Any, clamps: Sequence[Clamp], part: str | None, gradients_of: Callable[..., Tensor] | None = None
    ) -> Any:
        import torch

        from ..training.modes import evaluating

        if part is not None and part not in self.parts:
            raise ArgumentError(f"part: {an(self.kind)} has {' and '.join(self.parts)}, got {part!r}")
        items = self._items(item)
        if not items:
            raise ArgumentError("item: the list is empty; give at least one")
        if gradients_of is not None and type(self)._run_traced is not Model._run_traced:
            raise ArgumentError(f"gradients_of: not for {an(self.kind)}; call trace of a layer in model.network")
        with torch.no_grad(), evaluating(self):
            if gradients_of is not None:
                return self._trace_layers(items, clamps, gradients_of)
            traces = self._run_traced(items, clamps, part or self.parts[0])
        return traces[0] if isinstance(traces, list) and not isinstance(item, list) else traces

    def _run_traced(self, items: Sequence[Any], clamps: Sequence[Clamp], part: str) -> Any:
        """The trace of a part of the model while it reads items, with some values held; or a list, one for each."""
        return self._trace_layers(items, clamps)

    def _trace_layers(
        self, items: Sequence[Any], clamps: Sequence[Clamp], gradients_of: Callable[..., Tensor] | None = None
    ) -> Trace:
        """The trace of the layers that read the items first."""
        from ..data.text.vocabulary import mark_unknown

        read = self._read_items(items)
        if not read.lengths.sum():
            raise ArgumentError(NOTHING)
        layer: Any = read.layer
        trace: Trace = layer.intervene(read.x, *clamps, lengths=read.lengths, gradients_of=gradients_of)
        trace.tokens = mark_unknown(read.tokens, self.surface_forms(items))
        return trace

    def _read_items(self, items: Sequence[Any]) -> LayerInput:
        """What the layers that are traced read of items."""
        return self.layer_input(self.batch_of(items))

    def evaluate(self, *files: Any, **options: Any) -> dict[str, Any]:
        """The results of the model on a data set, files or data in memory, in JSON's terms: numbers, and tables by row
        and column."""
        raise ArgumentError(f"{an(self.kind)} has no evaluation")

    def predict_lines(self, lines: Iterable[str]) -> Iterator[dict[str, Any]]:
        """A prediction for each line of raw text, in JSON's terms; blank lines have their place too."""
        own = "".join(f", carousel {name} RUN" for name in self.task.commands)
        raise ArgumentError(f"{an(self.kind)} does not predict; its commands are carousel eval RUN{own}")

    def predict_file(self, path: Path) -> Iterator[dict[str, Any]]:
        """The same for a file of the task's own kind."""
        raise ArgumentError(f"{an(self.kind)} reads plain text, one item on each line; {path} is not that")

    def header(self, **options: Any) -> str:
        """The line above what `format` gives; empty if there is none."""
        return "\t".join(self.columns)

    def format(self, result: dict[str, Any], **options: Any) -> str:
        """One item of `predict_lines` as text: its `columns` with tabs between, or in the task's own form."""
        parts = [result[name] for name in self.columns]
        return "\t".join("" if part is None else _CELL_BREAK.sub(" ", str(part)) for part in parts)

    @property
    def size(self) -> int:
        """The number of parameters."""
        return self.network.size

    @property
    def info(self) -> dict[str, Any]:
        """What it knows besides its weights, for whoever prints it: vocabularies, labels."""
        return {}

    def __repr__(self) -> str:
        """What a reader wants to know of a model; `print(model.network)` shows the modules."""
        keys = [
            f"{name} {value}"
            for name, field in type(self.settings).model_fields.items()
            for value in (getattr(self.settings, name),)
            if group_of(field) == "model" and (name in ESSENTIAL or value != field.default)
        ]
        rows = {"from": self.origin, "settings": ", ".join(keys), **self.info}
        members = f", ensemble of {len(self.members)}" if self.members else ""
        lines = [f"{capitalized(self.kind)}{members}, {self.size:,} parameters"]
        for name, value in rows.items():
            shown = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
            if shown:
                lines.append(f"  {name:<9} {shown if len(shown) <= 110 else shown[:109] + '…'}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """The same, for a notebook."""
        title, *rows = (html.escape(line) for line in repr(self).splitlines())
        cells = (line.strip().split(maxsplit=1) for line in rows)
        body = "".join(f"<tr><th>{name}</th><td>{text}</td></tr>" for name, text in cells)
        return f"<table style='text-align: left'><caption>{title}</caption>{body}</table>"


class VocabularyModel(Model[N, W], Generic[N, W, V]):
    """A model of text, whose assets have a vocabulary."""

    @property
    def vocabulary(self) -> V:
        return self.assets.vocabulary
