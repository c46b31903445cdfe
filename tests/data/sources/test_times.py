"""Times as text, to ticks and back, against `datetime` and NumPy."""

from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from carousel.data.sources.times import are_rising_dates, is_time, read_ticks, time_of, time_words
from carousel.errors import DataError

PATH = Path("s.csv")


def ticks(*cells, wanted=None):
    unit, values, _ = read_ticks(PATH, list(enumerate(cells, 2)), wanted)
    return unit, values.tolist()


@given(st.datetimes(datetime(1, 1, 2), datetime(9998, 1, 1)), st.timedeltas(timedelta(microseconds=1), timedelta(9)))
def test_ticks_are_those_of_datetime(first, later):
    unit, values = ticks(first.isoformat(), (first + later).isoformat())
    per_tick = {"microsecond": timedelta(microseconds=1), "second": timedelta(seconds=1)}
    if unit == "month":
        assert first.day == (first + later).day == 1
    else:
        assert [datetime(1970, 1, 1) + value * per_tick[unit] for value in values] == [first, first + later]
        assert datetime.fromisoformat(time_of(values[0], unit, 1)) == first


def test_the_unit_is_the_coarsest_that_holds_every_time():
    assert ticks("1949-01", "1949-03") == ("month", [12 * 1949, 12 * 1949 + 2])
    assert ticks("1949-01-01", "1949-03-01T00:00") == ("month", [12 * 1949, 12 * 1949 + 2])
    assert ticks("1970-01-01", "1970-01-02") == ("second", [0, 86_400])
    assert ticks("1970-01-01", "1970-01-01T00:00:00.5") == ("microsecond", [0, 500_000])
    assert ticks("1970-01-01") == ("second", [0])  # one time says nothing of months
    assert ticks("1970-01-01", wanted="month") == ("month", [12 * 1970])
    assert ticks("1970-01-02", wanted="month") == ("second", [86_400])  # it does not hold it
    assert ticks("1970-01-01T02:00+02:00", "1970-01-01T02:00Z") == ("second", [0, 7200])
    assert len(read_ticks(PATH, []).values) == 0


@pytest.mark.parametrize(
    ("cells", "unit", "offset"),
    [
        (["2020-01-01", "2020-01-02"], "second", None),
        (["2020-01-01T00:00Z", "2020-01-01T01:00Z"], "second", timedelta(0)),
        (["2020-01-01T00:00+01:00", "2020-01-02T00:00+01:00"], "second", timedelta(hours=1)),
        (["2020-01-01T00:00+01:00", "2020-02-01T00:00+01:00"], "month", timedelta(hours=1)),
        (["2020-03-29T01:00+01:00", "2020-03-29T03:00+02:00"], "second", timedelta(0)),  # the clocks change
        (["2020-01-01T00:00:00.5-05:30", "2020-01-02T00:00:00-05:30"], "microsecond", -timedelta(hours=5, minutes=30)),
    ],
)
def test_a_time_keeps_its_offset(cells, unit, offset):
    found = read_ticks(PATH, list(enumerate(cells, 2)))
    assert (found.unit, found.offset) == (unit, offset)
    if unit != "month":
        step = int(found.values[1] - found.values[0])
        said = [datetime.fromisoformat(time_of(int(tick), unit, step, offset)) for tick in found.values]
        assert said == [datetime.fromisoformat(cell) for cell in cells]
        assert {time.utcoffset() for time in said} == {offset}


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        (["1950-01", "1950-13"], "s.csv:3: '1950-13' is not a time that can be read; write times as"),
        (
            ["1950-01-01T00:00Z", "1950-01-02"],
            "s.csv:3: the time 1950-01-02 has no offset from UTC, that of line 2 has",
        ),
        (["1950-01-01", "1950-01-02T00:00Z"], "s.csv:3: the time 1950-01-02T00:00Z has an offset from UTC, that of"),
        (["yesterday"], "s.csv:2: 'yesterday' is not a time"),
        ([""], "s.csv:2: the time is missing"),
        (["1950-01-01T00:00:00.1234567"], "is not a time that can be read"),
        (["1950-01", "1950-01"], "s.csv:3: the time 1950-01 is that of line 2 too; keep one of the rows"),
        (["1950-02", "1950-01"], "s.csv:3: the time 1950-01 comes before that of line 2; sort the rows by time"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(cells, message):
    with pytest.raises(DataError) as error:
        ticks(*cells)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ("1950-1", True),
        (" 1950-01-31 ", True),
        ("2016-07-01 13:00", True),
        ("1950", False),
        ("", False),
        ("3.5", False),
    ],
)
def test_what_a_time_looks_like(cell, expected):
    assert is_time(cell) == expected


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["1950", "1951"], True),
        (["1951", "1950"], False),
        (["1950", "1950"], False),
        (["19500131", "19500201"], True),
        (["19500131", "19500231"], False),  # no such day
        (["1950", "19510101"], False),
        (["12", "13"], False),
        ([], False),
    ],
)
def test_years_and_dates_without_hyphens(cells, expected):
    assert are_rising_dates(cells) == expected


@given(st.integers(-(10**15), 10**15))
def test_microseconds_as_numpy_writes_them(tick):
    assert np.datetime64(time_of(tick, "microsecond", 1)) == np.datetime64(tick, "us")


@pytest.mark.parametrize(
    ("count", "unit", "words"),
    [
        (1, "row", "1 row"),
        (24, "row", "24 rows"),
        (86_400, "second", "1 day"),
        (5400, "second", "90 minutes"),
        (1, "microsecond", "1 microsecond"),
        (120_000_000, "microsecond", "2 minutes"),
    ],
)
def test_spans_of_time_in_words(count, unit, words):
    assert time_words(count, unit) == words
