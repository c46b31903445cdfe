"""A beam search as a tree."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..report import INK, figure

if TYPE_CHECKING:
    from ..decoding import BeamTree

BEST, COLOURS = "#d55e00", {"live": INK, "completed": "#0072b2", "pruned": "#a3acb8"}
WORDS = {"live": "extended", "completed": "complete", "pruned": "dropped"}
MOST = 120  # lines in one picture


def tree(
    record: BeamTree,
    item: int = 0,
    name: Callable[[int], str] = str,
    *,
    best: Sequence[int] = (),
    pruned: bool | None = None,
) -> Any:
    """A recorded search as a plotly figure: a token to the right of the one it follows, with its path's total.

    `name` turns a token into a word, `best` are the tokens of the hypothesis to bring out. What was considered and
    dropped is shown if `pruned`; None decides by how much there is.

    >>> from carousel.decoding import Beam, BeamTree, StepFunction, search
    >>> table = torch.tensor([[0.1, 0.5, 0.4], [0.6, 0.3, 0.1], [0.1, 0.8, 0.1]]).log()
    >>> lm, record = StepFunction(lambda tokens, state: (table[tokens], state), 3), BeamTree()
    >>> [[h]] = search(lm, 1, Beam(2), start=2, end=0, max_length=3, record=record)
    >>> drawn = tree(record, best=h.tokens)
    >>> sorted({trace.name for trace in drawn.data if trace.name})
    ['best', 'complete', 'dropped', 'extended']
    """
    nodes = record.nodes[item]
    if pruned is None:
        pruned = len(nodes) <= MOST
    shown = [k for k, node in enumerate(nodes) if k == 0 or pruned or node.fate != "pruned"]
    depth, height = _places(nodes, shown)
    on_best = _along(nodes, best)
    leaves = max(height.values()) + 1
    drawn = figure(90 + round(30 * max(2.0, leaves)), hovermode="closest")
    drawn.update_layout(margin={"l": 16, "r": 16})
    drawing = _Drawing(drawn, nodes, depth, height)
    for fate in ("pruned", "live", "completed"):
        these = [k for k in shown[1:] if nodes[k].fate == fate and k not in on_best]
        drawing.add_lines(these, COLOURS[fate], WORDS[fate], "dot" if fate == "pruned" else "solid")
    drawing.add_lines([k for k in shown[1:] if k in on_best], BEST, "best", width=3)
    for fate in ("pruned", "live", "completed"):
        for its, shade in ((False, COLOURS[fate]), (True, BEST)):
            these = [k for k in shown[1:] if nodes[k].fate == fate and (k in on_best) == its]
            drawing.add_words(these, shade, name)
    last = max(depth.values())
    if last > 9:  # wider than a page, which scrolls
        drawn.update_layout(width=100 * last)
    drawn.update_xaxes(range=[-0.1, last + 0.1], tickvals=list(range(1, last + 1)), title_text="step", showgrid=False)
    drawn.update_yaxes(range=[leaves - 0.4, -0.9], visible=False, showgrid=False)
    return drawn


def _places(nodes: Sequence[Any], shown: Sequence[int]) -> tuple[dict[int, int], dict[int, float]]:
    """Depth of each node, and its height: leaves on lines of their own from above, a parent amid its children."""
    children: dict[int, list[int]] = {k: [] for k in shown}
    depth = {0: 0}
    for k in shown[1:]:
        children[nodes[k].parent].append(k)
        depth[k] = depth[nodes[k].parent] + 1
    height: dict[int, float] = {}
    lines = 0
    stack = [0]
    order = []
    while stack:  # from above, so that leaves are met in the order of the lines
        k = stack.pop()
        order.append(k)
        if not children[k]:
            height[k] = lines
            lines += 1
        stack += reversed(children[k])
    for k in reversed(order):
        if children[k]:
            height[k] = sum(height[child] for child in children[k]) / len(children[k])
    return depth, height


def _along(nodes: Sequence[Any], tokens: Sequence[int]) -> set[int]:
    """The nodes on the path of `tokens`."""
    at, path = 0, set()
    for token in tokens:
        step = [k for k in range(1, len(nodes)) if nodes[k].parent == at and nodes[k].token == token]
        if not step:
            return set()
        at = step[0]
        path.add(at)
    return path


@dataclass
class _Drawing:
    """A figure, and the place of each node in it."""

    figure: Any
    nodes: Sequence[Any]
    depth: dict[int, int]
    height: dict[int, float]

    def add_lines(self, these: Sequence[int], shade: str, label: str, dash: str = "solid", width: float = 1.3) -> None:
        """The lines from `these` nodes to their parents."""
        if not these:
            return
        depth, height = self.depth, self.height
        x: list[float | None] = []
        y: list[float | None] = []
        for k in these:
            parent = self.nodes[k].parent
            x += [depth[parent], depth[parent], depth[k], None]  # by a corner: words have room above the line
            y += [height[parent], height[k], height[k], None]
        line = {"color": shade, "width": width, "dash": dash}
        self.figure.add_scatter(x=x, y=y, mode="lines", line=line, name=label, hoverinfo="skip")

    def add_words(self, these: Sequence[int], shade: str, name: Callable[[int], str]) -> None:
        """The words of `these` nodes."""
        if not these:
            return
        nodes = [self.nodes[k] for k in these]
        self.figure.add_scatter(
            x=[self.depth[k] for k in these],
            y=[self.height[k] for k in these],
            mode="markers+text",
            text=[f"{name(node.token)} {node.total:.2f}".replace("-", "−") for node in nodes],
            textposition="top left",
            textfont={"color": shade, "size": 12},
            marker={"color": shade, "size": 6},
            hovertext=[
                f"{name(node.token)}: log p = {node.log_prob:.3f}, path {node.total:.3f}, {WORDS[node.fate]}"
                for node in nodes
            ],
            hoverinfo="text",
            showlegend=False,
        )
