"""Derivatives of one step in closed form, and what their product leaves out."""

from __future__ import annotations

import math
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
from ...wording import counted
from ..cells import CELLS, sigmoid_rnn
from ..claim import SOURCES, Claim, Numbers, Verdict, fails, holds, holds_for
from ..derivatives import StepDerivatives, apart, has_derivative
from ..finding import Exercise, Finding, Step, Table, typeset
from ..measured import Clock
from ..options import Hidden, Option, Seed, Seeds, seed_numbers
from ..words import listing, percent, power

TASK = (  # of source 002, which is no claim
    "Differentiate one step of LSTM with respect to h_t for f_t, i_t, C̄_t, C_t, C_{t-1}, o_t, h_{t-1}, x_t, W_f, W_i, "
    "W_C, W_o, b_f, b_i, b_C, b_o"
)
NO_FORM = "no derivative by hand; autograd alone"
LEFT_OUT = ("∂c/∂g", "∂h/∂o", "∂h/∂tanh(c)")  # local derivatives of the chain rule that source 002 does not give
STEPS = 6  # of what a model reads, at which its derivative is taken


def worst(cell: Numbers) -> tuple[float, str]:
    """The largest difference between closed form and autograd, and the derivative that has it."""
    return max((error, name) for name, error in cell["relative_errors"].items())


def _partial(numbers: Numbers, tolerance: float) -> Verdict:
    one = numbers["printed"]
    text = f"With c₋ held, and v ∘ J read as diag(v) J, it differs from autograd by {power(one)}."
    return holds(text) if one <= tolerance else fails(text)


def _through_time(numbers: Numbers, tolerance: float) -> Verdict:
    one, *more = numbers["product"]
    text = (
        f"Over one step the difference is {power(one)}. A product of {len(more) + 1} such steps is "
        f"{percent(more[-1], 0)} off the derivative through time: there, both come from the step before, and it takes "
        "the derivative of (h, c) by (h₋, c₋)."
    )
    if one > tolerance:
        return fails(text)
    return holds(text) if max(more) <= tolerance else holds_for("one step", text)


def _forget(numbers: Numbers, tolerance: float) -> Verdict:
    forms = numbers["forget"]
    text = (
        f"As printed, with the slopes on the right of U_f, it is {percent(forms['printed'], 0)} off; with them on its "
        f"left, as diag(σ′) U_f, it agrees {_to(forms['corrected'])}."
    )
    return holds(text) if forms["printed"] <= tolerance else fails(text)


def _slope(numbers: Numbers, tolerance: float) -> Verdict:
    forms, local, shapes = numbers["slope"], numbers["local"], numbers["concatenation"]
    sizes = listing(
        f"{name} with {_size(each['printed'])} entries where it has {_size(each['right'])}"
        for name, each in shapes.items()
    )
    text = (
        f"For y between −4 and 4, y(1 − y) is off by up to {forms['printed']:.2g}; σ(y)(1 − σ(y)) agrees "
        f"{_to(forms['corrected'])}. Of the concatenation the report prints {sizes}. {listing(local)} are off by at "
        f"most {power(max(local.values()))}, if its ∂c/∂d is read as ∂c/∂i, and the c₋ in each place of its ∂c/∂f as "
        "the entries of c₋."
    )
    if left_out := numbers["left_out"]:
        text += f" {listing(left_out)}, which the chain rule takes, are not given: nothing stands under “Root nodes”."
    right = [name for name, error in {**local, "∂σ(y)/∂y": forms["printed"]}.items() if error <= tolerance]
    right += [name for name, each in shapes.items() if each["printed"] == each["right"]]
    if len(right) == len(local) + 1 + len(shapes) and not left_out:
        return holds(text)
    return holds_for(listing(right), text) if right else fails(text)


def _to(difference: float) -> str:
    """
    >>> _to(0.0), _to(2e-16)
    ('exactly', 'to 2·10⁻¹⁶')
    """
    return f"to {power(difference)}" if difference else "exactly"


