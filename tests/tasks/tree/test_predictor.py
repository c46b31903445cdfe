"""The task on trees: its loss by hand, trees that do not feel their neighbours, runs end to end, and bad files."""

import json
import math
import random

import pytest
import torch
from helpers.pages import rows
from helpers.tiny import new_model

import carousel
from carousel.data.sources.brackets import Tree
from carousel.errors import SettingsError
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


def test_joined_classes(settings, tmp_path):
    path = tmp_path / "five.txt"
    path.write_text("(4 (2 a) (3 b))\n(0 (1 c) (2 d))\n(2 (0 a) (4 b))\n")
    model, data = new_model(settings(train=path, dev=path, classes="negative=0,1; positive=3,4"), TreeTask)
    assert model.network.classes.names == ["negative", "positive"]
    meter = model.network.eval().metric()
    for batch in data.dev:
        meter.add(batch)
    assert (meter.roots.total, meter.nodes.total) == (2, 6)
    for wrong in ("negative", "a=0", "a=0;b=", "a=0;b=0,1"):
        with pytest.raises(SettingsError, match="classes: write, say, negative=0,1;positive=3,4"):
            TreeTask.prepare(settings(train=path, classes=wrong))
    with pytest.raises(SettingsError, match=r"classes: b has '7', but .*five\.txt has only 0, 1, 2, 3, 4"):
        TreeTask.prepare(settings(train=path, classes="a=0;b=7"))


@pytest.mark.learning
def test_it_learns_what_not_does(trained, woods, reached):
    model = carousel.load(trained)
    found = model.evaluate(woods / "dev.txt")
    reached("accuracy", found["accuracy"], above=0.9)
    assert found["trees"] == 50
    said = model.predict("(_ (_ not) (_ good))")
    assert (said.label, said.labels[1]) == ("0", "1")
    assert repr(said) == f"0 {said.confidence:.3f}  (0 (0 not) (1 good))"
    assert said.drawing().splitlines()[1].startswith("├─ ")
    page = (trained / "report.html").read_text("utf-8")
    assert "Some trees" in page
    assert sum(int(row[1]) for row in rows(page, "length in words", "trees", "accuracy")) == 50


def test_a_run_goes_on_where_it_was_killed(settings, goes_on):
    noisy = settings(word_dropout=0.2, average=0.9, schedule="cosine")
    goes_on(TreeTask, noisy)


# ---------------------------------------------------------------- the command line


@pytest.mark.learning
def test_predict(command, trained, tmp_path):
    code, out, _ = command("predict", trained, given=b"(_ (_ not) (_ good))\n")
    assert code == 0
    head, row = (line.split("\t") for line in out.splitlines())
    assert head == ["label", "confidence", "tree"]
    assert (row[0], row[2]) == ("0", "(0 (0 not) (1 good))")
    code, out, _ = command("predict", trained, "--draw", given=b"(_ (_ not) (_ good))\n")
    assert out.splitlines()[-2].startswith("└─ 1 ")
    sentence = tmp_path / "t.conllu"
    sentence.write_text("1\tgood\t_\t_\t_\t_\t2\t_\t_\t_\n2\tnot\t_\t_\t_\t_\t0\t_\t_\t_\n")
    code, out, _ = command("predict", trained, sentence, "--json")
    assert json.loads(out)["tree"].count("(") == 2


def test_a_deep_tree_is_predicted_without_its_drawing(command, trained):
    """The drawing of so many nested nodes would take 6 million characters."""
    deep = b"(_ " * 2_000 + b"good" + b")" * 2_000
    code, out, _ = command("predict", trained, "--json", given=deep)
    said = json.loads(out)
    assert (code, len(said["nodes"]), "drawing" in said) == (0, 2_000, False)
    _, out, _ = command("predict", trained, "--json", "--draw", given=b"(_ (_ not) (_ good))\n")
    assert len(json.loads(out)["drawing"].splitlines()) == 3
    code, _, err = command("predict", trained, "--draw", "--n-best", 2, given=b"(_ good)\n")
    assert (code, "--n-best is for runs of tag; this is one of tree" in err) == (1, True)


def test_check(command, woods):
    code, out, _ = command("check", woods / "train.txt", "--dev", woods / "dev.txt", "--task", "tree", "--json")
    found = json.loads(out)
    assert code == 0
    assert (found["train"]["trees"], found["train"]["children"], found["dev"]["unknown"]) == (200, 2, 0)
    assert found["train"]["labels"].keys() == {"0", "1"}


BAD = {
    "unbalanced": ("(1 (0 a) (1 b)\n", "bad.txt:1: the tree that begins here lacks 1 closing bracket"),
    "one label": ("(1 (1 a) (1 b))\n", "bad.txt: every label is '1'"),
    "no label": ("(_ (_ a) (_ b))\n", "bad.txt: no node has a label"),
    "nothing": ("", "bad.txt: the file is empty"),
}


@pytest.mark.parametrize("kind", BAD)
def test_bad_training_data_leaves_nothing_behind(command, tmp_path, kind):
    text, said = BAD[kind]
    (tmp_path / "bad.txt").write_text(text)
    code, out, err = command("train", "tree", tmp_path / "bad.txt", "--out", tmp_path / "run")
    assert (code, out) == (1, "")
    assert said in err
    assert len(err.splitlines()) == 1
    assert not (tmp_path / "run").exists()


def test_bad_data_to_use_a_model_on(command, trained, tmp_path):
    path = tmp_path / "dev.txt"
    path.write_text("(1 (1 good) (0 bad))\n(7 good)\n")
    code, _, err = command("eval", trained, path)
    assert (code, len(err.splitlines())) == (1, 1)
    assert "dev.txt:2: the label '7' is not in the training data, whose labels are 0, 1" in err
    code, _, err = command("predict", trained, given=b"(1 (1 a) (1 b) (1 c))\n")
    assert code == 1
    assert "standard input:1: a node has 3 children, and the model takes at most 2" in err
    path.write_text("(1 good)\n\n(1 (1 good)\n")
    code, _, err = command("predict", trained, path)
    assert (code, len(err.splitlines())) == (1, 1)
    assert f"{path}:3: the tree that begins here lacks 1 closing bracket" in err
