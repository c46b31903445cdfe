"""How much of a gradient is left after k steps, in every cell."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import torch
from torch import Tensor

from ...cells import Cell, registry
from ...errors import ArgumentError, check_counts
from ...inspect import LayerReading, read_layers
from ...layers import RNN, Recurrent
from ...report import Page, figure
from ...wording import counted
from ..cells import CELLS, sigmoid_rnn
from ..claim import SOURCES, Claim, Numbers, Verdict, by_case, fails, holds, undecided
from ..derivatives import StepDerivatives, apart
from ..finding import Exercise, Finding, Step, Table
from ..measured import Clock
from ..options import Hidden, Option, Seed, Seeds, seed_numbers
from ..words import listing, percent, power, raised

GONE = -6.0  # as a power of ten: from here on nothing can be learned
FORGOTTEN = 0.01  # of what a changed input changes in the output at once: from here on it is forgotten
BOUND = "#8a929c"  # the colour of the bound in the figure, which no cell has
PLACES = 4  # at which an input is changed
SMALL = 0.5  # a norm of W_h at which the bound falls below 10⁻⁶ within 20 steps, with any slopes


@dataclass(frozen=True)
class Fading:
    """One network: log₁₀ of the norms of ∂h_t/∂h_{t−k} and ∂h_t/∂c_{t−k}, for k = 1, 2, …, and the bound if any."""

    label: str
    colour: str
    dash: str
    h: tuple[float, ...]
    c: tuple[float, ...] = ()
    bound: tuple[float, ...] = ()

    @property
    def excess(self) -> float | None:
        """The most that the norm is above the bound, as a power of ten; None: the bound is for plain RNNs."""
        pairs = zip(self.h, self.bound, strict=True)
        return max((size - limit for size, limit in pairs), default=0.0) if self.bound else None


def horizon(sizes: Sequence[float]) -> int | None:
    """The first k from which on the norm stays below 10⁻⁶; None: it does not within the steps there are.

    >>> horizon([-1.0, -7.0, -5.0, -8.0]), horizon([-1.0])
    (4, None)
    """
    last = max((k for k, size in enumerate(sizes) if size >= GONE), default=-1)
    return None if last + 1 == len(sizes) else last + 2


@dataclass(frozen=True)
class Memory:
    """What changing one input leaves of its effect on a model's output k steps later: left[k], 1 at k = 0."""

    left: tuple[float, ...]
    source: str

    @property
    def horizon(self) -> int | None:
        """The first k from which on less than a hundredth is left; None if there is more at the last."""
        last = max(k for k, share in enumerate(self.left) if share >= FORGOTTEN)
        return None if last + 1 == len(self.left) else last + 1

    def __str__(self) -> str:
        shown = ", ".join(f"{percent(self.left[k])} after {k}" for k in (1, 5, 10, 20, 50, 100) if k < len(self.left))
        end = (
            f"under 1 % from {self.horizon} on"
            if self.horizon
            else f"more than 1 % after {len(self.left) - 1}, the last"
        )
        return f"the model remembers a changed input: {shown} steps; {end}"


def _step(numbers: Numbers, tolerance: float) -> Verdict:
    forms = numbers["forms"]
    exact = f"to {power(forms['with_sigmoid'])}" if forms["with_sigmoid"] else "exactly"
    text = (
        f"The derivative of equation 64 as printed, by autograd, is {percent(forms['with_slope'], 0)} off equation 65; "
        f"with σ in the place of σ′ they agree {exact}. The W_x of equations 64, 65, 67 and 68 is the W_e of §4 "
        "and §5."
    )
    return holds(text) if forms["with_slope"] <= tolerance else fails(text)


def _product(numbers: Numbers, tolerance: float) -> Verdict:
    forms = numbers["forms"]
    text = (
        f"Over {forms['steps']} steps equation 67 is {percent(forms['gathered'], 0)} off the product of equation 66, "
        "because diagonal matrices and W_h do not commute; with the factors in their order the difference is "
        f"{power(forms['in_order'])}."
    )
    return holds(text) if forms["gathered"] <= tolerance else fails(text)


def _bound(numbers: Numbers, tolerance: float) -> Verdict:
    bounded = [one for one in _every(numbers) if one["log10_excess"] is not None]
    above = [one["label"] for one in bounded if one["log10_excess"] > tolerance]
    if above:
        return fails(f"The norm is above the bound in {listing(above)}.")
    shorter = [one for one in bounded if len(one["log10_h"]) < numbers["steps"]]
    rest = "".join(f"; {one['label']}: up to {len(one['log10_h']):,}" for one in shorter)
    return holds(
        f"In {len(bounded)} plain RNNs, the fresh ones with {counted(len(numbers['seeds']), 'random seed')} each, the "
        f"norm is never above the bound, for any k that was run: up to {numbers['steps']:,}{rest}."
    )


