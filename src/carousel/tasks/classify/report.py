"""What a classifier's report shows."""

from __future__ import annotations

from collections.abc import Sequence

from ...data.sources.tables import Row
from ...pictures.confusion import show_confusion
from ...report import Page, figure, verbatim
from ..shared.analysis import (
    SHOWN,
    Classified,
    first_examples,
    lengths_and_unknown,
    measure_dev,
    shorten,
    show_breakdown,
    show_misclassified,
)
from .data import open_data
from .metrics import LabelScores, NumberErrors
from .predictor import Classifier, NumberPrediction


def report(model: Classifier, page: Page) -> None:
    """The confusion matrix and the errors on the dev set; the mix of an embedder's layers."""
    sources = open_data(model.settings)
    metric = measure_dev(model, page, sources)
    if metric is None or sources.dev is None:
        return
    if isinstance(metric, LabelScores):
        show_labels(page, metric, sources.name)
        return
    if isinstance(metric, NumberErrors):
        show_numbers(model, page, metric, sources.name, first_examples(sources.dev))
        return
    lead = (
        f"`{sources.name}`: accuracy *{metric.confusion.accuracy:.2%}* of {metric.confusion.total:,} texts. Expected "
        f"calibration error {metric.calibration_error:.3f}: the mean distance between confidence and accuracy."
    )
    show_confusion(page, metric.confusion, lead)
    show_linear(model, page)
    show_errors(model, page, first_examples(sources.dev))


def show_labels(page: Page, metric: LabelScores, name: str) -> None:
    """Precision, recall and F1 of each label, rare ones last."""
    result = metric.result()
    page.heading("Labels").text(
        f"`{name}`: micro-F1 *{result['micro_f1']:.4f}*, macro-F1 {result['macro_f1']:.4f}; all labels are right for "
        f"{result['exact']:.1%} of the texts. A label is predicted if its probability reaches its threshold, which was "
        "chosen on this data."
    )
    table = sorted(metric.labels().items(), key=lambda item: -item[1]["count"])
    rows = [
        [verbatim(label), f"{one['count']:,}", *(f"{one[key]:.3f}" for key in ("precision", "recall", "f1")),
         f"{one['threshold']:.2f}"]
        for label, one in table[:100]
    ]  # fmt: skip
    page.table(["label", "texts", "precision", "recall", "F1", "threshold"], rows)


def show_numbers(model: Classifier, page: Page, metric: NumberErrors, name: str, rows: Sequence[Row]) -> None:
    """Predicted and true numbers, and the worst of them."""
    result = metric.result()
    page.heading("Predicted numbers").text(
        f"`{name}`: R² *{result['r2']:.4f}*, Pearson {result['pearson']:.4f}, mean absolute error {result['mae']:.4g}."
    )
    drawn = figure(360, showlegend=False)
    drawn.add_scatter(x=metric.gold[:2000], y=metric.predicted[:2000], mode="markers", name="texts")
    drawn.update_xaxes(title_text="true").update_yaxes(title_text="predicted")
    page.figure(drawn, "Predicted and true numbers", "A point for each text.")
    predictions = model.predictions(row.text for row in rows)
    pairs = [
        (float(row.label), one.number, row.text)
        for row, one in zip(rows, predictions, strict=True)
        if isinstance(one, NumberPrediction) and one.number is not None
    ]
    worst = sorted(pairs, key=lambda pair: -abs(pair[0] - pair[1]))[:SHOWN]
    cells = [[shorten(text), f"{gold:.4g}", f"{number:.4g}"] for gold, number, text in worst]
    page.heading("Largest errors").table(["text", "true", "predicted"], cells)


def show_linear(model: Classifier, page: Page) -> None:
    """The share of the linear model, and the n-grams that tell it the most."""
    linear, mixture = model.assets.linear, model.network.mixture
    if linear is None or mixture is None:
        return
    share, temperature = mixture.tolist()
    page.heading("Linear model").text(
        f"A linear model of {len(linear.names):,} n-grams has a share of *{share:.0%}* in the probabilities, the "
        f"recurrent network (softmax temperature {temperature:.2g}) one of *{1 - share:.0%}*. The n-grams with the "
        "largest weights for each class:"
    )
    pairs = list(zip(model.labels, linear.strongest(12), strict=True))[:20]
    rows = [[verbatim(label), verbatim(", ".join(name for name, _ in some))] for label, some in pairs]
    page.table(["class", "n-grams"], rows)


def show_errors(model: Classifier, page: Page, rows: Sequence[Row]) -> None:
    """Misclassified texts; accuracy by length and by unknown words."""
    predictions = list(model.predictions(row.text for row in rows))
    examples = [
        Classified(row.text, row.label, one.label or "", one.confidence or 0.0)
        for row, one in zip(rows, predictions, strict=True)
    ]
    show_misclassified(page, examples, "texts")
    lengths, unknown = lengths_and_unknown(model.encoder([row.text for row in rows])[0]["tokens"])

    def accuracy(numbers: list[int]) -> list[str]:
        right = sum(examples[k].gold == examples[k].predicted for k in numbers)
        return [f"{right / len(numbers):.1%}"]

    show_breakdown(page, lengths, unknown, ["accuracy"], accuracy, unit="texts")
