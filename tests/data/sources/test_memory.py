"""Data in memory that cannot be written to a file: one line, no traceback."""

import numpy as np
import pytest

from carousel.data.sources.memory import (
    is_missing,
    write_lines,
    write_pairs,
    write_sentences,
    write_series,
    write_table,
)
from carousel.errors import ArgumentError

HALF = "a \ud800 b"


@pytest.mark.parametrize(
    ("write", "data", "said"),
    [
        (lambda data, stem: write_table(data, stem, ["text", "label"]), [(HALF, "x")], r"half a character .*ud800"),
        (lambda data, stem: write_lines(data, stem.with_suffix(".txt"), str), [HALF], "half a character"),
        (lambda data, stem: write_pairs(data, stem, (".a", ".b")), [("a", HALF)], "half a character"),
        (write_sentences, [[("a\ud800", "O")]], "half a character"),
        (lambda data, stem: write_table(data, stem, ["text", "label"]), [("a", 10**5000)], "item 1 has a number or a "),
        (write_series, [10**5000], "a whole number has too many digits"),
    ],
    ids=range(6),
)
def test_what_cannot_be_written(tmp_path, write, data, said):
    with pytest.raises(ArgumentError, match=said):
        write(data, tmp_path / "data")
    assert not list(tmp_path.iterdir())


def rows_of_text(data, stem):
    return write_table(data, stem, ["text", "label"])


def plain_lines(data, stem):
    return write_lines(data, stem.with_suffix(".txt"), lambda one: one)


@pytest.mark.parametrize(
    ("write", "data", "said"),
    [
        (rows_of_text, [None, ("a", "x")], r"item 1 is not of the form \(text, label\): None"),
        (plain_lines, [None, "a"], r"item 1 is missing \(None\); give a text, or remove it"),
        (plain_lines, ["a", float("nan")], r"item 2 is missing \(nan\); give a text"),
        (write_sentences, [[("a", "O"), ("b", float("nan"))]], r"sentence 1 has \('b', nan\); give pairs"),
        (
            rows_of_text,
            (["a", "b"], [0, 1]),
            r"item 2 is not of the form \(text, label\): \[0, 1\]; give \(text, label\) or \{'text'",
        ),
        (write_sentences, [None, [("a", "O")]], "sentence 1 is of type NoneType"),
        (write_sentences, [[("a", None)]], r"sentence 1 has \('a', None\); give pairs"),
        (write_sentences, [[3]], r"sentence 1 has 3; give pairs"),
        (rows_of_text, {"text": ["a", "b"], "label": ["x"]}, "columns text, label are of different lengths"),
        (rows_of_text, {"text": "a", "label": 1}, "a column is a list of values; got label: int"),
        (rows_of_text, [{"text": "a", "label": 1}, {"text": "b"}], "item 2 has no label, which item 1 has"),
        (rows_of_text, [{"text": "a", "label": 1}, None], "item 2 has no text, which item 1 has: None"),
    ],
    ids=range(12),
)
def test_nothing_is_left_out_silently(tmp_path, write, data, said):
    """A first item that is None once ended the data."""
    with pytest.raises(ArgumentError, match=said):
        write(data, tmp_path / "data")
    assert not list(tmp_path.iterdir())


def test_a_series_may_begin_with_a_missing_value(tmp_path):
    assert write_series([None, 1.5, None], tmp_path / "data").read_text().splitlines() == ["value", '""', "1.5", '""']


def test_times_of_numpy_keep_their_form(tmp_path):
    times = np.arange("2020-01-01", "2020-01-03", dtype="datetime64[D]").astype("datetime64[ns]")
    text = write_series({"time": times, "x": [1, 2]}, tmp_path / "data").read_text()
    assert [line.partition("T")[0] for line in text.splitlines()] == ["time,x", "2020-01-01", "2020-01-02"]


def test_missing_values_of_pandas():
    """As its NA is: comparing it says neither yes nor no."""

    class NAType:
        def __ne__(self, other):
            raise TypeError("boolean value of NA is ambiguous")

    assert is_missing(NAType()) and is_missing(np.datetime64("NaT"))
    assert not any(map(is_missing, ["", "nan", 0, False, [], np.float32(1)]))


def test_columns_that_are_not_read_may_hold_anything(tmp_path):
    rows = {"text": ["a"], "label": ["b"], "when": [np.datetime64("2020-01-01").item()]}
    assert '"when": "2020-01-01"' in write_table(rows, tmp_path / "data", ["text", "label"]).read_text()
