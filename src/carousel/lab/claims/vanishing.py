"""How much of a gradient is left after k steps, in every cell."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import torch
from torch import Tensor

from ...cells import registry
from ...errors import ArgumentError, check_counts
from ...inspect import LayerReading, read_layers
from ...layers import RNN, Recurrent
from ...report import Page, figure
from ..cells import CELLS
from ..derivatives import StepDerivatives
from ..old_finding import Claim, Finding, Verdict
from ..options import Hidden, Option, Seed
from ..words import percent, power, raised

GONE = -6.0  # as a power of ten: from here on nothing can be learned
FORGOTTEN = 0.01  # of what a changed input changes in the output at once: from here on it is forgotten
PLACES = 4  # at which an input is changed


@dataclass(frozen=True)
class Fading:
    """One network: log₁₀ of norms for some k: of ∂h_t/∂h_{t−k}, of ∂h_t/∂c_{t−k}, and the bound if there is one."""

    label: str
    colour: str
    dash: str
    ks: tuple[int, ...]
    h: tuple[float, ...]
    c: tuple[float, ...] = ()
    bound: tuple[float, ...] = ()

    @property
    def horizon(self) -> int | None:
        """The first of the k at which not even the better of the two ways carries 10⁻⁶; None if it always does."""
        best = [max(pair) for pair in zip(self.h, self.c or self.h, strict=True)]
        return next((k for k, size in zip(self.ks, best, strict=True) if size < GONE), None)

    @property
    def bounded(self) -> bool:
        return all(size <= limit + 1e-9 for size, limit in zip(self.h, self.bound or self.h, strict=True))


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


@dataclass(frozen=True)
class Vanishing(Finding):
    """What :func:`run` gives."""

    name = "vanishing"
    title = "How fast a gradient vanishes"
    claim = Claim(
        "The gradient of an RNN over k steps is at most the product of the norms of W and of the slopes. If the "
        "largest eigenvalue of W is at most 1, the gradient shrinks exponentially.",
        "003 §10, equations 64 to 68",
        ("h = σ′(W h₋ + W_x x + b)", "‖∂h_t/∂h_{t−k}‖ ≤ ‖W‖ᵏ ∏ ‖diag σ′(·)‖", "max λ ≤ 1  ⇒  exponentially less"),
    )

    cells: tuple[Fading, ...]  # fresh networks
    large: Fading  # an RNN with large weights
    counter: tuple[Fading, ...]  # RNNs whose largest eigenvalue is at most 1, in which nothing shrinks, or not at first
    trained: Fading | None  # the first layer of a model
    memory: Memory | None  # of all its layers
    steps: int
    hidden: int
    seed: int
    seconds: float

    @property
    def every(self) -> tuple[Fading, ...]:
        return (*self.cells, self.large, *(() if self.trained is None else (self.trained,)))

    def __str__(self) -> str:
        width = max(len(one.label) for one in (*self.every, *self.counter))
        ks = [k for k in (1, 10, 100, 1000) if k <= self.steps]
        lines = [f"{'‖∂h_t/∂h_{t−k}‖':{width}}  " + "  ".join(f"{f'k = {k}':>9}" for k in ks) + "   under 10⁻⁶ from"]
        for one in (*self.every, *self.counter):
            sizes = "  ".join(f"{_size(one.h[one.ks.index(k)]) if k in one.ks else '':>9}" for k in ks)
            lines.append(f"{one.label:{width}}  {sizes}   {one.horizon or 'never'}")
        if self.memory is not None:
            lines.append(str(self.memory))
        return "\n".join(lines)

    def lead(self) -> str:
        rnn, lstm = (next(one for one in self.cells if one.label == CELLS[name].label) for name in ("rnn", "lstm"))
        after = [str(one.horizon or f"more than {self.steps}") for one in (rnn, lstm)]
        return (
            f"In a fresh RNN of {self.hidden} units the gradient is under a millionth after {after[0]} steps, in a "
            f"fresh LSTM after {after[1]}. The bound holds at every step. That eigenvalues up to 1 make it shrink "
            "does not hold."
        )

    def ran(self) -> Sequence[str]:
        told = [
            f"Fresh layers of {self.hidden} units read {self.steps} random inputs. The derivative over k steps is the "
            "product of k one-step derivatives, each by the cell's own closed form, or by autograd if it has none; of "
            "an LSTM, by h and c together. "
            "Its norm is its largest singular value. Float64; the product is rescaled as it goes, so that it cannot "
            "underflow.",
            "Two RNNs were made to answer the second claim: one whose W is a rotation, whose eigenvalues all have "
            "size 1, and one whose W has the eigenvalue 0.9 only, with large weights above the diagonal. Their input "
            "is zero.",
        ]
        if self.trained is not None and self.memory is not None:
            told.append(
                f"And {self.trained.label}, forward, reading {self.memory.source}; the derivative is over the longest, "
                "and k goes as far as that. What all its layers remember is measured by changing one input, at "
                f"{PLACES} places of each sequence, to another of the same sequence: how much of the change in the "
                "output is left k steps later (the median, as a part of the change at the step itself)."
            )
        return told

    def tell(self, page: Page) -> None:
        drawn = self.figures()
        page.figure(
            drawn["fading"], "How much of a gradient is left after k steps",
            "‖∂h_t/∂h_{t−k}‖ above and ‖∂h_t/∂c_{t−k}‖ below, as powers of ten. Dotted: the bound, for the RNN.",
        )  # fmt: skip
        page.figure(
            drawn["eigenvalues"], "Eigenvalues of at most 1",
            "What grows first has the eigenvalue 0.9 only; what stays has eigenvalues of size 1.",
        )  # fmt: skip
        if "memory" in drawn:
            page.figure(drawn["memory"], "What the model remembers of an input", f"In short: {self.memory}.")
        page.heading("All of them")
        rows = [
            [one.label, one.horizon or "never", one.ks[-1], _size(one.h[-1])] for one in (*self.every, *self.counter)
        ]
        page.table(["network", "under 10⁻⁶ from k =", "at the last k,", "it is"], rows)

    def verdict(self) -> Verdict:
        if not all(one.bounded for one in (*self.every, *self.counter)):
            return Verdict(False, "The bound is broken somewhere; look at the table.")
        rotation, shear = self.counter
        peak, when = max(zip(shear.h, shear.ks, strict=True))
        return Verdict(
            False,
            "The bound holds. The sentence about eigenvalues does not: with a rotation for W the norm is "
            f"{_size(rotation.h[-1])} after {self.steps} steps, and with 0.9 for the only eigenvalue it first grows "
            f"to {_size(peak)}, at k = {when}. What must be below 1 is the norm of W (its largest "
            "singular value) times the largest slope. And equation 64 should have σ, not σ′.",
        )

    def figures(self) -> dict[str, Any]:
        titles = ["through h", "through the cell c"]
        fading = figure(560, titles, hovermode="x")
        for one in self.every:
            line = {"color": one.colour, "dash": one.dash, "width": 1.8}
            for row, values in ((1, _finite(one.h)), (2, _finite(one.c))):
                if values:
                    fading.add_scatter(
                        x=one.ks, y=values, name=one.label, legendgroup=one.label, showlegend=row == 1, line=line,
                        hovertemplate="10^%{y:.1f}", row=row, col=1,
                    )  # fmt: skip
        bound = next(one for one in self.cells if one.bound)
        fading.add_scatter(
            x=bound.ks, y=bound.bound, name="the RNN's bound", line={"color": bound.colour, "dash": "dot"}, row=1, col=1
        )
        fading.update_yaxes(range=[-40, 20], title_text="log₁₀")
        fading.update_xaxes(type="log", range=[0, math.log10(self.steps)], dtick=1)
        fading.update_xaxes(title_text="steps k", row=2, col=1)
        eigen = figure(340, hovermode="x")
        for one in self.counter:
            eigen.add_scatter(
                x=one.ks, y=one.h, name=one.label, line={"color": one.colour}, hovertemplate="10^%{y:.1f}"
            )
        eigen.update_xaxes(title_text="steps k", type="log", range=[0, math.log10(self.steps)], dtick=1)
        eigen.update_yaxes(title_text="log₁₀")
        found = {"fading": fading, "eigenvalues": eigen}
        if self.memory is not None:
            shown = [max(share, 1e-8) for share in self.memory.left]
            memory = figure(320, hovermode="x", showlegend=False)
            memory.add_scatter(x=list(range(len(shown))), y=shown, line={"color": "#b30000"})
            memory.add_hline(y=FORGOTTEN, line={"color": "#aeb6c0", "dash": "dot", "width": 1.5})
            memory.update_yaxes(type="log", dtick=1, exponentformat="power", title_text="left")
            found["memory"] = memory.update_xaxes(title_text="steps k")
        return found

    def numbers(self) -> dict[str, Any]:
        def told(one: Fading) -> dict[str, Any]:
            return {
                "label": one.label,
                "k": one.ks,
                "log10_h": _finite(one.h),
                "log10_c": _finite(one.c),
                "log10_bound": one.bound,
                "horizon": one.horizon,
            }

        kept = {name: getattr(self, name) for name in ("steps", "hidden", "seed", "seconds")}
        return {
            "networks": [told(one) for one in self.every],
            "counterexamples": [told(one) for one in self.counter],
            "memory": None if self.memory is None else {**vars(self.memory), "horizon": self.memory.horizon},
            **kept,
        }


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
) -> Vanishing:
    """Follow the derivative back through `steps` steps, in every cell, and if given in the first layer of `model`.

    The model reads the file `data`; without it, its own dev or training file.

    >>> found = run(40, hidden=4)
    >>> len(found.cells), all(one.bounded for one in found.cells)
    (7, True)
    """
    check_counts(steps=steps, hidden=hidden, inputs=inputs)
    start = time.perf_counter()
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        reading = None if model is None else read_layers(model, data)  # first: an unusable model is an error
        x = torch.randn(steps, 1, inputs, dtype=torch.float64)
        cells = []
        for kind in CELLS.values():
            layer = kind.layer(inputs, hidden, dtype=torch.float64)
            cells.append(fade(layer, x, kind.label, kind.colour, kind.dash))
        wild = RNN(inputs, hidden, dtype=torch.float64)
        with torch.no_grad():
            wild.get_parameter("weight_hh_l0").mul_(8)
        large = fade(wild, x, "RNN, U × 8", "#1c2430", "dashdot")
        trained, memory = (None, None) if reading is None else (fade_first(reading), remember(reading))
        rotation, _ = torch.linalg.qr(torch.randn(hidden, hidden, dtype=torch.float64))
        shear = 0.9 * torch.eye(hidden, dtype=torch.float64) + torch.ones(hidden, hidden, dtype=torch.float64).triu(1)
        counter = (
            fade(_linear(rotation, inputs), x, "a rotation", "#0072b2"),
            fade(_linear(shear, inputs), x, "eigenvalue 0.9 only", "#d55e00"),
        )
    return Vanishing(tuple(cells), large, counter, trained, memory, steps, hidden, seed, time.perf_counter() - start)


def fade(layer: Recurrent, x: Tensor, label: str, colour: str, dash: str = "solid") -> Fading:
    """Norms of the derivative of the last state by those before it, from k = 1 on."""
    derivatives = StepDerivatives(layer, x)
    size = derivatives.sizes[0]
    product, scale = torch.eye(sum(derivatives.sizes), dtype=x.dtype), 0.0
    h, c, bound = [], [], []
    limit = 0.0
    plain = type(layer.cell) is registry()["rnn"] and layer.cell.nonlinearity == "tanh"  # type: ignore[attr-defined]
    norm = float(torch.linalg.matrix_norm(derivatives.own["weight_hh"], 2)) if plain else 0.0
    ks = spread(len(x))
    for k in range(1, len(x) + 1):
        t = len(x) - k
        product = product @ derivatives.jacobian(t)
        largest = float(product.abs().max()) or 1.0
        product, scale = product / largest, scale + math.log10(largest)
        if plain:
            limit += math.log10(norm * float(1 - derivatives.named["h"][t, 0].square().min()) or 1e-300)
        if k not in ks:
            continue
        h.append(scale + _log(product[:size, :size]))
        if len(derivatives.sizes) > 1:
            c.append(scale + _log(product[:size, size:]))
        if plain:
            bound.append(limit)
    return Fading(label, colour, dash, tuple(ks), tuple(h), tuple(c), tuple(bound))


def spread(most: int) -> list[int]:
    """Every number up to 20, then ever fewer, about forty for a factor of ten.

    >>> spread(1000)[18:23], spread(1000)[-2:]
    ([19, 20, 21, 22, 24], [944, 1000])
    """
    found = {round(10 ** (k / 40)) for k in range(40 * math.ceil(math.log10(max(most, 2))) + 1)} | set(range(1, 21))
    return sorted(k for k in found | {most} if k <= most)


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
    every, found = torch.arange(len(lengths)), []
    for place in range(PLACES):
        at = place * lengths // (2 * PLACES) + 1  # in the first half, and not at its beginning, which may be a mark
        changed = x.clone()
        changed[at, every] = x[(at + lengths // 2) % lengths, every]
        apart = (layer(changed, lengths=lengths)[0] - before).norm(dim=-1)  # (T, B)
        for k, (first, length) in enumerate(zip(at.tolist(), lengths.tolist(), strict=True)):
            if apart[first, k] > 0:  # else the two inputs were the same
                found.append(apart[first:length, k] / apart[first, k])
    if not found:
        raise ArgumentError(f"{reading.source}: no input differs from the others; give something else to read")
    most = max(map(len, found))
    left = (torch.stack([part[k] for part in found if k < len(part)]).median() for k in range(most))
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


def _size(log: float) -> str:
    """A power of ten, however far.

    >>> _size(-0.5), _size(-421.3), _size(12.4)
    ('0.32', '10⁻⁴²¹', '10¹²')
    """
    if not math.isfinite(log):
        return "0"
    if -300 < log < 3:
        return power(10**log)
    return f"10{raised(round(log))}"
