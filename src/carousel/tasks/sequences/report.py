"""What the report of a classifier of number sequences shows."""

from __future__ import annotations

from ...pictures.confusion import show_confusion
from ...report import Page, figure
from ..classify.metrics import NumberErrors
from ..shared.analysis import Classified, first_examples, show_breakdown, show_misclassified
from .data import open_data
from .predictor import SequenceClassifier


def report(model: SequenceClassifier, page: Page) -> None:
    """The confusion matrix and the errors on the dev set, or predicted and true numbers."""
    sources = open_data(model.settings)
    if sources.dev is None:
        return
    metric, _ = model.measure(sources.dev)
    if isinstance(metric, NumberErrors):
        result = metric.result()
        page.heading("Predicted numbers").text(
            f"`{sources.name}`: R² *{result['r2']:.4f}*, Pearson {result['pearson']:.4f}, mean absolute error "
            f"{result['mae']:.4g}."
        )
        drawn = figure(360, showlegend=False)
        drawn.add_scatter(x=metric.gold[:2000], y=metric.predicted[:2000], mode="markers", name="sequences")
        drawn.update_xaxes(title_text="true").update_yaxes(title_text="predicted")
        page.figure(drawn, "Predicted and true numbers", "A point for each sequence.")
        return
    lead = (
        f"`{sources.name}`: accuracy *{metric.confusion.accuracy:.2%}* of {metric.confusion.total:,} sequences. "
        f"Expected calibration error {metric.calibration_error:.3f}: the mean distance between confidence and accuracy."
    )
    show_confusion(page, metric.confusion, lead)
    rows = first_examples(sources.dev)
    predicted = list(model.predictions((row.name, row.x) for row in rows))
    examples = [
        Classified(row.name, row.label, one.label or "", one.confidence or 0.0)
        for row, one in zip(rows, predicted, strict=True)
    ]
    show_misclassified(page, examples, "sequences")

    def accuracy(numbers: list[int]) -> list[str]:
        right = sum(examples[k].gold == examples[k].predicted for k in numbers)
        return [f"{right / len(numbers):.1%}"]

    show_breakdown(page, [len(row.x) for row in rows], None, ["accuracy"], accuracy, unit="sequences", token="step")
