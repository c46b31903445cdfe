"""A run directory: what is in it, and how to start, resume and load one.

config.yaml          every setting; gives the run again
model.safetensors    the weights of the best epoch
tokenizer.json …     what the task keeps
metrics.csv          what was measured, also as tensorboard/
checkpoints/         to resume from
manifest.json        hashes of the files that are written once
baselines.json       what simple methods reach on the same data
result.json          where it ended
report.html
data/                what it was trained on, if that was given in memory
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file
from torch import Tensor

from ..errors import RunError, SettingsError
from ..files import PART, write_bytes
from .manifest import weights_digest
from .network import Network
from .settings import load_yaml

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

T = TypeVar("T")
INCOMPLETE = b"a run of carousel train that is being set up\n"


def read_json(path: Path, make: Callable[[Any], T]) -> T:
    """What `make` makes of a JSON file that a task keeps in its run directory."""
    try:
        return make(json.loads(path.read_text("utf-8")))
    except (ValueError, KeyError, TypeError) as error:
        raise RunError(f"{path}: damaged ({error}); train again, or copy it from where the run is whole") from error


class Run:
    """The run directory `folder`, which need not exist yet."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.config = self.folder / "config.yaml"
        self.weights = self.folder / "model.safetensors"
        self.metrics = self.folder / "metrics.csv"
        self.checkpoints = self.folder / "checkpoints"
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
            remedy = "continue it with --resume or overwrite it with --force"
            raise RunError(f"{self.folder}: a run is here already; {remedy}")

    def begin(self) -> None:
        """Empty the directory, but for the data of the new run, and mark the run as not yet started."""
        self.folder.mkdir(parents=True, exist_ok=True)
        write_bytes(self.incomplete, INCOMPLETE)  # first: whatever is left after a kill is ours
        for path in self.folder.iterdir():
            if path != self.incomplete and not (self.has_data and path == self.data):
                shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()

    def remove(self) -> None:
        """Delete the directory with everything in it."""
        shutil.rmtree(self.folder)

    @property
    def _is_run(self) -> bool:
        """Whether the directory is ours to replace: many others have a config.yaml, but not with a task's keys."""
        try:
            values = self.config_values()
        except (OSError, ValueError):
            return False
        return {"task", "train", "epochs", "seed"} <= set(values) and self.metrics.exists()

    # ---------------------------------------------------------------- what is in it

    @property
    def result(self) -> dict[str, Any] | None:
        """Where the run ended; None if it has not."""
        if not self.result_file.exists():
            return None
        return read_json(self.result_file, lambda kept: {**kept, "epochs": int(kept["epochs"])})

    def config_values(self) -> dict[str, Any]:
        """What config.yaml says, checked only as far as that it names a task."""
        if not self.folder.is_dir():
            what = "a file, not a run" if self.folder.exists() else "no such run"
            raise RunError(f"{self.folder}: {what}; give a directory that carousel train made")
        if not self.config.exists():
            raise RunError(
                f"{self.folder}: not a run, it has no config.yaml; give a directory that carousel train made"
            )
        values, _ = load_yaml(self.config)
        if "task" not in values:
            raise SettingsError(f"{self.config}: task: missing; give the name of one")
        return values

    def finished(self, epochs: int) -> bool:
        """Whether so many epochs have been trained to the end."""
        return self.result is not None and self.result["epochs"] >= epochs

    def read_weights(self) -> dict[str, Tensor]:
        """The weights of the best epoch."""
        if not self.weights.exists():
            raise RunError(f"{self.folder}: no weights yet; let the run come to the end of its first epoch")
        try:
            weights = load_file(self.weights)
            digest = self._metadata().get("digest")
        except (SafetensorError, ValueError) as error:
            raise RunError(f"{self.weights}: damaged ({error}); copy it again, or train again") from error
        if weights_digest(weights) != digest:
            raise RunError(f"{self.weights}: damaged; copy it again from where the run is whole, or train again")
        return weights

    def load_weights(self, network: Network) -> None:
        """Give `network` the weights of the best epoch."""
        try:
            network.load_state_dict(self.read_weights())
        except RuntimeError as error:
            problem = str(error).splitlines()[0]
            raise RunError(f"{self.weights}: damaged, or not of this config.yaml ({problem})") from error

    def weights_info(self) -> dict[str, Any]:
        """What the weights' file says of itself: the epoch and its dev metric."""
        return {name: value for name, value in self._metadata().items() if name != "digest"}

    def _metadata(self) -> dict[str, Any]:
        with safe_open(self.weights, "pt") as file:
            return json.loads((file.metadata() or {}).get("carousel", "{}"))


def _lock(folder: Path) -> int:
    """Make a directory and lock it, or raise if another process has; where there are no locks (some network disks), go
    without. Returns the open descriptor."""
    while True:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise RunError(
                f"{folder}: another process is training in this directory; wait for it, or choose another --out"
            ) from None
        except OSError:
            return descriptor
        if folder.exists() and os.path.samestat(os.fstat(descriptor), folder.stat()):
            return descriptor
        os.close(descriptor)  # it was removed and made again in between