def _size(shape: Sequence[int]) -> str:
    """
    >>> _size([8, 5])
    '8 × 5'
    """
    return " × ".join(map(str, shape))


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
    claims = (
        Claim(
            "partial",
            "Substituting all values found, we have",
            "001 Hidden state derivative",
            "the printed formula agrees with autograd, c_{{t−1}} being held, to {tolerance}.",
            _partial,
            tolerance=1e-10,
            seeds=5,
            printed=(
                r"\frac{\partial h_t}{\partial h_{t-1}} = \tanh(c_t) \circ \frac{\partial o_t}{\partial h_{t-1}} + "
                r"o_t \circ \left[(1 - \tanh^2(c_t)) \left(c_{t-1} \circ \frac{\partial f_t}{\partial h_{t-1}} + "
                r"u_t \circ \frac{\partial i_t}{\partial h_{t-1}} + "
                r"i_t \circ \frac{\partial u_t}{\partial h_{t-1}} \right) \right]",
            ),
        ),
        Claim(
            "through-time",
            "therefore only c_t is a function of h_{t-1} , and c_{t-1} never is.",
            "001 Cell state and hidden state",
            "leaving ∂c_{{t−1}}/∂h_{{t−1}} out gives the derivative over one step, and over several, to {tolerance}.",
            _through_time,
            tolerance=1e-10,
            seeds=5,
        ),
        Claim(
            "forget",
            "∂f_t/∂h_{t-1} = U_f · σ'(W_f x_t + U_f h_{t-1})",
            "001 Forget gate derivative",
            "the printed product of U_f and the slopes agrees with autograd to {tolerance}.",
            _forget,
            tolerance=1e-10,
            seeds=5,
            printed=(
                r"\frac{\partial f_t}{\partial h_{t-1}} = U_f \cdot \sigma'(W_f x_t + U_f h_{t-1})",
                r"= U_f \cdot [(1 - \sigma(W_f x_t + U_f h_{t-1})) \cdot \sigma(W_f x_t + U_f h_{t-1})]",
            ),
            corrected=(r"\frac{\partial f_t}{\partial h_{t-1}} = \text{diag}(f_t \circ (1 - f_t)) \, U_f",),
        ),
        Claim(
            "slope",
            "where the formulas of all local gradients have been given.",
            "002 Part 1",
            "every local derivative that the chain rule takes is printed, has the right size, and agrees with autograd "
            "to {tolerance}.",
            _slope,
            tolerance=1e-10,
            printed=(
                r"\frac{\partial \mathbf{z}}{\partial \mathbf{h}_{t-1}} = \begin{bmatrix} "
                r"\mathbf{I}_{h \times h} & \mathbf{0}_{h \times f} \\ \mathbf{0}_{f \times h} & "
                r"\mathbf{0}_{f \times f} \end{bmatrix}",
                r"\frac{\partial \mathbf{z}}{\partial \mathbf{x}_t} = \begin{bmatrix} "
                r"\mathbf{0}_{h \times h} & \mathbf{0}_{h \times f} \\ \mathbf{0}_{f \times h} & "
                r"\mathbf{I}_{f \times f} \end{bmatrix}",
                r"\frac{\partial \sigma(\mathbf{y})}{\partial \mathbf{y}} = "
                r"\begin{bmatrix} \mathbf{y}_1(1-\mathbf{y}_1) & & \\ & \ddots & \\ & & \mathbf{y}_n(1-\mathbf{y}_n) "
                r"\end{bmatrix}",
            ),
            corrected=(
                r"\frac{\partial \mathbf{z}}{\partial \mathbf{h}_{t-1}} = \begin{bmatrix} "
                r"\mathbf{I}_{h \times h} \\ \mathbf{0}_{f \times h} \end{bmatrix}",
                r"\frac{\partial \mathbf{z}}{\partial \mathbf{x}_t} = \begin{bmatrix} "
                r"\mathbf{0}_{h \times f} \\ \mathbf{I}_{f \times f} \end{bmatrix}",
                r"\frac{\partial \sigma(\mathbf{y})}{\partial \mathbf{y}} = "
                r"\begin{bmatrix} \sigma(\mathbf{y}_1)(1-\sigma(\mathbf{y}_1)) & & \\ & \ddots & \\ "
                r"& & \sigma(\mathbf{y}_n)(1-\sigma(\mathbf{y}_n)) \end{bmatrix}",
            ),
        ),
    )
    derivation = (
        Step(
            "The slope of the logistic function, by itself.",
            r"\sigma'(z) = (1 - \sigma(z)) \cdot \sigma(z)",
            "slope",
            1e-12,
        ),
        Step(
            "A gate is the logistic function of \\(W_f x + U_f h_-\\), entry by entry: row \\(d\\) of \\(U_f\\) is "
            "multiplied by the slope of entry \\(d\\).",
            r"\frac{\partial f}{\partial h_-} = \text{diag}(f \circ (1 - f)) \, U_f",
            "forget",
            1e-12,
        ),
        Step(
            "The cell, \\(c = f \\circ c_- + i \\circ u\\), with \\(c_-\\) held.",
            r"\frac{\partial c}{\partial h_-} = \text{diag}(c_-) \frac{\partial f}{\partial h_-} + "
            r"\text{diag}(u) \frac{\partial i}{\partial h_-} + \text{diag}(i) \frac{\partial u}{\partial h_-}",
            "cell",
            1e-12,
        ),
        Step(
            "And the output, \\(h = o \\circ \\tanh c\\).",
            r"\frac{\partial h}{\partial h_-} = \text{diag}(\tanh c) \frac{\partial o}{\partial h_-} + "
            r"\text{diag}(o \circ (1 - \tanh^2 c)) \frac{\partial c}{\partial h_-}",
            "hidden",
            1e-12,
        ),
    )
    exercises = (
        Exercise(
            "For one unit the order of \\(U_f\\) and the slope does not matter. For two it does: take "
            "\\(U_f = \\begin{bmatrix} 0 & 1 \\\\ 0 & 0 \\end{bmatrix}\\) and slopes \\((0.25, 0.1)\\).",
            "\\(\\text{diag}(\\sigma') U_f\\) has 0.25 in the corner, the slope of the first gate, which is the one "
            "that reads the second unit. \\(U_f \\, \\text{diag}(\\sigma')\\) has 0.1 there.",
        ),
        Exercise(
            "What is the derivative of \\((h, c)\\) by \\((h_-, c_-)\\) if the forget gate is 1 and the input gate 0, "
            "constantly?",
            "The lower right block is the identity: the cell is carried unchanged, which is the constant error "
            "carousel. The upper right block is \\(\\text{diag}(o \\circ (1 - \\tanh^2 c))\\).",
        ),
    )
    code = """
import torch
import carousel
from carousel.lab.derivatives import StepDerivatives

layer = carousel.LSTM(3, 5, dtype=torch.float64)
steps = StepDerivatives(layer, torch.randn(20, 1, 3, dtype=torch.float64))
print(steps.jacobian(10).shape)                   # of (h, c) by (h₋, c₋): twice the size of ∂h/∂h₋
figure = carousel.lab.jacobian(6, seeds=1).plot()
"""

    cells: tuple[dict[str, Any], ...]  # label, relative_errors: by what → closed form against autograd
    printed: float  # the printed formula against autograd with c₋ held
    product: tuple[float, ...]  # relative error of a product of k printed ones, for k = 1, 2, …
    forms: dict[str, Any]  # of the forget gate, of the slope, and of the derivation
    seeds: tuple[int, ...]
    seconds: float
    spectrum: Spectrum | None = None  # of a trained model
    without: tuple[str, ...] = ()  # labels of cells that have no closed form

    def numbers(self) -> dict[str, Any]:
        spectrum = self.spectrum
        return {
            "cells": self.cells, "printed": self.printed, "product": self.product, **self.forms, "seeds": self.seeds,
            "seconds": self.seconds, "without_closed_form": self.without,
            "spectrum": None if spectrum is None else {**vars(spectrum), "text": str(spectrum)},
        }  # fmt: skip

    @staticmethod
    def lead(numbers: Numbers) -> str:
        largest = max(worst(cell)[0] for cell in numbers["cells"])
        return (
            f"For {len(numbers['cells'])} cells, the closed forms of all derivatives of h_t agree with autograd to "
            f"{power(largest)}. The formula of source 001 is {power(numbers['printed'])} from autograd with c₋ held; a "
            f"product of {len(numbers['product'])} of them is {percent(numbers['product'][-1], 0)} off the derivative "
            "through time."
        )

    @staticmethod
    def table(numbers: Numbers) -> Table:
        rows = [
            [cell["label"], power(worst(cell)[0]), f"∂h/∂{worst(cell)[1]}", len(cell["relative_errors"])]
            for cell in numbers["cells"]
        ]
        rows += [[label, "–", NO_FORM, 0] for label in numbers["without_closed_form"]]
        return ["closed form − autograd", "largest", "in", "derivatives"], rows

    def __str__(self) -> str:
        text = super().__str__()
        return text if self.spectrum is None else f"{text}\n{self.spectrum}"

    def setup(self) -> Sequence[str]:
        texts = [
            "Random weights, inputs and states in float64. The closed forms are the cells' own, those the kernels are "
            "written from; autograd differentiates the cell's step. A difference is relative to the largest entry, and "
            f"the largest over {counted(len(self.seeds), 'random seed')}.",
            "Through time, h and c go together: the derivative of (h, c) by (h₋, c₋) is a matrix of twice the size, "
            "and its product over k steps, upper left block, is \\(\\partial h_t / \\partial h_{t-k}\\). The "
            "printed one, multiplied k times, leaves the way through c out.",
        ]
        if self.spectrum is not None:
            texts.append(
                f"And the first layer, forward, of a trained model that reads {self.spectrum.source}, at "
                f"{len(self.spectrum.steps)} steps of the longest: the eigenvalues of that matrix. A direction with "
                "|λ| = 1 is kept, one with |λ| = 0 is forgotten at once; the largest singular value is the most that "
                "one step can stretch."
            )
        return texts

    def render(self, page: Page) -> None:
        drawn = self.figures()
        page.figure(
            drawn["product"], "What a product of the printed derivatives leaves out",
            "How far it is from the derivative over k steps, relative to its largest entry, in an LSTM (the mean over "
            "the random seeds).",
        )  # fmt: skip
        if "spectrum" in drawn:
            page.figure(
                drawn["spectrum"], "Eigenvalues of a step of the trained model",
                f"In the complex plane, with the circle |λ| = 1. {self.spectrum}.",
            )  # fmt: skip
        page.heading("Closed form and autograd").quote(
            typeset(f"“{TASK}”"), f"{SOURCES['002']} (source 002), For Requirements, 1"
        ).text(
            "It is a task, and no claim. The table has its answer, for every cell: how far the closed forms of ∂h_t by "
            "every gate, state, input and parameter are from autograd."
        ).table(*self.table(self.measured))
        names = list(dict.fromkeys(name for one in self.cells for name in one["relative_errors"]))
        told = [{name: power(error) for name, error in one["relative_errors"].items()} for one in self.cells]
        rows = [[one["label"], *(t.get(name, "") for name in names)] for one, t in zip(self.cells, told, strict=True)]
        page.heading("Every derivative").text("The largest relative difference in ∂h_t by each.")
        page.table(["cell", *(f"`{name}`" for name in names)], rows)

    def figures(self) -> dict[str, Any]:
        drawn = figure(320, hovermode="x", showlegend=False)
        drawn.add_scatter(x=list(range(1, len(self.product) + 1)), y=self.product, mode="lines+markers")
        drawn.update_xaxes(title_text="steps k").update_yaxes(
            title_text="missing", tickformat=".0%", range=[-0.03, 1.05 * max(1.0, *self.product)]
        )
        if self.spectrum is None:
            return {"product": drawn}
        return {"product": drawn, "spectrum": self.spectrum_figure(self.spectrum)}

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


