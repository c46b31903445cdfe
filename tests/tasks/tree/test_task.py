"""Trees in memory, as a file of brackets."""

from carousel.tasks.tree.task import TreeTask


def test_trees_as_text_are_lines(tmp_path):
    trees = ["(1 (0 not) (0 bad))", "(0 dull)"]
    path = TreeTask.write_data(trees, tmp_path / "train", {})
    assert path.name == "train.txt" and path.read_text().splitlines() == trees