def _eigenvalues(numbers: Numbers, tolerance: float) -> Verdict:
    kept = [one for one in numbers["counterexamples"] if max(one["log10_h"]) >= -tolerance]
    if not kept:
        return undecided("None of the counterexamples was run far enough.")
    fresh = numbers["fresh"]
    necessary = "It is not necessary: that" if fresh["gain"] > 1 and fresh["last"] < 0 else "That"
    return fails(
        f"No eigenvalue is above 1, and yet {'; '.join(map(_growth, kept))}. What is sufficient is that the largest "
        f"singular value of W_h times the largest slope is below 1. {necessary} product is {fresh['gain']:.2f} in the "
        f"fresh RNN of seed {numbers['seeds'][0]}, whose gradient falls to {_size(fresh['last'])}, and above 1 in "
        f"{fresh['above']} of {fresh['of']} fresh RNNs."
    )


def _growth(one: Numbers) -> str:
    sizes = one["log10_h"]
    peak = max(range(len(sizes)), key=lambda k: sizes[k])
    if sizes[peak] < 0.01:
        return f"in {one['label']} the norm is {_size(sizes[-1])} after {len(sizes)} steps"
    return f"in {one['label']} it grows to {_size(sizes[peak])}, at k = {peak + 1}"


def _small_weights(numbers: Numbers, tolerance: float) -> Verdict:
    if numbers["steps"] < tolerance:
        return undecided(f"The gradient was followed for {numbers['steps']} steps only.")
    rows = numbers["small"]
    ends = listing(f"{label} {_spread(ks, numbers['steps'])}" for label, ks in rows.items())
    text = f"With ‖W_h‖ = {SMALL:g} the norm is below 10⁻⁶ from this k on: {ends}."
    return by_case({label: [k is not None and k <= tolerance for k in ks] for label, ks in rows.items()}, text)


def answer(numbers: Numbers) -> str:
    """What source 004 asks, answered by the run: what the gradients of fresh RNNs do."""
    rnns = [one for one in numbers["networks"] if one["label"] in numbers["rnns"]]
    lost = [one["label"] for one in rnns if None not in one["horizons_h"]]
    seeds = counted(len(numbers["seeds"]), "random seed")
    last = listing(f"{one['label']} {_spread(one['horizons_h'], numbers['steps'])}" for one in rnns)
    text = f"The norm stays below 10⁻⁶ from this k on, over {seeds}: {last}."
    if not lost:
        return f"In fresh RNNs they do not vanish within {numbers['steps']:,} steps with every seed. {text}"
    return f"They vanish, with every seed, in these fresh networks: {listing(lost)}. {text}"


def _every(numbers: Numbers) -> list[dict[str, Any]]:
    trained = [] if numbers["trained"] is None else [numbers["trained"]]
    return [*numbers["networks"], *trained, *numbers["counterexamples"]]


def _spread(horizons: Sequence[int | None], steps: int) -> str:
    """The first k of each seed: the smallest and the largest.

    >>> _spread([19, 22], 100), _spread([30], 100), _spread([90, None], 100), _spread([None], 100)
    ('19 to 22', '30', '90 to more than 100', 'not within 100')
    """
    known = [k for k in horizons if k is not None]
    if not known:
        return f"not within {steps:,}"
    high = f"{max(known):,}" if len(known) == len(horizons) else f"more than {steps:,}"
    return high if len(horizons) == 1 or str(min(known)) == high else f"{min(known):,} to {high}"


