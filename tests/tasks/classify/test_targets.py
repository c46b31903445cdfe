"""Several labels for a text, and numbers: reading, metrics against scikit-learn, whole runs."""

import json
import math
import random

import numpy as np
import pytest
import torch
from sklearn.metrics import f1_score, mean_absolute_error, mean_squared_error, r2_score

import carousel
from carousel.data.sources.tables import Table
from carousel.errors import CarouselError, DataError
from carousel.metrics import expected_calibration_error
from carousel.tasks.classify.metrics import LabelScores, NumberErrors
from carousel.tasks.classify.settings import ClassifySettings
from carousel.tasks.classify.targets import Target

SMALL = {"embedding": 16, "hidden": 16, "threads": 1, "quiet": True, "batch_size": 8, "lr": 0.02}
WORDS = {"warm": "kind", "funny": "comic", "dark": "grim"}


def _labelled(number, seed=0):
    """Texts whose labels are those of the words in them."""
    draw = random.Random(seed)
    rows = []
    for k in range(number):
        words = [word for word in WORDS if draw.random() < 0.5]
        rows.append((" ".join(["a", *words, f"film {k % 7}"]), [WORDS[word] for word in words]))
    return rows


class _Scores:
    """A network that has said all there is to say."""

    def __init__(self, scores, **attributes):
        self.said = scores
        self.__dict__.update(attributes)

    def scores(self, batch):
        return self.said[batch.rows]


class _Batch:
    def __init__(self, rows, targets):
        self.rows, self.targets = rows, targets


# ---------------------------------------------------------------- metrics


def test_f1_of_labels_is_that_of_scikit_learn():
    torch.manual_seed(3)
    scores, gold = torch.randn(50, 4), (torch.rand(50, 4) < 0.3).float()
    network = _Scores(scores, thresholds=torch.tensor([0.5, 0.3, 0.6, 0.5]), labels=list("abcd"))
    whole, parts = LabelScores(network, tune=False), [LabelScores(network, tune=False) for _ in range(2)]
    whole.add(_Batch(torch.arange(50), gold))
    for k, part in enumerate(parts):
        part.add(_Batch(torch.arange(50)[25 * k : 25 * k + 25], gold[25 * k : 25 * k + 25]))
    parts[0].merge(parts[1])
    assert parts[0].result() == whole.result()
    chosen = (scores.sigmoid() >= network.thresholds).numpy()
    result = whole.result()
    assert result["micro_f1"] == pytest.approx(f1_score(gold, chosen, average="micro"), abs=1e-6)
    assert result["macro_f1"] == pytest.approx(f1_score(gold, chosen, average="macro"), abs=1e-6)
    assert result["exact"] == pytest.approx(float((chosen == gold.numpy().astype(bool)).all(1).mean()))
    each = f1_score(gold, chosen, average=None)
    assert [one["f1"] for one in whole.labels().values()] == pytest.approx(each.tolist(), abs=1e-6)


def test_thresholds_are_the_best_of_those_tried():
    torch.manual_seed(4)
    scores, gold = torch.randn(60, 3) - 1, (torch.rand(60, 3) < 0.2).float()
    network = _Scores(scores, thresholds=torch.full((3,), 0.5), labels=list("abc"))
    metric = LabelScores(network, tune=True)
    metric.add(_Batch(torch.arange(60), gold))
    metric.result()
    for k in range(3):
        tried = [f1_score(gold[:, k], scores[:, k].sigmoid() >= t) for t in LabelScores.THRESHOLDS.tolist()]
        got = f1_score(gold[:, k], scores[:, k].sigmoid() >= network.thresholds[k])
        assert got == max(tried) > f1_score(gold[:, k], scores[:, k].sigmoid() >= 0.5) - 1e-9


def test_errors_of_numbers_are_those_of_scikit_learn():
    torch.manual_seed(5)
    scores, gold = torch.randn(40, 1), torch.randn(40, 1)
    network = _Scores(scores, target=Target("number", mean=3.0, deviation=2.0))
    metric = NumberErrors(network)
    metric.add(_Batch(torch.arange(40), gold))
    a, b = (gold[:, 0] * 2 + 3).numpy(), (scores[:, 0] * 2 + 3).numpy()
    expected = {
        "r2": r2_score(a, b), "mse": mean_squared_error(a, b), "mae": mean_absolute_error(a, b),
        "pearson": np.corrcoef(a, b)[0, 1],
    }  # fmt: skip
    assert metric.result() == pytest.approx(expected, abs=1e-5)


def test_the_calibration_error_of_a_hand_worked_example():
    """Two bins of ten: 0.55 (2, one right: |0.55 - 0.5| = 0.05) and 0.95 (3, all right: 0.05)."""
    error = expected_calibration_error([0.55, 0.55, 0.95, 0.95, 0.95], [True, False, True, True, True], bins=10)
    assert error == pytest.approx(0.05) and expected_calibration_error([], []) == 0


# ---------------------------------------------------------------- reading


def test_the_cells_of_a_table(tmp_path):
    file = tmp_path / "films.tsv"
    file.write_text("a\tx| y\nb\ty\nc\tnone\nd\ty|y\n")
    settings = ClassifySettings.read({"train": file, "target": "labels", "label_separator": "|"})
    target, count = Target.learn(settings, Table(file))
    assert target.labels == ["x", "y"] and count == {"x": 1, "y": 3}
    values = target.columns(Table(file), list(Table(file)))["targets"].values.reshape(-1, 2)
    assert values.tolist() == [[1, 1], [0, 1], [0, 0], [0, 1]]
    (tmp_path / "dev.tsv").write_text("a\tz\n")
    with pytest.raises(DataError, match=r"dev.tsv:1: the label 'z' is not in the training data"):
        target.columns(Table(tmp_path / "dev.tsv"), list(Table(tmp_path / "dev.tsv")))


