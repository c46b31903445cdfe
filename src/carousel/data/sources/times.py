"""Times of a series: ISO text to whole ticks, and back.

A tick is a month, a second or a microsecond, whichever is the coarsest that holds every time of a file. Times with an
offset from UTC are counted in UTC and written with their offset again.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime, timedelta, timezone
from itertools import pairwise
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from ...errors import DataError
from ...wording import counted

Unit = Literal["month", "second", "microsecond"]
_MONTH = re.compile(r"(\d{4})-(\d{1,2})")
_YEAR = re.compile(r"\d{4}")
_TOO_FINE = re.compile(r"[.,]\d{6}\d*[1-9]")  # `fromisoformat` drops what is finer than a microsecond
_EPOCH = datetime(1970, 1, 1)
_UTC = timedelta(0)
_REMEDY = "write times as 1981-01-31, 2016-07-01 13:00 or 13:00:00.5 (to the microsecond), in years 1 to 9999"


class Ticks(NamedTuple):
    """The times of a series."""

    unit: Unit
    values: np.ndarray  # (T,) int64, rising
    offset: timedelta | None  # from UTC, as the times are written; UTC itself if they differ, None if they have none


def is_time(cell: str) -> bool:
    """Whether this is a time by its form; a plain year might be a number, so it is not."""
    cell = cell.strip()
    if _MONTH.fullmatch(cell):
        return True
    try:
        datetime.fromisoformat(cell)
    except ValueError:
        return False
    return not _YEAR.fullmatch(cell)


def are_rising_dates(cells: Sequence[str]) -> bool:
    """Whether all are years (`1950`), or all are dates without hyphens (`19500131`), each later than the one before."""
    width = len(cells[0]) if cells else 0
    if width not in (4, 8) or not all(len(cell) == width and cell.isdecimal() for cell in cells):
        return False
    try:
        return all(a < b for a, b in pairwise([_microseconds(cell)[0] for cell in cells]))
    except ValueError:
        return False


def read_ticks(path: Path, cells: Sequence[tuple[int, str]], wanted: str | None = None) -> Ticks:
    """Cells with their lines as ticks.

    The unit is `wanted` if it holds every time; else months if every time is the first moment of one, else seconds,
    else microseconds.
    """
    times: list[int] = []
    offsets: list[timedelta | None] = []
    for line, cell in cells:
        try:
            time, offset = _microseconds(cell)
        except ValueError:
            problem = f"{cell[:40]!r} is not a time that can be read" if cell else "the time is missing"
            raise DataError(path, line, problem, _REMEDY) from None
        if offsets and (offset is None) != (offsets[0] is None):
            words = ("no offset", "one") if offset is None else ("an offset", "none")
            problem = f"the time {cell} has {words[0]} from UTC, that of line {cells[0][0]} has {words[1]}"
            raise DataError(path, line, problem, "write all times alike")
        times.append(time)
        offsets.append(offset)
    for k, (before, after) in enumerate(pairwise(times)):
        line, cell = cells[k + 1]
        if after == before:
            raise DataError(path, line, f"the time {cell} is that of line {cells[k][0]} too", "keep one of the rows")
        if after < before:
            problem = f"the time {cell} comes before that of line {cells[k][0]}"
            raise DataError(path, line, problem, "sort the rows by time")
    exact = np.array(times, np.int64)
    offset = _common_offset(offsets)
    moments = (exact + (offset or _UTC) // timedelta(microseconds=1)).astype("datetime64[us]")  # where they are written
    months = moments.astype("datetime64[M]")
    fitting: dict[Unit, np.ndarray] = {"microsecond": exact}
    if not (exact % 1_000_000).any():
        fitting["second"] = exact // 1_000_000
    if (months.astype("datetime64[us]") == moments).all():
        fitting["month"] = months.astype(np.int64) + 12 * 1970
    order: list[Unit] = ["month", "second", "microsecond"] if len(times) > 1 else ["second", "microsecond"]
    unit = next(unit for unit in [*(unit for unit in fitting if unit == wanted), *order] if unit in fitting)
    return Ticks(unit, fitting[unit], offset)


def _common_offset(offsets: Sequence[timedelta | None]) -> timedelta | None:
    different = set(offsets)
    return different.pop() if len(different) == 1 else _UTC if different else None


def odd_among_months(ticks: np.ndarray, unit: str, offset: timedelta | None) -> int | None:
    """The place of the first time that is not the first moment of a month, if most times are; else None.

    >>> odd_among_months(np.array([0, 31, 60, 90]) * 86400, "second", None)
    2
    """
    exact = ticks * (1_000_000 if unit == "second" else 1)
    moments = (exact + (offset or _UTC) // timedelta(microseconds=1)).astype("datetime64[us]")
    odd = np.flatnonzero(moments != moments.astype("datetime64[M]"))
    return int(odd[0]) if unit != "month" and 0 < len(odd) < len(ticks) / 2 else None


def _microseconds(cell: str) -> tuple[int, timedelta | None]:
    """Since 1970, in UTC, and the offset from it; a ValueError if it is not a time. By differences, which have no first
    and no last year."""
    if month := _MONTH.fullmatch(cell):
        moment = datetime(int(month[1]), int(month[2]), 1)
    elif _YEAR.fullmatch(cell):
        moment = datetime(int(cell), 1, 1)
    elif _TOO_FINE.search(cell):
        raise ValueError(cell)
    else:
        moment = datetime.fromisoformat(cell)
    offset = moment.utcoffset()
    return (moment.replace(tzinfo=None) - _EPOCH - (offset or _UTC)) // timedelta(microseconds=1), offset


def time_of(tick: int, unit: str, step: int, offset: timedelta | None = None) -> str:
    """A tick as text; hours and seconds are left out where the grid has none and the times have no offset from UTC.

    >>> time_of(12 * 1949 + 3, "month", 1), time_of(86400, "second", 86400), time_of(7, "row", 1)
    ('1949-04', '1970-01-02', '8')
    >>> time_of(253402300800, "second", 3600), time_of(500_000, "microsecond", 500_000)
    ('10000-01-01 00:00:00', '1970-01-01 00:00:00.500')
    >>> time_of(0, "second", 86400, timedelta(hours=1))
    '1970-01-01 01:00:00+01:00'
    """
    if unit == "row":
        return str(tick + 1)
    if unit == "month":
        return f"{tick // 12:04d}-{tick % 12 + 1:02d}"
    if offset is not None:
        tick += offset // timedelta(**{f"{unit}s": 1})
        zone = str(timezone(offset)).removeprefix("UTC") or "+00:00"
        return time_of(tick, unit, 1 if unit == "second" else step) + zone
    # NumPy's calendar, since a forecast may reach past 9999, where Python's ends
    if unit == "microsecond":
        fine = step % 1000 or tick % 1000
        return str(np.datetime64(tick, "us") if fine else np.datetime64(tick // 1000, "ms")).replace("T", " ")
    if step % 86400 == tick % 86400 == 0:
        return str(np.datetime64(tick // 86400, "D"))
    return str(np.datetime64(tick, "s")).replace("T", " ")


def time_words(ticks: int, unit: str) -> str:
    """So many ticks in words.

    >>> time_words(3600, "second"), time_words(12, "month"), time_words(90, "second"), time_words(5000, "microsecond")
    ('1 hour', '12 months', '90 seconds', '5 milliseconds')
    """
    names = [(unit, 1)]
    if unit in ("second", "microsecond"):
        names = [("day", 86400), ("hour", 3600), ("minute", 60), ("second", 1)]
    if unit == "microsecond":
        names = [(name, size * 1_000_000) for name, size in names] + [("millisecond", 1000), ("microsecond", 1)]
    name, size = next((name, size) for name, size in names if ticks % size == 0)
    return counted(ticks // size, name)
