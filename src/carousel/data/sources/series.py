"""Time series in CSV: a time (or none) and some numbers in every row.

Times are in ISO form: `1949-01`, `1981-01-02`, `2016-07-01 00:00:00`. The column of times is the first one that has
such a time in the first row; failing that, one named `year`, `years` or `date` whose cells are years (`1950`) or dates
without hyphens (`19500131`), each later than the one before. All others are variables, unless `columns` chooses.
Times must rise and lie on a regular grid, whose step is the commonest difference; where rows are left out, empty ones
are put in their place (or it is an error, as asked). A cell that is empty, or `NA`, `NaN`, `null` or `?`, is a missing
value. Which columns are read, what was put in and what is missing is printed before training.

With a column of ids (`series_id`) a file holds several series in long format, each with times of its own. Columns that
are known ahead (`future`) are read beside the variables; they may continue where the variables are empty.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ...errors import ArgumentError, DataError, did_you_mean, shorten
from ...parsing import parse_number
from ...wording import counted, either, setting
from .delimited import Row, check_names, delimiter_of, read_cells, uneven_row
from .lines import check_file, read_lines
from .times import Ticks, are_rising_dates, is_time, odd_among_months, read_ticks, time_of, time_words

LOOKED_AT = 20  # lines, in which there must be a number or a time
MISSING = frozenset({"", "na", "n/a", "nan", "null", "none", "?", "-"})
TIME_COLUMNS = frozenset({"year", "years", "date"})  # names of columns whose plain numbers may be times
TIME_WORDS = TIME_COLUMNS | {
    "quarter", "month", "week", "day", "hour", "minute", "second", "time", "datetime", "timestamp",
}  # fmt: skip
Gaps = Literal["fill", "error"]
Grid = tuple[str, int]  # the unit of a series and its step


@dataclass(frozen=True)
class Series:
    """Variables on a regular grid of time.

    `ticks` count months, seconds or microseconds (`unit`), `step` ticks from row to row; a series without
    times counts its rows.
    """

    path: Path
    names: list[str]
    values: np.ndarray  # (T, V) float64; NaN where a value is missing
    ticks: np.ndarray  # (T,) int64
    unit: str  # month, second, microsecond or row
    step: int
    lines: np.ndarray  # (T,) int64: the line of each row; 0 for one that was put in
    time_column: str | None = None
    doubtful: tuple[str, ...] = ()  # variables named like times, which were not chosen by name
    first_gap: int | None = None  # the line after the first gap
    missing: dict[str, int] = field(default_factory=dict)  # by variable, rows that were put in not counted
    joined_notes: list[str] | None = None  # the notes, if they are of more than one file
    name: str = ""  # its id, if a file has several series
    future_names: tuple[str, ...] = ()  # columns that are known ahead
    future: np.ndarray = field(default_factory=lambda: np.empty((0, 0)))  # (T, C) float64; NaN where missing
    offset: timedelta | None = None  # from UTC, of the times as they are written

    def __len__(self) -> int:
        return len(self.values)

    @property
    def end(self) -> int:
        """How many rows there are to learn from: with columns known ahead, rows at the end that have those alone are
        steps to forecast."""
        if not self.future_names:
            return len(self)
        rows = np.flatnonzero(~np.isnan(self.values).all(1))
        return int(rows[-1]) + 1 if len(rows) else 0

    @property
    def label(self) -> str:
        """The file, and the id of the series if it has one."""
        return f"{self.path}, series {shorten(self.name, 40)}" if self.name else str(self.path)

    @property
    def put_in(self) -> int:
        """Rows that stand for those left out."""
        return int((self.lines == 0).sum())

    def time(self, tick: int) -> str:
        """A tick in words."""
        return time_of(tick, self.unit, self.step, self.offset)

    def times_ahead(self, count: int) -> list[str]:
        """The times of the steps after the last row, or after the last of those to learn from."""
        last = int(self.ticks[0]) + self.step * (self.end - 1)
        return [self.time(last + self.step * k) for k in range(1, count + 1)]

    @property
    def notes(self) -> list[str]:
        """What a user should know of what was put in and is missing, one line each."""
        if self.joined_notes is not None:
            return self.joined_notes
        notes = [
            f"{self.path}: {name} is read as a variable; name the column of times with "
            f"{setting('time_column')}, or the variables with {setting('columns')}"
            for name in self.doubtful
        ]
        if self.put_in:
            notes.append(f"{self.path}: {_left_out(self.put_in, self.first_gap)}; taken as missing values")
        for name, count in self.missing.items():
            notes.append(f"{self.path}: {counted(count, 'value')} of column {name} missing")
        return notes

    def check_step(self, unit: str, step: int) -> None:
        """Refuse a series whose rows are not so far apart."""
        if (self.unit, self.step) != (unit, step) and len(self) > 1:
            words = [time_words(*grid) for grid in ((self.step, self.unit), (step, unit))]
            problem = f"its rows are {words[0]} apart, those of the training {words[1]}"
            raise DataError(self.label, None, problem, "give a series with the same step of time")

    def followed_by(self, other: Series) -> Series:
        """This series and the rows of another, which must begin with the next step."""
        other.check_step(self.unit, self.step)
        if self.end < len(self):
            problem = f"{counted(len(self) - self.end, 'row')} at its end have no value of {', '.join(self.names)}"
            raise DataError(self.label, None, problem, "leave them out: the next file continues there")
        ahead = int(self.ticks[-1]) + self.step
        if self.unit != "row" and (other.unit, int(other.ticks[0])) != (self.unit, ahead):
            begins, ends = other.time(int(other.ticks[0])), self.time(int(self.ticks[-1]))
            problem = f"it begins at {begins}, and {self.path} ends at {ends}"
            raise DataError(other.label, None, problem, "give a file that continues with the next step")
        values, lines = (np.concatenate(both) for both in ((self.values, other.values), (self.lines, other.lines)))
        ticks = np.concatenate((self.ticks, ahead + self.step * np.arange(len(other))))
        future = np.concatenate((self.future, other.future))
        return replace(
            self, values=values, lines=lines, ticks=ticks, future=future, joined_notes=self.notes + other.notes
        )

    def refuse_missing(self) -> None:
        """Raise a DataError with the first missing value, if there is one."""
        for r, k in np.argwhere(np.isnan(self.values[: self.end]))[:1].tolist():
            line = int(self.lines[r]) or self.first_gap
            problem = f"a value of {self.names[k]} is missing"
            raise DataError(
                self.path,
                line,
                problem,
                f"give {either([setting('missing', how) for how in ('interpolate', 'forward')])}",
            )

    def refuse_nonpositive(self) -> None:
        """Raise a DataError with the first value that has no logarithm, if there is one; a missing value is none."""
        for r, k in np.argwhere(self.values[: self.end] <= 0)[:1].tolist():
            remedy = f"correct it, or train with {setting('logarithm', False)}"
            raise DataError(self.label, int(self.lines[r]) or None, f"{self.names[k]} is not above 0 here", remedy)

    def __repr__(self) -> str:
        span = f"{self.time(int(self.ticks[0]))} to {self.time(int(self.ticks[-1]))}"
        return f"Series({self.path.name!r}, {', '.join(self.names)}; {len(self):,} rows, {span})"


@dataclass(frozen=True)
class Panel:
    """The series of a file by id, on grids of the same step; a file without a column of ids has one, whose id is "".

    All have the same variables and the same columns known ahead.
    """

    series: dict[str, Series]
    id_column: str | None = None

    @property
    def first(self) -> Series:
        return next(iter(self.series.values()))

    @property
    def path(self) -> Path:
        return self.first.path

    def __len__(self) -> int:
        return sum(map(len, self.series.values()))

    def only(self, names: Iterable[str]) -> Panel:
        """Some of the series, in the order of `names`."""
        return replace(self, series={name: self.series[name] for name in names})

    @property
    def notes(self) -> list[str]:
        """What a user should know, one line each; of several series, sums over them."""
        if len(self.series) == 1:
            return self.first.notes
        notes = [note for note in self.first.notes if "is read as a variable" in note]
        put_in = sum(one.put_in for one in self.series.values())
        if put_in:
            notes.append(f"{self.path}: {counted(put_in, 'row is', 'rows are')} missing; taken as missing values")
        for name in self.first.names:
            if count := sum(one.missing.get(name, 0) for one in self.series.values()):
                notes.append(f"{self.path}: {counted(count, 'value')} of column {name} missing")
        return notes

    def followed_by(self, other: Panel) -> Panel:
        """Each series and the rows of its id in another file; a series that is not there ends as it does."""
        for name, one in other.series.items():
            if name not in self.series:
                problem = f"{self.path} has no series {shorten(name, 40)}"
                raise DataError(one.path, int(one.lines[0]) or None, problem, "leave it out")
        both = {
            name: one.followed_by(other.series[name]) if name in other.series else one
            for name, one in self.series.items()
        }
        return replace(self, series=both)

    def refuse_missing(self) -> None:
        """Raise a DataError with the first missing value of a series, if there is one."""
        for one in self.series.values():
            one.refuse_missing()

    def refuse_nonpositive(self) -> None:
        """Raise a DataError with the first value of a series that has no logarithm, if there is one."""
        for one in self.series.values():
            one.refuse_nonpositive()

    def __repr__(self) -> str:
        return f"Panel({len(self.series):,} series of {', '.join(self.first.names)}; {len(self):,} rows)"


def read_panel(
    path: str | Path,
    time_column: str | None = None,
    columns: Sequence[str] = (),
    gaps: Gaps = "fill",
    grid: Grid | None = None,
    series_id: str | None = None,
    future: Sequence[str] = (),
) -> Panel:
    """The series of a CSV file, one for each id in the column `series_id`, in the order of their first rows.

    `columns` are the variables (all, if none are named), `future` those that are known ahead. Rows of a series need
    not be adjacent, but its times must rise. `grid` is the unit and step of a series that this file should match: it is
    taken wherever the times fit it, instead of a guess, since a short file can leave a choice.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "flights.csv")
    ...     _ = file.write_text("Month,Passengers\\n1949-01,112\\n1949-02,118\\n1949-04,129\\n")
    ...     series = read_panel(file).first
    >>> series.values.tolist(), series.put_in, series.time(int(series.ticks[-1]))
    ([[112.0], [118.0], [nan], [129.0]], 1, '1949-04')
    """
    path = check_file(path)
    header, rows = _rows(path)
    groups = _group(path, header, rows, series_id)
    ids = None if series_id is None else _place(path, header, series_id)
    time = _time_place(path, header, next(iter(groups.values())), time_column, columns)
    ahead = [_place(path, header, name) for name in future]
    for k, role in ((time, "of times"), (ids, "of ids")):
        if k in ahead:
            raise DataError(
                path, None, f"{header[k or 0]} is the column {role}", f"leave it out of {setting('future')}"
            )
    if ids is not None and ids == time:
        raise DataError(path, None, f"{header[ids]} is the column of times", f"name another {setting('series_id')}")
    wanted = _wanted(path, header, columns, {time: "of times", ids: "of ids"}, ahead)
    if ids is None:
        _refuse_ids(path, header, rows, [k for k in wanted if not columns])
    check_names(path, header, [k for k in (time, ids, *wanted, *ahead) if k is not None])
    each = {name: _variables(path, header, part, wanted, ahead, name, not columns) for name, part in groups.items()}
    if time is None:
        return Panel(each, None if ids is None else header[ids])
    times = {name: [(line, row[time].strip()) for line, row in part] for name, part in groups.items()}
    ticks = _common_ticks(path, times, grid and grid[0])
    unit = next(iter(ticks.values())).unit
    each = {
        n: replace(one, unit=unit, ticks=ticks[n].values, offset=ticks[n].offset, time_column=header[time])
        for n, one in each.items()
    }
    step = grid[1] if grid and grid[0] == unit else _common_step(ticks) if len(each) > 1 else None
    each = {name: _on_grid(one, gaps, step) for name, one in each.items()}
    if step is not None and not grid:
        for one in each.values():
            one.check_step(unit, step)
    return Panel(each, None if ids is None else header[ids])


def _group(path: Path, header: list[str], rows: list[Row], series_id: str | None) -> dict[str, list[Row]]:
    """The rows of each series."""
    if series_id is None:
        return {"": rows}
    place, groups = _place(path, header, series_id), dict[str, list[Row]]()
    for line, cells in rows:
        if not (name := cells[place].strip()):
            problem = f"the id in column {header[place]} is empty"
            raise DataError(path, line, problem, "give each row the id of its series")
        groups.setdefault(name, []).append((line, cells))
    return groups


def _refuse_ids(path: Path, header: list[str], rows: list[Row], columns: Sequence[int]) -> None:
    """Refuse a column of words among the variables: of the words that tell several series apart, say."""
    for k in columns:
        cells = [cells[k].strip() for _, cells in rows]
        if len(cells) > 1 and not any(is_number(cell) or cell.lower() in MISSING or _is_date(cell) for cell in cells):
            several = f"if they are the ids of several series, give {setting('series_id', header[k])}"
            problem = f"column {shorten(header[k], 40)} has words, such as {shorten(cells[0], 40)!r}"
            remedy = f"{several}; else choose the columns to read with {setting('columns')}"
            raise DataError(path, rows[0][0], problem, remedy)


def _variables(
    path: Path, header: list[str], rows: list[Row], wanted: list[int], ahead: list[int], name: str, all_columns: bool
) -> Series:
    """The numbers of one series, without times."""
    table = np.full((len(rows), len(wanted) + len(ahead)), np.nan)
    for r, (line, cells) in enumerate(rows):
        for k, c in enumerate([*wanted, *ahead]):
            table[r, k] = read_number(path, line, header[c], cells[c])
    values, future = table[:, : len(wanted)], table[:, len(wanted) :]
    names = [header[c] for c in wanted]
    read = np.flatnonzero(~np.isnan(values).all(1))
    end = read[-1] + 1 if ahead and len(read) else len(values)  # what follows is to be forecast
    return Series(
        path, names, values, np.arange(len(rows)), "row", 1, np.array([line for line, _ in rows], np.int64),
        doubtful=tuple(one for one in names if one.lower() in TIME_WORDS) if all_columns else (),
        missing={one: int(n) for one, n in zip(names, np.isnan(values[:end]).sum(0), strict=True) if n}, name=name,
        future_names=tuple(header[c] for c in ahead), future=future,
    )  # fmt: skip


def _common_ticks(path: Path, cells: dict[str, list[tuple[int, str]]], wanted: str | None) -> dict[str, Ticks]:
    """The ticks of each series in one unit: the one wanted, or the coarsest that holds the times of all."""
    ticks = {name: read_ticks(path, part, wanted) for name, part in cells.items()}
    units = {part.unit for part in ticks.values()}
    if len(units) > 1:
        finest = next(unit for unit in ("microsecond", "second", "month") if unit in units)
        ticks = {name: read_ticks(path, part, finest) for name, part in cells.items()}
    without = {part.offset is None: name for name, part in ticks.items()}
    if len(without) > 1:
        line, cell = cells[without[True]][0]
        problem = f"the time {cell} has no offset from UTC, that of line {cells[without[False]][0][0]} has one"
        raise DataError(path, line, problem, "write all times alike")
    return ticks


def _common_step(ticks: dict[str, Ticks]) -> int | None:
    """The commonest difference between neighbouring times of all series."""
    steps = Counter(step for part in ticks.values() for step in np.diff(part.values).tolist())
    return steps.most_common(1)[0][0] if steps else None


def series_of(values: Any, names: Sequence[str], grid: Grid, start: str | None = None) -> Series:
    """A series of numbers that are in memory: (T,) if there is one variable, or (T, V); None or NaN where missing.

    `start` is the time of the first of them, which a `grid` of rows that are merely counted does without.

    >>> series_of([1, None, 3], ["x"], ("month", 1), "1949-11").time(12 * 1950)
    '1950-01'
    """
    accepted = f"give a CSV file, or numbers: {'(T,) or ' * (len(names) == 1)}(T, {len(names)}) for {', '.join(names)}"
    try:
        given = np.asarray(values)
        if given.dtype.kind not in "biufO":
            raise TypeError
        table = given.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        raise ArgumentError(f"{type(values).__name__} is not a series of numbers; {accepted}") from None
    table = table[:, None] if table.ndim == 1 and len(names) == 1 else table
    if table.ndim != 2 or table.shape[1] != len(names) or np.isinf(table).any():
        problem = f"numbers of shape {given.shape}" if table.ndim != 2 or table.shape[1] != len(names) else "inf"
        raise ArgumentError(f"{problem} cannot be forecast from; {accepted}")
    first, (unit, step), offset = 0, grid, None
    if unit != "row":
        if start is None:
            raise ArgumentError("numbers have no times; give start, the time of the first one, or a CSV file")
        begin = read_ticks(Path("start"), [(1, str(start))], unit)
        if begin.unit != unit:
            raise ArgumentError(f"start: {start} does not fit a series in steps of {time_words(step, unit)}")
        first, offset = int(begin.values[0]), begin.offset
    ticks = first + step * np.arange(len(table))
    lines = np.arange(1, len(table) + 1)
    future = np.empty((len(table), 0))
    return Series(Path("values"), list(names), table, ticks, unit, step, lines, future=future, offset=offset)


def _rows(path: Path) -> tuple[list[str], list[Row]]:
    """The header, made up if there is none, and the rows with their lines, all of the same number of columns."""
    _refuse_text(path)
    delimiter = delimiter_of(path)
    rows = read_cells(path, delimiter)
    first = rows[0][1] if rows else []
    for line, cells in rows:
        if len(cells) != len(first):
            raise uneven_row(path, line, len(cells), rows[0], delimiter)
    if any(_is_name(cell) for cell in first):
        header = [cell.strip() for cell in first]
        rows = rows[1:]
    else:
        header = [str(k) for k in range(1, len(first) + 1)]
    if not rows:
        raise DataError(path, None, "there is no row of numbers in it", "give a header and rows of numbers")
    return header, rows


def _refuse_text(path: Path) -> None:
    """A DataError if no cell of the first lines is a number or a time: commas and quotes are not what is wrong then."""
    lines = [text for _, text in islice(read_lines(path), LOOKED_AT)]
    cells = [cell.strip(" \"'") for text in lines for cell in re.split("[\t,;]", text)]
    if len(lines) > 1 and not any(
        is_number(cell) or is_time(cell) or (cell and cell.lower() in MISSING) for cell in cells
    ):
        raise DataError(path, None, "there is no number in its first lines", "give a time and some numbers in each row")


def is_number(cell: str) -> bool:
    """Whether a cell is meant as a number, though it may not be one that is read."""
    return parse_number(cell.replace("_", "")) is not None


def _is_name(cell: str) -> bool:
    """Whether a cell of the first row can only be the name of a column."""
    return not is_number(cell) and cell.strip().lower() not in MISSING and not is_time(cell)


def _time_place(
    path: Path, header: list[str], rows: list[Row], wanted: str | None, columns: Sequence[str]
) -> int | None:
    if wanted is not None:
        return _place(path, header, wanted)
    for k, cell in enumerate(rows[0][1]):
        if parse_number(cell) is None and is_time(cell):
            return k
    for k, name in enumerate(header):
        cells = [cells[k].strip() for _, cells in rows if k < len(cells)]
        if name.lower() in TIME_COLUMNS and name not in columns and are_rising_dates(cells):
            return k
    return None


def _wanted(
    path: Path, header: list[str], columns: Sequence[str], others: dict[int | None, str], ahead: list[int]
) -> list[int]:
    """The places of the variables; `others` has those of columns with another role, `ahead` those known ahead."""
    wanted = [_place(path, header, name) for name in columns]
    wanted = wanted or [k for k in range(len(header)) if k not in others and k not in ahead]
    if not wanted:
        raise DataError(path, None, "there is no column of numbers to forecast", "add a column of numbers")
    for k in wanted:
        if k in others:
            raise DataError(
                path, None, f"{header[k]} is the column {others[k]}", f"leave it out of {setting('columns')}"
            )
        if k in ahead:
            raise DataError(path, None, f"{header[k]} is both a variable and known ahead", "name it in one of the two")
    return wanted


def _place(path: Path, header: list[str], name: str) -> int:
    if name in header:
        return header.index(name)
    if name.isdecimal() and len(name) < 10 and 1 <= int(name) <= len(header):
        return int(name) - 1
    remedy = did_you_mean(name, header) or f"columns are {', '.join(header)[:200]}"
    raise DataError(path, 1, f"there is no column {name!r}", remedy)


def _is_date(cell: str) -> bool:
    """Whether a cell is meant as a date, in whatever form."""
    return re.fullmatch(r"[-+]?\d+[./-]\d+[./-]\d+.*", cell) is not None


def read_number(path: Path, line: int, name: str, cell: str) -> float:
    """The number in a cell of the column `name`; NaN if it is missing."""
    cell = cell.strip()
    if cell.lower() in MISSING:
        return math.nan
    number = parse_number(cell)
    if number is None or math.isinf(number):
        if _is_date(cell):
            problem = f"{cell[:40]!r} in column {name} is neither a number nor a time as it is read here"
            raise DataError(path, line, problem, "write 2020-01-31, or 2020-01-31 12:00, in years 1 to 9999")
        remedy = f"fix it, leave it empty, or choose the columns to read with {setting('columns')}"
        if re.fullmatch(r"[-+]?\d+,\d+", cell):
            remedy = "write 1.5 rather than 1,5"
        elif "_" in cell and parse_number(cell.replace("_", "")) is not None:
            remedy = "write 1000 rather than 1_000"
        elif number is not None:
            remedy = "fix it, or leave it empty"
            kind = "too large" if any(map(str.isdigit, cell)) else "not a finite number"
            raise DataError(path, line, f"{shorten(cell, 40)!r} in column {name} is {kind}", remedy)
        raise DataError(path, line, f"{shorten(cell, 40)!r} in column {shorten(name, 40)} is not a number", remedy)
    return number


def _left_out(rows: int, line: int | None) -> str:
    if rows == 1:
        return f"1 row is missing before line {line}"
    return f"{rows:,} rows are missing, the first before line {line}"


def _refuse_irregular(series: Series, steps: np.ndarray, step: int) -> None:
    """A DataError with the first time that is not on the grid of most others, if there is one."""
    ticks, unit, remedy = series.ticks, series.unit, "give times on a regular grid"
    place = ticks % step
    usual: int = Counter(place.tolist()).most_common(1)[0][0]
    off = np.flatnonzero(place != usual)
    if not len(off):
        return
    k = int(off[0])
    after, words = k > 0, time_words(step, unit)
    problem = (
        f"{time_words(int(steps[k - after]), unit)} {'after the row before' if after else 'before the next row'}, "
        f"where rows are {words} apart"
    )
    if (odd := odd_among_months(ticks, unit, series.offset)) is not None:
        k, time = odd, time_of(int(ticks[odd]), unit, 86400, series.offset)
        problem = f"{time} is not the first of a month, as most times are"
    elif unit == "second" and steps.min() >= 28 * 86400 and steps.max() <= 31 * 86400:
        remedy = "write months as 2020-01"
    raise DataError(series.path, int(series.lines[k]), problem, remedy)


def _on_grid(series: Series, gaps: Gaps, wanted: int | None) -> Series:
    """The series with a row for every step; the step is `wanted` if two rows are that far apart and none are closer."""
    path, ticks, lines = series.path, series.ticks, series.lines
    if len(ticks) == 1:
        return replace(series, step=wanted or 1)
    steps = np.diff(ticks)
    step: int = Counter(steps.tolist()).most_common(1)[0][0]
    if wanted is not None and steps.min() == wanted:
        step = wanted
    _refuse_irregular(series, steps, step)
    wide = np.flatnonzero(steps > step)
    if not len(wide):
        return replace(series, step=step)
    first_gap = int(lines[wide[0] + 1])
    if gaps == "error":
        left_out = int((steps[wide] // step - 1).sum())
        problem = _left_out(left_out, first_gap)
        raise DataError(path, None, problem, f"give {setting('gaps', 'fill')}")
    places = (ticks - ticks[0]) // step
    total = int(places[-1]) + 1
    if total > 10 * len(ticks):
        problem = f"{total - len(ticks):,} of {total:,} rows are missing, the first before it"
        raise DataError(path, first_gap, problem, "give times on a regular grid")
    placed = np.zeros(total, np.int64)
    placed[places] = lines
    values, future = (np.full((total, part.shape[1]), np.nan) for part in (series.values, series.future))
    values[places], future[places] = series.values, series.future
    ticks = ticks[0] + step * np.arange(total)
    return replace(series, values=values, future=future, ticks=ticks, step=step, lines=placed, first_gap=first_gap)
