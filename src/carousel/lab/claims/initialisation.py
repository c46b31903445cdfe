"""Weights that begin as zero, equal, tiny, huge: what is learned, and which units part."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import torch
from torch import Tensor, nn

from ...cells import Cell, ParameterSpec, Sizes
from ...errors import ArgumentError, check_counts
from ...pictures.gates import opens
from ...report import Page, figure
from ...tasks.lm.network import LanguageNetwork
from ..cells import CELLS
from ..learning import Corpus, Curve, corpus
from ..old_finding import Claim, Finding, Verdict
from ..options import Option, Seed
from ..words import listing, percent

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
    curve: Curve
    distinct: tuple[int, ...]  # the last after the last update
    saturated: float  # share of all gates that were shut or wide open, before the first update


@dataclass(frozen=True)
class Initialisation(Finding):
    """What :func:`run` gives."""

    name = "initialisation"
    title = "How weights begin"
    claim = Claim(
        "If the weights of a layer begin as zero, or all the same, its outputs are the same, and so are their "
        "derivatives; the weights stay the same, and the layer becomes no better than a linear one. If they are very "
        "small or very large, a sigmoid makes all of them 0 or 1, and learning is slow. Weights from ±1/√H, and 1 for "
        "the bias of the forget gate, work.",
        "002 Initialization",
        ("W_ij = w  ⇒  a_j = Σᵢ W_ij x_i is the same for all j", "W ~ U(−1/√H, 1/√H),  b_f = 1"),
    )

    begun: tuple[Begun, ...]
    cells: dict[str, dict[str, int]]  # cell → start → the most units that ever differed
    updates: int  # of each cell's training
    hidden: int
    seed: int
    seconds: float

    def of(self, start: str) -> Begun:
        return next(one for one in self.begun if one.start == start)

    @property
    def alike(self) -> bool:
        """Whether units that began alike, with equal weights after them too, never differed by a bit.

        Cells with buffers do not count: their units may differ by what is not a weight.
        """
        counts, sizes = [max(self.of(start).distinct) for start in ALIKE], Sizes(1, self.hidden, self.hidden)
        plain = [found for cell, found in self.cells.items() if not CELLS[cell].cell.buffers(sizes)]
        return max([*counts, *(most for found in plain for most in found.values())]) == 1

    def __str__(self) -> str:
        width = max(len(STARTS[one.start].label) for one in self.begun)
        lines = [f"{'an LSTM begins':{width}}  stuck gates  units after 1, all updates  loss  dev perplexity"]
        for one in self.begun:
            last = one.curve.losses[-1] if one.curve.losses else math.nan
            lines.append(
                f"{STARTS[one.start].label:{width}}  {percent(one.saturated):>11}  {one.distinct[1]:>13}"
                f"{one.distinct[-1]:>13}  {last:4.2f}  {one.curve.perplexity:14.2f}"
            )
        lines.append(f"units that ever differ in {self.updates} updates, of {self.hidden} that begin alike:")
        for cell, found in self.cells.items():
            lines.append(f"  {CELLS[cell].label:18}" + "".join(f"  {STARTS[s].label}: {n}" for s, n in found.items()))
        return "\n".join(lines)

    def lead(self) -> str:
        good, zero, equal = (self.of(name).curve.perplexity for name in ("good", "zero", "equal"))
        kept = "never differ by a single bit" if self.alike else "do come to differ"
        return (
            f"Units that begin alike {kept}, in {len(self.cells)} cells. An LSTM of {self.hidden} units ends at a "
            f"perplexity of {good:.2f} from the usual weights, {equal:.2f} from equal ones, {zero:.2f} from zeros."
        )

    def ran(self) -> Sequence[str]:
        return (
            f"A language model of {self.hidden} units, trained with Adam at 0.01, as the text's, on dates as people "
            "write them, character by character; the package makes them. Everything but the start is the same, the "
            "drawn vectors of the characters too. A gate is stuck if it is below 0.05 or above 0.95 as the fresh layer "
            "reads each character once.",
            "A unit is all of its weights: in each gate those from the input, those from the other units, its "
            "biases; and those by which the others listen to it. Before every update, and after the last, the units "
            "that differ are counted; a bit is enough.",
        )

    def tell(self, page: Page) -> None:
        drawn = self.figures()
        page.figure(
            drawn["loss"], "The loss from each start",
            "Of a character, in nats. Dotted: a network of one unit, which is what equal units amount to.",
        )  # fmt: skip
        page.table(
            ["an LSTM begins", "stuck gates", "units after one update", "at the end", "loss", "dev perplexity"],
            [[STARTS[one.start].label, percent(one.saturated), one.distinct[1], one.distinct[-1],
              f"{one.curve.losses[-1]:.3f}", f"{one.curve.perplexity:.2f}"] for one in self.begun],
        )  # fmt: skip
        page.figure(
            drawn["distinct"], "How many units there are",
            "That differ in at least one bit of one weight, before each of the first updates. Zeros are in the table.",
        )  # fmt: skip
        page.heading("In every cell").text(
            f"The most units that ever differed in {self.updates} updates, of {self.hidden} that began alike."
        )
        page.table(
            ["cell", *(STARTS[start].label for start in ALIKE)],
            [[CELLS[cell].label, *found.values()] for cell, found in self.cells.items()],
        )

    def verdict(self) -> Verdict:
        if not self.alike:
            return Verdict(False, "Units that began alike came to differ; look at the tables.")
        parted = [name for name in ("zero-layer", "equal-layer") if self.of(name).distinct[1] > 1]
        equal, one, zero, good, tiny, huge = (self.of(n) for n in ("equal", "one", "zero", "good", "tiny", "huge"))
        said = [
            "In parts. Units that begin alike stay alike to the last bit, in every cell, as the text says"
            + (
                "; but only if what listens to them is alike too. With drawn weights in the output layer alone they "
                f"part at the first update, and the network learns (perplexity "
                f"{listing(f'{self.of(name).curve.perplexity:.2f}' for name in parted)})."
                if parted
                else "."
            ),
            f"What stays alike is a network of one unit, not a linear one: equal weights end at "
            f"{equal.curve.perplexity:.2f}, a single unit at {one.curve.perplexity:.2f}; zeros, through which no "
            f"gradient comes, at {zero.curve.perplexity:.2f}, and the usual weights at {good.curve.perplexity:.2f}.",
            f"Very large weights do leave gates stuck ({percent(huge.saturated, 0)} of them) and end at "
            f"{huge.curve.perplexity:.2f}. Very small ones do not: σ(0) is ½, where its slope is largest, and "
            f"{percent(tiny.saturated, 0)} of the gates are stuck; with Adam, whose steps do not shrink with the "
            f"gradient, they end at {tiny.curve.perplexity:.2f}.",
        ]
        return Verdict(False, " ".join(said))

    def figures(self) -> dict[str, Any]:
        loss = figure(460, hovermode="x")
        for one in self.begun:
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

    def numbers(self) -> dict[str, Any]:
        told = [
            {"start": one.start, **vars(one.curve), "distinct": one.distinct, "saturated": one.saturated}
            for one in self.begun
        ]
        return {
            "starts": told,
            "most_distinct_by_cell": self.cells,
            **{name: getattr(self, name) for name in ("updates", "hidden", "seed", "seconds")},
        }


HELP = """Weights that begin as zero, all equal, tiny, huge and as usual: what is learned, and which units part.

