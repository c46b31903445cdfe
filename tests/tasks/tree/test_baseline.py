"""Baselines of trees, by hand."""

import pytest
from helpers.baselines import by_name

import carousel
from carousel.tasks.shared import baselines as shared

pytestmark = pytest.mark.usefixtures("own_cache")


def test_trees_by_length_and_by_the_sentence(tmp_path):
    """Sentences of two words are mostly 1, of three 0; the majority class is 1; `joined` leaves out a label."""
    two, three = "({} (2 {}) (2 b))", "({} (2 (2 {}) (2 b)) (2 c))"
    train = [two.format(1, "x"), two.format(1, "y"), two.format(1, "z"), two.format(0, "w")]
    train += [three.format(0, "x"), three.format(0, "z"), three.format(1, "z"), three.format(2, "v")]
    dev = [two.format(1, "q"), three.format(0, "q"), three.format(1, "q"), two.format(2, "q")]
    (tmp_path / "train.txt").write_text("\n".join(train) + "\n")
    (tmp_path / "dev.txt").write_text("\n".join(dev) + "\n")
    found = carousel.baseline("tree", tmp_path / "train.txt", dev=tmp_path / "dev.txt", classes="no=0;yes=1")
    values = by_name(found)
    assert values["majority class"] == 2 / 3  # 1, 0, 1 by always 1; the root 2 does not count
    assert values["most frequent class by length"] == 2 / 3  # 1 right, 0 right, 1 wrong
    assert shared.LINEAR in values
