"""Rows of integer lists of unequal length, in one memory-mapped Arrow file.

Each column is an Arrow `large_list`: all values end to end, and the offset where each row begins. The file is one
record batch, so both are arrays that numpy sees without a copy. It is written in chunks with constant memory (to
nameless temporary files, which vanish with the process, then in one go), and gets its name when it is complete.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

import numpy as np

from ...errors import CarouselError
from ...files import remove_parts, replace_file
from . import fingerprint

_FACTS, _DIGEST = b"carousel", b"carousel.digest"  # keys in the Arrow schema's metadata: what is known, and its hash
_LEFT_OVER = 86400.0  # seconds after which a half-written file was left by a process that was killed


@dataclass(frozen=True)
class Ragged:
    """One column. Row i is `values[offsets[i] : offsets[i + 1]]`.

    >>> import numpy as np
    >>> from carousel.data.stores.ragged import Ragged
    >>> Ragged(np.array([7, 8, 9]), np.array([0, 2, 2, 3]))[0].tolist()
    [7, 8]
    """

    values: np.ndarray  # (n,) of the column's integer type
    offsets: np.ndarray  # (rows + 1,) int64

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, row: int) -> np.ndarray:
        row = range(len(self))[row]  # from the end if negative; IndexError if there is no such row
        return self.values[self.offsets[row] : self.offsets[row + 1]]


class Damaged(CarouselError):
    """The file is not one that RaggedWriter completed, or is no longer as it was."""


class RaggedWriter:
    """Writes rows in chunks. Leaving the `with` block without `finish` leaves no file, and an older one as it was.

    >>> import pathlib, tempfile, numpy as np
    >>> from carousel.data.stores.ragged import RaggedWriter, read
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "tokens.arrow")
    ...     with RaggedWriter(path, {"tokens": np.uint16}) as writer:
    ...         writer.append("tokens", np.array([7, 8, 9]), lengths=np.array([2, 0, 1]))
    ...         writer.finish({"source": "poems.txt"})
    ...     columns, info = read(path)
    ...     [row.tolist() for row in columns["tokens"]], info["source"]
    ([[7, 8], [], [9]], 'poems.txt')
    """

    def __init__(self, path: Path, columns: Mapping[str, Any]) -> None:
        self.path = path
        self._columns = {name: _Spool(path.parent, np.dtype(dtype)) for name, dtype in columns.items()}

    def append(self, column: str, values: np.ndarray, lengths: np.ndarray) -> None:
        """Add rows to a column: their `values` end to end, (n,), and their `lengths`, (rows,), which add up to n."""
        self._columns[column].append(values, lengths)

    def finish(self, info: Mapping[str, Any]) -> None:
        """Write the file and give it its name. `info` are kept with it as JSON."""
        import pyarrow as pa  # late: a prediction does not wait for it

        columns = {name: spool.read() for name, spool in self._columns.items()}
        marks = {name: [fingerprint.of_array(c.values), fingerprint.of_array(c.offsets)] for name, c in columns.items()}
        arrays = [_to_arrow(column) for column in columns.values()]
        fields = [pa.field(name, array.type) for name, array in zip(columns, arrays, strict=True)]
        facts = json.dumps({"info": dict(info), "fingerprints": marks})
        schema = pa.schema(fields, {_FACTS: facts, _DIGEST: _digest(facts.encode())})
        with replace_file(self.path) as sink, pa.ipc.new_file(sink, schema) as file:
            file.write_batch(pa.record_batch(arrays, schema=schema))

    def __enter__(self) -> RaggedWriter:
        remove_parts(self.path.parent, _LEFT_OVER)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for spool in self._columns.values():
            spool.close()


def read(path: Path, *, check: bool = True) -> tuple[dict[str, Ragged], dict[str, Any]]:
    """The columns of a file, memory-mapped and read-only, and its info. Raises Damaged unless the file is sound.

    `check=False` trusts the values; it is for a file that this program has checked already.
    """
    import pyarrow as pa

    try:
        batch = pa.ipc.open_file(pa.memory_map(str(path))).get_batch(0)
        facts = batch.schema.metadata[_FACTS]
        if _digest(facts) != batch.schema.metadata[_DIGEST]:
            raise Damaged("what is known of the file is not as it was written")
        known = json.loads(facts)
        batch.validate()  # lengths against buffers: beyond them is memory that is not ours
        columns = {name: _from_arrow(batch.column(name)) for name in batch.schema.names}
    except (pa.ArrowException, AttributeError, KeyError, TypeError, ValueError) as error:
        raise Damaged(str(error)) from error
    if columns.keys() != known["fingerprints"].keys():
        raise Damaged("its columns are not those that were written")
    for name, column in columns.items() if check else ():
        if known["fingerprints"][name] != [fingerprint.of_array(column.values), fingerprint.of_array(column.offsets)]:
            raise Damaged(f"column {name} is not as it was written")
    return columns, known["info"]


def _digest(facts: bytes) -> bytes:
    return hashlib.blake2b(facts, digest_size=16).hexdigest().encode()


class _Spool:
    """One column while it grows: values and offsets, each in a nameless file on the disk where the result will be."""

    def __init__(self, folder: Path, dtype: np.dtype[Any]) -> None:
        self.dtype = dtype
        self.values: BinaryIO = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 (closed by `close`)
        self.offsets: BinaryIO = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115
        self.end = 0
        self.offsets.write(np.zeros(1, np.int64).tobytes())

    def append(self, values: np.ndarray, lengths: np.ndarray) -> None:
        ends = self.end + np.cumsum(lengths, dtype=np.int64)
        self.end += len(values)
        assert (ends[-1] if len(ends) else self.end) == self.end
        self.values.write(values.astype(self.dtype).tobytes())
        self.offsets.write(ends.tobytes())

    def read(self) -> Ragged:
        return Ragged(_map(self.values, self.dtype), _map(self.offsets, np.dtype(np.int64)))

    def close(self) -> None:
        self.values.close()
        self.offsets.close()


def _map(file: BinaryIO, dtype: np.dtype[Any]) -> np.ndarray:
    file.flush()
    return np.memmap(file, dtype, "r") if os.fstat(file.fileno()).st_size else np.empty(0, dtype)


def _to_arrow(column: Ragged) -> Any:
    import pyarrow as pa

    kind = pa.from_numpy_dtype(column.values.dtype)
    values = pa.Array.from_buffers(kind, len(column.values), [None, pa.py_buffer(column.values)])
    return pa.Array.from_buffers(
        pa.large_list(kind), len(column), [None, pa.py_buffer(column.offsets)], children=[values]
    )


def _from_arrow(array: Any) -> Ragged:
    return Ragged(array.values.to_numpy(zero_copy_only=True), array.offsets.to_numpy(zero_copy_only=True))
