"""Derivatives of one step in closed form, and what their product leaves out."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import torch
from torch import Tensor

from ...cells import Weights
from ...errors import check_counts
from ...inspect import LayerReading, read_layers
from ...layers import LSTM, Recurrent
from ...report import Page, figure
from ..cells import CELLS
from ..derivatives import StepDerivatives, apart, has_derivative
from ..old_finding import Claim, Finding, Verdict
from ..options import Hidden, Option, Seed
from ..words import listing, power

EXACT = 1e-10
NO_FORM = "no derivative by hand; autograd alone"
STEPS = 6  # of what a model reads, at which its derivative is taken


@dataclass(frozen=True)
class Checked:
    """One cell: the largest difference between closed form and autograd in ∂h_t/∂(each of these), relative."""

    label: str
    errors: dict[str, float]

    @property
    def worst(self) -> float:
        return max(self.errors.values())


@dataclass(frozen=True)
class Spectrum:
    """∂(state)/∂(state before) in the first layer of a trained model: eigenvalues, and norms, at some steps."""

    label: str
    source: str
    steps: tuple[int, ...]
    eigenvalues: tuple[tuple[tuple[float, float], ...], ...]  # real and imaginary part, of each step
    norms: tuple[float, ...]  # largest singular values

    @property
    def sizes(self) -> list[list[float]]:
        """|λ|, the largest first, of each step."""
        return [sorted((math.hypot(*value) for value in values), reverse=True) for values in self.eigenvalues]

    @property
    def radius(self) -> float:
        """The largest |λ|, mean over the steps."""
        return sum(sizes[0] for sizes in self.sizes) / len(self.sizes)

    @property
    def slow(self) -> float:
        """The share of eigenvalues that keep more than half of their direction for ten steps: |λ|¹⁰ > ½."""
        every = [size for sizes in self.sizes for size in sizes]
        return sum(size**10 > 0.5 for size in every) / len(every)

    def __str__(self) -> str:
        return (
            f"{self.label}: largest |λ| {self.radius:.3f}, largest singular value "
            f"{sum(self.norms) / len(self.norms):.2f}, mean over {len(self.steps)} steps; {self.slow:.0%} of the "
            "eigenvalues keep half for ten steps"
        )


@dataclass(frozen=True)
class Jacobian(Finding):
    """What :func:`run` gives."""

    name = "jacobian"
    title = "The derivative of one step"
    claim = Claim(
        "c_{t−1} is never a function of h_{t−1}; so the derivative of an LSTM's h_t by h_{t−1} is the sum of four "
        "terms, one for each gate.",
        "001 hidden state derivative",
        (
            "∂h/∂h₋ = tanh(c) ∘ ∂o/∂h₋ + o ∘ (1 − tanh² c) ∘ (c₋ ∘ ∂f/∂h₋ + g ∘ ∂i/∂h₋ + i ∘ ∂g/∂h₋)",
            "∂f/∂h₋ = diag(f (1 − f)) U_f",
        ),
    )

    cells: tuple[Checked, ...]
    printed: float  # the printed formula against autograd with c₋ held
    product: tuple[float, ...]  # relative error of a product of k printed ones, for k = 1, 2, …
    seed: int
    seconds: float
    spectrum: Spectrum | None = None  # of a trained model
    without: tuple[str, ...] = ()  # labels of cells that have no closed form

    def __str__(self) -> str:
        names = list(dict.fromkeys(name for one in self.cells for name in one.errors))
        width = max(map(len, [*(one.label for one in self.cells), *self.without]))
        lines = [f"{'closed form − autograd':{max(width, 22)}}  worst     in"]
        for one in self.cells:
            where = max(one.errors, key=lambda name: one.errors[name])
            lines.append(f"{one.label:{max(width, 22)}}  {power(one.worst):8}  ∂h/∂{where}, of {len(one.errors)}")
        lines += [f"{label:{max(width, 22)}}  {NO_FORM}" for label in self.without]
        lines.append(f"derivatives by {', '.join(names)}")
        lines.append(f"the printed ∂h/∂h₋: {power(self.printed)} from autograd with c₋ held")
        told = ", ".join(f"{k} steps {self.product[k - 1]:.0%}" for k in (2, 5, len(self.product)))
        lines.append(f"a product of printed ones, against the derivative through time: {told} off")
        if self.spectrum is not None:
            lines.append(str(self.spectrum))
        return "\n".join(lines)

    def lead(self) -> str:
        return (
            f"For {len(self.cells)} cells, the closed forms of all derivatives of h_t agree with autograd to "
            f"{power(max(one.worst for one in self.cells))}. The printed formula is right for one step with c₋ held; a "
            f"product of {len(self.product)} of them misses the derivative through time by {self.product[-1]:.0%}."
        )

    def ran(self) -> Sequence[str]:
        told = [
            "Random weights, inputs and states in float64. The closed forms are the cells' own, those the kernels are "
            "written from; autograd differentiates the cell's step. A difference is relative to the largest entry.",
            "Through time, h and c go together: the derivative of (h, c) by (h₋, c₋) is a matrix of twice the size, "
            "and its product over k steps, upper left block, is ∂h_t/∂h_{t−k}. The printed one, multiplied k times, "
            "leaves the way through c out.",
        ]
        if self.spectrum is not None:
            told.append(
                f"And the first layer, forward, of a trained model that reads {self.spectrum.source}, at "
                f"{len(self.spectrum.steps)} steps of the longest: the eigenvalues of that matrix. A direction with "
                "|λ| = 1 is kept, one with |λ| = 0 is forgotten at once; the largest singular value is the most that "
                "one step can stretch."
            )
        return told

    def tell(self, page: Page) -> None:
        drawn = self.figures()
        page.figure(
            drawn["product"], "What a product of the printed derivatives leaves out",
            "How far it is from ∂h_t/∂h_{t−k}, relative to its largest entry, against k, in an LSTM.",
        )  # fmt: skip
        if "spectrum" in drawn:
            page.figure(
                drawn["spectrum"], "Eigenvalues of a step of the trained model",
                f"In the complex plane, with the circle |λ| = 1. {self.spectrum}.",
            )  # fmt: skip
        names = list(dict.fromkeys(name for one in self.cells for name in one.errors))
        told = [{name: power(error) for name, error in one.errors.items()} for one in self.cells]
        rows = [[one.label, *(t.get(name, "") for name in names)] for one, t in zip(self.cells, told, strict=True)]
        page.heading("Closed form and autograd").text("The largest relative difference in ∂h_t by each.")
        page.table(["cell", *(f"`{name}`" for name in names)], rows)
        if self.without:
            page.text(f"{listing(self.without)}: {NO_FORM}.")

    def verdict(self) -> Verdict:
        if self.printed > EXACT or any(one.worst > EXACT for one in self.cells):
            return Verdict(False, "A closed form differs from autograd; look at the table.")
        return Verdict(
            True,
            "As a partial derivative: of one step, with c₋ held. c₋ and h₋ do both come from the step before, so for "
            "the derivative through time the four terms are not enough: it takes the derivative of (h, c) by (h₋, "
            "c₋).",
        )

    def figures(self) -> dict[str, Any]:
        drawn = figure(320, hovermode="x", showlegend=False)
        drawn.add_scatter(x=list(range(1, len(self.product) + 1)), y=self.product, mode="lines+markers")
        drawn.update_xaxes(title_text="steps k").update_yaxes(
            title_text="missing", tickformat=".0%", range=[-0.03, 1.05]
        )
        found = {"product": drawn}
        if self.spectrum is not None:
            found["spectrum"] = self.spectrum_figure(self.spectrum)
        return found

    @staticmethod
    def spectrum_figure(spectrum: Spectrum) -> Any:
        drawn = figure(700, hovermode="closest", width=680)
        angles = [2 * math.pi * k / 200 for k in range(201)]
        drawn.add_scatter(
            x=[math.cos(a) for a in angles], y=[math.sin(a) for a in angles], name="|λ| = 1",
            line={"color": "#aeb6c0", "width": 1.5}, hoverinfo="skip",
        )  # fmt: skip
        for step, values in zip(spectrum.steps, spectrum.eigenvalues, strict=True):
            real, imaginary = zip(*values, strict=True)
            drawn.add_scatter(x=real, y=imaginary, mode="markers", name=f"step {step + 1}", marker={"size": 5})
        most = 1.05 * max(1.0, *(sizes[0] for sizes in spectrum.sizes))
        drawn.update_yaxes(range=[-most, most], title_text="imaginary")
        return drawn.update_xaxes(range=[-most, most], title_text="real")

    def numbers(self) -> dict[str, Any]:
        return {
            "cells": [{"label": one.label, "relative_errors": one.errors} for one in self.cells],
            "printed": self.printed,
            "product": self.product,
            "seed": self.seed,
            "seconds": self.seconds,
            "without_closed_form": self.without,
            "spectrum": None if self.spectrum is None else vars(self.spectrum),
        }


HELP = """Derivatives of one step, in closed form and by autograd; and what a product of them leaves out.

