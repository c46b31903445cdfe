"""Pairs in memory, as a table that the task reads again."""

import json

from carousel.tasks.encode.task import Encode


def test_two_texts_and_a_score(tmp_path):
    path = Encode.write_data([("a dog", "a cat", 2.5), ("x", "y", "same")], tmp_path / "train", {})
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    assert [[row["first"], row["second"]] for row in rows] == [["a dog", "a cat"], ["x", "y"]]
    assert [float(rows[0]["label"]), rows[1]["label"]] == [2.5, "same"]
