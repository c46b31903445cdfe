"""Files of text as streams of bytes: several under one pattern, compressed ones decompressed as they are read."""

from __future__ import annotations

import bz2
import glob
import gzip
import io
import lzma
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO

from ...errors import DataError

BLOCK = 1 << 20


def _open_zstd(path: Path) -> Any:
    import pyarrow as pa

    return io.BufferedReader(pa.input_stream(str(path), compression="zstd"), BLOCK)


# How compressed files begin, what they are called, and what reads them; zip archives hold several files.
COMPRESSED: dict[bytes, tuple[str, Callable[[Path], Any] | None]] = {
    b"\x1f\x8b": ("gzip", gzip.open),
    b"BZh": ("bzip2", bz2.open),
    b"\xfd7zXZ": ("xz", lzma.open),
    b"\x28\xb5\x2f\xfd": ("zstd", _open_zstd),
    b"PK\x03\x04": ("zip", None),
}


def matching(path: str | Path) -> list[Path]:
    """`path`, or the files that match it if it is a pattern with *, ? or [ ], sorted by name.

    >>> matching("poems.txt")
    [PosixPath('poems.txt')]
    """
    path = Path(path)
    if not glob.has_magic(str(path)) or path.exists():
        return [path]
    files = sorted(Path(name) for name in glob.glob(str(path), recursive=True) if Path(name).is_file())
    if not files:
        raise DataError(path, None, "no file matches the pattern", "check the path")
    return files


@contextmanager
def open_bytes(path: Path, start: int = 0) -> Iterator[BinaryIO]:
    """The content of a file from byte `start`, decompressed if it is compressed (gzip, bzip2, xz, zstd)."""
    name, opener = _compression(path)
    if name == "zip":
        raise DataError(path, None, "is a zip archive", "extract its files first")
    try:
        with opener(path) if opener else path.open("rb") as file:
            if opener is None:
                file.seek(start)
            while opener and start > 0 and (block := file.read(min(BLOCK, start))):
                start -= len(block)
            yield file
    except (EOFError, lzma.LZMAError, zlib.error) as error:
        raise _damaged(path, name, error) from error
    except OSError as error:
        if opener is None or error.errno is not None:
            raise
        raise _damaged(path, name, error) from error


def size_of(path: Path) -> int:
    """The number of bytes of a file's content; of a compressed one, all of it is read once."""
    stat = path.stat()
    plain = plain_size(path)
    return _size(path, stat.st_size, stat.st_mtime_ns) if plain is None else plain


def plain_size(path: Path) -> int | None:
    """The same if it is known without reading: None for a compressed file."""
    return path.stat().st_size if _compression(path)[1] is None else None


@lru_cache(256)
def _size(path: Path, *_: int) -> int:
    total = 0
    with open_bytes(path) as file:
        while block := file.read(BLOCK):
            total += len(block)
    return total


def _compression(path: Path) -> tuple[str, Callable[[Path], Any] | None]:
    with path.open("rb") as file:
        head = file.read(8)
    return next((how for magic, how in COMPRESSED.items() if head.startswith(magic)), ("", None))


def _damaged(path: Path, name: str, error: Exception) -> DataError:
    return DataError(path, None, f"damaged or cut short ({name}: {error})", "download or compress it again")