\b
carousel lab jacobian
carousel lab jacobian --hidden 20 --out jacobian
# and the eigenvalues of a trained model
carousel lab jacobian --run demo-dates/run --out spectrum
"""


def run(
    steps: Annotated[int, Option("Steps of a sequence.", "T", minimum=6)] = 20,
    *,
    hidden: Hidden = 5,
    inputs: int = 3,
    model: Any = None,
    data: Any = None,
    seed: Seed = 0,
) -> Jacobian:
    """Differentiate a step of every cell in closed form and by autograd, and an LSTM over `steps` steps.

    If a trained `model` is given, it reads the file `data` (without it, its own dev or training file), and the
    eigenvalues of its steps are found.

    >>> found = run(6)
    >>> max(one.worst for one in found.cells) < 1e-10, found.product[0] < 1e-10 < found.product[1]
    (True, True)
    """
    check_counts(steps=steps, hidden=hidden, inputs=inputs)
    start = time.perf_counter()
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        spectrum = None if model is None else spectrum_of(read_layers(model, data))
        x = torch.randn(steps, 1, inputs, dtype=torch.float64)
        cells = []
        without = tuple(kind.label for kind in CELLS.values() if not has_derivative(kind.cell))
        for kind in [kind for kind in CELLS.values() if has_derivative(kind.cell)]:
            layer = _random(kind.layer(inputs, hidden, dtype=torch.float64))
            cells.append(Checked(kind.label, compare(StepDerivatives(layer, x), steps // 2)))
        lstm = _random(LSTM(inputs, hidden, dtype=torch.float64))
    derivatives = StepDerivatives(lstm, x)
    exact, partial = (torch.eye(size, dtype=torch.float64) for size in (2 * hidden, hidden))
    errors, printed_error = [], 0.0
    for t in reversed(range(steps)):
        one = printed(derivatives, t)
        jacobian = derivatives.jacobian(t)
        printed_error = max(printed_error, apart(one, jacobian[:hidden, :hidden]))
        exact, partial = exact @ jacobian, partial @ one
        errors.append(apart(partial, exact[:hidden, :hidden]))
    seconds = time.perf_counter() - start
    return Jacobian(tuple(cells), printed_error, tuple(errors), seed, seconds, spectrum, without)


def spectrum_of(reading: LayerReading) -> Spectrum:
    """Eigenvalues and norms of the first layer's derivative, at steps spread over the longest that it reads."""
    layer, x = reading.first()
    derivatives = StepDerivatives(layer, x)
    steps = sorted({round((len(x) - 1) * k / (STEPS - 1)) for k in range(STEPS)})
    matrices = [derivatives.jacobian(t) for t in steps]
    values = tuple(tuple((v.real, v.imag) for v in torch.linalg.eigvals(m).tolist()) for m in matrices)
    norms = tuple(float(torch.linalg.matrix_norm(m, 2)) for m in matrices)
    return Spectrum(f"{reading.name} of the model", reading.source, tuple(steps), values, norms)


