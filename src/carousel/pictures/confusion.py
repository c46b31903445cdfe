"""Metrics as pictures of a report."""

from __future__ import annotations

from typing import Any

from ..metrics.classes import Confusion
from ..report import Page, figure

MOST = 40  # classes in one picture; the rarest are left out


def show_confusion(page: Page, found: Confusion, title: str, *paragraphs: str) -> None:
    """Add what is taken for what to a page, each class's row in shares of its examples, and a table of the classes."""
    often = found.counts.sum(1).argsort(descending=True, stable=True)[:MOST].sort().values
    labels = [found.labels[int(k)] for k in often]
    counts = found.counts[often][:, often]
    shares = counts / found.counts[often].sum(1, keepdim=True).clamp(min=1)
    drawn: Any = figure(140 + max(200, min(700, 48 * len(labels))), showlegend=False)
    drawn.add_heatmap(
        x=labels,
        y=labels,
        z=shares.tolist(),
        text=[[f"{n:,}" for n in row] for row in counts.tolist()],
        texttemplate="%{text}" if len(labels) <= 20 else None,
        hovertemplate="%{y} taken for %{x}: %{text}<extra></extra>",
        colorscale="Blues",
        zmin=0,
        zmax=1,
        xgap=1,
        ygap=1,
        showscale=False,
    )
    drawn.update_xaxes(title_text="said", type="category", showgrid=False)
    drawn.update_yaxes(title_text="is", type="category", autorange="reversed", showgrid=False)
    left = f" The {MOST} most frequent of {len(found.labels)} classes." if len(found.labels) > MOST else ""
    page.figure(drawn, title, *paragraphs, f"Darker: a larger share of the row.{left}")
    rows = [
        [label, f"{one['precision']:.4f}", f"{one['recall']:.4f}", f"{one['f1']:.4f}", f"{one['count']:,}"]
        for label, one in found.classes().items()
    ]
    page.table(["class", "precision", "recall", "F1", "examples"], rows)
