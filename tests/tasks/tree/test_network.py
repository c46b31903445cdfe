"""The network of trees: its loss, and neighbours without effect."""

import math

import pytest
import torch
from helpers.tiny import new_model

from carousel.data.sources.brackets import Tree
from carousel.tasks.tree.task import TreeTask


@pytest.mark.parametrize("composition", ["n-ary", "child-sum", "recursive"])
def test_trees_do_not_feel_their_neighbours(settings, composition):
    model, _ = new_model(settings(composition=composition), TreeTask)
    trees = ["(1 (1 good) (0 bad))", "(0 dull)", "(1 (0 not) (0 (0 bad) (1 (1 fine) (1 good))))"]
    together = model.predict(trees)
    for tree, found in zip(trees, together, strict=True):
        torch.testing.assert_close(model.predict(tree).probabilities, found.probabilities)


@pytest.mark.parametrize("train_on", ["all", "root"])
def test_the_loss_by_hand(settings, train_on, tmp_path):
    path = tmp_path / "two.txt"
    path.write_text("(1 (_ good) (0 bad))\n(0 dull)\n")
    model, data = new_model(settings(train=path, train_on=train_on, dev=None), TreeTask)
    model.network.eval()
    [batch] = data.train
    loss = model.network.loss(batch)
    expected = []
    for text in path.read_text().splitlines():
        tree = Tree.parse(text)
        for k, (label, row) in enumerate(zip(tree.labels, model.predict(tree).probabilities.tolist(), strict=True)):
            if label is not None and (train_on == "all" or k == len(tree) - 1):
                expected.append(-math.log(row[int(label)]))
    assert loss.weight == len(expected) == (3 if train_on == "all" else 2)
    assert loss.mean.item() == pytest.approx(sum(expected) / len(expected), rel=1e-5)
