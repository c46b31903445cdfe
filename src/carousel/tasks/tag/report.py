"""What a tagger's report shows."""

from __future__ import annotations

from ...pictures.confusion import show_confusion
from ...report import Page
from .data import open_data
from .predictor import Tagger


def report(model: Tagger, page: Page) -> None:
    """Scores of the spans and the confusion matrix of the dev set; the mix of an embedder's layers."""
    if model.network.context is not None:
        model.network.context.show(page)
    sources = open_data(model.settings)
    if sources.dev is None:
        return
    metric, _ = model.measure(sources.dev)
    lead = f"`{sources.name}`: accuracy *{metric.confusion.accuracy:.2%}* of {metric.confusion.total:,} words"
    lead += f", *{metric.accuracy_unseen:.2%}* of {metric.unseen:,} unseen in training."
    if model.vocabulary.scheme is not None:
        page.heading("Spans").text("A span is correct if its type, its first and its last word are all correct.")
        rows = [
            [type, f"{row['precision']:.4f}", f"{row['recall']:.4f}", f"{row['f1']:.4f}", f"{row['count']:,}"]
            for type, row in {**metric.spans.types(), "all": metric.spans.overall()}.items()
        ]
        page.table(["type", "precision", "recall", "F1", "spans"], rows)
    show_confusion(page, metric.confusion_by_type, "Confusion matrix (rows: true, columns: predicted)", lead)