@dataclass(frozen=True)
class Vanishing(Finding):
    """What :func:`run` gives."""

    name = "vanishing"
    title = "How fast a gradient vanishes"
    claims = (
        Claim(
            "step",
            "To make a formal definition of vanishing gradients, recall that from RNNs,",
            "003 §10, equations 64 and 65",
            "the derivative of equation 64 is equation 65, to {tolerance}, relative to the largest entry.",
            _step,
            tolerance=1e-10,
            printed=(
                r"h^{(t)} = \sigma'(W_h \cdot h^{(t-1)} + W_x \cdot x^{(t)} + b_1)",
                r"\frac{\partial h^{(t)}}{\partial h^{(t-1)}} = "
                r"\text{diag}(\sigma'(W_h \cdot h^{(t-1)} + W_x \cdot x^{(t)} + b_1)) W_h",
            ),
            corrected=(r"h^{(t)} = \sigma(W_h \cdot h^{(t-1)} + W_e \cdot x^{(t)} + b_1)",),
        ),
        Claim(
            "product",
            "Consider the gradient of loss J^{(i)}(θ) on step i , with respect to the hidden state h^{(j)} on the same "
            "previous step j :",
            "003 §10, equations 66 and 67",
            "the product of equation 66, from some previous step j to step i, is that of equation 67, to {tolerance}.",
            _product,
            tolerance=1e-10,
            printed=(
                r"\frac{\partial J^{(i)}(\theta)}{\partial h^{(j)}} = "
                r"\frac{\partial J^{(i)}(\theta)}{\partial h^{(i)}} \cdot \prod_{j < t \leq i} "
                r"\frac{\partial h^{(t)}}{\partial h^{(t-1)}}",
                r"= \frac{\partial J^{(i)}(\theta)}{\partial h^{(i)}} \cdot W_h^{(i-j)} \prod_{j < t \leq i} "
                r"\text{diag}(\sigma'(W_h \cdot h^{(t-1)} + W_x \cdot x^{(t)} + b_1))",
            ),
            corrected=(
                r"\prod_{j < t \leq i} \frac{\partial h^{(t)}}{\partial h^{(t-1)}} = "
                r"\prod_{j < t \leq i} \left[\text{diag}(\sigma'(W_h \cdot h^{(t-1)} + W_e \cdot x^{(t)} + b_1)) "
                r"W_h\right]",
            ),
        ),
        Claim(
            "small",
            "So, if W_h is small, then this term gets vanishingly small as i and j get further apart.",
            "003 §10",
            f"with every random seed, an RNN with ‖W_h‖ = {SMALL:g}, with tanh and with σ, has a norm below 10⁻⁶ from "
            "k = {tolerance} on at the latest.",
            _small_weights,
            tolerance=20,
            seeds=5,
        ),
        Claim(
            "bound",
            "Consider L2 matrix norms,",
            "003 §10, equation 68",
            "the norm of the product is at most the bound, for every k, to {tolerance} as a power of ten.",
            _bound,
            tolerance=1e-9,
            seeds=5,
            printed=(
                r"\left\| \frac{\partial J^{(i)}(\theta)}{\partial h^{(j)}} \right\| \leq "
                r"\left\| \frac{\partial J^{(i)}(\theta)}{\partial h^{(i)}} \right\| \cdot \|W_h\|^{(i-j)} \cdot "
                r"\prod_{j < t \leq i} \left\| \text{diag}(\sigma'(W_h \cdot h^{(t-1)} + W_x \cdot x^{(t)} + b_1)) "
                r"\right\|",
            ),
        ),
        Claim(
            "eigenvalues",
            "If the max_{λ_i} λ_i ≤ 1 then the gradient will shrink exponentially.",
            "003 §10",
            "it fails if in one RNN without an eigenvalue above 1 the norm is 1 or more at some k, to {tolerance} as "
            "a power of ten.",
            _eigenvalues,
            tolerance=0.01,
            printed=(r"\max_{\lambda_i} \lambda_i \leq 1",),
            corrected=(r"\|W_h\|_2 \cdot \max \sigma' < 1",),
        ),
    )
    derivation = (
        Step(
            "One step, for the notes' network with σ, against autograd.",
            r"\frac{\partial h^{(t)}}{\partial h^{(t-1)}} = \text{diag}(\sigma'(\cdot)) W_h",
            "one_step",
            1e-12,
        ),
        Step(
            "Several steps: the chain rule multiplies them, the last one on the left.",
            r"\frac{\partial h^{(i)}}{\partial h^{(j)}} = \prod_{j < t \leq i} \text{diag}(\sigma'(\cdot)) W_h",
            "in_order",
            1e-12,
        ),
        Step(
            "The norm of a product is at most the product of the norms. The run compares them as powers of ten.",
            r"\left\|\frac{\partial h^{(i)}}{\partial h^{(j)}}\right\| \leq \|W_h\|^{i-j} "
            r"\prod_{j < t \leq i} \|\text{diag}(\sigma'(\cdot))\|",
            "bound",
            1e-9,
            inequality=True,
        ),
    )
    exercises = (
        Exercise(
            "The slope of σ is at most ¼, that of tanh at most 1. What does equation 68 say of an RNN whose "
            "\\(\\|W_h\\|\\) is 2, with either?",
            "With σ the gradient falls at least by half at every step, whatever the input. With tanh the bound grows "
            "as \\(2^k\\) and says nothing.",
        ),
        Exercise(
            "\\(W = 10 \\begin{bmatrix} 1 & -1 \\\\ 1 & -1 \\end{bmatrix}\\) has no eigenvalue but 0. What are the "
            "eigenvalues of \\(\\text{diag}(s_1, s_2) W\\)?",
            "0 and \\(10 (s_1 - s_2)\\). With slopes ¼ and 0.01 the second is 2.4: the gradient grows by that factor "
            "at every step, in the notes' own network.",
        ),
    )
    code = """
import torch
import carousel
from carousel.lab.claims.vanishing import fade

layer = carousel.LSTM(8, 16, dtype=torch.float64)
fading = fade(layer, torch.randn(100, 1, 8, dtype=torch.float64), "LSTM", "#0072b2")
print(10 ** fading.h[9], 10 ** fading.h[99])      # the norm over 10 and over 100 steps
figure = carousel.lab.vanishing(30, hidden=4, seeds=1).plot()
"""

    cells: tuple[Fading, ...]  # fresh networks, of the first seed
    horizons: dict[str, list[tuple[int | None, int | None]]]  # of each label, of each seed: through h, through c
    excesses: dict[str, float]  # of plain RNNs, the largest of all seeds
    small: dict[str, list[int | None]]  # horizons of RNNs with small weights
    counter: tuple[Fading, ...]  # RNNs without an eigenvalue above 1
    trained: Fading | None  # the first layer of a model
    memory: Memory | None  # of all its layers
    forms: dict[str, float]
    fresh: dict[str, float]
    steps: int
    hidden: int
    seeds: tuple[int, ...]
    seconds: float

    def numbers(self) -> dict[str, Any]:
        def saved(one: Fading) -> dict[str, Any]:
            own = self.horizons.get(one.label, [(horizon(one.h), horizon(one.c) if one.c else None)])
            return {
                "label": one.label, "log10_h": _finite(one.h), "log10_c": _finite(one.c),
                "log10_bound": list(one.bound),
                "log10_excess": self.excesses.get(one.label, one.excess), "horizons_h": [h for h, _ in own],
                "horizons_c": [c for _, c in own] if one.c else [],
            }  # fmt: skip

        bounds = [*self.excesses.values(), *(one.excess for one in self.counter if one.excess is not None)]
        derivation = {"one_step": self.forms["with_sigmoid"], "in_order": self.forms["in_order"]}
        return {
            "networks": [saved(one) for one in self.cells],
            "counterexamples": [saved(one) for one in self.counter],
            "trained": None if self.trained is None else saved(self.trained),
            "memory": None if self.memory is None else {**vars(self.memory), "horizon": self.memory.horizon},
            "small": self.small, "rnns": [CELLS["rnn"].label, sigmoid_rnn().label],
            "forms": self.forms, "fresh": self.fresh, "steps": self.steps, "hidden": self.hidden, "seeds": self.seeds,
            "seconds": self.seconds, "derivation": {**derivation, "bound": max(0.0, *bounds)},
        }  # fmt: skip

    @staticmethod
    def lead(numbers: Numbers) -> str:
        by_label = {one["label"]: one for one in numbers["networks"]}
        rnn, lstm = (_spread(by_label[label]["horizons_h"], numbers["steps"]) for label in (numbers["rnns"][0], "LSTM"))
        return (
            f"In fresh networks of {numbers['hidden']} units the norm of the gradient stays below a millionth from "
            f"step {rnn} on in an RNN with tanh and from step {lstm} on in an LSTM, over "
            f"{counted(len(numbers['seeds']), 'random seed')}."
        )

    @staticmethod
    def table(numbers: Numbers) -> Table:
        ks = [k for k in (1, 10, 100, 1000) if k <= numbers["steps"]]
        rows = []
        for one in _every(numbers):
            sizes = one["log10_h"]
            rows.append(
                [
                    one["label"],
                    *(_size(sizes[k - 1]) if k <= len(sizes) else "" for k in ks),
                    _spread(one["horizons_h"], len(sizes)),
                    _spread(one["horizons_c"], len(sizes)) if one["horizons_c"] else "",
                ]
            )
        heads = [f"k = {k}" for k in ks]
        return ["‖∂h_t/∂h_{t−k}‖", *heads, "below 10⁻⁶ from k =", "‖∂h_t/∂c_{t−k}‖ from k ="], rows

    def __str__(self) -> str:
        text = super().__str__()
        return text if self.memory is None else f"{text}\n{self.memory}"

    @property
    def every(self) -> tuple[Fading, ...]:
        return (*self.cells, *(() if self.trained is None else (self.trained,)))

    def setup(self) -> Sequence[str]:
        texts = [
            f"Fresh layers of {self.hidden} units, with the weights they have by default, read {self.steps} random "
            "inputs. The derivative over k steps is the product of k one-step derivatives, each by the cell's own "
            "closed form, or by autograd if it has none; of an LSTM, by h and c together. Its norm is its largest "
            "singular value. Float64; the product is rescaled as it goes, so that it cannot underflow. Norms at a k "
            f"and figures are of seed {self.seeds[0]}; the k from which on the norm stays below 10⁻⁶ is of every seed "
            f"({len(self.seeds)}), the smallest and the largest.",
            "Three RNNs have no eigenvalue above 1: one whose W is a rotation (tanh, input zero); one whose W has the "
            "eigenvalue 0.9 only, with ones everywhere above the diagonal (tanh, input zero); and one of two units "
            "with σ whose W has the eigenvalue 0 only, driven so that its slopes are ¼ and 0.01.",
        ]
        if self.trained is not None and self.memory is not None:
            texts.append(
                f"And {self.trained.label}, forward, reading {self.memory.source}; the derivative is over the longest, "
                "and k goes as far as that. What all its layers remember is measured by changing one input, at "
                f"{PLACES} places of each sequence, to another of the same sequence: how much of the change in the "
                "output is left k steps later (the median, as a part of the change at the step itself)."
            )
        return texts

    def render(self, page: Page) -> None:
        drawn = self.figures()
        page.figure(
            drawn["fading"], "How much of a gradient is left after k steps",
            "‖∂h_t/∂h_{t−k}‖ above and ‖∂h_t/∂c_{t−k}‖ below, as powers of ten. Grey: the bound, for the RNN.",
        )  # fmt: skip
        page.quote(
            "“What will the gradients do?”",
            f"{SOURCES['004']} (source 004), “RNNs are awful at learning long-term patterns.”",
        ).text(answer(self.measured))
        page.figure(drawn["eigenvalues"], "No eigenvalue above 1", "Three RNNs whose gradient does not shrink at once.")
        if "memory" in drawn:
            page.figure(drawn["memory"], "What the model remembers of an input", f"In short: {self.memory}.")
        page.heading("All of them").table(*self.table(self.measured))

    def figures(self) -> dict[str, Any]:
        titles = ["through h", "through the cell c"]
        fading = figure(560, titles, hovermode="x")
        for one in self.every:
            line = {"color": one.colour, "dash": one.dash, "width": 1.8}
            ks = spread(len(one.h))
            for row, values in ((1, _finite(one.h)), (2, _finite(one.c))):
                if values:
                    fading.add_scatter(
                        x=ks, y=[values[k - 1] for k in ks], name=one.label, legendgroup=one.label,
                        showlegend=row == 1, line=line, hovertemplate="10^%{y:.1f}", row=row, col=1,
                    )  # fmt: skip
        bound = next(one for one in self.cells if one.bound)
        ks = spread(len(bound.h))
        fading.add_scatter(
            x=ks, y=[bound.bound[k - 1] for k in ks], name="the RNN's bound",
            line={"color": BOUND, "dash": "longdashdot", "width": 1.8}, row=1, col=1,
        )  # fmt: skip
        fading.update_yaxes(range=[-40, 20], title_text="log₁₀")
        fading.update_xaxes(type="log", range=[0, math.log10(self.steps)], dtick=1)
        fading.update_xaxes(title_text="steps k", row=2, col=1)
        eigen = figure(340, hovermode="x")
        for one in self.counter:
            ks = spread(len(one.h))
            eigen.add_scatter(
                x=ks, y=[one.h[k - 1] for k in ks], name=one.label, line={"color": one.colour},
                hovertemplate="10^%{y:.1f}",
            )  # fmt: skip
        eigen.update_xaxes(title_text="steps k", type="log", range=[0, math.log10(self.steps)], dtick=1)
        eigen.update_yaxes(title_text="log₁₀")
        drawn = {"fading": fading, "eigenvalues": eigen}
        if self.memory is not None:
            shown = [max(share, 1e-8) for share in self.memory.left]
            memory = figure(320, hovermode="x", showlegend=False)
            memory.add_scatter(x=list(range(len(shown))), y=shown, line={"color": "#b30000"})
            memory.add_hline(y=FORGOTTEN, line={"color": "#aeb6c0", "dash": "dot", "width": 1.5})
            memory.update_yaxes(type="log", dtick=1, exponentformat="power", title_text="left")
            drawn["memory"] = memory.update_xaxes(title_text="steps k")
        return drawn


