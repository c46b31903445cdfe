"""Series in CSV: times on a grid, what is missing, and what is refused with what words."""

import math

import numpy as np
import pytest

from carousel.data.sources.series import read_panel, series_of
from carousel.data.sources.times import time_of
from carousel.errors import CarouselError, DataError


def write(tmp_path, text):
    path = tmp_path / "s.csv"
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("times", "unit", "step"),
    [
        (["1949-01", "1949-02", "1949-03"], "month", 1),
        (["1949-01-01", "1949-04-01", "1949-07-01"], "month", 3),
        (["1950", "1951", "1952"], "month", 12),
        (["1981-01-30", "1981-01-31", "1981-02-01"], "second", 86400),
        (["2016-07-01 22:00:00", "2016-07-01 23:00:00", "2016-07-02 00:00:00"], "second", 3600),
        (["2016-07-01T00:00:00+02:00", "2016-07-01T00:15:00+02:00", "2016-06-30T22:30:00Z"], "second", 900),
    ],
)
def test_times(tmp_path, times, unit, step):
    path = write(tmp_path, "t,x\n" + "".join(f"{t},{k}\n" for k, t in enumerate(times)))
    found = read_panel(path, "t").first
    assert (found.unit, found.step, found.values[:, 0].tolist()) == (unit, step, [0, 1, 2])
    assert found.notes == []
    if "+" not in times[0] and unit != "month":
        assert [found.time(int(tick)) for tick in found.ticks] == times


def test_without_times_or_header_rows_are_counted(tmp_path):
    found = read_panel(write(tmp_path, "1,10\n2,20\n3,30\n"), columns=["2"]).first
    assert (found.unit, found.names, found.values.tolist()) == ("row", ["2"], [[10], [20], [30]])
    assert time_of(0, "row", 1) == "1"


def test_gaps_and_missing_values_are_counted(tmp_path):
    path = write(tmp_path, "day;a;b\n2020-01-01;1;5\n2020-01-02;NA;6\n2020-01-05;4;\n2020-01-06;5;8\n")
    found = read_panel(path).first
    assert found.put_in == 2
    assert found.missing == {"a": 1, "b": 1}
    assert np.isnan(found.values).sum(0).tolist() == [3, 3]
    told = " | ".join(found.notes)
    assert "s.csv: 2 rows are missing, the first before line 4; taken as missing values" in told
    assert "1 value of column a missing" in told
    with pytest.raises(DataError, match=r"s.csv: 2 rows are missing, the first before line 4; give gaps='fill'"):
        read_panel(path, gaps="error")
    with pytest.raises(DataError, match=r"s.csv:3: a value of a is missing"):
        found.refuse_missing()


BAD = {
    "t,x\n2020-01-01,1\n2020-01-02,two\n": "fix it, leave it empty, or choose the columns to read with columns",
    "t,x\n31/01/2020,1\n01/02/2020,2\n": "neither a number nor a time as it is read here; write 2020-01-31, or",
    't;x\n2020-01-01;1\n2020-01-02;"1,5"\n': "write 1.5 rather than 1,5",
    "t,x\n2020-01-01,1\n2020-01-01,2\n": "s.csv:3: the time 2020-01-01 is that of line 2 too",
    "t,x\n2020-01-02,1\n2020-01-01,2\n": "s.csv:3: the time 2020-01-01 comes before that of line 2; sort",
    "t,x\n2020-01-01,1\n2020-01-02,2\n2020-01-03,3\n2020-01-03 06:00,4\n": "s.csv:5: 6 hours after the row before",
    "t,x\n2020-01-01,1\nlater,2\n": "s.csv:3: 'later' is not a time",
    "t,x\n2020-01-01,1\n2020-01-02\n": "s.csv:3: 1 column, where line 1 has 2; look for a comma",
    "t;x\n2020-01-01;1;2\n": "s.csv:2: 3 columns, where line 1 has 2; look for a semicolon",
    "t,x\n2020-01-01,5\n2020-01-02,1_000\n": "s.csv:3: '1_000' in column x is not a number; write 1000 rather",
    "1_000\n2\n": "s.csv:1: '1_000' in column 1 is not a number",
    "t,x\n2020-01-01 00:00:00.5,5\n2020-01-01 00:00:00.5,6\n": "s.csv:3: the time 2020-01-01 00:00:00.5 is that of",
    "t,x\n2020-01-01 00:00:00.1234567,5\n": "is not a time that can be read; write times as",
    "t,x\n0000-01-01,5\n0000-01-02,5\n": "s.csv:2: '0000-01-01' in column t is neither a number nor a time",
    "t,x\n9999-12-31,5\n10000-01-01,5\n": "s.csv:3: '10000-01-01' is not a time that can be read",
    "t,x\n2020-01-01,1\n2020-01-02,inf\n": "s.csv:3: 'inf' in column x is not a finite number; fix it",
    "t,x,x\n2020-01-01,1,2\n": "s.csv:1: columns 2 and 3 are both named x; give each a name of its own",
    "t,t,x\n2020-01-01,1,2\n": "s.csv:1: columns 1 and 2 are both named t",
    "t,x\n" + "".join(f"1950-{k:02d}-{17 if k == 8 else 1:02d},{k}\n" for k in range(1, 13)): (
        "s.csv:9: 1950-08-17 is not the first of a month, as most times are; give times on a regular grid"
    ),
    "t,x\n2020-01-31,1\n2020-02-29,2\n2020-03-31,3\n": "where rows are 29 days apart; write months as 2020-01",
    "t,x\n2020-01-01 05:00,1\n" + "".join(f"2020-01-{k:02d},{k}\n" for k in range(2, 9)): (
        "s.csv:2: 19 hours before the next row, where rows are 1 day apart"
    ),
    "t,shop,x\n2020-01-01,a,1\n2020-01-01,b,2\n": (
        "s.csv:2: column shop has words, such as 'a'; if they are the ids of several series, give series_id='shop'; "
        "else choose the columns to read with columns"
    ),
    "t,x\n": "there is no row of numbers",
    "t\n2020-01-01\n": "no column of numbers to forecast",
    't,x\n2020-01-01,"1\n': "not CSV",
    "t,x\n2020-01-01,1\n2020-01-02,2\n2021-01-01,3\n": "s.csv:4: 364 of 367 rows are missing, the first before it",
}


