"""Texts and labels in memory, as a table that the task reads again."""

from carousel.data.sources.tables import Table
from carousel.tasks.classify.task import Classify


def read(path, **options):
    return [(row.text, row.label) for row in Table(path, **options)]


def test_pairs_and_columns_are_the_same_table(tmp_path):
    pairs = [("a fine film", "good"), ("dull,\tand long\nso long", "bad")]
    one = Classify.write_data(pairs, tmp_path / "one", {})
    two = Classify.write_data({"text": [t for t, _ in pairs], "label": [x for _, x in pairs]}, tmp_path / "two", {})
    assert read(one) == read(two) == pairs


def test_several_labels_of_a_text(tmp_path):
    data = [("one", ["b", "a"]), ("two", []), ("three", "c"), ("four", {"b", "a"}), ("five", ("d",)), ("six", 3.5)]
    path = Classify.write_data(data, tmp_path / "train", {"target": "labels", "label_separator": "|"})
    labels = [label for _, label in read(path, separator="|")]
    assert labels == ["b|a", "none", "c", "a|b", "d", "3.5"]
