"""How many parameters it takes to look back."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from torch import nn

from ...errors import ArgumentError, check_counts
from ...report import Page, figure
from ..cells import CELLS
from ..finding import Claim, Finding, Verdict
from ..options import Option

HORIZONS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
FILTER = 3  # steps that one layer of the convolutional network sees


@dataclass(frozen=True)
class Kind:
    """A network, and how many parameters it has for each horizon."""

    label: str
    colour: str
    dash: str
    counts: tuple[int, ...]

    @property
    def grows(self) -> bool:
        return self.counts[-1] > self.counts[0]


@dataclass(frozen=True)
class Parameters(Finding):
    """What :func:`run` gives."""

    name = "parameters"
    title = "How many parameters it takes to look back"
    claim = Claim(
        "The parameters of a fully connected network grow with the time horizon. A recurrent network shares its "
        "weights over time: it has three weight tensors, U, W and V, and two biases, however far it looks.",
        "004 how does the number of parameters scale",
        ("a = b + W h₋ + U x,  h = tanh a,  o = c + V h",),
    )

    kinds: tuple[Kind, ...]
    horizons: tuple[int, ...]
    inputs: int
    hidden: int
    outputs: int
    seconds: float

    def __str__(self) -> str:
        width = max(len(kind.label) for kind in self.kinds)
        shown = [k for k, horizon in enumerate(self.horizons) if horizon in (1, 10, 100, 1000)] or [0, -1]
        heads = "  ".join(f"{f'{self.horizons[k]:,} steps':>12}" for k in shown)
        lines = [f"{'parameters for':{width}}  {heads}"]
        for kind in self.kinds:
            lines.append(f"{kind.label:{width}}  " + "  ".join(f"{kind.counts[k]:12,}" for k in shown))
        return "\n".join(lines)

    def lead(self) -> str:
        full, last = self.kinds[0], self.horizons[-1]
        rnn = next(kind for kind in self.kinds if kind.label == CELLS["rnn"].label)
        return (
            f"To look back {last:,} steps, a fully connected network takes {full.counts[-1]:,} parameters and an RNN "
            f"{rnn.counts[-1]:,}, the same as for one step."
        )

    def ran(self) -> Sequence[str]:
        return (
            f"Networks were built, not estimated: {self.inputs} inputs a step, {self.hidden} hidden units, "
            f"{self.outputs} outputs, for every horizon; then their parameters were counted. The fully connected one "
            f"reads all steps at once. The convolutional one has layers of filters over {FILTER} steps, as many as it "
            "takes to see the horizon. The recurrent ones have a linear layer for the output. Where torch's layers "
            "have two biases for one sum, both are counted.",
        )

    def tell(self, page: Page) -> None:
        page.figure(self.figures()["parameters"], "Parameters against the horizon", "Both axes are logarithmic.")
        rows = [[kind.label, *(f"{count:,}" for count in kind.counts)] for kind in self.kinds]
        page.table(["network", *(f"{horizon:,}" for horizon in self.horizons)], rows)

    def verdict(self) -> Verdict:
        full, deep, *recurrent = self.kinds
        if not full.grows or any(kind.grows for kind in recurrent):
            return Verdict(False, "The counts say otherwise; look at the table.")
        i, h, o = self.inputs, self.hidden, self.outputs
        grows = "grows too, a layer at a time" if deep.grows else "does not grow here"
        return Verdict(
            True,
            f"Every step adds {i} × {h} = {i * h:,} weights to the fully connected network; a recurrent one has the "
            f"same for every horizon. In the lecture's count, with one bias for the state, an RNN has U {i * h:,}, W "
            f"{h * h:,}, V {h * o:,} and {h + o} biases. A deep convolutional network {grows}.",
        )

    def figures(self) -> dict[str, Any]:
        drawn = figure(460, hovermode="x")
        for kind in self.kinds:
            drawn.add_scatter(
                x=self.horizons, y=kind.counts, name=kind.label, mode="lines+markers",
                line={"color": kind.colour, "dash": kind.dash}, hovertemplate="%{y:,}",
            )  # fmt: skip
        drawn.update_xaxes(type="log", dtick=1, title_text="steps back").update_yaxes(type="log", dtick=1)
        return {"parameters": drawn.update_yaxes(title_text="parameters")}

    def numbers(self) -> dict[str, Any]:
        kept = {name: getattr(self, name) for name in ("horizons", "inputs", "hidden", "outputs", "seconds")}
        return {"networks": {kind.label: kind.counts for kind in self.kinds}, **kept}


HELP = """How many parameters it takes to look back: fully connected, convolutional, recurrent.

\b
carousel lab parameters
carousel lab parameters --inputs 100 --hidden 512 --out parameters
"""


def run(
    horizons: Sequence[int] = HORIZONS,
    *,
    inputs: Annotated[int, Option("Inputs a step.", "I", minimum=1)] = 32,
    hidden: Annotated[int, Option("Hidden units.", "H", minimum=1)] = 64,
    outputs: Annotated[int, Option("Outputs.", "O", minimum=1)] = 10,
) -> Parameters:
    """Build each network for every horizon and count.

    >>> found = run([1, 10], inputs=2, hidden=3, outputs=1)
    >>> found.kinds[0].counts                      # 10 · 2 · 3 + 3, and 3 · 1 + 1
    (13, 67)
    """
    check_counts(inputs=inputs, hidden=hidden, outputs=outputs)
    if not horizons or min(horizons) < 1:
        raise ArgumentError(f"horizons must be some numbers from 1 on, got {list(horizons)}")
    start = time.perf_counter()
    sizes = inputs, hidden, outputs
    kinds = [
        _count("fully connected", "#1c2430", "solid", horizons, lambda steps: connected(steps, *sizes)),
        _count("convolutional", "#5b6675", "dot", horizons, lambda steps: convolutional(steps, *sizes)),
    ]
    for kind in CELLS.values():
        built = nn.ModuleList([kind.layer(inputs, hidden), nn.Linear(hidden, outputs)])  # the same for any horizon
        counts = (sum(p.numel() for p in built.parameters()),) * len(horizons)
        kinds.append(Kind(kind.label, kind.colour, kind.dash, counts))
    return Parameters(tuple(kinds), tuple(horizons), inputs, hidden, outputs, time.perf_counter() - start)


def connected(steps: int, inputs: int, hidden: int, outputs: int) -> nn.Module:
    """All steps at once into one hidden layer."""
    return nn.Sequential(
        nn.Linear(steps * inputs, hidden, device="meta"), nn.Tanh(), nn.Linear(hidden, outputs, device="meta")
    )


def convolutional(steps: int, inputs: int, hidden: int, outputs: int) -> nn.Module:
    """So many layers of filters that the last sees `steps` steps."""
    layers = max(1, -(-(steps - 1) // (FILTER - 1)))
    built = [nn.Conv1d(hidden if k else inputs, hidden, FILTER, device="meta") for k in range(layers)]
    return nn.ModuleList([*built, nn.Linear(hidden, outputs, device="meta")])


def _count(label: str, colour: str, dash: str, horizons: Sequence[int], build: Callable[[int], nn.Module]) -> Kind:
    counts = tuple(sum(p.numel() for p in build(steps).parameters()) for steps in horizons)
    return Kind(label, colour, dash, counts)