@pytest.mark.parametrize("text", BAD)
def test_bad_files(tmp_path, text):
    with pytest.raises(DataError) as found:
        read_panel(write(tmp_path, text), gaps="fill")
    assert BAD[text] in str(found.value)


def test_columns_by_name(tmp_path):
    path = write(tmp_path, "date,load,wind\n2020-01-01,1,2\n2020-01-02,3,4\n")
    assert read_panel(path, columns=["wind"]).first.values[:, 0].tolist() == [2, 4]
    with pytest.raises(DataError, match="there is no column 'lod'; did you mean load"):
        read_panel(path, columns=["lod"])
    with pytest.raises(DataError, match="date is the column of times"):
        read_panel(path, columns=["date"])


@pytest.mark.parametrize(
    ("cells", "times", "names"),
    [
        ("year,x\n1950,1\n1951,2\n1953,3\n", "year", ["x"]),
        ("Date,x\n19500130,1\n19500131,2\n19500201,3\n", "Date", ["x"]),
        ("x,year\n1,1950\n2,1950\n3,1951\n", None, ["x", "year"]),  # two rows of a year: not the time of a row
        ("year,x\n1,10\n2,20\n", None, ["year", "x"]),
        ("year,day,x\n1950,1950-01-01,5\n1950,1950-01-02,5\n", "day", ["year", "x"]),
        ("1950,5\n1951,6\n", None, ["1", "2"]),
    ],
)
def test_which_column_is_the_time(tmp_path, cells, times, names):
    found = read_panel(write(tmp_path, cells)).first
    assert (found.time_column, found.names) == (times, names)
    assert [note for note in found.notes if "year is read as a variable; name the column of times" in note] == (
        [found.notes[0]] if "year" in names else []
    )
    if "year" in names:
        assert not read_panel(tmp_path / "s.csv", columns=["year", "x"]).first.doubtful


def test_a_year_chosen_as_a_variable_is_one(tmp_path):
    found = read_panel(write(tmp_path, "year,x\n1950,1\n1951,2\n"), columns=["year"]).first
    assert (found.time_column, found.values[:, 0].tolist()) == (None, [1950, 1951])


def test_half_seconds(tmp_path):
    times = [f"2020-01-01 00:00:{k // 2:02d}.{5 * (k % 2)}" for k in range(4)]
    found = read_panel(write(tmp_path, "t,x\n" + "".join(f"{t},{k}\n" for k, t in enumerate(times)))).first
    assert (found.unit, found.step, found.put_in) == ("microsecond", 500_000, 0)
    assert [found.time(int(tick)) for tick in found.ticks] == [time + "00" for time in times]
    assert found.times_ahead(1) == ["2020-01-01 00:00:02.000"]


def test_the_ends_of_the_calendar(tmp_path):
    """Zones may put a time before year 1 or after 9999, and forecasts may reach past it."""
    path = write(tmp_path, "t,x\n0001-01-01T00:00+02:00,1\n0001-01-01T01:00+02:00,2\n")
    assert read_panel(path).first.time(int(read_panel(path).first.ticks[0])) == "0001-01-01 00:00:00+02:00"
    path = write(tmp_path, "t,x\n9999-12-31T22:00-02:00,1\n9999-12-31T23:00-02:00,2\n")
    assert read_panel(path).first.times_ahead(1) == ["10000-01-01 00:00:00-02:00"]
    path = write(tmp_path, "t,x\n9999-11,1\n9999-12,2\n")
    assert read_panel(path).first.times_ahead(1) == ["10000-01"]


