"""Sequences of numbers with a label each, from a table or from arrays.

A table (CSV or TSV) has one sequence in each row, its numbers in order, one variable; or, with a column of ids, one
step in each row, with a column for each variable, and the rows of one id are a sequence, in the order of the file. An
empty cell (or NA, NaN, null, ?) is a missing number; at the end of a row it is the end of the sequence. A file `.npz`
of NumPy has the arrays x (N, T) or (N, T, V) and y (N,), and, if sequences end before T, lengths (N,).
"""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ...errors import ArgumentError, DataError, did_you_mean
from ...files import replace_file
from ...wording import setting
from .delimited import check_names, delimiter_of, read_cells, uneven_row
from .lines import check_file
from .memory import is_missing
from .series import MISSING, is_number, read_number
from .split import Splittable
from .tables import LABELS

ARRAYS = ".npz"


class SequenceRow(NamedTuple):
    """A sequence, its label, the line it begins on (of arrays its place from 1), and what it is called."""

    line: int
    x: np.ndarray  # (T, V) float32; NaN where a number is missing
    label: str
    name: str


class SequenceTable(Splittable):
    """The sequences of a file, which is read once.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "gestures.csv")
    ...     _ = file.write_text("wave,0.5,1.5,0.25\\npoint,3,4,\\n")
    ...     table = SequenceTable(file, label="1")
    >>> [(row.label, row.x[:, 0].tolist()) for row in table]
    [('wave', [0.5, 1.5, 0.25]), ('point', [3.0, 4.0])]
    """

    def __init__(
        self, path: str | Path, label: str | None = None, id: str | None = None, columns: str | None = None, *,
        labelled: bool = True,
    ) -> None:  # fmt: skip
        self.path = check_file(path)
        self.variables = ["value"]  # their names
        self.reading = ""  # what is read as what
        wanted = [part.strip() for part in columns.split(",")] if columns else []
        if self.path.suffix.lower() == ARRAYS:
            self._sequences = self._of_arrays(labelled)
        else:
            self._sequences = self._of_table(label, id, wanted, labelled)
        if not self._sequences:
            raise DataError(self.path, None, "there is no sequence in it", "give rows of numbers")

    def __iter__(self) -> Iterator[SequenceRow]:
        return self.selected(self._sequences, _mark)

    def keys(self) -> Iterator[str]:
        """What identifies each sequence: its numbers."""
        return map(_mark, self)

    # ---------------------------------------------------------------- tables

    def _of_table(self, label: str | None, id: str | None, wanted: list[str], labelled: bool) -> list[SequenceRow]:
        delimiter = delimiter_of(self.path)
        rows = read_cells(self.path, delimiter)
        if not rows:
            raise DataError(self.path, None, "there is no row in it", "give rows of numbers")
        line, first = rows[0]
        names = [cell.strip() for cell in first]
        asked = [name for name in (label, id, *wanted) if name is not None]
        others = [cell for k, cell in enumerate(first) if str(k + 1) not in (label, id)]
        header = any(not name.isdecimal() for name in asked) or not all(map(_is_cell, others))
        at = self._label_place(label, names, header, labelled)
        ids = None if id is None else self._place("id_column", id, names, header)
        numbers = [self._place("columns", name, names, header) for name in wanted]
        numbers = numbers or [k for k in range(len(first)) if k not in (at, ids)]
        if not numbers:
            raise DataError(self.path, line, "there is no column of numbers", "give some beside the label")
        if header:
            check_names(
                self.path, names, [k for k in (at, ids, *(numbers if ids is not None else ())) if k is not None]
            )
        named = [names[k] if header else f"column {k + 1}" for k in numbers]
        self.reading = ("" if at is None else f"label in column {at + 1}; ") + (
            "" if ids is None else f"ids in column {ids + 1}; "
        )
        self.reading += f"{len(numbers):,} columns of numbers; " + (
            f"the header is line {line}" if header else "no header"
        )
        steps = []
        for line, cells in rows[header:]:
            if len(cells) != len(first):
                raise uneven_row(self.path, line, len(cells), rows[0], delimiter)
            values = [read_number(self.path, line, name, cells[k]) for name, k in zip(named, numbers, strict=True)]
            own = cells[at].strip() if labelled and at is not None else ""
            if labelled and not own:
                raise DataError(self.path, line, "the label is empty", "give it one, or remove the row")
            steps.append((line, values, own, "" if ids is None else cells[ids].strip()))
        if ids is None:
            return [SequenceRow(line, self._whole(line, values), own, str(line)) for line, values, own, _ in steps]
        self.variables = named
        return self._by_id(steps)

    def _whole(self, line: int, values: list[float]) -> np.ndarray:
        """The numbers of a row, (T, 1); cells that are empty at its end are not part of it."""
        x = np.array(values, np.float32)
        known = np.flatnonzero(~np.isnan(x))
        if not len(known):
            raise DataError(self.path, line, "there is no number in the row", "give some, or remove the row")
        return x[: known[-1] + 1, None]

    def _by_id(self, steps: list[tuple[int, list[float], str, str]]) -> list[SequenceRow]:
        groups: dict[str, list[tuple[int, list[float], str, str]]] = {}
        for step in steps:
            if not step[3]:
                raise DataError(self.path, step[0], "the id is empty", "give it one, or remove the row")
            same = groups.setdefault(step[3], [])
            if same and same[0][2] != step[2]:
                problem = f"{step[3][:40]!r} has the label {step[2][:40]!r} here and {same[0][2][:40]!r} before"
                raise DataError(self.path, step[0], problem, "give all rows of a sequence one label")
            same.append(step)
        return [
            SequenceRow(same[0][0], np.array([step[1] for step in same], np.float32), same[0][2], name)
            for name, same in groups.items()
        ]

    def _label_place(self, label: str | None, names: list[str], header: bool, labelled: bool) -> int | None:
        """Where the labels stand; None if the file has and needs none."""
        if label is not None and (labelled or label.isdecimal() or label in names):
            return self._place("label_column", label, names, header)
        lowered = [name.lower() for name in names] if header and label is None else []
        usual = next((lowered.index(name) for name in LABELS if name in lowered), None)
        if usual is not None or not labelled:
            return usual
        problem = "it is not clear which column is the label"
        raise DataError(self.path, 1, problem, f"choose it with {setting('label_column')}, by name or by number from 1")

    def _place(self, option: str, name: str, names: list[str], header: bool) -> int:
        if header and name in names:
            return names.index(name)
        if name.isdecimal() and len(name) < 10 and 1 <= int(name) <= len(names):
            return int(name) - 1
        remedy = did_you_mean(name, names) or f"columns are {', '.join(names)[:200]}"
        raise DataError(self.path, 1, f"{setting(option)}: there is no column {name!r}", remedy)

    # ---------------------------------------------------------------- arrays

    def _of_arrays(self, labelled: bool) -> list[SequenceRow]:
        remedy = "give x of shape (N, T) or (N, T, V), y (N,) and, if they differ, lengths (N,)"
        try:
            with np.load(self.path, allow_pickle=False) as arrays:
                parts = {name: arrays[name] for name in ("x", "y", "lengths", "names", "variables") if name in arrays}
        except (ValueError, OSError, EOFError, KeyError, zipfile.BadZipFile) as error:
            raise DataError(self.path, None, f"not arrays of NumPy ({str(error)[:60]})", remedy) from error
        x, y = parts.get("x"), parts.get("y")
        if x is None or x.ndim not in (2, 3) or x.dtype.kind not in "iufb":
            raise DataError(self.path, None, "there is no array x of numbers with two or three dimensions", remedy)
        x = x.astype(np.float32).reshape(*x.shape[:2], -1)
        lengths = parts.get("lengths", np.full(len(x), x.shape[1]))
        if labelled and (y is None or y.shape != (len(x),)):
            raise DataError(self.path, None, f"there is no array y with {len(x):,} labels", remedy)
        if (
            lengths.shape != (len(x),)
            or lengths.dtype.kind not in "iu"
            or not ((lengths >= 1) & (lengths <= x.shape[1])).all()
        ):
            raise DataError(self.path, None, f"lengths are not {len(x):,} numbers from 1 to {x.shape[1]:,}", remedy)
        if np.isinf(x).any():
            raise DataError(
                self.path, None, "a number is infinite, or too large", "give finite numbers, NaN for missing ones"
            )
        self.variables = [str(name) for name in parts.get("variables", [])] or [
            f"value {k + 1}" for k in range(x.shape[2])
        ]
        self.reading = f"{x.shape[2]:,} variables in x" + ("; labels in y" if labelled else "")
        labels = (
            ["" if is_missing(one) else str(one) for one in y.tolist()] if labelled and y is not None else [""] * len(x)
        )
        if labelled and not all(label.strip() for label in labels):
            raise DataError(self.path, None, "a label is empty", remedy)
        names = [str(one) for one in parts.get("names", range(1, len(x) + 1))]
        return [
            SequenceRow(k + 1, one[:length], label, name)
            for k, (one, length, label, name) in enumerate(zip(x, lengths.tolist(), labels, names, strict=True))
        ]