QUICK = {"steps": 10}
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
    seeds: Seeds = 5,
) -> Jacobian:
    """Differentiate a step of every cell in closed form and by autograd, and an LSTM over `steps` steps.

    If a trained `model` is given, it reads the file `data` (without it, its own dev or training file), and the
    eigenvalues of its steps are found.

    >>> result = run(6, seeds=1)
    >>> max(worst(one)[0] for one in result.cells) < 1e-10, result.product[0] < 1e-10 < result.product[1]
    (True, True)
    """
    check_counts(steps=steps, hidden=hidden, inputs=inputs, seeds=seeds)
    clock = Clock()
    kinds = [kind for kind in (*CELLS.values(), sigmoid_rnn()) if has_derivative(kind.cell)]
    cells: list[dict[str, Any]] = [{"label": kind.label, "relative_errors": {}} for kind in kinds]
    without = tuple(kind.label for kind in CELLS.values() if not has_derivative(kind.cell))
    printed_error, products, forms = 0.0, [], []
    local: dict[str, float] = {}
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        spectrum = None if model is None else spectrum_of(read_layers(model, data))
        numbers = tuple(seed_numbers(seed, seeds))
        for number in numbers:
            torch.manual_seed(number)
            x = torch.randn(steps, 1, inputs, dtype=torch.float64)
            for kind, cell in zip(kinds, cells, strict=True):
                layer = _random(kind.layer(inputs, hidden, dtype=torch.float64))
                for name, error in compare(StepDerivatives(layer, x), steps // 2).items():
                    cell["relative_errors"][name] = max(error, cell["relative_errors"].get(name, 0.0))
            derivatives = StepDerivatives(_random(LSTM(inputs, hidden, dtype=torch.float64)), x)
            error, product = multiply(derivatives)
            printed_error = max(printed_error, error)
            products.append(product)
            forms.append(check_forms(derivatives, steps // 2))
            for name, error in check_local(hidden).items():
                local[name] = max(error, local.get(name, 0.0))
    mean = tuple(sum(errors) / len(errors) for errors in zip(*products, strict=True))
    largest = {key: max(form[key] for form in forms) for key in forms[0]}
    together = {
        "forget": {"printed": min(form["forget_printed"] for form in forms), "corrected": largest["forget"]},
        "slope": {"printed": largest["slope_printed"], "corrected": largest["slope"]},
        "local": local,
        "concatenation": concatenation(hidden, inputs),
        "left_out": LEFT_OUT,
        "derivation": {key: largest[key] for key in ("slope", "forget", "cell", "hidden")},
    }
    seconds = clock.seconds
    return Jacobian(tuple(cells), printed_error, mean, together, numbers, seconds, spectrum, without)


def multiply(derivatives: StepDerivatives) -> tuple[float, list[float]]:
    """How far the printed ∂h/∂h₋ is off at its worst step, and a product of k of them, for k = 1, 2, …"""
    hidden, steps = derivatives.sizes[0], len(derivatives.x)
    exact, partial = (torch.eye(size, dtype=torch.float64) for size in (2 * hidden, hidden))
    errors, worst_step = [], 0.0
    for t in reversed(range(steps)):
        one = printed(derivatives, t)
        jacobian = derivatives.jacobian(t)
        worst_step = max(worst_step, apart(one, jacobian[:hidden, :hidden]))
        exact, partial = exact @ jacobian, partial @ one
        errors.append(apart(partial, exact[:hidden, :hidden]))
    return worst_step, errors


def check_forms(derivatives: StepDerivatives, t: int) -> dict[str, float]:
    """Each step of the derivation in an LSTM against autograd, and the forms that the sources print."""
    h, c_ = (part[0] for part in derivatives.before(t))
    u_i, u_f, u_g, u_o = derivatives.own["weight_hh"].chunk(4)
    x_i, x_f, x_g, x_o = (derivatives.projected[t, 0]).chunk(4)

    def gates(h: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        i, f, o = (torch.sigmoid(x + u @ h) for x, u in ((x_i, u_i), (x_f, u_f), (x_o, u_o)))
        return i, f, torch.tanh(x_g + u_g @ h), o

    def cell(h: Tensor) -> Tensor:
        i, f, g, _ = gates(h)
        return f * c_ + i * g

    y = torch.linspace(-4, 4, 81, dtype=torch.float64)
    slope = torch.autograd.functional.jacobian(torch.sigmoid, y).diagonal()
    d_f = torch.autograd.functional.jacobian(lambda h: gates(h)[1], h)
    d_c = torch.autograd.functional.jacobian(cell, h)
    d_h = torch.autograd.functional.jacobian(lambda h: gates(h)[3] * torch.tanh(cell(h)), h)
    i, f, g, o = gates(h)
    slopes = [(a * (1 - a))[:, None] * u for a, u in ((i, u_i), (f, u_f), (o, u_o))]
    by_cell = c_[:, None] * slopes[1] + g[:, None] * slopes[0] + (i * (1 - g * g))[:, None] * u_g
    s = torch.tanh(cell(h))
    by_hidden = s[:, None] * slopes[2] + (o * (1 - s * s))[:, None] * by_cell
    return {
        "slope": float((torch.sigmoid(y) * (1 - torch.sigmoid(y)) - slope).abs().max()),
        "slope_printed": float((y * (1 - y) - slope).abs().max()),
        "forget": apart(slopes[1], d_f),
        "forget_printed": apart(u_f * (f * (1 - f)), d_f),
        "cell": apart(by_cell, d_c),
        "hidden": apart(by_hidden, d_h),
    }


def check_local(size: int) -> dict[str, float]:
    """The local derivatives of an LSTM that source 002 prints, but for those of σ and of z, against autograd."""
    c_, f, i, g, z, b, y = torch.randn(7, size, dtype=torch.float64)
    weight = torch.randn(size, size, dtype=torch.float64)
    eye = torch.eye(size, dtype=torch.float64)
    jacobian = torch.autograd.functional.jacobian
    by_cell = jacobian(lambda c_, f, i, g: f * c_ + i * g, (c_, f, i, g))
    by_weight, by_bias, by_z = jacobian(lambda weight, b, z: weight @ z + b, (weight, b, z))
    return {
        "∂y/∂W": apart(torch.einsum("ki,j->kij", eye, z), by_weight),
        "∂y/∂b": apart(eye, by_bias),
        "∂y/∂z": apart(weight, by_z),
        "∂c/∂c₋": apart(torch.diag(f), by_cell[0]),
        "∂c/∂f": apart(torch.diag(c_), by_cell[1]),
        "∂c/∂i": apart(torch.diag(g), by_cell[2]),
        "∂tanh(y)/∂y": apart(torch.diag(1 - y.tanh() ** 2), jacobian(torch.tanh, y)),
    }


def concatenation(hidden: int, inputs: int) -> dict[str, dict[str, list[int]]]:
    """The size of ∂z/∂h₋ and ∂z/∂x for z = [h₋, x] as source 002 prints it, four blocks, and by autograd."""
    parts = torch.zeros(hidden), torch.zeros(inputs)
    found = torch.autograd.functional.jacobian(lambda *given: torch.cat(given), parts)
    square = [hidden + inputs] * 2
    return {
        name: {"printed": square, "right": list(each.shape)}
        for name, each in zip(("∂z/∂h₋", "∂z/∂x"), found, strict=True)
    }


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
    """∂h/∂h₋ of an LSTM as source 001 prints it, with the derivatives of the gates corrected: (H, H)."""
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
    derivatives_of: dict[str, list[Tensor]] = {}
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
                derivatives_of.setdefault(name, []).append(value)
    return {name: torch.stack(values) for name, values in derivatives_of.items()}


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
