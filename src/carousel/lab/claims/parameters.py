"""How many parameters it takes to look back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Annotated, Any

import torch
from torch import nn

from ...errors import ArgumentError, check_counts
from ...report import Page, figure
from ..cells import CELLS
from ..claim import Claim, Numbers, Verdict, fails, holds, holds_for
from ..finding import Exercise, Finding, Table
from ..measured import Clock
from ..options import Option, help_text
from ..words import listing

HORIZONS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
FILTER = 3  # steps that one layer of the convolutional networks sees
STRIDES = (1, 2)


@dataclass(frozen=True)
class Kind:
    """A network, and how many parameters it has for each horizon."""

    label: str
    family: str  # "connected", "convolutional" or "recurrent"
    counts: tuple[int, ...]
    colour: str
    dash: str


def _family(numbers: Numbers, name: str) -> list[dict[str, Any]]:
    return [kind for kind in numbers["kinds"] if kind["family"] == name]


def _connected(numbers: Numbers, tolerance: float) -> Verdict:
    [kind] = _family(numbers, "connected")
    step = numbers["inputs"] * numbers["hidden"]
    added = [count - kind["counts"][0] for count in kind["counts"]]
    expected = [step * (horizon - numbers["horizons"][0]) for horizon in numbers["horizons"]]
    text = f"Every step of the horizon adds {numbers['inputs']} × {numbers['hidden']} = {step:,} weights"
    return holds(f"{text}.") if added == expected else fails(f"{text}? The counts say otherwise: {added}.")


def _convolutional(numbers: Numbers, tolerance: float) -> Verdict:
    [connected] = _family(numbers, "connected")
    kinds, last = _family(numbers, "convolutional"), numbers["horizons"][-1]
    counts = listing(f"{kind['counts'][-1]:,} with {kind['label'].partition(', ')[2]}" for kind in kinds)
    text = (
        f"For {last:,} steps a convolutional network with filters over {numbers['filter']} steps takes {counts}; the "
        f"fully connected one takes {connected['counts'][-1]:,}. With stride 1 every layer sees "
        f"{numbers['filter'] - 1} steps more, with stride 2 about twice as many as the layer before it."
    )
    helped = [kind["label"].partition(", ")[2] for kind in kinds if kind["counts"][-1] < connected["counts"][-1]]
    if len(helped) == len(kinds):
        return holds(text)
    return holds_for(listing(helped), text) if helped else fails(text)


def _shared(numbers: Numbers, tolerance: float) -> Verdict:
    recurrent = _family(numbers, "recurrent")
    growing = [kind["label"] for kind in recurrent if len(set(kind["counts"])) > 1]
    if growing:
        return fails(f"These grow with the horizon: {listing(growing)}.")
    return holds(f"Each of the {len(recurrent)} recurrent networks has the same parameters for every horizon.")


def _tensors(numbers: Numbers, tolerance: float) -> Verdict:
    i, h, o = numbers["inputs"], numbers["hidden"], numbers["outputs"]
    count = next(kind["counts"][0] for kind in numbers["kinds"] if kind["label"] == numbers["rnn"])
    expected = i * h + h * h + h * o + h + o
    text = (
        f"U {i * h:,}, W {h * h:,}, V {h * o:,} and {h + o} biases are {expected:,}; the network that was built has "
        f"{count:,}, which is {count - expected} more: torch's layers have two biases for one sum."
    )
    return holds(text) if count - expected == h else fails(text)


@dataclass(frozen=True)
class Parameters(Finding):
    """What :func:`run` gives."""

    name = "parameters"
    title = "How many parameters it takes to look back"
    claims = (
        Claim(
            "connected",
            "How does the number of parameters scale? … We increase the relevant time horizon. … Fully connected "
            "network",
            "004 How does the number of parameters scale?",
            "the expected answer is that they grow linearly: every step adds inputs × hidden weights, exactly.",
            _connected,
        ),
        Claim(
            "convolutional",
            "What if we use a deep convnet? … Fixed stride … Fixed filter size on each layer … Does it help?",
            "004 What if we use a deep convnet?",
            "it helps if it takes fewer parameters than the fully connected network at the longest horizon.",
            _convolutional,
        ),
        Claim(
            "shared",
            "We share weights across time.",
            "004 We share weights across time",
            "a recurrent network has the same number of parameters for every horizon.",
            _shared,
        ),
        Claim(
            "tensors",
            "RNNs typically have (at least) 3 weight tensors ( U , W , V ) and 2 biases.",
            "004 how many parameters?",
            "the layer that is built has U, W, V and two biases, and torch's second bias of the state beside them.",
            _tensors,
            printed=(
                r"a^{(t)} = b + Wh^{(t-1)} + Ux^{(t)}, \quad h^{(t)} = \tanh(a^{(t)})",
                r"o^{(t)} = c + Vh^{(t)}, \quad \hat{y}^{(t)} = \text{softmax}(o^{(t)})",
            ),
        ),
    )
    exercises = (
        Exercise(
            "How many layers of filters over 3 steps, with stride 2, see 1,000 steps? Give the formula.",
            "After \\(L\\) layers of stride \\(s\\) and filters over \\(k\\) steps, "
            "\\(1 + (k-1)(1 + s + \\dots + s^{L-1})\\) steps are seen; for \\(s = 2\\), \\(k = 3\\) that is "
            "\\(2^{L+1} - 1\\), so 9 layers see 1,023. With stride 1 it is \\(1 + L(k-1)\\): 500 layers.",
        ),
        Exercise(
            "An LSTM has how many times the recurrent parameters of an RNN of the same size?",
            "Four: it has four gates, each with weights for the input, for the state, and biases.",
        ),
    )
    code = """
