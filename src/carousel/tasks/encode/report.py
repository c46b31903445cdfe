"""What a sentence encoder's report shows."""

from __future__ import annotations

from ...pictures.confusion import show_confusion
from ...report import Page, figure
from .data import open_data
from .predictor import SentenceEncoder


def report(model: SentenceEncoder, page: Page) -> None:
    """Predicted against true scores of the dev set, or its confusion matrix; the mix of an embedder's layers."""
    if model.network.context is not None:
        model.network.context.show(page)
    sources = open_data(model.settings)
    if sources.dev is None:
        return
    metric, _ = model.measure(sources.dev)
    lead = f"`{sources.name}`: " + ", ".join(f"{name} *{value:.4f}*" for name, value in metric.result().items()) + "."
    if not model.target.is_score:
        show_confusion(page, metric.confusion, "Confusion matrix (rows: true, columns: predicted)", lead)
        return
    drawn = figure(460)
    drawn.add_scatter(x=metric.gold, y=metric.predicted, mode="markers", marker={"size": 4, "opacity": 0.5})
    drawn.update_xaxes(title_text="true score").update_yaxes(title_text="predicted score")
    page.figure(drawn, "Predicted vs true scores", lead)
