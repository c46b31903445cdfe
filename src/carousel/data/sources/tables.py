"""Tables with texts and a label in each row: TSV, CSV or JSONL, recognised by the file's name.

A TSV file has one row per line, tabs between, and no quotes. A CSV file has commas (or semicolons) between, and quotes
as RFC 4180 has them, so a row may go over several lines. A JSONL file has one object per line.

Columns are named by the first row, if it is a header, or by position, counted from 1. A first row is a header if a
column is asked for by a name, or if it says usual names for all that is looked for (`TEXTS`, `LABELS` …). Usual names,
of columns and of JSON's keys alike, may be in capitals, and the most usual one counts; a name that is asked for is
taken as it is.
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ...errors import DataError, did_you_mean, shorten
from ...parsing import ParseError, parse_json, parse_number
from ...wording import setting
from .delimited import DELIMITERS, not_csv, uneven_row
from .lines import check_file, read_lines
from .split import Splittable

TEXTS = ("text", "sentence", "review", "content", "comment", "tweet", "title", "phrase", "document", "body")
LABELS = ("label", "labels", "class", "category", "sentiment", "target", "polarity", "topic", "rating", "stars", "tag")

FIRSTS = ("sentence_a", "sentence1", "premise", "text1", "first", "question1", "s1", "a")
SECONDS = ("sentence_b", "sentence2", "hypothesis", "text2", "second", "question2", "s2", "b")
SCORES = ("score", "relatedness_score", "relatedness", "similarity", "gold_label", "entailment_judgment", *LABELS)

NONE = "none"  # in place of labels: a text that has none

KINDS = {".tsv": "tsv", ".tab": "tsv", ".txt": "tsv", ".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl"}
TABLES = [extension for extension in KINDS if extension != ".txt"]  # of files that are tables by their name


class Row(NamedTuple):
    """A text, its label, and the line it begins on."""

    line: int
    text: str
    label: str = ""


class Layout(NamedTuple):
    """Which columns of a table are read as what, in words; and what could be meant instead, one line each."""

    reading: str
    doubts: list[str]


class Columns(Splittable):
    """Some columns of a file, checked as they stream past: a value for each role, the label last.

    `wanted` says for each role which column, by name or by position from 1; None: the one with a usual name, or, in a
    file of as many columns as there are roles, the one in its place. Unless `labelled`, labels are not looked at, and
    the file need not have any; texts may be empty then. With a `separator` a label may be several, which JSON has as a
    list.
    """

    def __init__(
        self,
        path: str | Path,
        wanted: dict[str, str | None],
        usual: dict[str, tuple[str, ...]],
        labelled: bool = True,
        separator: str | None = None,
    ) -> None:
        self.path = check_file(path)
        self.labelled, self.separator = labelled, separator
        self.widths = {len(wanted), len(wanted) - (not labelled)}  # of files whose columns are identified by position
        self.label = wanted["label"]
        self.wanted = {role: name for role, name in wanted.items() if labelled or role != "label"}
        self.usual = usual
        kind = KINDS.get(self.path.suffix.lower())
        if kind is None:
            remedy = "give a table whose name ends in .tsv, .csv or .jsonl"
            raise DataError(self.path, None, "its extension is not that of a table", remedy)
        self.kind = kind

    @property
    def texts(self) -> list[str]:
        """The roles that are texts: all but the label."""
        return [role for role in self.wanted if role != "label"]

    def rows(self) -> Iterator[tuple[int, list[str]]]:
        """The line of each row and its values, in the order of the roles."""
        return self.selected(self._every(), lambda row: row[1][0])

    def keys(self) -> Iterator[str]:
        """The text that identifies each row; of a pair, the first."""
        return (values[0] for _, values in self.rows())

    def _every(self) -> Iterator[tuple[int, list[str]]]:
        empty = True
        for line, values in self._objects() if self.kind == "jsonl" else self._cells():
            empty = False
            for role, value in zip(self.wanted, values, strict=True):
                if not value.strip() and self.labelled:
                    raise DataError(self.path, line, f"the {role} is empty", "give it one, or remove the row")
                if role == "label" and (value.splitlines() != [value] or "\t" in value):
                    problem = f"the label {shorten(repr(value), 40)} has a line break or a tab in it"
                    raise DataError(self.path, line, problem, "write it without; is a quote left open?")
            yield line, values
        if empty:
            needed = " and ".join(f"a {role}" for role in self.wanted)
            raise DataError(self.path, None, f"there is no row with {needed}", "give a file that has some")

    def layout(self) -> Layout:
        """Which columns are read as what. A file that cannot be read raises the error that reading it raises."""
        next(self.rows())
        if self.kind == "jsonl":
            names = list(parse_json(next(text for _, text in read_lines(self.path) if text.strip())))
            keys = {role: self.wanted[role] or _usual(names, self.usual[role]) or "" for role in self.wanted}
            parts = [f"{role} in {shorten(key, 40)}" for role, key in keys.items()]
            return Layout(", ".join(parts), self._others(names, list(keys.values())))
        line, first = next(self._tsv() if self.kind == "tsv" else self._csv())
        header = self._header(line, first)
        places = self._places(line, first, header)
        names = [cell.strip() for cell in first] if header else []
        named = {
            role: f"column {at + 1}" + (f" ({shorten(names[at], 40)})" if header else "") for role, at in places.items()
        }
        parts = [f"{role} in {column}" for role, column in named.items()]
        parts.append(f"the header is line {line}" if header else "no header")
        return Layout(", ".join(parts), self._others(names, [names[at] for at in places.values()] if header else []))

    def _others(self, names: Sequence[str], used: Sequence[str]) -> list[str]:
        """Columns that are not read, though their names are as usual for a role as that of the one that is."""
        doubts = []
        for role, own in zip(self.wanted, used, strict=False):
            others = [name for name in names if name.lower() in self.usual[role] and name not in used]
            if others and self.wanted[role] is None:
                listed = shorten(" or ".join(others), 80)
                doubts.append(
                    f"{self.path}: the {role} is read from {own}; to read {listed}, give {setting(role + '_column')}"
                )
        return doubts

    def _cells(self) -> Iterator[tuple[int, list[str]]]:
        """The rows of a TSV or CSV file."""
        rows = self._tsv() if self.kind == "tsv" else self._csv()
        try:
            first_line, first = next(rows)
        except StopIteration:
            return
        header = self._header(first_line, first)
        places = self._places(first_line, first, header)
        for line, cells in rows if header else _chain((first_line, first), rows):
            if len(cells) != len(first):
                raise uneven_row(self.path, line, len(cells), (first_line, first), self._delimiter)
            yield line, [cells[at].strip() if role == "label" else cells[at] for role, at in places.items()]

    def _places(self, first_line: int, first: Sequence[str], header: bool) -> dict[str, int]:
        """Where in a row each role stands, counted from 0; no two in one place."""
        places = {role: self._place(role, first_line, first, header) for role in self.wanted}
        for role, place in places.items():
            same = next((other for other, at in places.items() if at == place and other != role), None)
            if same is not None:
                column = self.wanted[role] or self.wanted[same] or place + 1
                problem = f"column {column} would be both the {role} and the {same}"
                options = " and ".join(setting(f"{name}_column") for name in (role, same))
                raise DataError(self.path, first_line, problem, f"choose them with {options}")
        return places

    @property
    def _delimiter(self) -> str:
        """What stands between the cells; a tab in the first line of CSV is part of a text."""
        if self.kind == "tsv":
            return "\t"
        _, head = next(read_lines(self.path))
        return ";" if ";" in head and "," not in head else ","

    def _tsv(self) -> Iterator[tuple[int, list[str]]]:
        for line, text in read_lines(self.path):
            if text.strip():
                yield line, text.split("\t")

    def _csv(self) -> Iterator[tuple[int, list[str]]]:
        csv.field_size_limit(sys.maxsize)  # else a long text is an error that says nothing of it
        delimiter = self._delimiter
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
                elif "new-line character" in str(error):
                    problem, remedy = not_csv(error)
                else:
                    problem, remedy = f"not CSV: {error}", 'put the text in quotes, and write a quote in it as ""'
                raise DataError(self.path, line, problem, remedy) from None
            if any(cell.strip() for cell in cells):
                yield line, cells

    def _header(self, line: int, first: Sequence[str]) -> bool:
        """Whether the first row names the columns."""
        if any(name is not None and not name.isdecimal() for name in self.wanted.values()):
            return True
        names = [cell.strip() for cell in first]
        if self.label is not None and not self.label.isdecimal() and self.label in names:
            return True
        return all(_usual(names, self.usual[role]) is not None for role in self.wanted)

    def _place(self, role: str, line: int, first: Sequence[str], header: bool) -> int:
        """Where in a row a role stands, counted from 0."""
        wanted, names = self.wanted[role], [cell.strip() for cell in first]
        option = setting(f"{role}_column")
        if wanted is None and header:
            usual = _usual(names, self.usual[role])
            if usual is not None:
                return self._only(usual, line, [name.lower() for name in names], usual.lower(), option)
        elif wanted is None:
            if len(first) in self.widths:
                return list(self.wanted).index(role)
        elif wanted.isdecimal():
            if len(wanted) < 10 and 1 <= int(wanted) <= len(first):
                return int(wanted) - 1
            problem = f"there is no column {shorten(wanted)}, only {len(first)}"
            raise DataError(self.path, line, problem, f"choose another {option}, counted from 1")
        elif wanted in names:
            return self._only(wanted, line, names, wanted, option)
        else:
            remedy = did_you_mean(wanted, names) or f"columns are {', '.join(map(shorten, names))[:200]}"
            raise DataError(self.path, line, f"there is no column {wanted!r}", remedy)
        if len(first) == 1:
            between = DELIMITERS[self._delimiter]
            *parts, last = self.wanted
            several = f"{between}s" if len(parts) > 1 else f"a {between}"
            remedy = f"put {several} between {', '.join(parts)} and {last}"
            raise DataError(self.path, line, "there is one column only", remedy)
        thing = f"{role} text" if role in ("first", "second") else role
        problem = f"{len(first)} columns, and it is not clear which is the {thing}"
        remedy = f"choose it with {option}, by number from 1, or by name if the first row names them"
        raise DataError(self.path, line, problem, remedy)

    def _only(self, name: str, line: int, names: Sequence[str], wanted: str, option: str) -> int:
        """The place of `wanted` in `names`, which have it once."""
        places = [str(at) for at, one in enumerate(names, 1) if one == wanted]
        if len(places) > 1:
            problem = f"columns {', '.join(places[:-1])} and {places[-1]} are both named {shorten(name)}"
            raise DataError(self.path, line, problem, f"choose one by its number with {option}")
        return int(places[0]) - 1

    def _objects(self) -> Iterator[tuple[int, list[str]]]:
        """The rows of a JSONL file."""
        example = "{" + ", ".join(f'"{role}": …' for role in self.wanted) + "}"
        kinds: dict[str, int] = {}  # of labels, and the first line of each
        for line, text in read_lines(self.path):
            if not text.strip():
                continue
            try:
                record = parse_json(text)
            except ParseError as error:
                where = f" at column {error.column}" if error.column else ""
                problem = f"not JSON: {error.problem}{where}"
                raise DataError(self.path, line, problem, "put one object on each line") from None
            if not isinstance(record, dict):
                raise DataError(self.path, line, "not a JSON object", f"write {example} on each line")
            values = []
            for role in self.wanted:
                value = self._value(role, line, record)
                if value is None or (isinstance(value, float) and value != value):
                    if self.labelled:
                        raise DataError(self.path, line, f"the {role} is missing", "give it one, or remove the row")
                    value = ""
                if role == "label" and self.labelled and not self.separator and (kind := _kind(value)):
                    kinds.setdefault(kind, line)
                    if len(kinds) > 1:
                        before, first = next(iter(kinds.items()))
                        problem = f"the label {json.dumps(value)[:40]} is {kind}, where line {first} has {before}"
                        raise DataError(self.path, line, problem, "give labels of one kind")
                values.append(self._label(line, value) if role == "label" else self._text(role, line, value))
            yield line, values

    def _text(self, role: str, line: int, value: Any) -> str:
        if not isinstance(value, str):
            raise DataError(self.path, line, f"the {role} is {json.dumps(value)[:40]}", "make it a string")
        return value

    def _label(self, line: int, value: Any) -> str:
        """A label as the cell of a table has it."""
        if isinstance(value, list) and self.separator is not None:
            parts = [self._label(line, part) for part in value]
            if wrong := next((part for part in parts if self.separator in part or not part), None):
                problem = f"the label {shorten(repr(wrong), 40)} has {self.separator!r} in it, which separates labels"
                raise DataError(self.path, line, problem, f"choose another mark with {setting('label_separator')}")
            return self.separator.join(parts) or NONE
        if not isinstance(value, str | int | float):
            remedy = "make it a string or a number"
            if isinstance(value, list):
                remedy += f", or give {setting('target', 'labels')}"
            raise DataError(self.path, line, f"the label is {json.dumps(value)[:40]}", remedy)
        return value.strip() if isinstance(value, str) else json.dumps(value)

    def _value(self, role: str, line: int, found: dict[str, Any]) -> Any:
        wanted = self.wanted[role]
        name = _usual(found, self.usual[role]) if wanted is None else wanted
        if name in found:
            return found[name]
        problem = f"there is no {role if wanted is None else repr(wanted)}, only {', '.join(found)[:200] or 'nothing'}"
        raise DataError(self.path, line, problem, f"choose the {role} with {setting(role + '_column')}")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.path)!r}, {self.kind})"


def _kind(label: Any) -> str:
    """What a label of JSON is; nothing of a number written as text, which may stand beside both."""
    if isinstance(label, str):
        return "a word" if parse_number(label) is None else ""
    return "a number" if isinstance(label, int | float) and not isinstance(label, bool) else ""


class Table(Columns):
    """The texts and labels of a file.

    >>> import pathlib, tempfile
    >>> from carousel.data.sources.tables import Table
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "reviews.csv")
    ...     _ = file.write_text('id,label,text\\n1,good,"warm, funny"\\n2,bad,dull\\n')
    ...     list(Table(file))
    [Row(line=2, text='warm, funny', label='good'), Row(line=3, text='dull', label='bad')]
    """

    def __init__(
        self,
        path: str | Path,
        text: str | None = None,
        label: str | None = None,
        *,
        labelled: bool = True,
        separator: str | None = None,
    ) -> None:
        wanted = {"text": text, "label": label}
        super().__init__(path, wanted, {"text": TEXTS, "label": LABELS}, labelled, separator)

    def __iter__(self) -> Iterator[Row]:
        return (Row(line, *values) for line, values in self.rows())


class TextColumn(Columns):
    """The texts in a column of a file, one for each row; empty ones too.

    >>> import pathlib, tempfile
    >>> from carousel.data.sources.tables import TextColumn
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "reviews.tsv")
    ...     _ = file.write_text("id\\ttext\\n1\\tdull\\n2\\t\\n")
    ...     list(TextColumn(file))
    ['dull', '']
    """

    def __init__(self, path: str | Path, text: str | None = None) -> None:
        super().__init__(path, {"text": text, "label": None}, {"text": TEXTS}, labelled=False)
        self.widths = {1}  # of several columns without names none is the obvious one

    def _header(self, line: int, first: Sequence[str]) -> bool:
        """A row that names the columns of pairs is a header too."""
        names = {cell.strip().lower() for cell in first} - {"a", "b"}
        return super()._header(line, first) or bool(names & {*FIRSTS} and names & {*SECONDS})

    def __iter__(self) -> Iterator[str]:
        return (values[0] for _, values in self.rows())


class PairRow(NamedTuple):
    """Two texts, their label or score, and the line they begin on."""

    line: int
    first: str
    second: str
    label: str = ""


class PairTable(Columns):
    """Two texts and a label, or a score, in each row.

    >>> import pathlib, tempfile
    >>> from carousel.data.sources.tables import PairTable
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "pairs.tsv")
    ...     _ = file.write_text("a dog runs\\ta dog moves\\t4.5\\n")
    ...     list(PairTable(file))
    [PairRow(line=1, first='a dog runs', second='a dog moves', label='4.5')]
    """

    def __init__(
        self,
        path: str | Path,
        first: str | None = None,
        second: str | None = None,
        label: str | None = None,
        *,
        labelled: bool = True,
    ) -> None:
        wanted = {"first": first, "second": second, "label": label}
        super().__init__(path, wanted, {"first": FIRSTS, "second": SECONDS, "label": SCORES}, labelled)

    def __iter__(self) -> Iterator[PairRow]:
        return (PairRow(line, *values) for line, values in self.rows())


def _usual(names: Iterable[str], usual: Sequence[str]) -> str | None:
    """Which of `names`, in capitals or not, is a usual one; of several, the most usual."""
    places = {name.lower(): name for name in names}
    return next((places[name] for name in usual if name in places), None)


def _chain(first: tuple[int, list[str]], rest: Iterable[tuple[int, list[str]]]) -> Iterator[tuple[int, list[str]]]:
    yield first
    yield from rest
