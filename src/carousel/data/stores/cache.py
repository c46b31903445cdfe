"""Integers made from files, kept between runs: used again if nothing they depend on has changed, else made again.

The version of this package is part of the key. What has not been used for a month is deleted when something is added.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from ...errors import DataError
from ...files import FULL
from ...version import __version__
from .ragged import Damaged, Ragged, read

UNUSED = 30 * 24 * 3600  # seconds after which a file is deleted
_PATTERN = "*-" + 16 * "[0-9a-f]" + ".arrow"  # the names of our files


class CacheEntry(NamedTuple):
    """A file of the cache: where it is, its columns and info, and whether it was made just now."""

    path: Path
    columns: dict[str, Ragged]
    info: dict[str, Any]
    built: bool


def cached(
    cache: str | Path,
    stem: str,
    slot: Sequence[str],
    expected: dict[str, Any],
    build: Callable[[Path], None],
    *,
    check: bool = True,
) -> CacheEntry:
    """The file for `slot` in the directory `cache` if its info are as `expected`, else what `build(path)` writes.

    There is one file for each slot, named after `stem`; `build` uses a RaggedWriter and puts `expected` in its info.
    `check=False` does not read all of the file to see whether it is damaged.

    >>> import pathlib, tempfile, numpy as np
    >>> from carousel.data.stores.cache import cached
    >>> from carousel.data.stores.ragged import RaggedWriter
    >>> def build(path):
    ...     with RaggedWriter(path, {"tokens": np.uint16}) as writer:
    ...         writer.finish({"from": "poems.txt"})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     [cached(folder, "poems", ["poems.txt"], {"from": "poems.txt"}, build).built for _ in range(2)]
    [True, False]
    """
    key = chr(10).join([__version__, *slot])
    name = f"{stem}-{hashlib.blake2b(key.encode(), digest_size=8).hexdigest()}.arrow"
    path = Path(cache) / name
    try:
        columns, info = read(path, check=check)
        if {key: info.get(key) for key in expected} == expected:
            _mark_used(path)
            return CacheEntry(path, columns, info, False)
    except (Damaged, OSError):
        pass  # none there, or none of use: make it
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        prune(path.parent)
        build(path)
    except OSError as error:
        remedy = "free some space, or choose another" if error.errno in FULL else "choose another"
        problem = f"cannot keep tokens here ({(os.strerror(error.errno) if error.errno else str(error)).lower()})"
        raise DataError(cache, None, problem, f"{remedy} cache directory") from error
    return CacheEntry(path, *read(path, check=False), True)


def prune(cache: Path, now: float | None = None) -> None:
    """Delete the files of a cache that have not been used for a month; other files are not touched."""
    now = time.time() if now is None else now
    for path in cache.glob(_PATTERN):
        with suppress(OSError):  # another process was faster, or it is not ours to delete
            if now - path.stat().st_mtime > UNUSED:
                path.unlink()


def _mark_used(path: Path) -> None:
    with suppress(OSError):  # a cache that can only be read
        os.utime(path)