def printed(derivatives: StepDerivatives, t: int) -> Tensor:
    """∂h/∂h₋ of an LSTM as the text prints it, (H, H)."""
    at = derivatives.at(t)
    i, f, g, o, c = (getattr(at, name)[0] for name in "ifgoc")
    u_i, u_f, u_g, u_o = derivatives.own["weight_hh"].chunk(4)
    s = torch.tanh(c)
    d_i, d_f, d_g, d_o = ((a * (1 - a))[:, None] * u for a, u in ((i, u_i), (f, u_f), (g, u_g), (o, u_o)))
    d_g = (1 - g * g)[:, None] * u_g
    c_ = derivatives.before(t)[1][0]
    return s[:, None] * d_o + (o * (1 - s * s))[:, None] * (c_[:, None] * d_f + g[:, None] * d_i + i[:, None] * d_g)


def compare(derivatives: StepDerivatives, t: int) -> dict[str, float]:
    """The relative difference of every ∂h_t/∂(…), by the cell's closed form and by autograd of its step."""
    hand, auto = by_hand(derivatives, t), by_autograd(derivatives, t)
    assert hand.keys() == auto.keys()
    return {name: apart(hand[name], auto[name]) for name in hand}


def by_hand(derivatives: StepDerivatives, t: int) -> dict[str, Tensor]:
    """∂h_t/∂(gate, state, x, parameter): (H, …) each, unit by unit."""
    found: dict[str, list[Tensor]] = {}
    for row in torch.eye(derivatives.sizes[0], dtype=derivatives.x.dtype):
        rest = [torch.zeros(1, size, dtype=derivatives.x.dtype) for size in derivatives.sizes[1:]]
        step = derivatives.back(t, (row[None], *rest))
        dx, own = derivatives.cell.project_input_backward(torch.cat(step.x, -1), derivatives.x[t], derivatives.w)
        parts = {
            **step.values,
            "x": dx,
            **{f"{n}₋": d for n, d in zip(derivatives.cell.states, step.state, strict=True)},
        }
        for name, value in {**parts, **step.weights, **own}.items():
            if name != "h":  # ∂h/∂h is 1
                found.setdefault(name, []).append(value)
    return {name: torch.stack(values) for name, values in found.items()}


