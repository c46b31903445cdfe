"""What a classifier's report shows."""

from __future__ import annotations

from collections.abc import Sequence

from ...data.sources.tables import Row
from ...pictures.confusion import show_confusion
from ...report import Page, verbatim
from ..shared.analysis import Classified, first_examples, lengths_and_unknown, show_breakdown, show_misclassified
from .data import open_data
from .predictor import Classifier


def report(model: Classifier, page: Page) -> None:
    """The confusion matrix and the errors on the dev set; the mix of an embedder's layers."""
    if model.network.context is not None:
        model.network.context.show(page)
    sources = open_data(model.settings)
    if sources.dev is None:
        return
    metric, _ = model.measure(sources.dev)
    lead = f"`{sources.name}`: accuracy *{metric.confusion.accuracy:.2%}* of {metric.confusion.total:,} texts."
    show_confusion(page, metric.confusion, lead)
    show_linear(model, page)
    show_errors(model, page, first_examples(sources.dev))


def show_linear(model: Classifier, page: Page) -> None:
    """The share of the linear model, and the n-grams that tell it the most."""
    linear, mixture = model.assets.linear, model.network.mixture
    if linear is None or mixture is None:
        return
    share, temperature = mixture.tolist()
    page.heading("Linear model").text(
        f"A linear model of {len(linear.names):,} n-grams has a share of *{share:.0%}* in the probabilities, and the "
        f"recurrent network, at a temperature of {temperature:.2g}, the rest. The n-grams that speak most for a class:"
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
