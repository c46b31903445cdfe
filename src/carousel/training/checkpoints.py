"""Checkpoints: everything that a run needs to continue as if it had never stopped, in files named by step and hash.

A file's name ends in a hash of its content, so that one that was cut short or damaged is noticed, and the one before it
is used. They are safetensors files: loading one runs no code.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from lightning.fabric.plugins import CheckpointIO

from ..files import remove_parts, write_bytes
from . import serialization

KEEP = 2  # the last, and the one to fall back on


class Checkpoints(CheckpointIO):
    """The checkpoints in a folder. Lightning decides what is in one; this decides how it is kept.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     kept = Checkpoints(pathlib.Path(folder))
    ...     for step in 100, 200, 300:
    ...         kept.save_checkpoint({"global_step": step}, folder)
    ...     [path.name[:13] for path in kept.paths()], kept.load_checkpoint(kept.latest())
    (['step-00000200', 'step-00000300'], {'global_step': 300})
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def paths(self) -> list[Path]:
        """All checkpoints, the oldest first."""
        return sorted(self.folder.glob("step-*.safetensors"))

    def latest(self, complain: Callable[[str], None] = lambda line: None) -> Path | None:
        """The newest checkpoint that is whole; each damaged one is reported and removed."""
        remove_parts(self.folder)
        while paths := self.paths():
            newest = paths[-1]
            if _digest(newest.read_bytes()) == _claimed(newest):
                return newest
            instead = "going back to the checkpoint before it" if paths[:-1] else "going back to the beginning"
            complain(f"{newest}: damaged or cut short; {instead}")
            self.remove_checkpoint(newest)  # else it would count among those that are kept
        return None

    def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any | None = None) -> None:
        """Keep `checkpoint` under a name of its own; `path` only says where Lightning thinks it goes."""
        self.folder.mkdir(parents=True, exist_ok=True)
        data = serialization.to_bytes(checkpoint)
        name = f"step-{checkpoint['global_step']:08d}-{_digest(data)}.safetensors"
        write_bytes(self.folder / name, data)
        for old in self.paths()[:-KEEP]:
            self.remove_checkpoint(old)

    def load_checkpoint(self, path: Any, map_location: Any = None, weights_only: bool | None = None) -> dict[str, Any]:
        return serialization.from_bytes(Path(path).read_bytes())

    def remove_checkpoint(self, path: Any) -> None:
        with suppress(FileNotFoundError):
            Path(path).unlink()


def step_of(path: Path) -> int:
    """The step in a checkpoint's name."""
    return int(path.name.split("-")[1])


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=8).hexdigest()


def _claimed(path: Path) -> str:
    name = re.fullmatch(r"step-\d+-([0-9a-f]+)", path.stem)
    return name[1] if name else ""
