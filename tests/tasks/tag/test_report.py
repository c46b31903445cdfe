"""The tagger's report."""

import carousel
from carousel.report import Page
from carousel.tasks.tag.report import report


def test_spans_and_confusion_matrix_of_the_dev_set(trained, names):
    page = (trained / "report.html").read_text("utf-8")
    assert "Confusion matrix (rows: true, columns: predicted)" in page
    result = carousel.load(trained).evaluate(names / "dev.conll")
    assert f"{result['accuracy']:.2%}" in page
    for name, row in result["spans"].items():
        cells = (name, *(f"{row[key]:.4f}" for key in ("precision", "recall", "f1")), f"{row['count']:,}")
        assert "".join(f"<td>{cell}</td>" for cell in cells) in page


def test_without_a_dev_set_there_is_nothing_to_show(trained):
    model = carousel.load(trained)
    model.network.settings = model.settings.model_copy(update={"dev": None})
    page = Page("empty")
    before = page.html()
    report(model, page)
    assert page.html() == before
