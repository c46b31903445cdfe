"""Rows of CSV and TSV files: what stands between the cells, and the complaints about rows that do not fit."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path

from ...errors import DataError, shorten
from ...wording import counted
from .lines import read_lines

DELIMITERS = {"\t": "tab", ",": "comma", ";": "semicolon"}
Row = tuple[int, list[str]]  # a line and its cells


def delimiter_of(path: Path) -> str:
    """What stands between the cells of a file: the first of DELIMITERS that is in its first line, else commas.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "loads.csv")
    ...     _ = file.write_text("time;load\\n2020-01-01;1,5\\n")
    ...     delimiter_of(file), read_cells(file, ";")[1]
    (';', (2, ['2020-01-01', '1,5']))
    """
    _, head = next(read_lines(path))
    return next((mark for mark in DELIMITERS if mark in head), ",")


def read_cells(path: Path, delimiter: str) -> list[Row]:
    """The rows of a file that are not blank, with their lines."""
    reader = csv.reader((text + "\n" for _, text in read_lines(path)), delimiter=delimiter, strict=True)
    try:
        return [(reader.line_num, cells) for cells in reader if any(cell.strip() for cell in cells)]
    except csv.Error as error:
        raise DataError(path, reader.line_num, *not_csv(error)) from None


def not_csv(error: csv.Error) -> tuple[str, str]:
    """The problem and the remedy of Python's complaint about a file."""
    if "new-line character" in str(error):
        return "a carriage return (\\r) inside the line, outside of quotes", "end every line with \\n or \\r\\n"
    return f"not CSV: {error}", "close every quote"


def uneven_row(path: Path, line: int, width: int, first: Row, delimiter: str) -> DataError:
    """The complaint about a row of `width` cells, where the `first` one has another number of them."""
    problem = f"{counted(width, 'column')}, where line {first[0]} has {len(first[1])}"
    return DataError(path, line, problem, f"look for a {DELIMITERS[delimiter]} too many or too few")


def check_names(path: Path, names: Sequence[str], used: Iterable[int]) -> None:
    """Refuse a header with one name for two columns if one of them, by place, is used."""
    for k in used:
        if names.count(names[k]) > 1:
            places = [str(at) for at, name in enumerate(names, 1) if name == names[k]]
            problem = (
                f"columns {', '.join(places[:-1])} and {places[-1]} are both named {shorten(names[k]) or repr('')}"
            )
            raise DataError(path, 1, problem, "give each a name of its own")
