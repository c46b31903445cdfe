"""manifest.json: what the files of a run directory contained when they were written, so that damage is noticed.

It has the files that are written once, before training, and the settings that a trained model depends on: config.yaml
itself may be edited, for instance where files were moved. Weights and checkpoints change; they carry their own hashes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import RunError, shorten
from ..files import write_json
from ..parsing import parse_json
from .settings import shown

if TYPE_CHECKING:
    from torch import Tensor

NAME = "manifest.json"
CONFIG = "config.yaml"
COPY = "copy the whole run directory, or train again"


def write_manifest(folder: Path, settings: Mapping[str, Any]) -> None:
    """Record the hashes of all files below `folder`, and the settings that a trained model depends on."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    hashes = {path.relative_to(folder).as_posix(): _digest(path.read_bytes()) for path in files}
    write_json(folder / NAME, {CONFIG: dict(settings), **hashes})


def check_manifest(folder: Path, settings: Mapping[str, Any]) -> None:
    """Raise if a file is not what was written, or a setting not the one that the run was trained with."""
    try:
        known = parse_json((folder / NAME).read_text("utf-8"))
        if not isinstance(known, dict) or not isinstance(known.get(CONFIG, {}), dict):
            raise ValueError(f"a {type(known).__name__} instead of settings and hashes")
    except FileNotFoundError:
        raise RunError(f"{folder / NAME}: missing; {COPY}") from None
    except ValueError as error:
        raise RunError(f"{folder / NAME}: damaged ({error}); copy it again, or train again") from error
    for name, value in known.pop(CONFIG, {}).items():
        if name in settings and settings[name] != value:
            there, then = shorten(shown(settings[name])), shorten(shown(value))
            remedy = "set it back, or train a run with the other value"
            raise RunError(f"{folder / CONFIG}: {name} is {there}, but the run was trained with {then}; {remedy}")
    for name, digest in known.items():
        path = folder / name
        if not path.is_file():
            raise RunError(f"{path}: missing; {COPY}")
        if _digest(path.read_bytes()) != digest:
            raise RunError(f"{path}: damaged or changed; copy it again from an intact copy of the run, or train again")


def weights_digest(weights: Mapping[str, Tensor]) -> str:
    """A hash of the names and bits of some tensors."""
    import torch

    total = hashlib.blake2b(digest_size=16)
    for name in sorted(weights):
        tensor = weights[name]
        total.update(f"{name}\0{tensor.dtype}\0{tuple(tensor.shape)}\0".encode())
        total.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
    return total.hexdigest()


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()