QUICK = {"steps": 300}
HELP = """How much of a gradient is left after k steps, in every cell, with the bound of the notes.

\b
carousel lab vanishing
# and in a trained model
carousel lab vanishing --run demo-dates/run --out vanishing
"""


def run(
    steps: Annotated[int, Option("How far back.", "K", minimum=1)] = 1000,
    *,
    hidden: Hidden = 16,
    inputs: int = 8,
    model: Any = None,
    data: Any = None,
    seed: Seed = 0,
    seeds: Seeds = 5,
) -> Vanishing:
    """Follow the derivative back through `steps` steps, in every cell, and if given in the first layer of `model`.

    The model reads the file `data`; without it, its own dev or training file.

    >>> result = run(40, hidden=4, seeds=1)
    >>> len(result.cells), max(one.excess for one in result.cells if one.bound) <= 1e-9
    (9, True)
    """
    check_counts(steps=steps, hidden=hidden, inputs=inputs, seeds=seeds)
    clock = Clock()
    numbers = tuple(seed_numbers(seed, seeds))
    horizons: dict[str, list[tuple[int | None, int | None]]] = {}
    first: list[Fading] = []
    excesses: dict[str, float] = {}
    small: dict[str, list[int | None]] = {}
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        reading = None if model is None else read_layers(model, data)  # first: an unusable model is an error
        for number in numbers:
            torch.manual_seed(number)
            networks = fresh_networks(steps, hidden, inputs)
            first = first or networks
            for one in networks:
                horizons.setdefault(one.label, []).append((horizon(one.h), horizon(one.c) if one.c else None))
                if one.excess is not None:
                    excesses[one.label] = max(one.excess, excesses.get(one.label, -math.inf))
            for one in small_networks(min(steps, 100), hidden, inputs):
                small.setdefault(one.label, []).append(horizon(one.h))
        trained, memory = (None, None) if reading is None else (fade_first(reading), remember(reading))
        torch.manual_seed(seed)
        counter = counterexamples(steps, hidden, inputs)
        forms, fresh = check_forms(hidden), gains(hidden, inputs, seed, first[0])
    return Vanishing(
        tuple(first), horizons, excesses, small, counter, trained, memory, forms, fresh, steps, hidden, numbers,
        clock.seconds,
    )  # fmt: skip


