"""A run directory: what is in it, and how to begin, take up and load one.

config.yaml          every setting; gives the run again
model.safetensors    the weights of the best epoch
tokenizer.json …     what the task keeps
metrics.csv          what was measured, also as tensorboard/
checkpoints/         to go on from
result.json          where it ended
report.html
data/                what it was trained on, if that was given in memory
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file
from torch import Tensor

from ..errors import RunError, SettingsError
from .network import Network
from .settings import load_yaml

T = TypeVar("T")


def read_kept(path: Path, make: Callable[[Any], T]) -> T:
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
        self.result_file = self.folder / "result.json"
        self.report = self.folder / "report.html"
        self.data = self.folder / "data"
        self.has_data = False  # whether the data of a new run is there already

    @property
    def exists(self) -> bool:
        if not self.folder.is_dir():
            return self.folder.exists()
        return any(not self.has_data or path != self.data for path in self.folder.iterdir())

    def check_free(self, force: bool) -> None:
        """Raise unless a new run may begin here."""
        if self.folder.exists() and not self.folder.is_dir():
            raise RunError(f"{self.folder}: is a file; a run needs a directory of its own")
        if not self.exists:
            return
        if not self._is_run:
            raise RunError(f"{self.folder}: holds other files; give an empty or new directory")
        if not force:
            raise RunError(
                f"{self.folder}: a run is here already; continue it with --resume or overwrite it with --force"
            )

    def begin(self) -> None:
        """Make the directory in the place of a run, if there is one; data for the run may be in it already."""
        if self.exists:
            self.remove()
        self.folder.mkdir(parents=True, exist_ok=True)

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

    @property
    def result(self) -> dict[str, Any] | None:
        """Where the run ended; None if it has not."""
        if not self.result_file.exists():
            return None
        return read_kept(self.result_file, lambda kept: {**kept, "epochs": int(kept["epochs"])})

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
            return load_file(self.weights)
        except SafetensorError as error:
            raise RunError(f"{self.weights}: damaged ({error})") from error

    def load_weights(self, network: Network) -> None:
        """Give `network` the weights of the best epoch."""
        try:
            network.load_state_dict(self.read_weights())
        except RuntimeError as error:
            problem = str(error).splitlines()[0]
            raise RunError(f"{self.weights}: damaged, or not of this config.yaml ({problem})") from error

    def weights_info(self) -> dict[str, Any]:
        """What the weights' file says of itself: the epoch and its dev metric."""
        with safe_open(self.weights, "pt") as file:
            return json.loads((file.metadata() or {}).get("carousel", "{}"))
