"""Error analysis: which examples are shown, in which order, and how they are grouped."""

import numpy as np
import pytest
from helpers.pages import rows

from carousel.data import UNK
from carousel.data.stores.examples import Column
from carousel.report import Page
from carousel.tasks.shared import analysis
from carousel.tasks.shared.analysis import Classified, lengths_and_unknown, show_breakdown, show_misclassified


def test_errors_by_confidence_and_confusions_with_an_example():
    examples = [
        Classified("right", "a", "a", 0.99), Classified("unsure", "a", "b", 0.4), Classified("<script>", "a", "b", 0.9),
        Classified("other", "b", "<c>", 0.5), Classified("third", "<c>", "a", 0.6),
    ]  # fmt: skip
    page = Page("T")
    show_misclassified(page, examples, "texts")
    html = page.html()
    assert "4 of 5; highest confidence first." in html
    assert rows(html, "text", "true", "predicted", "confidence") == [
        ["&lt;script&gt;", "a", "b", "0.900"], ["third", "&lt;c&gt;", "a", "0.600"],
        ["other", "b", "&lt;c&gt;", "0.500"], ["unsure", "a", "b", "0.400"],
    ]  # fmt: skip
    assert rows(html, "true", "predicted", "count", "example")[0] == ["a", "b", "2", "&lt;script&gt;"]


def test_without_errors_and_with_very_many(monkeypatch):
    page = Page("T")
    show_misclassified(page, [Classified("x", "a", "a", 0.9)], "texts")
    assert "None of 1." in page.html()
    monkeypatch.setattr(analysis, "MOST", 30)
    examples = analysis.first_examples(Classified(f"text {k}", "a", "b", k / 100) for k in range(99))
    page = Page("T")
    show_misclassified(page, examples, "texts")
    assert "30 of 30; the 12 with the highest confidence. Analysed: the first 30 texts." in page.html()
    assert [row[0] for row in rows(page.html(), "text")] == [f"text {k}" for k in range(29, 17, -1)]


def test_lengths_and_unknown_tokens():
    column = Column(np.array([5, UNK, 7, UNK]), np.array([3, 0, 1]))
    assert lengths_and_unknown(column) == ([3, 0, 1], [pytest.approx(1 / 3), 0.0, 1.0])


def test_results_by_length_and_by_unknown_tokens():
    page = Page("T")
    right = [1, 0, 1, 1, 0, 0]
    show_breakdown(
        page, [1, 1, 2, 3, 8, 9], [0, 0, 0.05, 0.2, 0.5, 1], ["accuracy"],
        lambda numbers: [f"{sum(right[k] for k in numbers) / len(numbers):.2f}"], unit="texts",
    )  # fmt: skip
    assert rows(page.html(), "length in tokens", "texts", "accuracy") == [
        ["1", "2", "0.50"], ["2", "1", "1.00"], ["3", "1", "1.00"], ["4 to 9", "2", "0.00"],
    ]  # fmt: skip
    assert rows(page.html(), "tokens unknown to the model", "texts", "accuracy") == [
        ["none", "2", "0.50"], ["up to 10&nbsp;%", "1", "1.00"], ["10 to 25&nbsp;%", "1", "1.00"],
        ["more than 25&nbsp;%", "2", "0.00"],
    ]  # fmt: skip


def test_a_table_of_one_row_is_left_out():
    page = Page("T")
    show_breakdown(page, [4, 4], [0.0, 0.0], ["accuracy"], lambda numbers: ["1"], unit="texts")
    assert page.sections == []
