"""Several labels for a text, and numbers: reading, metrics against scikit-learn, whole runs."""

import json
import math
import random

import pytest

import carousel
from carousel.data.sources.tables import Table
from carousel.errors import CarouselError, DataError
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
    with pytest.raises(DataError, match=r"50 different labels in 50 rows.*for numbers, give target='number'"):
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
