"""Figures that several labs draw: lines over steps, updates or sizes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from ..report import figure


class Line(NamedTuple):
    """A line of a figure; without a colour it takes the next one of the theme."""

    name: str
    y: Sequence[float]
    colour: str | None = None
    dash: str = "solid"


def line_figure(
    curves: Iterable[Line], x: Sequence[Any] | None = None, *, titles: tuple[str, str], height: int = 400, **yaxis: Any
) -> Any:
    """A figure of lines; `titles` are those of the x and y axes, `yaxis` further properties of the latter.

    `x` is the same for all, of which shorter lines have the beginning; without it, points are numbered from 1 on.

    >>> drawn = line_figure([Line("loss", [3.0, 2.0])], titles=("update", "loss"), type="log")
    >>> drawn.data[0].x, drawn.layout.yaxis.type
    ((1, 2), 'log')
    """
    drawn = figure(height, hovermode="x")
    for name, y, colour, dash in curves:
        places = list(range(1, len(y) + 1)) if x is None else list(x)[: len(y)]
        drawn.add_scatter(x=places, y=y, name=name, line={"color": colour, "dash": dash})
    return drawn.update_xaxes(title_text=titles[0]).update_yaxes(title_text=titles[1], **yaxis)


SHARE: dict[str, Any] = {"range": [0, 1.02], "tickformat": ".0%"}  # the y axis of a share
POWERS: dict[str, Any] = {"type": "log", "exponentformat": "power"}
