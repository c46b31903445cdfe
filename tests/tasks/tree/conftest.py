"""Trees in which `not` turns a sentence, settings and a trained run."""

import random

import pytest

from carousel.tasks.tree.settings import TreeSettings
from carousel.tasks.tree.task import TreeTask
from carousel.training import trainer

SIGNS = {"good": 1, "fine": 1, "bad": 0, "dull": 0}


def draw_tree(random, depth=3):
    """A node's label is that of its first child, unless that is `not`, which turns the second round."""
    if depth == 0 or random.random() < 0.3:
        word = random.choice(sorted(SIGNS))
        return f"({SIGNS[word]} {word})", SIGNS[word]
    if random.random() < 0.3:
        text, sign = draw_tree(random, depth - 1)
        return f"({1 - sign} (0 not) {text})", 1 - sign
    (one, sign), (two, _) = draw_tree(random, depth - 1), draw_tree(random, depth - 1)
    return f"({sign} {one} {two})", sign


@pytest.fixture(scope="session")
def woods(tmp_path_factory):
    folder = tmp_path_factory.mktemp("woods")
    for name, count, seed in (("train.txt", 200, 1), ("dev.txt", 50, 2)):
        source = random.Random(seed)
        (folder / name).write_text("".join(draw_tree(source)[0] + "\n" for _ in range(count)))
    return folder


@pytest.fixture
def settings(woods, tmp_path):
    def make(**given):
        small = {"hidden": 8, "embedding": 6, "epochs": 2, "lr": 0.02, "batch_size": 16, "log_steps": 3}
        files = {"train": woods / "train.txt", "dev": woods / "dev.txt", "cache": tmp_path / "cache"}
        return TreeSettings.read({**files, **small, **given})

    return make


@pytest.fixture(scope="session")
def trained(woods, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    given = {"hidden": 12, "embedding": 8, "epochs": 10, "lr": 0.03, "batch_size": 8, "dropout": 0.0}
    files = {"train": woods / "train.txt", "dev": woods / "dev.txt", "cache": folder / "cache"}
    trainer.train(TreeTask, TreeSettings.read({**files, **given, "word_dropout": 0.0}), folder / "run", quiet=True)
    return folder / "run"
