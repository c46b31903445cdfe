"""Metrics as pictures of a report."""

from __future__ import annotations

from typing import Any

from ..metrics.classes import Confusion
from ..report import Page, figure, verbatim
from .attention import visible

MOST = 40  # classes in one picture; the rarest are left out


def show_confusion(page: Page, found: Confusion, *paragraphs: str, of: str = "") -> None:
    """Add a confusion matrix to a page, colours in shares of a row, and a table of the classes; `of` goes into the
    title."""
    often = found.counts.sum(1).argsort(descending=True, stable=True)[:MOST].sort().values
    labels = [found.labels[int(k)] for k in often]
    labels = [visible(label if len(label) <= 24 else label[:23] + "…") for label in labels]
    places = list(range(len(labels)))  # labels are named by ticks: two that look the same stay two
    counts = found.counts[often][:, often]
    shares = counts / found.counts[often].sum(1, keepdim=True).clamp(min=1)
    drawn: Any = figure(140 + max(200, min(700, 48 * len(labels))), showlegend=False)
    drawn.add_heatmap(
        z=shares.tolist(),
        text=[[f"{n:,}" for n in row] for row in counts.tolist()],
        texttemplate="%{text}" if len(labels) <= 20 else None,
        customdata=[[(gold, predicted) for predicted in labels] for gold in labels],
        hovertemplate="true %{customdata[0]}, predicted %{customdata[1]}: %{text}<extra></extra>",
        colorscale="Blues",
        zmin=0,
        zmax=1,
        xgap=1,
        ygap=1,
        showscale=False,
    )
    named = {"tickvals": places, "ticktext": labels, "showgrid": False}
    drawn.update_xaxes(title_text="predicted", **named)
    drawn.update_yaxes(title_text="true", autorange="reversed", **named)
    left = f" The {MOST} most frequent of {len(found.labels)} classes." if len(found.labels) > MOST else ""
    title = f"Confusion matrix{of} (rows: true, columns: predicted)"
    page.figure(drawn, title, *paragraphs, f"Darker: a larger share of the row.{left}")
    rows = [
        [verbatim(label), f"{one['precision']:.4f}", f"{one['recall']:.4f}", f"{one['f1']:.4f}", f"{one['count']:,}"]
        for label, one in found.classes().items()
    ]
    page.table(["class", "precision", "recall", "F1", "examples"], rows)
