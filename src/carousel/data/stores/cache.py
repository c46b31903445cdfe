"""Integers made from files, kept between runs: used again if nothing they depend on has changed, else made anew."""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ...errors import DataError
from .ragged import Damaged, Ragged, read

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class Kept(NamedTuple):
    """A file of the cache: where it is, its columns and facts, and whether it was made just now."""

    path: Path
    columns: dict[str, Ragged]
    facts: dict[str, Any]
    built: bool


def cached(
    cache: str | Path, stem: str, slot: Sequence[str], expected: dict[str, Any], build: Callable[[Path], None]
) -> Kept:
    """The file for `slot` in the directory `cache` if its facts are as `expected`, else what `build(path)` writes.

    There is one file for each slot, named after `stem`; `build` uses a RaggedWriter and puts `expected` in its facts.

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
    name = f"{stem}-{hashlib.blake2b(chr(10).join(slot).encode(), digest_size=8).hexdigest()}.arrow"
    path = Path(cache) / name
    try:
        columns, facts = read(path)
        if {key: facts.get(key) for key in expected} == expected:
            return Kept(path, columns, facts, False)
    except (Damaged, OSError):
        pass  # none there, or none of use: make it
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        build(path)
    except OSError as error:
        remedy = "free some space, or choose another" if error.errno in _FULL else "choose another"
        problem = f"cannot keep tokens here ({(os.strerror(error.errno) if error.errno else str(error)).lower()})"
        raise DataError(cache, None, problem, f"{remedy} cache directory") from error
    return Kept(path, *read(path, check=False), True)