@pytest.mark.parametrize(
    ("text", "options", "problem"),
    [
        ("a\t1.5\nb\tmany\n", {"target": "number"}, "t.tsv:2: the label 'many' is not a number"),
        ("a\t2\nb\t2\n", {"target": "number"}, "every row has the number 2"),
        ("a\tnan\nb\t2\n", {"target": "number"}, "t.tsv:1: the label 'nan' is not a number"),
        ("a\tx\nb\tx\n", {"target": "labels"}, "every row has the labels 'x'"),
        ("a\t1\nb\t2\n", {"target": "number", "class_weights": "balanced"}, "class_weights: numbers have no classes"),
        ("a\t1\nb\t2\n", {"target": "number", "label_smoothing": 0.1}, "label_smoothing: numbers have no labels"),
        ("a\t1\nb\t2\n", {"target": "scores"}, "target: "),
    ],
)
def test_what_cannot_be_learned(tmp_path, text, options, problem):
    (tmp_path / "t.tsv").write_text(text)
    with pytest.raises(CarouselError, match=problem):
        carousel.train("classify", tmp_path / "t.tsv", out=tmp_path / "run", quiet=True, **options)
    assert not (tmp_path / "run").exists()


def test_numbers_are_never_guessed(tmp_path):
    """A column of numbers is a column of classes unless the user says otherwise."""
    rows = [(f"text {k}", k) for k in range(50)]
    with pytest.raises(DataError, match=r"50 different labels in 50 rows.*for numbers, target: number"):
        carousel.train("classify", rows, out=tmp_path / "run", quiet=True)


# ---------------------------------------------------------------- runs


@pytest.mark.learning
@pytest.mark.parametrize("seeds", [1, 2])
def test_several_labels_are_learned(tmp_path, seeds, command, reached):
    train, dev = _labelled(120), _labelled(40, seed=1)
    model = carousel.train(
        "classify", train, dev=dev, out=tmp_path / "run", target="labels", epochs=8, seeds=seeds,
        cache=tmp_path / "cache", **SMALL,
    )  # fmt: skip
    result = carousel.evaluate(model, dev)
    reached("micro F1", result["micro_f1"], above=0.9)
    one = model.predict("a warm dark film")
    assert set(one.labels) == {"kind", "grim"} and one.as_dict()["labels"] == "grim,kind"
    assert set(one.probabilities) == set(WORDS.values()) and not model.predict("").probabilities
    assert set(result["labels"]) == set(WORDS.values())
    page = (tmp_path / "run" / "report.html").read_text()
    assert "micro-F1" in page and "threshold" in page
    (tmp_path / "texts.txt").write_text("a funny film 3\n\n")
    code, out, _ = command("predict", tmp_path / "run", tmp_path / "texts.txt")
    assert code == 0 and out.splitlines() == ["labels\ttext", "comic\ta funny film 3", "\t"]


@pytest.mark.learning
@pytest.mark.parametrize("seeds", [1, 2])
def test_numbers_are_learned(tmp_path, seeds, command, reached):
    worth = {"kind": 2.0, "comic": 1.0, "grim": -3.0}
    train, dev = ([(text, 10 + sum(worth[x] for x in labels)) for text, labels in _labelled(n, n)] for n in (120, 40))
    model = carousel.train(
        "classify", train, dev=dev, out=tmp_path / "run", target="number", epochs=10, seeds=seeds,
        cache=tmp_path / "cache", **SMALL,
    )  # fmt: skip
    result = carousel.evaluate(model, dev)
    reached("R²", result["r2"], above=0.7)
    assert math.isclose(model.predict("a warm funny film 2").number, 13, abs_tol=1.5)
    assert model.predict("").number is None
    assert "Largest errors" in (tmp_path / "run" / "report.html").read_text()
    (tmp_path / "texts.txt").write_text("a dark film 3\n")
    code, out, _ = command("predict", tmp_path / "run", tmp_path / "texts.txt", "--json")
    assert code == 0 and math.isclose(json.loads(out)["number"], 7, abs_tol=1.5)


@pytest.mark.parametrize(("target", "label"), [("labels", "x,y"), ("number", "2.5")])
def test_data_of_either_kind_is_checked(tmp_path, command, target, label):
    (tmp_path / "t.tsv").write_text("".join(f"text {k}\t{label if k % 2 else label[:1]}\n" for k in range(30)))
    code, out, err = command("check", tmp_path / "t.tsv", "--task", "classify", "--set", f"target={target}")
    assert code == 0 and not err and ("label x" in out) == (target == "labels")


@pytest.mark.parametrize("target", ["labels", "number"])
def test_baselines(tmp_path, target):
    rows = [(f"{'good' if k % 3 else 'bad'} text {k}", ["x", "y"][: 1 + k % 2] if target == "labels" else k % 3)
            for k in range(60)]  # fmt: skip
    found = carousel.baseline("classify", rows, target=target, cache=tmp_path)
    assert found.metric == ("micro_f1" if target == "labels" else "r2")
    assert all(-1 < one.value <= 1 for one in found.results) and found.results
