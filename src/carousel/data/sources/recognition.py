"""What a file holds, by its first rows: for whoever did not say. Nothing is checked here; readers do that."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from .series import MISSING, TIME_COLUMNS, is_number
from .tables import FIRSTS, KINDS, LABELS, SECONDS, TEXTS
from .times import are_rising_dates, is_time

Content = Literal["a time series", "sequences of numbers", "labelled pairs", "translations", "tagged words", "trees"]
HEAD = 1 << 18  # bytes that are looked at
FEWEST = 4  # columns of numbers that are a sequence
_TAG = re.compile(r"O|[BIESLU]-\S+")


def recognise(path: str | Path) -> Content | None:
    """What a file of text, a table or JSONL holds, if that is one of the kinds that its name does not tell.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "flights.csv")
    ...     _ = file.write_text("Month,Passengers\\n1949-01,112\\n1949-02,118\\n")
    ...     recognise(file)
    'a time series'
    """
    path = Path(path)
    kind = KINDS.get(path.suffix.lower())
    if kind is None:
        return None
    with path.open("rb") as file:
        head = file.read(HEAD)
    lines = [line.removesuffix("\r") for line in head.decode("utf-8-sig", "replace").split("\n")]
    lines = lines[:-1] if len(head) == HEAD else lines
    if kind == "jsonl":
        return "labelled pairs" if _names_pairs(_keys(lines)) else None
    if path.suffix.lower() == ".txt":
        if _are_trees(lines):
            return "trees"
        if _are_tagged(lines):
            return "tagged words"
        return None
    return _of_table(_rows(lines, kind))


def _of_table(rows: list[list[str]]) -> Content | None:
    if not rows or len({len(row) for row in rows}) != 1:
        return None
    first = [cell.strip() for cell in rows[0]]
    if _names_pairs(first):
        return "labelled pairs"
    if _are_sequences(first, rows):
        return "sequences of numbers"
    if _are_series(first, rows):
        return "a time series"
    columns = list(zip(*rows, strict=True))
    kinds = [len(set(column)) for column in columns]
    if len(columns) == 2 and min(kinds) > max(20, len(rows) / 2) and not set(map(str.lower, first)) & set(TEXTS):
        return "translations"
    if len(columns) == 3 and min(kinds[:2]) > 20 >= kinds[2] and all(_are_texts(column) for column in columns[:2]):
        return "labelled pairs"
    return None


def _rows(lines: Sequence[str], kind: str) -> list[list[str]]:
    """The rows of a table that are not blank; none if it is no such table."""
    filled = [line for line in lines if line.strip()]
    if kind == "tsv":
        return [line.split("\t") for line in filled]
    delimiter = ";" if filled and ";" in filled[0] and "," not in filled[0] else ","
    try:
        return [row for row in csv.reader(filled, delimiter=delimiter) if any(cell.strip() for cell in row)]
    except csv.Error:
        return []


def _are_series(first: list[str], rows: list[list[str]]) -> bool:
    """A column of times and one of numbers, and none named like a text; or nothing but numbers."""
    named = not any(is_number(cell) or is_time(cell) for cell in first)
    data = rows[1:] if named else rows
    if len(data) < 2 or (named and set(map(str.lower, first)) & set(TEXTS)):
        return False
    columns = [[cell.strip() for cell in column] for column in zip(*data, strict=True)]
    times = [all(is_time(cell) and not is_number(cell) for cell in column) for column in columns]
    if named:
        dated = (are_rising_dates(column) for column in columns)
        pairs = zip(times, first, dated, strict=True)
        times = [time or (name.lower() in TIME_COLUMNS and date) for time, name, date in pairs]
    numbers = [all(is_number(cell) or cell.lower() in MISSING for cell in column) for column in columns]
    variables = [number and not time for number, time in zip(numbers, times, strict=True)]
    return any(variables) and (any(times) or all(variables))


def _are_sequences(first: list[str], rows: list[list[str]]) -> bool:
    """A column named like a label, or one of words, beside at least FEWEST of numbers and none of anything else."""
    named = [name.lower() in LABELS for name in first]
    columns = [[cell.strip() for cell in column] for column in zip(*rows[1:], strict=True)]
    numbers = [all(is_number(cell) or cell.lower() in MISSING for cell in column) for column in columns]
    others = [k for k, number in enumerate(numbers) if not number or named[k]]
    if len(columns) - len(others) < FEWEST or len(others) != 1:
        return False
    label = columns[others[0]]
    return named[others[0]] or not (_are_texts(label) or any(map(is_time, label)))


def _are_texts(column: Sequence[str]) -> bool:
    """Most cells are of more than one word."""
    return sum(" " in cell.strip() for cell in column) > len(column) / 2


def _names_pairs(names: Sequence[str]) -> bool:
    small = {name.lower() for name in names} - {"a", "b"}  # which are names of anything
    return bool(small & set(FIRSTS)) and bool(small & set(SECONDS))


def _keys(lines: Sequence[str]) -> list[str]:
    """The keys of the first object of JSONL."""
    try:
        first = json.loads(next(line for line in lines if line.strip()))
    except (StopIteration, ValueError, RecursionError):
        return []
    return list(first) if isinstance(first, dict) else []


def _are_trees(lines: Sequence[str]) -> bool:
    filled = [line.strip() for line in lines if line.strip()]
    inside = sum(line.count("(") > 1 and line.endswith(")") for line in filled)
    return bool(filled) and all(line.startswith("(") for line in filled) and 2 * inside > len(filled)


def _are_tagged(lines: Sequence[str]) -> bool:
    """Columns with tabs between, or with BIO tags in the last, in blocks that blank lines separate."""
    filled = [line for line in lines if line.strip() and not line.startswith("-DOCSTART-")]
    blank = any(not line.strip() for line in lines[:-1])
    tabs = all("\t" in line for line in filled)
    rows = [line.split("\t") if tabs else line.split() for line in filled]
    regular = bool(rows) and len({len(row) for row in rows}) == 1 and len(rows[0]) > 1
    return blank and regular and (tabs or all(_TAG.fullmatch(row[-1]) for row in rows))