def _is_cell(cell: str) -> bool:
    """Whether a cell can be a number, or a missing one."""
    return is_number(cell) or cell.strip().lower() in MISSING


def _mark(row: SequenceRow) -> str:
    return hashlib.blake2b(row.x.tobytes(), digest_size=16).hexdigest()


# ---------------------------------------------------------------- in memory


def read_array(value: Any, what: str) -> np.ndarray:
    """A sequence in memory, (T, V) float32: an array or a list of numbers (T,), or of rows (T, V).

    >>> read_array([1, 2, None], "item 1").ravel().tolist()
    [1.0, 2.0, nan]
    """
    try:
        x = np.asarray(value, np.float32)
    except (TypeError, ValueError):
        x = np.zeros(0, np.float32)
    if x.ndim not in (1, 2) or not x.size or np.isinf(x).any():
        raise ArgumentError(f"data: {what} is not a sequence of numbers: an array (T,) or (T, V)")
    return x.reshape(len(x), -1)


def write_sequences(data: Any, path: Path) -> Path:
    """Pairs (array, label), or a mapping with the arrays x and y, as `.npz`."""
    if isinstance(data, Mapping):
        if not {"x", "y"} <= set(data):
            raise ArgumentError("data: give a mapping with x and y, or pairs (array, label)")
        data = zip(data["x"], data["y"], strict=True)
    xs, ys = [], []
    for number, item in enumerate(data if isinstance(data, Iterable) else [data], 1):
        if isinstance(item, str) or not isinstance(item, Sequence) or len(item) != 2:
            raise ArgumentError(f"data: item {number} is not of the form (array, label): {item!r:.60}")
        xs.append(read_array(item[0], f"item {number}"))
        if is_missing(item[1]):
            raise ArgumentError(f"data: item {number} has no label; give it one, or remove it")
        ys.append(str(item[1].item() if isinstance(item[1], np.generic) else item[1]))
    if len({x.shape[1] for x in xs}) != 1:
        raise ArgumentError("data: sequences have different numbers of variables, or there is none")
    whole = np.full((len(xs), max(map(len, xs)), xs[0].shape[1]), np.nan, np.float32)
    for place, x in zip(whole, xs, strict=True):
        place[: len(x)] = x
    with replace_file(path) as file:
        np.savez(file, x=whole, y=np.array(ys), lengths=np.array([len(x) for x in xs]))
    return path