def fresh_networks(steps: int, hidden: int, inputs: int) -> list[Fading]:
    """Every cell with fresh weights, the notes' RNN with σ, and an RNN with large weights, on one random input."""
    x = torch.randn(steps, 1, inputs, dtype=torch.float64)
    kinds = [*CELLS.values(), sigmoid_rnn()]
    networks = [
        fade(kind.layer(inputs, hidden, dtype=torch.float64), x, kind.label, kind.colour, kind.dash) for kind in kinds
    ]
    wild = RNN(inputs, hidden, dtype=torch.float64)
    with torch.no_grad():
        wild.get_parameter("weight_hh_l0").mul_(8)
    return [*networks, fade(wild, x, "RNN, W_h × 8", "#1c2430", "dashdot")]


def small_networks(steps: int, hidden: int, inputs: int) -> list[Fading]:
    """RNNs with tanh and with σ whose recurrent weights have the norm SMALL."""
    x = torch.randn(steps, 1, inputs, dtype=torch.float64)
    networks = []
    for kind in (CELLS["rnn"], sigmoid_rnn()):
        layer = kind.layer(inputs, hidden, dtype=torch.float64)
        with torch.no_grad():
            weight = layer.get_parameter("weight_hh_l0")
            weight.mul_(SMALL / torch.linalg.matrix_norm(weight, 2))
        networks.append(fade(layer, x, kind.label, kind.colour))
    return networks


