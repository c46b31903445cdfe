"""The tagger's report."""

from helpers.pages import rows

import carousel
from carousel.data.sources.conll import Sentence
from carousel.report import Page
from carousel.tasks.tag.report import Judged, report, show_span_errors, show_word_errors
from carousel.tasks.tag.tagged import Tagged


def test_spans_and_confusion_matrix_of_the_dev_set(trained, names):
    page = (trained / "report.html").read_text("utf-8")
    assert "Confusion matrix (rows: true, columns: predicted)" in page
    result = carousel.load(trained).evaluate(names / "dev.conll")
    assert f"{result['accuracy']:.2%}" in page
    for name, row in result["spans"].items():
        cells = (name, *(f"{row[key]:.4f}" for key in ("precision", "recall", "f1")), f"{row['count']:,}")
        assert list(cells) in rows(page, "type", "precision")


def test_without_a_dev_set_there_is_nothing_to_show(trained):
    model = carousel.load(trained)
    model.network.settings = model.settings.model_copy(update={"dev": None})
    page = Page("empty")
    before = page.html()
    report(model, page)
    assert page.html() == before


def judged(words, gold, predicted, scheme="iob2"):
    lines = list(range(1, len(words) + 1))
    return Judged(Sentence(words, gold, lines), Tagged(words, [predicted], [0.5] * len(words), [-1.0], scheme))


def test_spans_missed_and_spurious_beside_the_truth():
    some = [
        judged(["Ada", "saw", "<b>"], ["B-PER", "O", "B-LOC"], ["B-PER", "O", "O"]),
        judged(["the", "Rome", "sat"], ["O", "B-LOC", "O"], ["O", "B-PER", "B-PER"]),
        judged(["all", "right"], ["O", "O"], ["O", "O"]),
    ]
    page = Page("T")
    show_span_errors(page, some)
    html = page.html()
    assert "2 spans are missed and 2 spurious" in html
    assert rows(html, "missed", "type", "count") == [["&lt;b&gt;", "LOC", "1"], ["Rome", "LOC", "1"]]
    assert rows(html, "spurious", "type", "count") == [["Rome", "PER", "1"], ["sat", "PER", "1"]]
    wrong = '<mark class="wrong">'
    assert rows(html, "true", "predicted") == [  # the most errors first; those without are left out
        [f"the {wrong}Rome<sub>LOC</sub></mark> sat",
         f"the {wrong}Rome<sub>PER</sub></mark> {wrong}sat<sub>PER</sub></mark>"],
        [f"<mark>Ada<sub>PER</sub></mark> saw {wrong}&lt;b&gt;<sub>LOC</sub></mark>",
         "<mark>Ada<sub>PER</sub></mark> saw &lt;b&gt;"],
    ]  # fmt: skip


def test_words_with_a_wrong_tag_and_what_they_are_confused_with():
    some = [
        judged(["that", "<i>", "that"], ["PRON", "X", "PRON"], ["SCONJ", "X", "SCONJ"], None),
        judged(["so", "<i>"], ["ADV", "X"], ["ADV", "NOUN"], None),
    ]
    page = Page("T")
    show_word_errors(page, some)
    html = page.html()
    that = '<mark class="wrong">that<sub>SCONJ (PRON)</sub></mark>'
    assert rows(html, "sentence")[0] == [f"{that} &lt;i&gt; {that}"]
    assert rows(html, "true", "predicted", "count", "example") == [
        ["PRON", "SCONJ", "2", "that"], ["X", "NOUN", "1", "&lt;i&gt;"],
    ]  # fmt: skip


def test_results_by_length_add_up(trained, names):
    page = (trained / "report.html").read_text("utf-8")
    groups = rows(page, "length in words", "sentences", "accuracy", "span F1")
    assert sum(int(row[1]) for row in groups) == carousel.load(trained).evaluate(names / "dev.conll")["sentences"]
