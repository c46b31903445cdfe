"""The sentence encoder's report."""

import carousel


def test_scores_or_confusion_matrix_of_the_dev_set(trained):
    page = (trained / "report.html").read_text("utf-8")
    model = carousel.load(trained)
    result = model.evaluate(model.settings.dev)
    names = ("pearson", "spearman", "mse") if trained.name == "score" else ("accuracy", "macro_f1")
    assert all(f"{name} <em>{result[name]:.4f}</em>" in page for name in names)
    assert ("Predicted vs true scores" in page) == (trained.name == "score")
    assert ("Confusion matrix (rows: true, columns: predicted)" in page) == (trained.name == "class")
