"""What a classifier's report shows."""

from __future__ import annotations

from ...pictures.confusion import show_confusion
from ...report import Page
from .data import open_data
from .predictor import Classifier


def report(model: Classifier, page: Page) -> None:
    """The confusion matrix of the dev set; the mix of an embedder's layers."""
    if model.network.context is not None:
        model.network.context.show(page)
    sources = open_data(model.settings)
    if sources.dev is None:
        return
    metric, _ = model.measure(sources.dev)
    lead = f"`{sources.name}`: accuracy *{metric.confusion.accuracy:.2%}* of {metric.confusion.total:,} texts."
    show_confusion(page, metric.confusion, "Confusion matrix (rows: true, columns: predicted)", lead)
