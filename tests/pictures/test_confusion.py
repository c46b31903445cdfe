"""Confusion matrices on a page: every count at its place, rare classes left out, names that are no markup."""

import torch
from helpers.pages import rows

from carousel.metrics.classes import Confusion
from carousel.pictures import confusion
from carousel.report import Page


def matrix(labels, counts):
    found = Confusion(labels)
    found.counts += torch.tensor(counts)
    return found


def test_shares_of_each_row_and_counts(monkeypatch, tmp_path):
    figures = []
    page = Page("title", "lead")
    monkeypatch.setattr(page, "figure", lambda figure, *rest: figures.append((figure, rest)))
    confusion.show_confusion(page, matrix(["<b>", "no", "never"], [[6, 2, 0], [1, 3, 0], [0, 0, 0]]))
    figure, (title, *_) = figures[0]
    (heat,) = figure.data
    assert [list(row) for row in heat.z] == [[0.75, 0.25, 0], [0.25, 0.75, 0], [0, 0, 0]]
    assert [list(row) for row in heat.text] == [["6", "2", "0"], ["1", "3", "0"], ["0", "0", "0"]]
    assert title == "Confusion matrix (rows: true, columns: predicted)"
    page.write(tmp_path / "page.html")
    html = (tmp_path / "page.html").read_text("utf-8")
    table = rows(html, "class", "precision", "recall", "F1", "examples")
    assert table[0][1:] == [f"{6 / 7:.4f}", "0.7500", f"{2 * 6 / (7 + 8):.4f}", "8"]
    assert "&lt;b&gt;" in table[0][0]


def test_the_rarest_of_many_classes_are_left_out(monkeypatch):
    monkeypatch.setattr(confusion, "MOST", 2)
    figures = []
    page = Page("title", "lead")
    monkeypatch.setattr(page, "figure", lambda figure, *rest: figures.append((figure, rest)))
    confusion.show_confusion(page, matrix(["a", "b", "c"], [[5, 0, 0], [0, 1, 0], [2, 0, 2]]), "Before.", of=" of tags")
    figure, texts = figures[0]
    assert list(figure.layout.xaxis.ticktext) == ["a", "c"]
    assert [list(row) for row in figure.data[0].z] == [[1, 0], [0.5, 0.5]]
    assert texts[0].startswith("Confusion matrix of tags") and texts[1] == "Before."
    assert "The 2 most frequent of 3 classes." in texts[2]