from carousel import RNN, lab
from torch import nn

rnn = nn.ModuleList([RNN(32, 64), nn.Linear(64, 10)])
print(sum(p.numel() for p in rnn.parameters()))       # however long the sequence
figure = lab.parameters().plot()
"""

    kinds: tuple[Kind, ...]
    horizons: tuple[int, ...]
    inputs: int
    hidden: int
    outputs: int
    seconds: float

    def numbers(self) -> dict[str, Any]:
        return {**asdict(self), "filter": FILTER, "rnn": CELLS["rnn"].label}

    @staticmethod
    def lead(numbers: Numbers) -> str:
        [connected], last = _family(numbers, "connected"), numbers["horizons"][-1]
        rnn = next(kind for kind in numbers["kinds"] if kind["label"] == numbers["rnn"])
        same = "the same as" if len(set(rnn["counts"])) == 1 else "not the same as"
        return (
            f"To look back {last:,} steps, a fully connected network takes {connected['counts'][-1]:,} parameters and "
            f"an RNN {rnn['counts'][-1]:,}, {same} for {numbers['horizons'][0]}."
        )

    @staticmethod
    def table(numbers: Numbers) -> Table:
        rows = [[kind["label"], *(f"{count:,}" for count in kind["counts"])] for kind in numbers["kinds"]]
        return ["parameters, by steps back", *(f"{horizon:,}" for horizon in numbers["horizons"])], rows

    def setup(self) -> Sequence[str]:
        return (
            f"Networks were built and their parameters counted: {self.inputs} inputs a step, {self.hidden} hidden "
            f"units, {self.outputs} outputs, for every horizon. The fully connected one reads all steps at once. The "
            f"convolutional ones have layers of filters over {FILTER} steps, as many as it takes to see the horizon, "
            f"with stride {listing(map(str, STRIDES))}. The recurrent ones have a linear layer for the output, and "
            "read a sequence of that length before they are counted. Where "
            "torch's layers have two biases for one sum, both are counted.",
        )

    def render(self, page: Page) -> None:
        page.figure(self.figures()["parameters"], "Parameters against the horizon", "Both axes are logarithmic.")
        page.table(*self.table(self.measured))

    def figures(self) -> dict[str, Any]:
        drawn = figure(460, hovermode="x")
        for kind in self.kinds:
            drawn.add_scatter(
                x=self.horizons, y=kind.counts, name=kind.label, mode="lines+markers",
                line={"color": kind.colour, "dash": kind.dash}, hovertemplate="%{y:,}",
            )  # fmt: skip
        drawn.update_xaxes(type="log", dtick=1, title_text="steps back").update_yaxes(type="log", dtick=1)
        return {"parameters": drawn.update_yaxes(title_text="parameters")}


HELP = help_text(
    "How many parameters it takes to look back: fully connected, convolutional, recurrent.",
    "parameters",
    "--inputs 100 --hidden 512 --out parameters",
)


def run(
    horizons: Sequence[int] = HORIZONS,
    *,
    inputs: Annotated[int, Option("Inputs a step.", "I", minimum=1)] = 32,
    hidden: Annotated[int, Option("Hidden units.", "H", minimum=1)] = 64,
    outputs: Annotated[int, Option("Outputs.", "O", minimum=1)] = 10,
) -> Parameters:
    """Build each network for every horizon and count.

    >>> result = run([1, 10], inputs=2, hidden=3, outputs=1)
    >>> result.kinds[0].counts                     # 10 · 2 · 3 + 3, and 3 · 1 + 1
    (13, 67)
    """
    check_counts(inputs=inputs, hidden=hidden, outputs=outputs)
    if not horizons or min(horizons) < 1:
        raise ArgumentError(f"horizons must be some numbers from 1 on, got {list(horizons)}")
    clock = Clock()
    sizes = inputs, hidden, outputs
    kinds = [
        _count("fully connected", "connected", "#1c2430", "solid", horizons, partial(connected, *sizes)),
        *(
            _count(
                f"convolutional, stride {stride}", "convolutional", "#5b6675", dash, horizons,
                partial(convolutional, stride, *sizes),
            )
            for stride, dash in zip(STRIDES, ("dot", "dash"), strict=True)
        ),
    ]  # fmt: skip
    for kind in CELLS.values():
        build = partial(recurrent, kind.layer, *sizes)
        kinds.append(_count(kind.label, "recurrent", kind.colour, kind.dash, horizons, build))
    return Parameters(tuple(kinds), tuple(horizons), inputs, hidden, outputs, clock.seconds)


def connected(inputs: int, hidden: int, outputs: int, steps: int) -> nn.Module:
    """All steps at once into one hidden layer."""
    return nn.Sequential(
        nn.Linear(steps * inputs, hidden, device="meta"), nn.Tanh(), nn.Linear(hidden, outputs, device="meta")
    )


def convolutional(stride: int, inputs: int, hidden: int, outputs: int, steps: int) -> nn.Module:
    """So many layers of filters that the last sees `steps` steps."""
    layers, seen, apart = 0, 1, 1
    while seen < steps or not layers:
        layers, seen, apart = layers + 1, seen + (FILTER - 1) * apart, apart * stride
    built = [nn.Conv1d(hidden if k else inputs, hidden, FILTER, stride, device="meta") for k in range(layers)]
    return nn.ModuleList([*built, nn.Linear(hidden, outputs, device="meta")])


@torch.no_grad()
def recurrent(layer: Callable[..., nn.Module], inputs: int, hidden: int, outputs: int, steps: int) -> nn.Module:
    """A recurrent layer that has read `steps` steps, and its output."""
    built = nn.ModuleList([layer(inputs, hidden), nn.Linear(hidden, outputs)])
    built[1](built[0](torch.zeros(steps, 1, inputs))[0])
    return built


def _count(
    label: str, family: str, colour: str, dash: str, horizons: Sequence[int], build: Callable[[int], nn.Module]
) -> Kind:
    counts = tuple(sum(p.numel() for p in build(steps).parameters()) for steps in horizons)
    return Kind(label, family, counts, colour, dash)
