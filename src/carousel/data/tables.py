"""Tables with a text and a label in each row: TSV, CSV or JSONL, told by the file's name.

A TSV file has one row a line, tabs between, and no quotes. A CSV file has commas (or semicolons) between, and quotes as
RFC 4180 has them, so a row may go over several lines. A JSONL file has one object a line.

Columns are named by the first row, if it is a header, or by position, counted from 1. A first row is a header if a
column is asked for by a name, or if it says both a usual name for a text and one for a label (`TEXTS`, `LABELS`).
"""

from __future__ import annotations

import csv
import difflib
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from .errors import DataError
from .lines import check_file, read_lines

TEXTS = ("text", "sentence", "review", "content", "comment", "tweet", "title", "phrase", "document", "body")
LABELS = ("label", "labels", "class", "category", "sentiment", "target", "polarity", "topic", "rating", "stars", "tag")

KINDS = {".tsv": "tsv", ".tab": "tsv", ".txt": "tsv", ".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl"}


class Row(NamedTuple):
    """A text, its label, and the line it begins on."""

    line: int
    text: str
    label: str


class Table:
    """The texts and labels of a file, checked as they stream past.

    `text` and `label` say which columns, by name or by position from 1; without them, those with usual names, or the
    two of a file that has two: text, then label.

    >>> import pathlib, tempfile
    >>> from carousel.data.tables import Table
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "reviews.csv")
    ...     _ = file.write_text('id,label,text\\n1,good,"warm, funny"\\n2,bad,dull\\n')
    ...     list(Table(file))
    [Row(line=2, text='warm, funny', label='good'), Row(line=3, text='dull', label='bad')]
    """

    def __init__(self, path: str | Path, text: str | None = None, label: str | None = None) -> None:
        self.path = check_file(path)
        self.wanted = {"text": text, "label": label}
        kind = KINDS.get(self.path.suffix.lower())
        if kind is None:
            remedy = "give its name the ending .tsv, .csv or .jsonl"
            raise DataError(self.path, None, f"{self.path.suffix or 'no ending'} does not say what it is", remedy)
        self.kind = kind

    def __iter__(self) -> Iterator[Row]:
        rows = self._objects() if self.kind == "jsonl" else self._cells()
        empty = True
        for line, text, label in rows:
            empty = False
            if not text.strip():
                raise DataError(self.path, line, "the text is empty", "give it one, or remove the row")
            if not label:
                raise DataError(self.path, line, "the label is empty", "give it one, or remove the row")
            yield Row(line, text, label)
        if empty:
            raise DataError(self.path, None, "there is no row with a text and a label", "give a file that has some")

    def _cells(self) -> Iterator[Row]:
        """The rows of a TSV or CSV file."""
        rows = self._tsv() if self.kind == "tsv" else self._csv()
        try:
            first_line, first = next(rows)
        except StopIteration:
            return
        header = self._header(first_line, first)
        places = [self._place(role, first_line, first, header) for role in ("text", "label")]
        if places[0] == places[1]:
            column = self.wanted["text"] or self.wanted["label"] or places[0] + 1
            problem = f"column {column} would be both the text and the label"
            raise DataError(self.path, first_line, problem, "choose them with text_column and label_column")
        for line, cells in rows if header else _chain((first_line, first), rows):
            if len(cells) != len(first):
                between = "tab" if self.kind == "tsv" else "comma"
                problem = f"{_count(len(cells), 'column')}, where line {first_line} has {len(first)}"
                raise DataError(self.path, line, problem, f"look for a {between} too many or too few")
            yield Row(line, cells[places[0]], cells[places[1]].strip())

    def _tsv(self) -> Iterator[tuple[int, list[str]]]:
        for line, text in read_lines(self.path):
            if text.strip():
                yield line, text.split("\t")

    def _csv(self) -> Iterator[tuple[int, list[str]]]:
        csv.field_size_limit(sys.maxsize)  # else a long text is an error that says nothing of it
        _, head = next(read_lines(self.path))
        delimiter = ";" if ";" in head and "," not in head else ","
        reader = csv.reader((text + "\n" for _, text in read_lines(self.path)), delimiter=delimiter, strict=True)
        while True:
            line = reader.line_num + 1
            try:
                cells = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                if "unexpected end of data" in str(error):
                    problem, remedy = "a quote is opened here and never closed", 'close it; a quote in a text is ""'
                else:
                    problem, remedy = f"not CSV: {error}", 'put the text in quotes, and write a quote in it as ""'
                raise DataError(self.path, line, problem, remedy) from None
            if any(cell.strip() for cell in cells):
                yield line, cells

    def _header(self, line: int, first: Sequence[str]) -> bool:
        """Whether the first row names the columns."""
        if any(name is not None and not name.isdecimal() for name in self.wanted.values()):
            return True
        names = {cell.strip().lower() for cell in first}
        return bool(names & set(TEXTS) and names & set(LABELS))

    def _place(self, role: str, line: int, first: Sequence[str], header: bool) -> int:
        """Where in a row the text or the label stands, counted from 0."""
        wanted, names = self.wanted[role], [cell.strip() for cell in first]
        option = f"{role}_column"
        if wanted is None and header:
            usual = TEXTS if role == "text" else LABELS
            place = next((names.index(name) for name in names if name.lower() in usual), None)
            if place is not None:
                return place
        elif wanted is None:
            if len(first) == 2:
                return 0 if role == "text" else 1
        elif wanted.isdecimal():
            if 1 <= int(wanted) <= len(first):
                return int(wanted) - 1
            problem = f"there is no column {wanted}, only {len(first)}"
            raise DataError(self.path, line, problem, f"choose another {option}, counted from 1")
        elif wanted in names:
            return names.index(wanted)
        else:
            near = difflib.get_close_matches(wanted, names, 1)
            remedy = f"did you mean {near[0]}?" if near else f"columns are {', '.join(names)[:200]}"
            raise DataError(self.path, line, f"there is no column {wanted!r}", remedy)
        if len(first) == 1:
            between = "tab" if self.kind == "tsv" else "comma"
            raise DataError(self.path, line, "there is one column only", f"put a {between} between text and label")
        problem = f"{len(first)} columns, and nothing says which is the {role}"
        remedy = f"say it with {option}, by number from 1, or by name if the first row names them"
        raise DataError(self.path, line, problem, remedy)

    def _objects(self) -> Iterator[Row]:
        """The rows of a JSONL file."""
        for line, text in read_lines(self.path):
            if not text.strip():
                continue
            try:
                found = json.loads(text)
            except json.JSONDecodeError as error:
                problem = f"not JSON: {error.msg[:1].lower() + error.msg[1:]} at column {error.colno}"
                raise DataError(self.path, line, problem, "put one object on each line") from None
            if not isinstance(found, dict):
                raise DataError(self.path, line, "not a JSON object", 'write {"text": …, "label": …} on each line')
            told = self._value("text", line, found)
            if not isinstance(told, str):
                raise DataError(self.path, line, f"the text is {json.dumps(told)[:40]}", "make it a string")
            label = self._value("label", line, found)
            if not isinstance(label, str | int | float):
                raise DataError(
                    self.path, line, f"the label is {json.dumps(label)[:40]}", "make it a string or a number"
                )
            yield Row(line, told, label.strip() if isinstance(label, str) else json.dumps(label))

    def _value(self, role: str, line: int, found: dict[str, Any]) -> Any:
        wanted = self.wanted[role]
        names = [wanted] if wanted is not None else TEXTS if role == "text" else LABELS
        for name in names:
            if name in found:
                return found[name]
        problem = f"there is no {role if wanted is None else repr(wanted)}, only {', '.join(found)[:200] or 'nothing'}"
        raise DataError(self.path, line, problem, f"choose the {role} with {role}_column")

    def __repr__(self) -> str:
        return f"Table({str(self.path)!r}, {self.kind})"


def _chain(first: tuple[int, list[str]], rest: Iterable[tuple[int, list[str]]]) -> Iterator[tuple[int, list[str]]]:
    yield first
    yield from rest


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}{'s' * (number != 1)}"
