"""The sentence encoder's report."""

import pytest
from helpers.pages import rows

import carousel
from carousel.tasks.encode.data import open_table


def test_scores_or_confusion_matrix_of_the_dev_set(trained):
    page = (trained / "report.html").read_text("utf-8")
    model = carousel.load(trained)
    result = model.evaluate(model.settings.dev)
    names = {"pearson": "Pearson", "spearman": "Spearman", "mse": "MSE"}
    if trained.name == "class":
        names = {"accuracy": "accuracy", "macro_f1": "macro F1"}
    assert all(f"{label} <em>{result[name]:.4f}</em>" in page for name, label in names.items())
    assert ("Predicted vs true scores" in page) == (trained.name == "score")
    assert ("Confusion matrix (rows: true, columns: predicted)" in page) == (trained.name == "class")


def test_nearest_sentences_are_those_of_similar(trained):
    model = carousel.load(trained)
    table = list(open_table(model.settings, model.settings.dev))
    texts = list(dict.fromkeys(text for row in table for text in (row.first, row.second)))
    shown = rows((trained / "report.html").read_text("utf-8"), "sentence", "nearest", "cosine")
    assert shown[0][0] == texts[0]
    near = model.similar(texts[0], texts[1:], n=3)
    assert [float(row[2]) for row in shown[:3]] == pytest.approx([cosine for cosine, _ in near], abs=6e-4)


def test_the_worst_pairs_come_first(trained):
    if trained.name == "class":
        return
    shown = rows((trained / "report.html").read_text("utf-8"), "first text", "second text", "true", "predicted")
    errors = [abs(float(row[2]) - float(row[3])) for row in shown]
    assert errors == pytest.approx(sorted(errors, reverse=True), abs=0.011)
