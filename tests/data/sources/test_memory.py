"""Data in memory that cannot be written to a file: one line, no traceback."""

import numpy as np
import pytest

from carousel.data.sources.memory import write_lines, write_pairs, write_sentences, write_series, write_table
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


def test_times_of_numpy_keep_their_form(tmp_path):
    times = np.arange("2020-01-01", "2020-01-03", dtype="datetime64[D]").astype("datetime64[ns]")
    text = write_series({"time": times, "x": [1, 2]}, tmp_path / "data").read_text()
    assert [line.partition("T")[0] for line in text.splitlines()] == ["time,x", "2020-01-01", "2020-01-02"]


def test_columns_that_are_not_read_may_hold_anything(tmp_path):
    rows = {"text": ["a"], "label": ["b"], "when": [np.datetime64("2020-01-01").item()]}
    assert '"when": "2020-01-01"' in write_table(rows, tmp_path / "data", ["text", "label"]).read_text()
