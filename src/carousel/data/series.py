"""Time series in CSV: a time (or none) and some numbers in every row.

Times are in ISO form: `1949-01`, `1981-01-02`, `2016-07-01 00:00:00`, or years. They must rise, and lie on a regular
grid, whose step is the commonest difference; where rows are left out, empty ones are put in their place (or it is an
error, as asked). A cell that is empty, or `NA`, `NaN`, `null` or `?`, is a missing value. Nothing of this is silent:
what was put in and what is missing is counted, and said before training.
"""

from __future__ import annotations

import csv
import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Literal

import numpy as np

from ..errors import DataError, did_you_mean
from ..wording import counted
from .lines import check_file, read_lines

MISSING = frozenset({"", "na", "n/a", "nan", "null", "none", "?", "-"})
_MONTH = re.compile(r"(\d{4})-(\d{1,2})")
_YEAR = re.compile(r"\d{4}")
_EPOCH = datetime(1970, 1, 1)
Gaps = Literal["fill", "error"]
Filling = Literal["interpolate", "forward", "error"]


@dataclass(frozen=True)
class Series:
    """Variables on a regular grid of time.

    `ticks` count months or seconds (`unit`), `step` ticks from row to row; a series without times counts its rows.
    """

    path: Path
    names: list[str]
    values: np.ndarray  # (T, V) float64; NaN where a value is missing
    ticks: np.ndarray  # (T,) int64
    unit: Literal["month", "second", "row"]
    step: int
    lines: np.ndarray  # (T,) int64: the line of each row; 0 for one that was put in
    first_gap: int | None = None  # the line after the first gap
    missing: dict[str, int] = field(default_factory=dict)  # by variable, rows that were put in not counted
    told: list[str] | None = None  # the notes, if they are of more than one file

    def __len__(self) -> int:
        return len(self.values)

    @property
    def put_in(self) -> int:
        """Rows that stand for those left out."""
        return int((self.lines == 0).sum())

    def time(self, tick: int) -> str:
        """A tick in words."""
        return time_of(tick, self.unit, self.step)

    @property
    def notes(self) -> list[str]:
        """What a user should know of what was put in and is missing, one line each."""
        if self.told is not None:
            return self.told
        said = []
        if self.put_in:
            rows = counted(self.put_in, "row is", "rows are")
            said.append(f"{self.path}:{self.first_gap}: {rows} left out before here or later; taken as missing values")
        for name, count in self.missing.items():
            said.append(f"{self.path}: {counted(count, 'value')} of {name} missing")
        return said

    def check_step(self, unit: str, step: int) -> None:
        """Refuse a series whose rows are not so far apart."""
        if (self.unit, self.step) != (unit, step) and len(self) > 1:
            words = [time_words(*grid) for grid in ((self.step, self.unit), (step, unit))]
            problem = f"its rows are {words[0]} apart, those of the training {words[1]}"
            raise DataError(self.path, None, problem, "give a series with the same step of time")

    def followed_by(self, other: Series) -> Series:
        """This series and the rows of another, which must begin with the next step."""
        other.check_step(self.unit, self.step)
        ahead = int(self.ticks[-1]) + self.step
        if self.unit != "row" and (other.unit, int(other.ticks[0])) != (self.unit, ahead):
            begins, ends = other.time(int(other.ticks[0])), self.time(int(self.ticks[-1]))
            problem = f"it begins at {begins}, and {self.path} ends at {ends}"
            raise DataError(other.path, None, problem, "give a file that goes on with the next step")
        values, lines = (np.concatenate(both) for both in ((self.values, other.values), (self.lines, other.lines)))
        ticks = np.concatenate((self.ticks, ahead + self.step * np.arange(len(other))))
        return replace(self, values=values, lines=lines, ticks=ticks, told=self.notes + other.notes)

    def filled(self, how: Filling) -> np.ndarray:
        """The values with those that are missing made up: on a line between neighbours, or the last one there was."""
        made = self.values.copy()
        for k, name in enumerate(self.names):
            column = made[:, k]
            real = np.flatnonzero(~np.isnan(column))
            if len(real) == len(column):
                continue
            if not len(real):
                raise DataError(self.path, None, f"{name} has no value at all", "leave it out with columns")
            if how == "error":
                first = int(np.flatnonzero(np.isnan(column))[0])
                line = int(self.lines[first]) or self.first_gap
                raise DataError(
                    self.path, line, f"a value of {name} is missing", "set missing to interpolate or forward"
                )
            every = np.arange(len(column))
            if how == "interpolate":
                column[:] = np.interp(every, real, column[real])
            else:
                last = np.maximum.accumulate(np.where(np.isnan(column), -1, every))
                column[:] = column[np.where(last < 0, real[0], last)]
        return made

    def __repr__(self) -> str:
        span = f"{self.time(int(self.ticks[0]))} to {self.time(int(self.ticks[-1]))}"
        return f"Series({self.path.name!r}, {', '.join(self.names)}; {len(self):,} rows, {span})"


