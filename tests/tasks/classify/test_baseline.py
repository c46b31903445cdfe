"""Baselines of the classifier, by hand."""

import numpy as np
import pytest
from helpers.baselines import by_name

import carousel
from carousel.tasks import find
from carousel.tasks.shared import baselines as shared

pytestmark = pytest.mark.usefixtures("own_cache")


def test_majority_and_linear_model_of_texts():
    train = [("red rose", "flower"), ("oak", "tree"), ("red oak", "tree"), ("tall oak", "tree"), ("a rose", "flower")]
    dev = [("a red rose", "flower"), ("the rose", "flower"), ("an oak", "tree")]
    found = by_name(carousel.baseline("classify", train, dev=dev))
    assert found == {"majority class": 1 / 3, shared.LINEAR: 1.0}


def test_columns_are_those_of_the_settings(tmp_path):
    for name, rows in {
        "train": ["1,RED,a", "2,red,a", "3,BLUE,b", "4,blue,b"],
        "dev": ["5,red,a", "6,blue red blue,b"],
    }.items():
        (tmp_path / f"{name}.csv").write_text("\n".join(["id,hue,kind", *rows]) + "\n")
    found = carousel.baseline(
        "classify", tmp_path / "train.csv", dev=tmp_path / "dev.csv", text_column="hue", label_column="kind"
    )
    assert by_name(found) == {"majority class": 0.5, shared.LINEAR: 1.0}


def test_what_is_held_out_of_train_is_measured_on(tmp_path):
    """Without dev the split is the task's: here 10 of 50 texts, which `prepare` holds out too."""
    rows = [(f"text {k} {'red' if k % 3 else 'blue'}", "yes" if k % 3 else "no") for k in range(50)]
    task = find("classify")
    path = tmp_path / "all.tsv"
    path.write_text("".join(f"{text}\t{label}\n" for text, label in rows))
    found = by_name(carousel.baseline("classify", path, dev_split=0.2))
    assets, data = task.prepare(task.Settings.read({"train": path, "dev_split": 0.2}))
    gold = data.dev.store["labels"].values
    assert len(gold) == 10 and found["majority class"] == np.mean(gold == assets.labels.index("yes"))
    assert found[shared.LINEAR] == 1.0


@pytest.mark.parametrize("target", ["labels", "number"])
def test_baselines(tmp_path, target):
    rows = [(f"{'good' if k % 3 else 'bad'} text {k}", ["x", "y"][: 1 + k % 2] if target == "labels" else k % 3)
            for k in range(60)]  # fmt: skip
    found = carousel.baseline("classify", rows, target=target, cache=tmp_path)
    assert found.metric == ("micro_f1" if target == "labels" else "r2")
    assert all(-1 < one.value <= 1 for one in found.results) and found.results
