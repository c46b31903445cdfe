"""Weights that begin as zero, equal, tiny, huge: what is learned, and which units part."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import torch
from torch import Tensor, nn

from ...cells import Cell, ParameterSpec, Sizes
from ...errors import ArgumentError, check_counts
from ...layers import LSTM
from ...pictures.gates import opens
from ...report import Page, figure
from ...tasks.lm.network import LanguageNetwork
from ...wording import counted
from ..cells import CELLS
from ..claim import Claim, Numbers, Verdict, by_case, by_seed, fails, holds, holds_for
from ..finding import Exercise, Finding, Step, Table
from ..learning import MODEL, Corpus, Curve, corpus
from ..measured import Clock
from ..options import Option, Seed, Seeds, help_text, seed_numbers
from ..words import listing, mean_and_spread, percent, span

EQUAL, TINY, HUGE = 0.02, 1e-4, 20.0
SHUT = 0.05  # a gate is shut below this, and open above 1 − this


@dataclass(frozen=True)
class Start:
    """A way to begin. `layer` and `output` set a weight of theirs; None leaves it as the package draws it."""

    label: str
    colour: str
    dash: str = "solid"
    layer: Callable[[Tensor], Any] | None = None
    output: Callable[[Tensor], Any] | None = None
    hidden: int | None = None  # units, if others than the rest have

    def __call__(self, network: LanguageNetwork) -> None:
        for own, parts in ((self.layer, list(network.layers.parameters())), (self.output, [network.output])):
            for weight in parts if own is not None else ():
                own(weight)  # type: ignore[misc]


def _equal(weight: Tensor) -> Tensor:
    return weight.fill_(EQUAL)


STARTS = {
    "good": Start("as usual: ±1/√H, forget bias 1", "#0072b2"),
    "zero": Start("all 0", "#d55e00", layer=nn.init.zeros_, output=nn.init.zeros_),
    "equal": Start(f"all {EQUAL:g}", "#e69f00", layer=_equal, output=_equal),
    "one": Start("a single unit, as usual", "#1c2430", "dot", hidden=1),
    "zero-layer": Start("layer 0, output drawn", "#d55e00", "dash", layer=nn.init.zeros_),
    "equal-layer": Start(f"layer {EQUAL:g}, output drawn", "#e69f00", "dash", layer=_equal),
    "tiny": Start(f"layer ±{TINY:g}", "#009e73", layer=lambda w: w.uniform_(-TINY, TINY)),
    "huge": Start(f"layer ±{HUGE:g}", "#cc79a7", layer=lambda w: w.uniform_(-HUGE, HUGE)),
}
ALIKE = ("zero", "equal")  # the starts in which nothing tells one unit from another


@dataclass(frozen=True)
class Begun:
    """One start: how the training went, how many units differed before each update, and how many gates were stuck."""

    start: str
    seed: int
    curve: Curve
    distinct: tuple[int, ...]  # the last after the last update
    saturated: float  # share of all gates that were shut or wide open, before the first update
    weights: tuple[int, ...] = ()  # of an LSTM: different ones by which one gate of a unit reads its inputs, at most
    apart: float = 0.0  # of an LSTM whose units are alike: how far it is from the one unit that it amounts to


def _of(numbers: Numbers, start: str, key: str) -> list[Any]:
    """What was measured from one start, with every seed; a perplexity that is None is infinite."""
    values = [one[key] for one in numbers["starts"] if one["start"] == start]
    return [math.inf if value is None else value for value in values]


def _perplexity(numbers: Numbers, start: str) -> str:
    values = _of(numbers, start, "perplexity")
    return "diverges" if math.inf in values else mean_and_spread(values)


def _alike(numbers: Numbers, tolerance: float) -> Verdict:
    most = max(max(distinct) for start in ALIKE for distinct in _of(numbers, start, "distinct"))
    by_cell = [(cell["label"], max(cell["most"].values())) for cell in numbers["cells"] if not cell["buffers"]]
    differ = [label for label, count in by_cell if count > 1]
    begin = "Units that begin alike, with an output layer that is alike too,"
    if most > 1:
        return fails(f"{begin} come to be {most} different ones in an LSTM.")
    if differ:
        return fails(f"{begin} come to differ in {listing(differ)}.")
    text = (
        f"{begin} never differ by a single bit: in an LSTM with {counted(len(numbers['seeds']), 'random seed')}, in "
        f"{counted(len(by_cell), 'cell')} with the first."
    )
    moved = {start: max(max(w) for w in _of(numbers, start, "weights")) > 1 for start in ALIKE}
    text += f" The weights by which a gate of one unit reads its {counted(numbers['inputs'], 'input')}"
    parts = []
    for start, own in moved.items():
        after = span([w[1] for w in _of(numbers, start, "weights")])
        change = f"have {after} different values after one update" if own else "stay the same too"
        parts.append(f"{change} if they begin as {STARTS[start].label}")
    text += f" {listing(parts)}{': ∂L/∂W_ij = x_i δ_j.' if any(moved.values()) else '.'}"
    parted = [
        start for start in ("zero-layer", "equal-layer") if min(d[1] for d in _of(numbers, start, "distinct")) > 1
    ]
    if parted:
        after = listing(str(min(d[1] for d in _of(numbers, start, "distinct"))) for start in parted)
        ends = listing(_perplexity(numbers, start) for start in parted)
        text += (
            f" With random weights in the output layer alone there are {after} different units after one update, and "
            f"the network learns (perplexity {ends})."
        )
    if any(moved.values()):
        next_layer = " whose next layer begins alike too" if parted else ""
        return holds_for(f"units{next_layer}, not for all of their weights", text)
    return holds_for("layers whose next layer begins alike too", text) if parted else holds(text)


def _beside(numbers: Numbers) -> str:
    """Whether equal units end below a single one, or above, with every seed."""
    pairs = list(zip(_of(numbers, "equal", "perplexity"), _of(numbers, "one", "perplexity"), strict=True))
    if all(equal < one for equal, one in pairs):
        return "below"
    return "above" if all(equal > one for equal, one in pairs) else "with some seeds below, with others not below,"


def _linear(numbers: Numbers, tolerance: float) -> Verdict:
    linear = numbers["linear"]
    texts = [f"{STARTS[name].label} {_perplexity(numbers, name)}" for name in ("equal", "zero", "one", "good")]
    text = (
        f"A linear layer that reads the last character reaches {linear:.2f} at best (the counts of pairs of "
        f"characters). Perplexity: {listing(texts)}. Equal units, {numbers['hidden']} here, can compute no more than "
        f"one unit can, but are not trained as one: they are one with {numbers['hidden']} times the recurrent and the "
        f"output weight, and a step of Adam moves these {numbers['hidden']} times as far. They end {_beside(numbers)} "
        "a single unit that begins as usual."
    )
    columns = zip(*(_of(numbers, start, "perplexity") for start in ALIKE), strict=True)
    return by_seed([min(values) > linear for values in columns], text)


def _stuck(numbers: Numbers, tolerance: float) -> Verdict:
    slow, texts = {}, []
    for name, label in (("tiny", "very small weights"), ("huge", "very large weights")):
        stuck, usual = _of(numbers, name, "saturated"), _of(numbers, "good", "perplexity")
        mean = sum(stuck) / len(stuck)
        texts.append(
            f"{label} {percent(mean, 0)} of the gates are stuck, and perplexity ends at {_perplexity(numbers, name)}"
        )
        ends = zip(stuck, _of(numbers, name, "perplexity"), usual, strict=True)
        slow[label] = [share > tolerance and end > 1.1 * other for share, end, other in ends]
    text = f"Of {'; of '.join(texts)}; the usual ones end at {_perplexity(numbers, 'good')}."
    text += " σ(0) is ½, where its slope is largest."
    return by_case(slow, text)


@dataclass(frozen=True)
class Initialisation(Finding):
    """What :func:`run` gives."""

    name = "initialisation"
    title = "How weights begin"
    trains = True
    claims = (
        Claim(
            "alike",
            "If the weights are initialized to zero or exactly the same … thus all weights will have same value in "
            "subsequent iterations",
            "002 Initialization",
            "no two units of the layer ever differ by a single bit: in an LSTM with every random seed, in the other "
            "cells with the first; and no two weights by which one gate of a unit of the LSTM reads its inputs do.",
            _alike,
            seeds=5,
            printed=(r"a_j = \sum_{i=1}^n W_{ij} \cdot x_i, \quad j=1,\ldots,m",),
        ),
        Claim(
            "linear",
            "which eventually make it no better than a linear layer.",
            "002 Initialization",
            "with every random seed, equal and zero weights end above the perplexity of the best linear layer that "
            "reads the last character.",
            _linear,
            seeds=5,
        ),
        Claim(
            "stuck",
            "If the weight is very small or very large, after applying sigmoid, it will be almost the same(i.e. all "
            "0 or all 1), thus the gradient changes slowly and learning takes a lot of time.",
            "002 Initialization",
            "with every random seed, more than {tolerance} of the gates are below 0.05 or above 0.95, and the "
            "perplexity is more than a tenth above that of the usual weights.",
            _stuck,
            tolerance=0.5,
            seeds=5,
        ),
    )
    derivation = (
        Step(
            "Units that are alike have one \\(h\\), and the weights by which they are read are alike too. So \\(H\\) "
            "of them are one unit with \\(H\\) times the weight; the run makes it from the trained LSTM and compares "
            "what the output layer gives, relative to the largest.",
            r"\sum_{j=1}^{H} W_{hh,ij} \, h_j = (H w_i) \, h, \quad \sum_{j=1}^{H} V_{kj} \, h_j = (H v_k) \, h",
            "one",
            1e-4,
        ),
    )
    exercises = (
        Exercise(
            "All weights of the layer and of the output are zero. Which weights get a gradient at the first update?",
            "Only the output's bias, if it has one, or none: the gradient of the layer is multiplied by the output "
            "weights, which are 0, and that of the output weights by h, which is 0.",
        ),
        Exercise(
            "Why do tiny weights not leave the gates at 0 or 1?",
            "A gate is \\(\\sigma\\) of a number near 0, and \\(\\sigma(0) = \\tfrac12\\). Its slope there is ¼, the "
            "largest there is.",
        ),
    )
    code = """
