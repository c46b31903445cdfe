"""Attention as a heat map: which part of the source each token looked at."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..errors import ArgumentError
from ..report import figure

if TYPE_CHECKING:
    from torch import Tensor

SHADES = [(0.0, "#ffffff"), (0.15, "#d6e6f4"), (0.5, "#5ba3cf"), (1.0, "#08306b")]
CELL = 26  # pixels


def attention(weights: Tensor, source: Sequence[str], target: Sequence[str]) -> Any:
    """Weights (tokens of the target, tokens of the source) as a plotly figure: a row for each token that was written.

    >>> from carousel.pictures import attention
    >>> drawn = attention(torch.tensor([[0.9, 0.1], [0.2, 0.8]]), ["guten", "tag"], ["good", "day"])
    >>> drawn.layout.xaxis.ticktext
    ('guten', 'tag')
    """
    if weights.shape != (len(target), len(source)):
        sizes = f"{len(target)} tokens of the target and {len(source)} of the source"
        raise ArgumentError(f"weights must be ({len(target)}, {len(source)}), for {sizes}; got {tuple(weights.shape)}")
    columns, rows = [visible(token) for token in source], [visible(token) for token in target]
    slanted = max(map(len, columns), default=1) > 2
    above = 16 + 7 * max(map(len, columns), default=1) if slanted else 44
    drawn = figure(above + CELL * max(3, len(rows)) + 16)
    drawn.add_heatmap(
        z=weights.tolist(), zmin=0, zmax=1, colorscale=SHADES, xgap=1, ygap=1, showscale=False,
        customdata=[[(row, column) for column in columns] for row in rows],
        hovertemplate="%{customdata[0]} looks at %{customdata[1]}: %{z:.2f}<extra></extra>",
    )  # fmt: skip
    left = 24 + 8 * max(map(len, rows), default=1)
    wide = CELL * (1.5 if slanted else 1) * max(3, len(columns))
    drawn.update_layout(width=round(left + wide + 24), margin={"l": left, "r": 24, "t": above, "b": 16})
    common = {"showgrid": False, "ticks": "", "automargin": False}
    drawn.update_xaxes(
        tickvals=list(range(len(columns))), ticktext=columns, side="top", tickangle=-45 if slanted else 0, **common
    )
    drawn.update_yaxes(tickvals=list(range(len(rows))), ticktext=rows, autorange="reversed", **common)
    return drawn


def visible(token: str) -> str:
    """A token that one can see, and that is no markup.

    >>> visible(" "), visible("<b>")
    ('␣', '&lt;b&gt;')
    """
    shown = token.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return "␣" * len(token) if not token.strip() else shown.strip()
