"""Series in CSV: times on a grid, what is missing, and what is refused with what words."""

import numpy as np
import pytest

from carousel.data.series import read_series, time_of
from carousel.errors import DataError


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
    found = read_series(path, "t")
    assert (found.unit, found.step, found.values[:, 0].tolist()) == (unit, step, [0, 1, 2])
    assert found.notes == []
    if "+" not in times[0] and unit != "month":
        assert [found.time(int(tick)) for tick in found.ticks] == times


def test_without_times_or_header_rows_are_counted(tmp_path):
    found = read_series(write(tmp_path, "1,10\n2,20\n3,30\n"), columns=["2"])
    assert (found.unit, found.names, found.values.tolist()) == ("row", ["2"], [[10], [20], [30]])
    assert time_of(0, "row", 1) == "1"


def test_gaps_and_missing_values_are_filled_and_said(tmp_path):
    path = write(tmp_path, "day;a;b\n2020-01-01;1;5\n2020-01-02;NA;6\n2020-01-05;4;\n2020-01-06;5;8\n")
    found = read_series(path)
    assert found.put_in == 2
    assert found.missing == {"a": 1, "b": 1}
    assert np.isnan(found.values).sum(0).tolist() == [3, 3]
    assert found.filled("interpolate").T.tolist() == [[1, 1.75, 2.5, 3.25, 4, 5], [5, 6, 6.5, 7, 7.5, 8]]
    assert found.filled("forward").T.tolist() == [[1, 1, 1, 1, 4, 5], [5, 6, 6, 6, 6, 8]]
    told = " | ".join(found.notes)
    assert "s.csv:4: 2 rows are left out before here or later" in told
    assert "1 value of a missing" in told
    with pytest.raises(DataError, match=r"s.csv:4: 2 rows are left out .*set gaps to fill"):
        read_series(path, gaps="error")
    with pytest.raises(DataError, match=r"s.csv:3: a value of a is missing"):
        found.filled("error")


def test_a_gap_at_the_beginning_takes_the_first_value(tmp_path):
    found = read_series(write(tmp_path, "t,x\n2020-01,\n2020-02,3\n2020-03,4\n"))
    assert found.filled("forward")[:, 0].tolist() == found.filled("interpolate")[:, 0].tolist() == [3, 3, 4]


BAD = {
    "t,x\n2020-01-01,1\n2020-01-02,two\n": "s.csv:3: 'two' in column x is not a number; mend it, or leave it empty",
    "t,x\n31/01/2020,1\n01/02/2020,2\n": "neither a number nor a time as it is read here; write 2020-01-31, or",
    't;x\n2020-01-01;1\n2020-01-02;"1,5"\n': "write 1.5 rather than 1,5",
    "t,x\n2020-01-01,1\n2020-01-01,2\n": "s.csv:3: the time 2020-01-01 is that of line 2 too",
    "t,x\n2020-01-02,1\n2020-01-01,2\n": "s.csv:3: the time 2020-01-01 comes before that of line 2; sort",
    "t,x\n2020-01-01,1\n2020-01-02,2\n2020-01-03,3\n2020-01-03 06:00,4\n": "s.csv:5: 6 hours after the row before",
    "t,x\n2020-01-01,1\nlater,2\n": "s.csv:3: 'later' is not a time",
    "t,x\n2020-01-01,1\n2020-01-02\n": "s.csv:3: 1 column, where line 2 has 2",
    "t,x\n": "there is no row of numbers",
    "t\n2020-01-01\n": "a column of times only",
    't,x\n2020-01-01,"1\n': "not CSV",
    "t,x\n2020-01-01,1\n2020-01-02,2\n2021-01-01,3\n": "364 of 367 rows are left out, here first",
}


@pytest.mark.parametrize("text", BAD)
def test_bad_files(tmp_path, text):
    with pytest.raises(DataError) as found:
        read_series(write(tmp_path, text), gaps="fill")
    assert BAD[text] in str(found.value)


def test_columns_by_name(tmp_path):
    path = write(tmp_path, "date,load,wind\n2020-01-01,1,2\n2020-01-02,3,4\n")
    assert read_series(path, columns=["wind"]).values[:, 0].tolist() == [2, 4]
    with pytest.raises(DataError, match="there is no column 'lod'; did you mean load"):
        read_series(path, columns=["lod"])
    with pytest.raises(DataError, match="date is the column of times"):
        read_series(path, columns=["date"])


def test_one_file_goes_on_where_another_ends(tmp_path):
    def series(name, text):
        (tmp_path / name).write_text("month,x\n" + text)
        return read_series(tmp_path / name)

    train, dev = series("a.csv", "2020-11,1\n2020-12,\n"), series("b.csv", "2021-01,3\n2021-02,4\n2021-04,6\n")
    both = train.followed_by(dev)
    np.testing.assert_array_equal(both.values[:, 0], [1, np.nan, 3, 4, np.nan, 6])
    assert [both.time(int(tick)) for tick in both.ticks[[0, -1]]] == ["2020-11", "2021-04"]
    assert [note.partition(" ")[0] for note in both.notes] == [f"{tmp_path}/a.csv:", f"{tmp_path}/b.csv:4:"]
    with pytest.raises(DataError, match=r"a.csv: it begins at 2020-11, and .*b.csv ends at 2021-04; give a file that"):
        dev.followed_by(train)
    with pytest.raises(DataError, match=r"c.csv: its rows are 3 months apart, those of the training 1 month"):
        train.followed_by(series("c.csv", "2021-01,3\n2021-04,4\n"))
