"""What the report of a model of trees shows."""

from __future__ import annotations

from itertools import islice

from ...pictures.confusion import show_confusion
from ...report import Page
from .data import open_data
from .predictor import TreeModel


def report(model: TreeModel, page: Page) -> None:
    """The confusion matrix at the roots of the dev set, and some of its trees."""
    sources = open_data(model.settings)
    if sources.dev is None:
        return
    metric, _ = model.measure(sources.dev)
    lead = f"`{sources.name}`: accuracy *{metric.roots.accuracy:.2%}* of {metric.roots.total:,} roots."
    show_confusion(page, metric.roots, "Confusion matrix of the roots (rows: true, columns: predicted)", lead)
    page.heading("Some trees").text("Each node with the most probable class and its probability.")
    small = (tree for tree in sources.dev if len(tree) <= 40)
    for prediction in model.predictions(islice(small, 3)):
        page.code(prediction.drawing())
