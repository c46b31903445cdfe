"""Texts and labels in memory, as a table that the task reads again."""

import pytest

from carousel.data.sources.tables import Table
from carousel.tasks.classify.task import Classify, _joined


def read(path):
    return [(row.text, row.label) for row in Table(path)]


def test_pairs_and_columns_are_the_same_table(tmp_path):
    pairs = [("a fine film", "good"), ("dull,\tand long\nso long", "bad")]
    one = Classify.write_data(pairs, tmp_path / "one", {})
    two = Classify.write_data({"text": [t for t, _ in pairs], "label": [x for _, x in pairs]}, tmp_path / "two", {})
    assert read(one) == read(two) == pairs


def test_a_list_of_labels_is_a_cell(tmp_path):
    data = [("one", ["b", "a"]), ("two", []), ("three", "c")]
    path = Classify.write_data(data, tmp_path / "train", {"target": "labels", "label_separator": "|"})
    assert read(path) == [("one", "b|a"), ("two", "none"), ("three", "c")]


@pytest.mark.parametrize(
    ("value", "expected"), [("a", "a"), (["b", "a"], "b;a"), ({"b", "a"}, "a;b"), ((), "none"), (3.5, 3.5)]
)
def test_labels_of_a_cell(value, expected):
    assert _joined(value, ";") == expected
