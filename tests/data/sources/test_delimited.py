"""What stands between the cells of a table, and complaints about rows that do not fit."""

import pytest

from carousel.data.sources.delimited import delimiter_of, read_cells, uneven_row
from carousel.data.sources.sequences import SequenceTable
from carousel.data.sources.series import read_panel
from carousel.data.sources.tables import Table
from carousel.errors import DataError


@pytest.mark.parametrize(
    ("name", "text", "delimiter"),
    [
        ("t.tsv", "a, b and c\td\n", "\t"),
        ("t.tsv", "a, b\n", ","),
        ("t.csv", "time, local\tload\n", "\t"),
        ("t.csv", "time;load\n1,5;2\n", ";"),
        ("t.csv", "a;b,c\n", ","),
        ("t.csv", "a\n", ","),
    ],
)
def test_the_delimiter(text_file, name, text, delimiter):
    assert delimiter_of(text_file(text, name)) == delimiter


def test_rows_have_the_lines_that_they_end_on(text_file):
    assert read_cells(text_file('a,"b\nc"\n\n1,2\n', "t.csv"), ",") == [(2, ["a", "b\nc"]), (4, ["1", "2"])]
    with pytest.raises(DataError, match=r"t.csv:1: not CSV: .*; close every quote"):
        read_cells(text_file('a,"b\n', "t.csv"), ",")


def test_a_carriage_return_inside_a_line(text_file):
    line = r"t.csv:2: a carriage return \(\\r\) inside the line, outside of quotes; end every line with"
    with pytest.raises(DataError, match=line):
        read_cells(text_file("a,b\n1\r2,3\n", "t.csv"), ",")
    with pytest.raises(DataError, match=line):
        list(Table(text_file("text,label\na\rb,x\n", "t.csv")))


def test_a_row_that_does_not_fit(text_file):
    line = str(uneven_row(text_file("", "t.csv"), 3, 1, (1, ["a", "b"]), ";"))
    assert line.endswith("t.csv:3: 1 column, where line 1 has 2; look for a semicolon too many or too few")


@pytest.mark.parametrize(
    ("name", "text", "mark"),
    [
        ("t.tsv", "x, y\tlabel\n1\tp\n2\n", "tab"),
        ("t.csv", "x;label\n1;p\n2\n", "semicolon"),
        ("t.csv", "x,label\n1,p\n2\n", "comma"),
    ],
)
@pytest.mark.parametrize("read", [read_panel, SequenceTable, lambda path: list(Table(path, text="x", label="label"))])
def test_every_reader_names_the_delimiter_of_the_file(text_file, name, text, mark, read):
    if read not in (read_panel, SequenceTable):
        text = text.replace("x, y", "x")
    with pytest.raises(DataError, match=f"{name}:3: 1 column, where line 1 has 2; look for a {mark} too"):
        read(text_file(text, name))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("t.tsv", "a warm, funny film\tgood\ndull, long and flat\tbad\n"),
        ("t.txt", "one line, with a comma\nanother\n"),
        ("t.csv", 'text,label\nsaid "so,good\n'),
    ],
)
def test_text_is_no_series(text_file, name, text):
    with pytest.raises(DataError, match=f"{name}: there is no number in its first lines; give a time and some numbers"):
        read_panel(text_file(text, name))
