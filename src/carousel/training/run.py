"""A run directory: what is in it, and how to start, resume and load one.

config.yaml          every setting; gives the run again
model.safetensors    the weights of the best epoch
tokenizer.json …     what the task keeps
metrics.csv          what was measured, also as tensorboard/
checkpoints/         to resume from
members/1 …          the runs of an ensemble, instead of weights, metrics and checkpoints of its own
manifest.json        hashes of the files that are written once
baselines.json       what simple methods reach on the same data
result.json          where it ended
report.html
data/                what it was trained on, if that was given in memory
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import TypeAdapter, ValidationError
from safetensors import SafetensorError, safe_open

from ..errors import RunError, SettingsError, did_you_mean, shorten
from ..files import PART, sync_directory, write_bytes
from ..parsing import parse_json
from ..wording import setting
from .manifest import weights_digest
from .settings import BEGINNING, END, Settings, load_yaml, shown

if TYPE_CHECKING:  # a run is found and its files are read without torch
    from torch import Tensor

    from .network import Network

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

T = TypeVar("T")
S = TypeVar("S", bound=Settings)
COPY = "copy it again from an intact copy of the run, or train again"  # the remedy for a damaged file
INCOMPLETE = b"a run of carousel train that is being set up\n"


def read_json(path: Path, kind: type[T], remedy: str = COPY) -> T:
    """The value in a JSON file that a run keeps, checked to be a `kind`: `list[str]`, a dataclass …"""
    try:
        return _parse(path.read_text("utf-8"), kind)
    except ValueError as error:
        problem = f"damaged ({shorten(error, 200)})"
    raise RunError(f"{path}: {problem}; {remedy}")


def _problem(result: dict[str, Any]) -> str | None:
    """What is wrong with a result.json; None if everything that is read of it is there."""
    number = int | float
    kinds: dict[str, Any] = {"task": str, "metric": str, "epochs": int, "minutes": number, "parameters": int}
    for name, kind in {**kinds, f"dev_{result.get('metric')}": number | None}.items():
        if name not in result:
            return f"there is no {name}"
        if not isinstance(result[name], kind) or isinstance(result[name], bool):
            return f"{name}: {shorten(shown(result[name]))} is no {'name' if kind is str else 'number'}"
    return None


def _parse(text: str, kind: type[T]) -> T:
    """The `kind` that a JSON text describes; a ValueError says in one line where it does not."""
    value = parse_json(text)
    names = {field.name for field in fields(kind)} if is_dataclass(kind) else set()
    if names and isinstance(value, dict) and (strange := sorted(value.keys() - names)):
        hint = did_you_mean(strange[0], names)
        raise ValueError(f"there is no key {shorten(strange[0])!r}{hint and '; ' + hint}")
    try:
        return TypeAdapter(kind).validate_json(text, strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise ValueError(f"{where and shorten(where) + ': '}{first['msg'][:1].lower()}{first['msg'][1:]}") from None


class Run:
    """The run directory `folder`, which need not exist yet."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.config = self.folder / "config.yaml"
        self.weights = self.folder / "model.safetensors"
        self.metrics = self.folder / "metrics.csv"
        self.checkpoints = self.folder / "checkpoints"
        self.members = self.folder / "members"
        self.baselines = self.folder / "baselines.json"
        self.result_file = self.folder / "result.json"
        self.report = self.folder / "report.html"
        self.data = self.folder / "data"
        self.incomplete = self.folder / ".incomplete"  # there until everything has been set up
        self.has_data = False  # whether the data of a new run is there already
        self._descriptor: int | None = None  # of the directory, while it is locked

    # ---------------------------------------------------------------- whose directory it is

    @contextmanager
    def locked(self) -> Iterator[None]:
        """The directory for this process alone; made if it is missing, and removed again if nothing was put in it.

        The lock is the kernel's: it ends with the process, however that ends. Calls may be nested.
        """
        if self.folder.exists() and not self.folder.is_dir():
            raise RunError(f"{self.folder}: is a file; a run needs a directory of its own")
        if self._descriptor is not None or fcntl is None:
            yield
            return
        missing = [path for path in (self.folder, *self.folder.parents) if not path.exists()]
        self._descriptor = _lock(self.folder)
        try:
            yield
        finally:
            for path in missing:
                with suppress(OSError):  # it is not empty
                    path.rmdir()
            os.close(self._descriptor)  # last: until then nobody else has the directory
            self._descriptor = None

    @property
    def exists(self) -> bool:
        """Whether there is something in the directory besides half-written files and the data of a new run."""
        if not self.folder.is_dir():
            return self.folder.exists()
        return any(self._counts(path) for path in self.folder.iterdir())

    def _counts(self, path: Path) -> bool:
        part = path.name.startswith(".") and path.name.endswith(PART)
        return not part and not (self.has_data and path == self.data)

    @property
    def started(self) -> bool:
        """False if the run was stopped while it was being set up: there is nothing in it to lose."""
        return not (self.incomplete.is_file() and self.incomplete.read_bytes() == INCOMPLETE)

    def check_free(self, force: bool) -> None:
        """Raise unless a new run may begin here."""
        if self.folder.exists() and not self.folder.is_dir():
            raise RunError(f"{self.folder}: is a file; a run needs a directory of its own")
        if not self.exists or not self.started:
            return
        if not self._is_run:
            raise RunError(f"{self.folder}: holds other files; give an empty or new directory")
        if not force:
            remedy = f"continue it with {setting('resume', True)} or overwrite it with {setting('force', True)}"
            raise RunError(f"{self.folder}: a run is here already; {remedy}")

    def begin(self) -> None:
        """Empty the directory, but for the data of the new run, and mark the run as not yet started."""
        self.folder.mkdir(parents=True, exist_ok=True)
        write_bytes(self.incomplete, INCOMPLETE)  # first: whatever is left after a kill is ours
        for path in self.folder.iterdir():
            if path != self.incomplete and not (self.has_data and path == self.data):
                shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()

    def mark_started(self) -> None:
        """Everything has been set up: from now on there is something in the directory to lose."""
        self.incomplete.unlink(missing_ok=True)
        sync_directory(self.folder)

    def remove(self) -> None:
        """Delete the directory with everything in it."""
        shutil.rmtree(self.folder)

    @property
    def _is_run(self) -> bool:
        """Whether the directory is ours to replace: many others have a config.yaml, but not with a task's keys."""
        try:
            values, _ = load_yaml(self.config)
        except (OSError, ValueError):
            return False
        return {"task", "train", "epochs", "seed"} <= set(values) and self.begun

    @property
    def begun(self) -> bool:
        """Whether training has begun, of a model or of the members of an ensemble."""
        return self.metrics.exists() or self.members.is_dir()

    def member(self, number: int) -> Run:
        """The run of a member of an ensemble, by its number from 1."""
        return Run(self.members / str(number))

    # ---------------------------------------------------------------- what is in it

    @property
    def result(self) -> dict[str, Any] | None:
        """Where the run ended; None if it has not."""
        if not self.result_file.exists():
            return None
        again = f"delete it and resume the run ({setting('resume', True)}), which writes it again"
        remedy = f"{again}; or copy it from an intact copy of the run"
        result = read_json(self.result_file, dict[str, Any], remedy)
        if problem := _problem(result):
            raise RunError(f"{self.result_file}: damaged ({problem}); {remedy}")
        return result

    def config_values(self) -> dict[str, Any]:
        """What config.yaml says, checked only as far as that it names a task."""
        if not self.folder.is_dir():
            what = "a file, not a run" if self.folder.exists() else "no such run"
            raise RunError(f"{self.folder}: {what}; give a directory that carousel train made")
        if not self.config.exists():
            raise RunError(
                f"{self.folder}: not a run, it has no config.yaml; give a directory that carousel train made"
            )
        text = self.config.read_text("utf-8-sig", errors="replace")
        if text.startswith(BEGINNING) and not text.rstrip().endswith(f"\n{END}"):
            raise RunError(f"{self.config}: cut short, its last line is not {END}; {COPY}")
        values, _ = load_yaml(self.config)
        if not values:
            raise RunError(f"{self.config}: empty; {COPY}")
        if "task" not in values:
            raise SettingsError(f"{self.config}: task: missing; give the name of one")
        return values

    def read_settings(self, kind: type[S]) -> S:
        """The settings in config.yaml. If it was cut short, defaults do not take the place of what is lost."""
        self.config_values()
        if not self.config.read_text("utf-8-sig").rstrip().endswith(f"\n{END}"):
            raise RunError(f"{self.config}: cut short, its last line is not {END}; {COPY}")
        return kind.read({}, file=self.config)

    def finished(self, epochs: int) -> bool:
        """Whether so many epochs have been trained to the end."""
        return self.result is not None and self.result["epochs"] >= epochs

    def check_weights(self) -> None:
        """Raise if there is no file of weights, which the end of the first epoch writes."""
        if self.weights.exists():
            return
        if not self.result_file.exists():
            raise RunError(f"{self.folder}: no weights yet; let the run come to the end of its first epoch")
        raise self.lost_weights()

    def lost_weights(self) -> RunError:
        """That the file of weights is gone."""
        remedy = f"copy it from an intact copy of the run, or train again ({setting('force', True)})"
        return RunError(f"{self.weights}: missing; {remedy}")

    def read_weights(self) -> dict[str, Tensor]:
        """The weights of the best epoch."""
        from safetensors.torch import load_file

        self.check_weights()
        with self._reading_weights():
            weights = load_file(self.weights)
            digest = self._metadata().get("digest")
        if weights_digest(weights) != digest:
            raise RunError(f"{self.weights}: damaged; {COPY}")
        return weights

    def check_shapes(self, network: Network) -> None:
        """Raise if the weights are not those of such a network, which may be on the meta device."""
        with self._reading_weights(), safe_open(self.weights, "pt") as file:
            kept = {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118
        own = {name: tuple(tensor.shape) for name, tensor in network.state_dict().items()}
        for name in sorted(own.keys() | kept.keys()):
            if own.get(name) != kept.get(name):
                there, here = (f"{name} is {shape or 'missing'}" for shape in (kept.get(name), own.get(name)))
                raise RunError(f"{self.weights}: damaged, or not of this config.yaml ({there} in it, {here} by that)")

    @contextmanager
    def _reading_weights(self) -> Iterator[None]:
        try:
            yield
        except (SafetensorError, ValueError) as error:
            raise RunError(f"{self.weights}: damaged ({shorten(error, 200)}); {COPY}") from error

    def load_weights(self, network: Network) -> None:
        """Give `network` the weights of the best epoch."""
        try:
            network.load_state_dict(self.read_weights())
        except RuntimeError as error:
            problem = str(error).splitlines()[0]
            raise RunError(f"{self.weights}: damaged, or not of this config.yaml ({problem})") from error

    def weights_info(self) -> dict[str, float]:
        """The metadata of the weights' file: the epoch and its dev metric."""
        with self._reading_weights():
            return {name: value for name, value in self._metadata().items() if isinstance(value, int | float)}

    def _metadata(self) -> dict[str, str | float]:
        """A ValueError if it is not as it was written."""
        with safe_open(self.weights, "pt") as file:
            return _parse((file.metadata() or {}).get("carousel", "{}"), dict[str, str | float])


def make_folder(folder: Path) -> None:
    """Make a directory, and those above it, if it is missing."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileNotFoundError:  # where the system itself makes all directories, such as /proc
        raise RunError(f"{folder}: no directory can be made here; choose another {setting('out')}") from None


def _lock(folder: Path) -> int:
    """Make a directory and lock it, or raise if another process has; where there are no locks (some network disks),
    continue without one. Returns the open descriptor."""
    while True:
        make_folder(folder)
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise RunError(
                f"{folder}: another process is training in this directory; wait for it, "
                f"or choose another {setting('out')}"
            ) from None
        except OSError:
            return descriptor
        if folder.exists() and os.path.samestat(os.fstat(descriptor), folder.stat()):
            return descriptor
        os.close(descriptor)  # it was removed and made again in between
