"""manifest.json: what the files of a run directory contained when they were written, so that damage is noticed.

It has the files that are written once, before training. Weights and checkpoints change; they carry their own hashes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import RunError
from ..files import write_json
from ..parsing import parse_json

if TYPE_CHECKING:
    from torch import Tensor

NAME = "manifest.json"


def write_manifest(folder: Path) -> None:
    """Record the hashes of all files below `folder`."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    write_json(folder / NAME, {path.relative_to(folder).as_posix(): _digest(path.read_bytes()) for path in files})


def check_manifest(folder: Path) -> None:
    """Raise if a file is not what was written; the code that reads a file reports it missing."""
    try:
        files = parse_json((folder / NAME).read_text("utf-8"))
        if not isinstance(files, dict):
            raise ValueError(f"a {type(files).__name__} instead of names and hashes")
    except FileNotFoundError:
        raise RunError(f"{folder / NAME}: missing; copy the whole run directory, or train again") from None
    except ValueError as error:
        raise RunError(f"{folder / NAME}: damaged ({error}); copy it again, or train again") from error
    for name, digest in files.items():
        path = folder / name
        if path.is_file() and _digest(path.read_bytes()) != digest:
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