def counterexamples(steps: int, hidden: int, inputs: int) -> tuple[Fading, ...]:
    """RNNs without an eigenvalue above 1 whose gradient does not shrink, or not at first, or grows for ever."""
    x = torch.zeros(steps, 1, inputs, dtype=torch.float64)
    rotation, _ = torch.linalg.qr(torch.randn(hidden, hidden, dtype=torch.float64))
    shear = 0.9 * torch.eye(hidden, dtype=torch.float64) + torch.ones(hidden, hidden, dtype=torch.float64).triu(1)
    return (
        fade(_linear(rotation, inputs), x, "a rotation", "#0072b2"),
        fade(_linear(shear, inputs), x, "eigenvalue 0.9 only", "#d55e00"),
        fade(*_nilpotent(min(steps, 20)), "eigenvalue 0 only, with σ", "#009e73"),
    )


def _nilpotent(steps: int) -> tuple[RNN, Tensor]:
    """The notes' RNN with two units whose slopes the input holds at ¼ and 0.01, and that input.

    The gradient, and with it rounding errors in the state, grows by 2.4 at every step: after 20 steps they are still
    below 10⁻⁷.
    """
    weight = 10 * torch.tensor([[1.0, -1.0], [1.0, -1.0]], dtype=torch.float64)
    layer = RNN(2, 2, nonlinearity="sigmoid", dtype=torch.float64)
    slopes = torch.tensor([0.25, 0.01], dtype=torch.float64)
    state = (1 + (1 - 4 * slopes).sqrt()) / 2  # h (1 − h) is the slope
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.zero_()
        layer.get_parameter("weight_hh_l0").copy_(weight)
        layer.get_parameter("weight_ih_l0").copy_(torch.eye(2))
    x = (torch.logit(state) - weight @ state).repeat(steps, 1, 1)
    x[0] = torch.logit(state)  # from h = 0
    return layer, x