def read_series(
    path: str | Path, time_column: str | None = None, columns: Sequence[str] = (), gaps: Gaps = "fill"
) -> Series:
    """The variables `columns` of a CSV file (all of them, if none are named), checked.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "flights.csv")
    ...     _ = file.write_text("Month,Passengers\\n1949-01,112\\n1949-02,118\\n1949-04,129\\n")
    ...     found = read_series(file)
    >>> found.values.tolist(), found.put_in, found.time(int(found.ticks[-1]))
    ([[112.0], [118.0], [nan], [129.0]], 1, '1949-04')
    """
    path = check_file(path)
    header, rows = _rows(path)
    place = _time_place(path, header, rows, time_column)
    wanted = _wanted(path, header, columns, place)
    values = np.full((len(rows), len(wanted)), np.nan)
    for r, (line, cells) in enumerate(rows):
        if len(cells) != len(header):
            problem = f"{counted(len(cells), 'column')}, where line {rows[0][0]} has {len(header)}"
            raise DataError(path, line, problem, "look for a comma too many or too few")
        for k, c in enumerate(wanted):
            values[r, k] = _number(path, line, header[c], cells[c])
    lines = np.array([line for line, _ in rows], np.int64)
    names = [header[c] for c in wanted]
    missing = {name: int(n) for name, n in zip(names, np.isnan(values).sum(0), strict=True) if n}
    if place is None:
        return Series(path, names, values, np.arange(len(rows)), "row", 1, lines, None, missing)
    unit, ticks = _ticks(path, [(line, cells[place].strip()) for line, cells in rows])
    return _on_grid(path, names, values, ticks, unit, lines, missing, gaps)


def _rows(path: Path) -> tuple[list[str], list[tuple[int, list[str]]]]:
    """The header, made up if there is none, and the rows with their lines."""
    _, head = next(read_lines(path))
    delimiter = ";" if ";" in head and "," not in head else "\t" if "\t" in head and "," not in head else ","
    reader = csv.reader((text + "\n" for _, text in read_lines(path)), delimiter=delimiter, strict=True)
    rows = []
    try:
        for cells in reader:
            if any(cell.strip() for cell in cells):
                rows.append((reader.line_num, cells))
    except csv.Error as error:
        raise DataError(path, reader.line_num, f"not CSV: {error}", "close every quote") from None
    first = rows[0][1] if rows else []
    if any(_plain(cell) is None and cell.strip().lower() not in MISSING and not _is_time(cell) for cell in first):
        header = [cell.strip() for cell in first]
        rows = rows[1:]
    else:
        header = [str(k) for k in range(1, len(first) + 1)]
    if not rows:
        raise DataError(path, None, "there is no row of numbers in it", "give a header and rows of numbers")
    return header, rows


def _time_place(path: Path, header: list[str], rows: list[tuple[int, list[str]]], wanted: str | None) -> int | None:
    if wanted is not None:
        return _place(path, header, wanted)
    first = rows[0][1]
    return next((k for k, cell in enumerate(first) if _plain(cell) is None and _is_time(cell)), None)


def _wanted(path: Path, header: list[str], columns: Sequence[str], time: int | None) -> list[int]:
    found = [_place(path, header, name) for name in columns] or [k for k in range(len(header)) if k != time]
    if not found:
        raise DataError(path, None, "there is a column of times only", "give a column of numbers beside it")
    if time in found:
        raise DataError(path, None, f"{header[time or 0]} is the column of times", "leave it out of columns")
    return found


def _place(path: Path, header: list[str], name: str) -> int:
    if name in header:
        return header.index(name)
    if name.isdecimal() and 1 <= int(name) <= len(header):
        return int(name) - 1
    remedy = did_you_mean(name, header) or f"columns are {', '.join(header)[:200]}"
    raise DataError(path, 1, f"there is no column {name!r}", remedy)


def _plain(cell: str) -> float | None:
    try:
        return float(cell)
    except ValueError:
        return None


def _number(path: Path, line: int, name: str, cell: str) -> float:
    cell = cell.strip()
    if cell.lower() in MISSING:
        return math.nan
    found = _plain(cell)
    if found is None or math.isinf(found):
        if re.fullmatch(r"\d+[./-]\d+[./-]\d+.*", cell):
            problem = f"{cell[:40]!r} in column {name} is neither a number nor a time as it is read here"
            raise DataError(path, line, problem, "write 2020-01-31, or 2020-01-31 12:00")
        remedy = "write 1.5 rather than 1,5" if re.fullmatch(r"[-+]?\d+,\d+", cell) else "mend it, or leave it empty"
        raise DataError(path, line, f"{cell[:40]!r} in column {name} is not a number", remedy)
    return found