def by_autograd(derivatives: StepDerivatives, t: int) -> dict[str, Tensor]:
    """The same by autograd; a value is differentiated by a zero that is added to it."""
    cell = derivatives.cell
    own = {name: value.clone().requires_grad_() for name, value in derivatives.own.items()}
    x = derivatives.x[t].clone().requires_grad_()
    before = tuple(part.clone().requires_grad_() for part in derivatives.before(t))
    nudges: dict[str, Tensor] = {}

    def let(name: str, value: Tensor) -> Tensor:
        nudges[name] = torch.zeros_like(value, requires_grad=True)
        return value + nudges[name]

    w = Weights(cell, own)
    h = cell.step(cell.inputs(cell.project_input(x, w)), before, w, let)[0]
    inputs = {**nudges, "x": x, **{f"{n}₋": b for n, b in zip(cell.states, before, strict=True)}, **own}
    inputs.pop("h")
    options: dict[str, Any] = {"retain_graph": True, "materialize_grads": True}
    rows = [torch.autograd.grad(unit, list(inputs.values()), **options) for unit in h[0]]
    return {name: torch.stack([row[k] for row in rows]) for k, name in enumerate(inputs)}


def _random(layer: Recurrent) -> Recurrent:
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.normal_(0, 0.6)
    return layer