def check_forms(hidden: int, steps: int = 10) -> dict[str, float]:
    """Equations 64 to 67 in numbers, in the notes' RNN: how far the sides of each are apart, relatively."""
    w = torch.randn(hidden, hidden, dtype=torch.float64) / hidden**0.5
    drive = torch.randn(steps, hidden, dtype=torch.float64)  # W_e x + b of every step

    def run_through(h: Tensor) -> Tensor:
        for one in drive:
            h = torch.sigmoid(w @ h + one)
        return h

    def slope(z: Tensor) -> Tensor:
        return torch.sigmoid(z) * (1 - torch.sigmoid(z))

    h = torch.rand(hidden, dtype=torch.float64)
    z = w @ h + drive[0]
    equation_65 = slope(z)[:, None] * w
    jacobian = torch.autograd.functional.jacobian
    product, diagonals, state = torch.eye(hidden, dtype=torch.float64), torch.eye(hidden, dtype=torch.float64), h
    for one in drive:
        slopes = slope(w @ state + one)
        product, diagonals, state = slopes[:, None] * w @ product, diagonals * slopes, torch.sigmoid(w @ state + one)
    through = jacobian(run_through, h)
    return {
        "with_slope": apart(jacobian(lambda h: slope(w @ h + drive[0]), h), equation_65),
        "with_sigmoid": apart(jacobian(lambda h: torch.sigmoid(w @ h + drive[0]), h), equation_65),
        "gathered": apart(torch.linalg.matrix_power(w, steps) @ diagonals, through),
        "in_order": apart(product, through),
        "steps": steps,
    }


def gains(hidden: int, inputs: int, seed: int, rnn: Fading, of: int = 200) -> dict[str, float]:
    """‖W‖ times the largest slope of tanh, which is 1, in fresh RNNs; and how far the gradient of one of them falls."""
    norms = []
    for number in range(seed, seed + of):
        torch.manual_seed(number)
        layer = RNN(inputs, hidden, dtype=torch.float64)
        norms.append(float(torch.linalg.matrix_norm(layer.get_parameter("weight_hh_l0").detach(), 2)))
    torch.manual_seed(seed)
    torch.randn(len(rnn.h), 1, inputs, dtype=torch.float64)
    first = RNN(inputs, hidden, dtype=torch.float64).get_parameter("weight_hh_l0").detach()
    gain = float(torch.linalg.matrix_norm(first, 2))
    return {"gain": gain, "last": rnn.h[-1], "above": sum(norm > 1 for norm in norms), "of": of}


