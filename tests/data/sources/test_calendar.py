"""Places in the cycles of the calendar, against `datetime`."""

from datetime import UTC, datetime

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from carousel.data.sources.calendar import calendar, cycles_of


def shares(seconds):
    """How much of its day, week (from the Thursday of 1970) and year has passed, by `datetime`."""
    moment = datetime.fromtimestamp(seconds, UTC)
    midnight = moment.replace(hour=0, minute=0, second=0)
    day = (moment - midnight).total_seconds() / 86_400
    week = ((moment.isoweekday() - 4) % 7 + day) / 7
    new_year = midnight.replace(month=1, day=1)
    year = (moment - new_year) / (new_year.replace(year=moment.year + 1) - new_year)
    return {"day": day, "week": week, "year": year}


@given(st.lists(st.integers(-(10**10), 10**11), min_size=1, max_size=5), st.sampled_from(["second", "microsecond"]))
def test_sine_and_cosine_of_each_cycle(seconds, unit):
    ticks = np.array(seconds, np.int64) * (1 if unit == "second" else 1_000_000)
    result = calendar(ticks, unit, ["day", "week", "year"])
    angles = 2 * np.pi * np.array([list(shares(s).values()) for s in seconds])
    np.testing.assert_allclose(result[:, 0::2], np.sin(angles), atol=1e-9)
    np.testing.assert_allclose(result[:, 1::2], np.cos(angles), atol=1e-9)


def test_without_cycles_there_are_no_columns():
    assert calendar(np.arange(3), "second", []).shape == (3, 0)
    assert calendar(np.arange(0), "month", ["year"]).shape == (0, 2)


@pytest.mark.parametrize(
    ("unit", "step", "season", "rows", "expected"),
    [
        ("second", 3600, 0, 3 * 24, ["day"]),  # three days of hours
        ("second", 3600, 0, 3 * 24 - 1, []),
        ("second", 3600, 24, 3 * 24 * 7, ["week"]),  # the season has the day
        ("second", 86_400 // 2, 0, 10_000, ["week", "year"]),  # two steps are a day: no cycle of its own
        ("microsecond", 3_600_000_000, 24, 3 * 24 * 366, ["week", "year"]),
        ("month", 1, 12, 1000, []),
        ("month", 3, 0, 12, ["year"]),
        ("row", 1, 0, 10**6, []),
    ],
)
def test_which_cycles_a_series_goes_through(unit, step, season, rows, expected):
    assert cycles_of(unit, step, season, rows) == expected
