"""Files and directories that are replaced whole or not at all.

What is written goes to a file beside the one that is meant, reaches the disk, and takes its name in one step. A
failure or an interruption leaves the old content in place and nothing beside it.
"""

from __future__ import annotations

import errno
import json
import os
import secrets
import shutil
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import TextIOWrapper
from pathlib import Path
from typing import Any, BinaryIO, TextIO

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # the disk, a quota or the file is full
DISK = (*FULL, errno.EIO)  # these come from a write and name no file
PART = ".part"  # how the name of a half-written file ends; it begins with a dot


@contextmanager
def replace_file(path: str | Path) -> Iterator[BinaryIO]:
    """A binary file that becomes `path` when the block ends without an exception; directories are made as needed.

    That `path` can be written is known when the block begins. A link is followed; a device or a pipe, which cannot be
    replaced, is written directly. An OSError of the disk names `path`, not the file beside it.
    """
    path = Path(path)
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if target.exists() and not stat.S_ISREG(target.stat().st_mode):
        with _named(path), open(target, "wb") as file:
            yield file
        return
    with _beside(target) as part, _named(path, part):
        with open(part, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, target)
    sync_directory(target.parent)


@contextmanager
def replace_text_file(path: str | Path) -> Iterator[TextIO]:
    """The same for text, UTF-8 with line ends as they are written."""
    with replace_file(path) as file:
        text = TextIOWrapper(file, encoding="utf-8", newline="\n")
        try:
            yield text
            text.flush()
        finally:
            with suppress(OSError):  # of what is still in the buffer after a failure
                text.detach()


def write_bytes(path: str | Path, data: bytes) -> None:
    """Replace the file `path` by `data`."""
    with replace_file(path) as file:
        file.write(data)


def write_text(path: str | Path, text: str) -> None:
    """Replace the file `path` by `text`, UTF-8."""
    write_bytes(path, text.encode())


def write_json(path: str | Path, value: Any, indent: int = 1) -> None:
    """Replace the file `path` by `value` as JSON, legible: other scripts than Latin are written as they are.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_json(pathlib.Path(folder, "labels.json"), ["詩", "詞"])
    ...     pathlib.Path(folder, "labels.json").read_text("utf-8")
    '[\\n "詩",\\n "詞"\\n]\\n'
    """
    write_text(path, json.dumps(value, ensure_ascii=False, indent=indent) + "\n")


@contextmanager
def replace_files(folder: str | Path) -> Iterator[Path]:
    """An empty directory whose files, at any depth, move into `folder` when the block ends without an exception.

    Files of `folder` that are not written again stay as they are. A new `folder` appears in one step.
    """
    folder = Path(folder).absolute()
    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder))
    with _beside(folder / "files" if folder.exists() else folder) as part:
        part.mkdir()
        yield part
        if not folder.exists():
            os.replace(part, folder)
            sync_directory(folder.parent)
            return
        for file in sorted(path for path in part.rglob("*") if path.is_file()):
            place = folder / file.relative_to(part)
            place.parent.mkdir(parents=True, exist_ok=True)
            os.replace(file, place)
        shutil.rmtree(part, ignore_errors=True)
        sync_directory(folder)


def remove_parts(folder: Path, older_than: float = 0.0) -> None:
    """Remove the half-written files that killed processes left in `folder` more than `older_than` seconds ago."""
    for part in folder.glob(f".*{PART}"):
        with suppress(OSError):  # another process may have been faster
            if time.time() - part.stat().st_mtime >= older_than:
                part.unlink()


def sync_directory(folder: Path) -> None:
    """Write the names in `folder` to the disk: they, too, must survive a power failure."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextmanager
def _named(path: Path, part: Path | None = None) -> Iterator[None]:
    """An OSError of the disk, or of the file `part`, names `path`."""
    try:
        yield
    except OSError as error:
        if error.filename == str(part) or (error.filename is None and error.errno in DISK):
            error.filename, error.filename2 = str(path), None
        raise


@contextmanager
def _beside(path: Path) -> Iterator[Path]:
    """A new name in the directory of `path`. After a failure neither it nor a directory made for it is left."""
    missing = [parent for parent in path.parents if not parent.exists()]
    part = path.parent / f".{path.name[:40]}.{os.getpid()}-{secrets.token_hex(4)}{PART}"  # ≤ 255 bytes, as `path` is
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield part
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        with suppress(OSError):
            part.unlink()
        for parent in missing:
            with suppress(OSError):  # it is not empty, or was never made
                parent.rmdir()
        raise