import torch
from carousel.lab.claims.initialisation import STARTS, different_units
from carousel.data import Vocabulary
from carousel.tasks.lm.data import LanguageAssets
from carousel.tasks.lm.network import LanguageNetwork
from carousel.tasks.lm.settings import LanguageSettings

network = LanguageNetwork(LanguageSettings(train="-", hidden=6, tied=False), LanguageAssets(Vocabulary.train(["abba"])))
with torch.no_grad():
    STARTS["equal"](network)
print(different_units(network))                   # 1, and so it stays
"""

    begun: tuple[Begun, ...]
    cells: dict[str, dict[str, int]]  # cell → start → the most units that ever differed
    linear: float  # the perplexity of the best linear layer that reads the last character
    updates: int  # of each cell's training
    hidden: int
    seeds: tuple[int, ...]
    seconds: float

    def of(self, start: str) -> Begun:
        """With the first seed."""
        return next(one for one in self.begun if one.start == start)

    def numbers(self) -> dict[str, Any]:
        def finite(value: float) -> float | None:
            return value if math.isfinite(value) else None

        sizes = Sizes(1, self.hidden, self.hidden)
        return {
            "starts": [
                {
                    "start": one.start, "seed": one.seed, "steps": one.curve.steps,
                    "losses": [finite(loss) for loss in one.curve.losses], "perplexity": finite(one.curve.perplexity),
                    "distinct": one.distinct, "weights": one.weights, "saturated": one.saturated,
                }
                for one in self.begun
            ],
            "cells": [
                {"label": CELLS[cell].label, "most": most, "buffers": bool(CELLS[cell].cell.buffers(sizes))}
                for cell, most in self.cells.items()
            ],
            "linear": self.linear, "updates": self.updates, "hidden": self.hidden, "inputs": MODEL["embedding"],
            "seeds": self.seeds, "seconds": self.seconds, "derivation": {"one": max(one.apart for one in self.begun)},
        }  # fmt: skip

    @staticmethod
    def table(numbers: Numbers) -> Table:
        rows = []
        for name in dict.fromkeys(one["start"] for one in numbers["starts"]):
            stuck, distinct = _of(numbers, name, "saturated"), _of(numbers, name, "distinct")
            spans = [span([d[k] for d in distinct]) for k in (1, -1)]
            spans.append(span([w[-1] for w in _of(numbers, name, "weights")]))
            rows.append([STARTS[name].label, percent(sum(stuck) / len(stuck)), *spans, _perplexity(numbers, name)])
        columns = ["an LSTM begins", "stuck gates", "units after one update", "at the end"]
        return [*columns, "weights of a gate at the end", "dev perplexity"], rows

    @staticmethod
    def lead(numbers: Numbers) -> str:
        most = max(max(d) for start in ALIKE for d in _of(numbers, start, "distinct"))
        kept = "never differ by a single bit" if most == 1 else f"come to be {most} different ones"
        ends = listing(f"{_perplexity(numbers, name)} from {text}" for name, text in (
            ("good", "the usual weights"), ("equal", "equal ones"), ("zero", "zeros")))  # fmt: skip
        return (
            f"Units that begin alike {kept}, if what reads them begins alike too. An LSTM of "
            f"{counted(numbers['hidden'], 'unit')} ends at a perplexity of {ends}, over "
            f"{counted(len(numbers['seeds']), 'random seed')}."
        )

    def __str__(self) -> str:
        updates = counted(self.updates, "update")
        lines = [super().__str__(), f"units that ever differ in {updates}, of {self.hidden} alike:"]
        for cell in self.measured["cells"]:
            lines.append(
                f"  {cell['label']:18}" + "".join(f"  {STARTS[s].label}: {n}" for s, n in cell["most"].items())
            )
        return "\n".join(lines)

    def setup(self) -> Sequence[str]:
        return (
            f"A language model of {counted(self.hidden, 'unit')}, trained with Adam at 0.01, as in the source, on "
            "dates as people write them, character by character; the package makes them. Everything but the start is "
            "the same, the random vectors of the characters too. A gate is stuck if it is below 0.05 or above 0.95 as "
            f"the fresh network reads each character once. {counted(len(self.seeds), 'random seed')}; shown is the "
            "mean, with the smallest and the largest in brackets.",
            "A unit is all of its weights: in each gate those from the input, those from the other units, its "
            "biases; and those by which the others read it. Before every update, and after the last, the units "
            "that differ are counted; a bit is enough. The weights of a gate are those by which one gate of a unit "
            f"reads the {MODEL['embedding']} numbers of a character: how many of them differ, at most over all gates "
            "and units.",
        )

    def render(self, page: Page) -> None:
        drawn = self.figures()
        page.figure(
            drawn["loss"], "The loss from each start",
            f"Of a character, in nats, with seed {self.seeds[0]}. Dotted: a network of one unit, drawn as "
            "usual. Equal units can compute no more than one, but each step of Adam moves all of them.",
        ).table(*self.table(self.measured))  # fmt: skip
        page.figure(
            drawn["distinct"], "How many units there are",
            "That differ in at least one bit of one weight, before each of the first updates. Zeros are in the table.",
        )  # fmt: skip
        page.heading("In every cell").text(
            f"The most units that ever differed in {counted(self.updates, 'update')}, of {self.hidden} that began "
            "alike."
        )
        page.table(
            ["cell", *(STARTS[start].label for start in ALIKE)],
            [[cell["label"], *cell["most"].values()] for cell in self.measured["cells"]],
        )

    def figures(self) -> dict[str, Any]:
        loss = figure(460, hovermode="x")
        for one in (one for one in self.begun if one.seed == self.seeds[0]):
            start = STARTS[one.start]
            loss.add_scatter(
                x=one.curve.steps, y=one.curve.losses, name=start.label,
                line={"color": start.colour, "dash": start.dash, "width": 1.8},
            )  # fmt: skip
        loss.update_xaxes(title_text="updates").update_yaxes(title_text="loss", range=[1.5, 5])
        parting = figure(340, hovermode="x")
        for name in ("good", "equal", "equal-layer"):
            one, start = self.of(name), STARTS[name]
            shown = one.distinct[:11]
            parting.add_scatter(
                x=list(range(len(shown))), y=shown, name=start.label, mode="lines+markers",
                line={"color": start.colour, "dash": start.dash, "width": 1.8},
            )  # fmt: skip
        parting.update_xaxes(title_text="updates").update_yaxes(
            title_text="different units", range=[0, self.hidden + 2]
        )
        return {"loss": loss, "distinct": parting}


QUICK = {"cells": ("rnn", "lstm", "gru"), "lines": 1280, "epochs": 2, "seeds": 1}
HELP = help_text(
    "Weights that begin as zero, all equal, tiny, huge and as usual: what is learned, and which units part.",
    "initialisation",
    "--hidden 64 --out beginnings",
)


def run(
    cells: Sequence[str] | None = None,
    *,
    hidden: Annotated[int, Option("Units of the layer.", "H", minimum=1)] = 32,
    lines: int = 3200,
    epochs: Annotated[int, Option("Epochs of each training of the LSTM.", "N", minimum=1)] = 5,
    seed: Seed = 0,
    seeds: Seeds = 5,
) -> Initialisation:
    """Train an LSTM from every start, and each of `cells` from the two in which all units are alike.

    `cells` are by default all that are registered; `lines` are those of the corpus, 64 to an update.
    """
    check_counts(hidden=hidden, lines=lines, epochs=epochs, seeds=seeds)
    cells = tuple(CELLS) if cells is None else cells
    wrong = [cell for cell in cells if cell not in CELLS]
    if wrong or not cells:
        raise ArgumentError(f"cells must be some of {', '.join(CELLS)}; got {', '.join(wrong) or 'none'}")
    clock = Clock()
    numbers = tuple(seed_numbers(seed, seeds))
    with corpus(lines, seed) as dates:
        begun = tuple(
            begin(dates, name, epochs=epochs, seed=number, hidden=start.hidden or hidden)
            for number in numbers
            for name, start in STARTS.items()
        )
        linear = pair_perplexity(*(dates.folder / f"{part}.txt" for part in ("train", "dev")))
    with corpus(max(1, lines // 2), seed) as dates:
        most = {
            cell: {
                name: max(begin(dates, name, cell=cell, epochs=1, seed=seed, hidden=hidden).distinct) for name in ALIKE
            }
            for cell in cells
        }
    updates = math.ceil(max(1, lines // 2) / 64)
    return Initialisation(begun, most, linear, updates, hidden, numbers, clock.seconds)


def pair_perplexity(train: Path, dev: Path) -> float:
    """Of `dev`, a line at a time with its end, by the counts of pairs of characters in `train`, one added to each.

    No linear layer that reads the last character alone can do better, as far as `train` is like `dev`.
    """

    def pairs(path: Path) -> Iterator[tuple[str, str]]:
        for line in path.read_text("utf-8").splitlines():
            yield from itertools.pairwise(["", *line, ""])

    counts = Counter(pairs(train))
    first = Counter(before for before, _ in counts.elements())
    symbols = len({after for _, after in counts})
    losses = [-math.log((counts[pair] + 1) / (first[pair[0]] + symbols)) for pair in pairs(dev)]
    return math.exp(sum(losses) / len(losses))


def begin(dates: Corpus, start: str, **settings: Any) -> Begun:
    """Train from one start, and count units on the way."""
    distinct: list[int] = []
    stuck: list[float] = []
    weights: list[int] = []
    lstm = settings.get("cell", "lstm") == "lstm"

    def watch(network: LanguageNetwork) -> None:
        if not stuck:
            stuck.append(saturation(network))
        distinct.append(different_units(network))
        if lstm:
            weights.append(different_weights(network))

    network, curve = dates.train(STARTS[start], watch, **settings)
    apart = from_one_unit(network) if lstm and start in ALIKE else 0.0
    return Begun(start, settings["seed"], curve, tuple(distinct), stuck[0], tuple(weights), apart)


def different_units(network: LanguageNetwork) -> int:
    """How many units of a model with one layer differ in at least one bit of what belongs to them.

    >>> from carousel.data import Vocabulary
    >>> from carousel.tasks.lm.data import LanguageAssets
    >>> from carousel.tasks.lm.settings import LanguageSettings
    >>> assets = LanguageAssets(Vocabulary.train(["abba"]))
    >>> network = LanguageNetwork(LanguageSettings(train="-", hidden=6, tied=False), assets)
    >>> different_units(network)
    6
    >>> with torch.no_grad():
    ...     STARTS["equal"](network)
    >>> different_units(network)
    1
    """
    layer = network.layers
    own = layer._parameters_of(0, 0)
    parts = [
        own[name].detach().unflatten(axis, (-1, layer.hidden_size)).movedim(axis + 1, 0).flatten(1)
        for name, axes in unit_axes(layer.cell).items()
        for axis in axes
    ]
    return len(torch.unique(torch.cat(parts, 1), dim=0))


def different_weights(network: LanguageNetwork) -> int:
    """How many different weights one gate of one unit has for its inputs: the most over all gates and units."""
    ordered = network.layers._parameters_of(0, 0)["weight_ih"].detach().sort(1).values
    return 1 + int((ordered.diff(dim=1) != 0).sum(1).max())


@torch.no_grad()
def from_one_unit(network: LanguageNetwork) -> float:
    """How far an LSTM whose units are alike is from one unit with the sum of their recurrent and output weights.

    Both read every character once; compared is what the output layer makes of h, relative to the largest.
    """
    layer = network.layers
    own, one = layer._parameters_of(0, 0), LSTM(layer.input_size, 1)
    for name, weight in one._parameters_of(0, 0).items():
        first = own[name][:: layer.hidden_size]  # the first unit's, gate by gate
        weight.copy_(first.sum(1, keepdim=True) if name == "weight_hh" else first)
    x = network.embedder(torch.arange(len(network.embedder.weight)).unsqueeze(1))
    many, single = layer(x)[0] @ network.output.T, one(x)[0] @ network.output.sum(1, keepdim=True).T
    return float((many - single).abs().max() / many.abs().max().clamp(min=1e-30))


def unit_axes(cell: Cell) -> dict[str, list[int]]:
    """Of each parameter the dimensions that run over the units, or over the units of each gate.

    >>> unit_axes(CELLS["lstm"].cell)
    {'weight_ih': [0], 'weight_hh': [0, 1], 'bias_ih': [0], 'bias_hh': [0]}
    """
    hidden = 5040  # divisible by any likely number of blocks, and unlike any other size
    specs = cell.parameters(Sizes(10007, hidden, hidden)).items()
    shapes = {name: spec.shape if isinstance(spec, ParameterSpec) else spec for name, spec in specs}
    return {name: [k for k, size in enumerate(shape) if size % hidden == 0] for name, shape in shapes.items()}


@torch.no_grad()
def saturation(network: LanguageNetwork) -> float:
    """The share of gates (between 0 and 1) that are shut or wide open when the model reads all of its characters."""
    tokens = torch.arange(len(network.embedder.weight)).unsqueeze(1)
    trace = network.layers.trace(network.embedder(tokens))
    gates = [trace.gates[name].flatten() for name in network.layers.cell.gates if opens(network.layers.cell, name)]
    every = torch.cat(gates) if gates else torch.full((1,), 0.5)  # an RNN has none
    return float(((every < SHUT) | (every > 1 - SHUT)).float().mean())