def test_times_with_an_offset_are_written_with_it(tmp_path):
    hours = [f"2020-01-0{1 + k // 24}T{k % 24:02d}:00+01:00" for k in range(48)]
    found = read_panel(write(tmp_path, "t,x\n" + "".join(f"{t},{k}\n" for k, t in enumerate(hours)))).first
    assert found.time(int(found.ticks[0])) == "2020-01-01 00:00:00+01:00"
    assert found.times_ahead(2) == ["2020-01-03 00:00:00+01:00", "2020-01-03 01:00:00+01:00"]
    days = "t,x\n2020-01-01T00:00+01:00,1\n2020-01-02T00:00+01:00,2\n"
    assert read_panel(write(tmp_path, days)).first.times_ahead(1) == ["2020-01-03 00:00:00+01:00"]
    assert read_panel(write(tmp_path, days.replace("+01:00", ""))).first.times_ahead(1) == ["2020-01-03"]
    noon = read_panel(write(tmp_path, days.replace("T00:00+01:00", "T12:00"))).first
    assert noon.times_ahead(1) == ["2020-01-03 12:00:00"]
    start = series_of([1, 2], ["x"], ("second", 3600), "2020-01-01T00:00-03:00")
    assert start.times_ahead(1) == ["2020-01-01 02:00:00-03:00"]
    shops = "t,shop,x\n2020-01-01T00:00Z,a,1\n2020-01-02T00:00Z,a,1\n2020-01-01,b,2\n2020-01-02,b,2\n"
    with pytest.raises(DataError, match=r"s.csv:4: the time 2020-01-01 has no offset from UTC, that of line 2 has one"):
        read_panel(write(tmp_path, shops), series_id="shop")


def test_the_grid_of_another_series(tmp_path):
    """Every second row left out: the times alone would give two months."""
    path = write(tmp_path, "t,x\n2020-01,1\n2020-02,2\n2020-04,3\n2020-06,4\n")
    with pytest.raises(DataError, match="1 month before the next row, where rows are 2 months apart"):
        read_panel(path)
    found = read_panel(path, grid=("month", 1)).first
    np.testing.assert_array_equal(found.values[:, 0], [1, 2, np.nan, 3, np.nan, 4])
    path = write(tmp_path, "t,x\n2020-01,1\n2020-04,2\n2020-07,3\n")
    assert read_panel(path, grid=("month", 1)).first.step == 3  # not a month apart anywhere: it is another grid
    path = write(tmp_path, "t,x\n2020-01-01,1\n2020-02-01,2\n")
    assert read_panel(path, grid=("second", 86400)).first.unit == "second"


def test_numbers_in_memory():
    found = series_of([1, None, 3.5], ["x"], ("month", 1), "1949-12")
    np.testing.assert_array_equal(found.values, [[1], [np.nan], [3.5]])
    assert found.times_ahead(1) == ["1950-03"]
    assert series_of([[1, 2], [3, 4]], ["x", "y"], ("row", 1)).values.tolist() == [[1, 2], [3, 4]]
    for values, names, start, said in (
        (
            [1, 2],
            ["x", "y"],
            "1949-12",
            r"numbers of shape \(2,\) cannot be forecast from; give a CSV file, or numbers: \(T, 2\)",
        ),
        ([1, 2], ["x"], None, "give start, the time of the first one"),
        (["1", "2"], ["x"], "1949-12", "list is not a series of numbers"),
        ([1, math.inf], ["x"], "1949-12", "inf cannot be forecast from"),
        ({"x": 1}, ["x"], "1949-12", "dict is not a series of numbers"),
        ([1, 2], ["x"], "1949-12-05", "start: 1949-12-05 does not fit a series in steps of 1 month"),
        ([1, 2], ["x"], "soon", "'soon' is not a time"),
    ):
        with pytest.raises(CarouselError, match=said):
            series_of(values, names, ("month", 1), start)


def test_one_file_goes_on_where_another_ends(tmp_path):
    def series(name, text):
        (tmp_path / name).write_text("month,x\n" + text)
        return read_panel(tmp_path / name).first

    train, dev = series("a.csv", "2020-11,1\n2020-12,\n"), series("b.csv", "2021-01,3\n2021-02,4\n2021-04,6\n")
    both = train.followed_by(dev)
    np.testing.assert_array_equal(both.values[:, 0], [1, np.nan, 3, 4, np.nan, 6])
    assert [both.time(int(tick)) for tick in both.ticks[[0, -1]]] == ["2020-11", "2021-04"]
    assert [note.partition(" ")[0] for note in both.notes] == [f"{tmp_path}/a.csv:", f"{tmp_path}/b.csv:"]
    with pytest.raises(DataError, match=r"a.csv: it begins at 2020-11, and .*b.csv ends at 2021-04; give a file that"):
        dev.followed_by(train)
    with pytest.raises(DataError, match=r"c.csv: its rows are 3 months apart, those of the training 1 month"):
        train.followed_by(series("c.csv", "2021-01,3\n2021-04,4\n"))