def fade(layer: Recurrent, x: Tensor, label: str, colour: str, dash: str = "solid") -> Fading:
    """Norms of the derivative of the last state by those before it, for k = 1, 2, … up to the length of x (T, 1, I)."""
    derivatives = StepDerivatives(layer, x)
    size = derivatives.sizes[0]
    product, scale = torch.eye(sum(derivatives.sizes), dtype=x.dtype), 0.0
    h, c, bound = [], [], []
    limit = 0.0
    slope = _slope_of(layer.cell)
    norm = float(torch.linalg.matrix_norm(derivatives.own["weight_hh"], 2)) if slope else 0.0
    for t in reversed(range(len(x))):
        product = product @ derivatives.jacobian(t)
        largest = float(product.abs().max()) or 1.0
        product, scale = product / largest, scale + math.log10(largest)
        h.append(scale + _log(product[:size, :size]))
        if len(derivatives.sizes) > 1:
            c.append(scale + _log(product[:size, size:]))
        if slope:
            limit += math.log10(norm * float(slope(derivatives.named["h"][t, 0]).max()) or 1e-300)
            bound.append(limit)
    return Fading(label, colour, dash, tuple(h), tuple(c), tuple(bound))


def _slope_of(cell: Cell) -> Callable[[Tensor], Tensor] | None:
    """The slope of a plain RNN's activation, given its value; None for other cells."""
    slopes: dict[str, Callable[[Tensor], Tensor]] = {"tanh": lambda h: 1 - h * h, "sigmoid": lambda h: h * (1 - h)}
    return slopes.get(cell.nonlinearity) if type(cell) is registry()["rnn"] else None  # type: ignore[attr-defined]


def spread(most: int) -> list[int]:
    """Every number up to 20, then ever fewer, about forty for a factor of ten.

    >>> spread(1000)[18:23], spread(1000)[-2:]
    ([19, 20, 21, 22, 24], [944, 1000])
    """
    places = {round(10 ** (k / 40)) for k in range(40 * math.ceil(math.log10(max(most, 2))) + 1)} | set(range(1, 21))
    return sorted(k for k in places | {most} if k <= most)


def fade_first(reading: LayerReading) -> Fading:
    """The same in the first layer, forward, of a trained model, over the longest that it reads."""
    layer, x = reading.first()
    return fade(layer, x, f"{reading.name} of the model", "#b30000", "longdash")


@torch.no_grad()
def remember(reading: LayerReading) -> Memory:
    """Change one input of each sequence, at some places, and see what is left of it in the output, step by step."""
    layer, x, lengths = reading.layer.eval(), reading.x, reading.lengths
    x, lengths = x[:, lengths > PLACES], lengths[lengths > PLACES]
    if not len(lengths):
        raise ArgumentError(f"{reading.source}: none has more than {PLACES} steps; give longer ones")
    before, _ = layer(x, lengths=lengths)
    every = torch.arange(len(lengths))
    shares: list[Tensor] = []
    for place in range(PLACES):
        at = place * lengths // (2 * PLACES) + 1  # in the first half, and not at its beginning, which may be a mark
        changed = x.clone()
        changed[at, every] = x[(at + lengths // 2) % lengths, every]
        differs = (layer(changed, lengths=lengths)[0] - before).norm(dim=-1)  # (T, B)
        for k, (first, length) in enumerate(zip(at.tolist(), lengths.tolist(), strict=True)):
            if differs[first, k] > 0:  # else the two inputs were the same
                shares.append(differs[first:length, k] / differs[first, k])
    if not shares:
        raise ArgumentError(f"{reading.source}: no input differs from the others; give something else to read")
    most = max(map(len, shares))
    left = (torch.stack([part[k] for part in shares if k < len(part)]).median() for k in range(most))
    return Memory(tuple(float(share) for share in left), reading.source)


def _linear(weight: Tensor, inputs: int) -> RNN:
    """An RNN without an input: h stays 0, where the slope of tanh is 1."""
    layer = RNN(inputs, len(weight), dtype=weight.dtype)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.zero_()
        layer.get_parameter("weight_hh_l0").copy_(weight)
    return layer


def _log(matrix: Tensor) -> float:
    norm = float(torch.linalg.matrix_norm(matrix, 2))
    return math.log10(norm) if norm else -math.inf


def _finite(logs: Sequence[float]) -> list[float | None]:
    """None for the logarithm of 0, which neither JSON nor a figure has."""
    return [log if math.isfinite(log) else None for log in logs]


def _size(log: float | None) -> str:
    """A number given as a power of ten, however far; None: 0.

    >>> _size(-0.5), _size(-421.3), _size(14.61)
    ('0.32', '5·10⁻⁴²²', '4·10¹⁴')
    """
    if log is None or not math.isfinite(log):
        return "0"
    if -300 < log < 3:
        return power(10**log)
    exponent = math.floor(log)
    return f"{10 ** (log - exponent):.0f}·10{raised(exponent)}"
