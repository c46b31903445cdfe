"""Rows of integers in one Arrow file, as Arrow itself reads them."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from carousel.data.stores import ragged


def test_columns_of_several_kinds(tmp_path):
    """What later readers need: several columns, any number of rows, rows that are empty."""
    path = Path(tmp_path, "x.arrow")
    with ragged.RaggedWriter(path, {"words": np.uint16, "tags": np.uint8}) as writer:
        for words, tags in (([[1, 2], []], [[7], [8, 9]]), ([], []), ([[3]], [[]])):
            for name, rows in (("words", words), ("tags", tags)):
                writer.append(
                    name, np.array([i for row in rows for i in row]), np.array([len(row) for row in rows], np.int64)
                )
        writer.finish({"a": 1})
    columns, info = ragged.read(path)
    assert [row.tolist() for row in columns["words"]] == [[1, 2], [], [3]]
    assert [row.tolist() for row in columns["tags"]] == [[7], [8, 9], []]
    assert info == {"a": 1}
    with ragged.RaggedWriter(path, {"words": np.uint16}) as writer:
        writer.append("words", np.array([5]), np.array([1]))  # given up before it was finished
    assert len(ragged.read(path)[0]["words"]) == 3


@given(st.lists(st.lists(st.integers(0, 2**16 - 1), max_size=4), max_size=6))
def test_the_file_is_arrows_own(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("ragged") / "x.arrow"
    with ragged.RaggedWriter(path, {"tokens": np.uint16}) as writer:
        for row in rows:
            writer.append("tokens", np.array(row, np.int64), np.array([len(row)]))
        writer.finish({})
    with pa.OSFile(str(path)) as file:
        assert pa.ipc.open_file(file).read_all().column("tokens").to_pylist() == rows
    assert [row.tolist() for row in ragged.read(path)[0]["tokens"]] == rows


def test_rows_are_indexed_like_a_list():
    column = ragged.Ragged(np.array([7, 8, 9]), np.array([0, 2, 2, 3]))
    assert (len(column), column[-1].tolist(), column[1].tolist()) == (3, [9], [])
    with pytest.raises(IndexError):
        column[3]


def test_a_column_that_changed_is_named(tmp_path):
    path = tmp_path / "x.arrow"
    with ragged.RaggedWriter(path, {"tokens": np.uint32}) as writer:
        writer.append("tokens", np.array([123456789]), np.array([1]))
        writer.finish({})
    whole = path.read_bytes()
    path.write_bytes(whole.replace(np.uint32(123456789).tobytes(), np.uint32(123456788).tobytes()))
    with pytest.raises(ragged.Damaged, match="column tokens is not as it was written"):
        ragged.read(path)
    assert ragged.read(path, check=False)[0]["tokens"][0].tolist() == [123456788]
    path.write_bytes(b"no Arrow")
    with pytest.raises(ragged.Damaged):
        ragged.read(path)


def test_lengths_must_add_up(tmp_path):
    with ragged.RaggedWriter(tmp_path / "x.arrow", {"tokens": np.uint8}) as writer, pytest.raises(AssertionError):
        writer.append("tokens", np.array([1, 2, 3]), np.array([1, 1]))