def _is_time(cell: str) -> bool:
    cell = cell.strip()
    if _MONTH.fullmatch(cell):
        return True
    try:
        datetime.fromisoformat(cell)
    except ValueError:
        return False
    return not _YEAR.fullmatch(cell)


def _ticks(path: Path, cells: list[tuple[int, str]]) -> tuple[Literal["month", "second"], np.ndarray]:
    """Months if every time is the first moment of one, else seconds."""
    times = []
    for line, cell in cells:
        try:
            if month := _MONTH.fullmatch(cell):
                found = datetime(int(month[1]), int(month[2]), 1)
            elif _YEAR.fullmatch(cell):
                found = datetime(int(cell), 1, 1)
            else:
                found = datetime.fromisoformat(cell)
        except ValueError:
            problem = f"{cell[:40]!r} is not a time" if cell else "the time is missing"
            raise DataError(path, line, problem, "write times as 1981-01-31 or 2016-07-01 13:00") from None
        times.append(found.astimezone(UTC).replace(tzinfo=None) if found.tzinfo else found)
    starts = all(t.day == 1 and t.hour == t.minute == t.second == t.microsecond == 0 for t in times)
    months = np.array([12 * t.year + t.month - 1 for t in times], np.int64)
    seconds = np.array([round((t - _EPOCH).total_seconds()) for t in times], np.int64)
    monthly = starts and len(times) > 1
    ticks = months if monthly else seconds
    for k, (before, after) in enumerate(pairwise(ticks.tolist())):
        if after <= before:
            line, cell = cells[k + 1]
            if after == before:
                raise DataError(
                    path, line, f"the time {cell} is that of line {cells[k][0]} too", "keep one of the rows"
                )
            problem = f"the time {cell} comes before that of line {cells[k][0]}"
            raise DataError(path, line, problem, "sort the rows by time")
    return ("month" if monthly else "second"), ticks


def _on_grid(
    path: Path, names: list[str], values: np.ndarray, ticks: np.ndarray, unit: Literal["month", "second"],
    lines: np.ndarray, missing: dict[str, int], gaps: Gaps,
) -> Series:  # fmt: skip
    if len(ticks) == 1:
        return Series(path, names, values, ticks, unit, 1, lines, None, missing)
    steps = np.diff(ticks)
    step = Counter(steps.tolist()).most_common(1)[0][0]
    for k in np.flatnonzero(steps % step):
        words = time_words(step, unit)
        problem = f"{time_words(int(steps[k]), unit)} after the row before, where rows are {words} apart"
        raise DataError(path, int(lines[k + 1]), problem, "give times on a regular grid")
    wide = np.flatnonzero(steps > step)
    if not len(wide):
        return Series(path, names, values, ticks, unit, step, lines, None, missing)
    first_gap = int(lines[wide[0] + 1])
    if gaps == "error":
        left_out = int((steps[wide] // step - 1).sum())
        problem = f"{counted(left_out, 'row is', 'rows are')} left out before here or later"
        raise DataError(path, first_gap, problem, "set gaps to fill")
    places = (ticks - ticks[0]) // step
    total = int(places[-1]) + 1
    if total > 10 * len(ticks):
        problem = f"{total - len(ticks):,} of {total:,} rows are left out, here first"
        raise DataError(path, first_gap, problem, "give times on a regular grid")
    wider, placed = np.full((total, len(names)), np.nan), np.zeros(total, np.int64)
    wider[places], placed[places] = values, lines
    return Series(path, names, wider, ticks[0] + step * np.arange(total), unit, step, placed, first_gap, missing)


def time_of(tick: int, unit: str, step: int) -> str:
    """A tick in words; seconds are left away where the grid has none.

    >>> time_of(12 * 1949 + 3, "month", 1), time_of(86400, "second", 86400), time_of(7, "row", 1)
    ('1949-04', '1970-01-02', '8')
    """
    if unit == "row":
        return str(tick + 1)
    if unit == "month":
        return f"{tick // 12:04d}-{tick % 12 + 1:02d}"
    moment = _EPOCH + timedelta(seconds=tick)
    return moment.date().isoformat() if step % 86400 == 0 else moment.isoformat(sep=" ")


def time_words(ticks: int, unit: str) -> str:
    """So many ticks in words.

    >>> time_words(3600, "second"), time_words(12, "month"), time_words(90, "second")
    ('1 hour', '12 months', '90 seconds')
    """
    names = [(unit, 1)]
    if unit == "second":
        names = [("day", 86400), ("hour", 3600), ("minute", 60), ("second", 1)]
    name, size = next((name, size) for name, size in names if ticks % size == 0)
    return counted(ticks // size, name)
