"""Gates and states as heat maps: a row for each unit, a column for each step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..errors import ArgumentError
from ..report import figure
from .attention import visible

if TYPE_CHECKING:
    from ..cells import Cell
    from ..layers.trace import Trace

STATES = {"h": "output", "c": "cell"}


def title(cell: Cell | None, name: str) -> str:
    """What a panel shows: "forget gate f"."""
    label = STATES.get(name, "")
    if cell is not None and name in cell.gates and name not in cell.states:
        label = cell.gates[name].label
    return f"{label} {name}".strip()


def opens(cell: Cell | None, name: str) -> bool:
    """Whether `name` is a gate between 0 and 1; all other values are about 0."""
    return cell is not None and name not in cell.states and cell.gates[name].activation == "sigmoid"


def gates(trace: Trace, names: Sequence[str], *, sequence: int = 0, layer: int = 0, steps: Sequence[str] = ()) -> Any:
    """Some gates or states of one sequence as a plotly figure, a panel for each of `names`.

    `layer` counts layers and directions as the trace does. `steps` names the steps, those that the
    sequence has; without them the trace's own tokens do. Units
    are ordered by when the first of the panels is high in them, early ones below, the same in all panels.

    >>> from carousel.pictures import gates
    >>> trace = LSTM(2, 3).trace(torch.randn(5, 1, 2))
    >>> [(len(panel.z), len(panel.z[0])) for panel in gates(trace, ["f", "c"], steps="abcde").data]
    [(3, 5), (3, 5)]
    """
    panels = {**dict(trace.gates.items()), **dict(trace.states.items())}
    for name in names:
        if name not in panels:
            raise ArgumentError(f"names: this trace has no {name!r}; it has {', '.join(panels)}")
    steps = steps or (trace.tokens[sequence] if trace.tokens else ())
    every = len(next(iter(panels.values()))[layer])
    count = len(steps) or every
    if count > every:
        raise ArgumentError(f"steps: {count} names for {every} steps")
    shown = [panels[name][layer, :count, sequence].T for name in names]  # (units, steps) each
    order = _order(shown[0])
    drawn = figure(
        80 + (40 + min(360, max(90, 4 * len(order)))) * len(names), [f"<b>{title(trace.cell, n)}</b>" for n in names],
        showlegend=False,
    )  # fmt: skip
    for row, (name, values) in enumerate(zip(names, shown, strict=True), 1):
        opening = opens(trace.cell, name)
        most = 1.0 if opening else max(1.0, float(values.abs().max()))
        low, high = drawn.layout[f"yaxis{row if row > 1 else ''}"].domain
        ticks = [0, 0.5, 1] if opening else [-most, 0, most]
        drawn.add_heatmap(
            z=values[order].tolist(), zmin=0 if opening else -most, zmax=most,
            colorscale="Viridis" if opening else "RdBu",
            customdata=[[unit] * count for unit in order],
            hovertemplate=f"unit %{{customdata}}, step %{{x}}: {name} = %{{z:.2f}}<extra></extra>",
            colorbar={"y": (low + high) / 2, "len": high - low, "thickness": 12, "outlinewidth": 0,
                      "tickvals": ticks, "ticktext": [f"{tick:.3g}".replace("-", "−") for tick in ticks]},
            row=row, col=1,
        )  # fmt: skip
    drawn.update_yaxes(title_text="unit", showgrid=False, showticklabels=False, ticks="")
    drawn.update_xaxes(showgrid=False)
    drawn.update_layout(margin={"r": 70})
    if steps:
        drawn.update_xaxes(tickvals=list(range(count)), ticktext=[visible(step) for step in steps])
    return drawn


def _order(values: Any) -> list[int]:
    """Units by the middle of their time, those that are high late last."""
    height = values - values.min(1, keepdim=True).values + 1e-9
    times = height.new_tensor(range(values.shape[1]))
    return (height * times).sum(1).div(height.sum(1)).argsort(stable=True).tolist()
