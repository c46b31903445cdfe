"""Tables and arrays of number sequences: what is read, and what is refused, in one line that says where."""

import numpy as np
import pytest

from carousel.data.sources.sequences import SequenceTable, write_sequences
from carousel.errors import ArgumentError, DataError


def rows(tmp_path, text, *columns, name="data.csv", **options):
    file = tmp_path / name
    file.write_text(text)
    return [(row.label, row.x.tolist(), row.name) for row in SequenceTable(file, *columns, **options)]


WIDE = [("a", [[1.0], [2.5], [-3.0]], "2"), ("b", [[4.0], [5.0]], "3")]


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("label,t1,t2,t3\na,1,2.5,-3\nb,4,5,\n", None),
        ("t1,t2,t3,kind\n1,2.5,-3,a\n4,5,,b\n", "kind"),
        ("t1;t2;t3;kind\n1;2.5;-3;a\n4;5;NA;b\n", "4"),
    ],
)
def test_a_row_is_a_sequence(tmp_path, text, label):
    assert rows(tmp_path, text, label) == WIDE


def test_a_table_without_a_header(tmp_path):
    made = rows(tmp_path, "a\t1\t2.5\t-3\nb\t4\t5\t\n", "1", name="data.tsv")
    assert [row[:2] for row in made] == [row[:2] for row in WIDE]
    unlabelled = rows(tmp_path, "1,2.5,-3\n4,5,\n", labelled=False)
    assert [row[1] for row in unlabelled] == [row[1] for row in WIDE]


def test_a_row_is_a_step(tmp_path):
    """Rows of different ids may alternate; a missing number keeps its place, also at the end."""
    text = "walk,x,y,person,note\n7,1,2,ann,-\n9,0,0,bob,-\n7,3,,ann,-\n"
    (a, x, one), (b, z, two) = rows(tmp_path, text, "person", "walk", "x,y")
    assert (a, one, b, two) == ("ann", "7", "bob", "9") and z == [[0.0, 0.0]]
    np.testing.assert_array_equal(x, [[1, 2], [3, np.nan]])


@pytest.mark.parametrize(
    ("text", "columns", "said"),
    [
        ("1,2,3\n4,5,6\n", (), r"data\.csv:1: it is not clear which column is the label; choose it with label_column"),
        ("label,a\nx,1\n", ("labl",), r"data\.csv:1: label_column: there is no column 'labl'; did you mean label\?"),
        ("label,a\nx,1\ny,q\n", (), r"data\.csv:3: 'q' in column a is not a number"),
        ("label,a\nx,1\ny\n", (), r"data\.csv:3: 1 column, where line 1 has 2"),
        ("label,a\nx,1\n,2\n", (), r"data\.csv:3: the label is empty"),
        ("label,a\nx,1\ny,\n", (), r"data\.csv:3: there is no number in the row"),
        ("label,label,a\nx,y,1\n", (), r"data\.csv:1: columns 1 and 2 are both named label; give each a name"),
        ("id,label,a,a\n1,x,1,2\n", (None, "id"), r"data\.csv:1: columns 3 and 4 are both named a; give each a name"),
        ("label,a\nx,1e99999\n", (), r"data\.csv:2: '1e99999' in column a is too large"),
        ("label\nx\n", (), r"data\.csv:1: there is no column of numbers"),
        ("label,a\n", (), r"data\.csv: there is no sequence in it"),
        ('label,a\nx,"1\n', (), r"data\.csv:2: not CSV"),
        ("id,label,a\n1,x,1\n1,y,1\n", (None, "id"), r"data\.csv:3: '1' has the label 'y' here and 'x' before"),
        ("id,label,a\n,x,1\n", (None, "id"), r"data\.csv:2: the id is empty"),
    ],
)
def test_bad_tables(tmp_path, text, columns, said):
    with pytest.raises(DataError, match=said):
        rows(tmp_path, text, *columns)


def test_arrays(tmp_path):
    x = np.arange(12, dtype=np.int16).reshape(2, 3, 2)
    np.savez(tmp_path / "a.npz", x=x, y=np.array([3, 5]), lengths=np.array([3, 1]))
    one, two = SequenceTable(tmp_path / "a.npz")
    np.testing.assert_array_equal(one.x, x[0])
    np.testing.assert_array_equal(two.x, x[1, :1])
    assert (one.label, two.label, two.name) == ("3", "5", "2")


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({"y": [1]}, "there is no array x of numbers"),
        ({"x": [["a"]], "y": [1]}, "there is no array x of numbers"),
        ({"x": [1.0, 2.0], "y": [1, 2]}, "with two or three dimensions"),
        ({"x": [[1.0], [2.0]], "y": [1]}, "there is no array y with 2 labels"),
        ({"x": [[1.0], [2.0]], "y": [1, 2], "lengths": [1, 2]}, "lengths are not 2 numbers from 1 to 1"),
        ({"x": [[np.inf]], "y": [1]}, "a number is infinite"),
        ({"x": np.array([[None]], object), "y": [1]}, "not arrays of NumPy"),
    ],
)
def test_bad_arrays(tmp_path, arrays, said):
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(DataError, match=said):
        SequenceTable(tmp_path / "a.npz")


def test_a_damaged_file(tmp_path):
    np.savez(tmp_path / "a.npz", x=np.ones((2, 3)), y=np.ones(2))
    whole = (tmp_path / "a.npz").read_bytes()
    for data in (b"x", whole[:-30], whole[:60] + b"x" * 40 + whole[100:]):
        (tmp_path / "a.npz").write_bytes(data)
        with pytest.raises(DataError, match=r"a\.npz: "):
            SequenceTable(tmp_path / "a.npz")


def test_data_in_memory(tmp_path):
    made = write_sequences([([1, 2, None], "a"), (np.array([3.0]), 7)], tmp_path / "a.npz")
    one, two = SequenceTable(made)
    np.testing.assert_array_equal(one.x, [[1], [2], [np.nan]])
    assert two.x.tolist() == [[3.0]] and (one.label, two.label) == ("a", "7")
    for bad in (
        [1, 2],
        [("ab", "a")],
        [([], "a")],
        [([[1], [2, 3]], "a")],
        [([1], "a"), ([[1, 2]], "b")],
        {"x": [1]},
        [],
    ):
        with pytest.raises(ArgumentError, match="data: "):
            write_sequences(bad, tmp_path / "b.npz")
        assert not (tmp_path / "b.npz").exists()