\b
carousel lab initialisation
carousel lab initialisation --hidden 64 --out beginnings
"""


def run(
    cells: Sequence[str] | None = None,
    *,
    hidden: Annotated[int, Option("Units of the layer.", "H", minimum=1)] = 32,
    lines: int = 3200,
    epochs: Annotated[int, Option("Epochs of each training of the LSTM.", "N", minimum=1)] = 5,
    seed: Seed = 0,
) -> Initialisation:
    """Train an LSTM from every start, and each of `cells` from the two in which all units are alike.

    `cells` are by default all that are registered; `lines` are those of the corpus, 64 to an update.
    """
    check_counts(hidden=hidden, lines=lines, epochs=epochs)
    cells = tuple(CELLS) if cells is None else cells
    wrong = [cell for cell in cells if cell not in CELLS]
    if wrong or not cells:
        raise ArgumentError(f"cells must be some of {', '.join(CELLS)}; got {', '.join(wrong) or 'none'}")
    began = time.perf_counter()
    with corpus(lines, seed) as dates:
        begun = tuple(
            begin(dates, name, epochs=epochs, seed=seed, hidden=start.hidden or hidden)
            for name, start in STARTS.items()
        )
    with corpus(max(1, lines // 2), seed) as dates:
        found = {
            cell: {
                name: max(begin(dates, name, cell=cell, epochs=1, seed=seed, hidden=hidden).distinct) for name in ALIKE
            }
            for cell in cells
        }
    updates = math.ceil(max(1, lines // 2) / 64)
    return Initialisation(begun, found, updates, hidden, seed, time.perf_counter() - began)


def begin(dates: Corpus, start: str, **settings: Any) -> Begun:
    """Train from one start, and count units on the way."""
    distinct: list[int] = []
    stuck: list[float] = []

    def watch(network: LanguageNetwork) -> None:
        if not stuck:
            stuck.append(saturation(network))
        distinct.append(different_units(network))

    _, curve = dates.train(STARTS[start], watch, **settings)
    return Begun(start, curve, tuple(distinct), stuck[0])


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
