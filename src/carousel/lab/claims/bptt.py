"""Gradients through time by four routes: by hand, autograd, kernels, finite differences."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import torch
from torch import Tensor

from ...errors import check_counts
from ...layers import Recurrent
from ...layers.batch import read
from ...report import Page, figure
from ...wording import counted
from ..cells import CELLS, sigmoid_rnn
from ..claim import Claim, Numbers, Verdict, fails, holds, holds_for
from ..derivatives import StepDerivatives, apart, has_derivative
from ..finding import Exercise, Finding, Step, Table
from ..measured import Clock
from ..options import Hidden, Option, Seed, Seeds, help_text, seed_numbers
from ..words import listing, percent, power

ROUTES = ("autograd", "kernels", "differences")
ONLY_AUTOGRAD = "no derivative by hand: against autograd"
NEAR = 1e-6  # of finite differences


def worst(cell: Numbers, route: str) -> float | None:
    """The largest difference of a route over all gradients of a cell; None: the cell does not have it."""
    return max((by[route] for by in cell["gradients"].values() if route in by), default=None)


def _shown(cell: Numbers, route: str) -> str:
    value = worst(cell, route)
    return "–" if value is None else power(value)


def _agree(numbers: Numbers, tolerance: float) -> Verdict:
    limits = {"autograd": tolerance, "kernels": tolerance, "differences": NEAR}
    differing = [
        f"{cell['label']}, {route}"
        for cell in numbers["cells"]
        for route, limit in limits.items()
        if (worst(cell, route) or 0.0) > limit
    ]
    exact = max(worst(cell, route) or 0.0 for cell in numbers["cells"] for route in ROUTES[:2])
    near = max(worst(cell, "differences") or 0.0 for cell in numbers["cells"])
    if differing:
        return fails(f"The routes differ: {listing(differing)}.")
    by_weight = numbers["dependence"]
    return holds_for(
        "ŷ^t in the place of y^t",
        f"For {len(numbers['cells'])} cells, all gradients agree to {power(exact)}, and with central differences to "
        f"{power(near)}. What depends on W_h is the output ŷ^t: in the notes' network its derivative is up to "
        f"{power(by_weight['directly'])} directly and {power(by_weight['indirectly'])} through the states before. y^t "
        "is the target, which no weight changes.",
    )


def _literal(numbers: Numbers, tolerance: float) -> Verdict:
    literal, immediate = numbers["literal"], numbers["derivation"]["sum"]
    text = (
        f"With the total derivative as the last factor, as equation 55 is printed, the sum is {percent(literal, 0)} "
        f"off; with the immediate one, in which the state before is held, {power(immediate)}."
    )
    return holds(text) if literal <= tolerance else fails(text)


def _lecture(numbers: Numbers, tolerance: float) -> Verdict:
    wrong = [name for name, value in numbers["lecture"].items() if value > tolerance]
    if wrong:
        return fails(f"The gradient differs from autograd for {listing(wrong)}.")
    return holds(
        "For an RNN with tanh, outputs o = V h + c and the cross-entropy of their softmax at every step, the "
        f"gradients of {listing(numbers['lecture'])} agree with autograd to {power(max(numbers['lecture'].values()))}."
    )


@dataclass(frozen=True)
class Bptt(Finding):
    """What :func:`run` gives."""

    name = "bptt"
    title = "Backpropagation through time, by four routes"
    claims = (
        Claim(
            "routes",
            "It is clear that y^t depends on W_h both directly and indirectly. … This equation continues until h^0 is "
            "reached.",
            "003 §5.2.2, equations 46 to 48",
            "the gradient of every parameter of every cell, derived by hand and carried back step by step, agrees with "
            f"autograd and with the kernels to {{tolerance}}, and with central differences to {power(NEAR)}, relative "
            "to the largest entry. It is ŷ^t that depends on W_h, not the target y^t.",
            _agree,
            tolerance=1e-10,
            seeds=5,
        ),
        Claim(
            "literal",
            "And we rewrite this as sum over all values of p less than t , we have",
            "003 §5.2.2, equations 47, 52 and 55",
            "the sum as printed, every symbol being a total derivative, is the total derivative to {tolerance}.",
            _literal,
            tolerance=1e-10,
            printed=(
                r"\frac{\partial h_m^t}{\partial W_{h_{ij}}} = \frac{\partial h_m^t}{\partial W_{h_{ij}}} + "
                r"\frac{\partial h_m^t}{\partial h_n^{(t-1)}} \cdot "
                r"\frac{\partial h_n^{(t-1)}}{\partial W_{h_{ij}}}",
                r"\frac{\partial h_m^t}{\partial h_n^{(t-2)}} \cdot \frac{h_n^{(t-2)}}{\partial W_{h_{ij}}}",
                r"\frac{\partial h_m^t}{\partial W_{h_{ij}}} = \sum_{p=0}^t "
                r"\frac{\partial h_m^t}{\partial h_n^p} \cdot \frac{\partial h_n^p}{\partial W_{h_{ij}}}",
            ),
            corrected=(
                r"\frac{d h_m^t}{d W_{h_{ij}}} = \frac{\partial^{+} h_m^t}{\partial W_{h_{ij}}} + \sum_n "
                r"\frac{\partial h_m^t}{\partial h_n^{(t-1)}} \cdot \frac{d h_n^{(t-1)}}{d W_{h_{ij}}}",
                r"\sum_n \frac{d h_m^t}{d h_n^{(t-2)}} \cdot \frac{\partial^{+} h_n^{(t-2)}}{\partial W_{h_{ij}}}",
                r"\frac{d h_m^t}{d W_{h_{ij}}} = \sum_{p=1}^t \sum_n "
                r"\frac{d h_m^t}{d h_n^p} \cdot \frac{\partial^{+} h_n^p}{\partial W_{h_{ij}}}",
            ),
        ),
        Claim(
            "lecture",
            "∇_c L = …, ∇_b L = …, ∇_V L = …, ∇_W L = …, ∇_U L = …",
            "004 Backpropagation through time (BPTT), the five equations",
            "for an RNN with tanh each of the five gradients agrees with autograd to {tolerance}, relative to its "
            "largest entry. The slide does not say how ∇_h L is found; the run carries it back from the last step.",
            _lecture,
            tolerance=1e-10,
            seeds=5,
            printed=(
                r"\nabla_{\mathbf{c}} L = \sum_t \left( \frac{\partial \mathbf{o}^{(t)}}{\partial \mathbf{c}} "
                r"\right)^\top \nabla_{\mathbf{o}^{(t)}} L = \sum_t \nabla_{\mathbf{o}^{(t)}} L",
                r"\nabla_{\mathbf{b}} L = \sum_t \left( \frac{\partial \mathbf{h}^{(t)}}{\partial \mathbf{b}^{(t)}} "
                r"\right)^\top \nabla_{\mathbf{h}^{(t)}} L = \sum_t \text{diag} \left( 1 - \left( \mathbf{h}^{(t)} "
                r"\right)^2 \right) \nabla_{\mathbf{h}^{(t)}} L",
                r"\nabla_{\mathbf{V}} L = \sum_t \sum_i \left( \frac{\partial L}{\partial o_i^{(t)}} \right) "
                r"\nabla_{\mathbf{V}^{(t)}} o_i^{(t)} = \sum_t (\nabla_{\mathbf{o}^{(t)}} L) \mathbf{h}^{(t)\top}",
                r"\nabla_{\mathbf{W}} L = \sum_t \sum_i \left( \frac{\partial L}{\partial h_i^{(t)}} \right) "
                r"\nabla_{\mathbf{W}^{(t)}} h_i^{(t)} "
                r"= \sum_t \text{diag} \left( 1 - \left( \mathbf{h}^{(t)} \right)^2 \right) "
                r"(\nabla_{\mathbf{h}^{(t)}} L) \mathbf{h}^{(t-1)\top}",
                r"\nabla_{\mathbf{U}} L = \sum_t \sum_i \left( \frac{\partial L}{\partial h_i^{(t)}} \right) "
                r"\nabla_{\mathbf{U}^{(t)}} h_i^{(t)} "
                r"= \sum_t \text{diag} \left( 1 - \left( \mathbf{h}^{(t)} \right)^2 \right) "
                r"(\nabla_{\mathbf{h}^{(t)}} L) \mathbf{x}^{(t)\top}",
            ),
        ),
    )
    derivation = (
        Step(
            "The state depends on \\(W\\) at this step and through the state before it. \\(\\partial^+\\) is the "
            "immediate derivative, in which the state before is held; the notes write both with one symbol. The run "
            "takes the left side by autograd, in the notes' own network, \\(h = \\sigma(W h_- + W_e x + b)\\).",
            r"\frac{d h^t}{d W} = \frac{\partial^{+} h^t}{\partial W} + "
            r"\frac{\partial h^t}{\partial h^{t-1}} \frac{d h^{t-1}}{d W}",
            "recursion",
            1e-12,
        ),
        Step(
            "One step of it is the product of the slopes and the weights.",
            r"\frac{\partial h^t}{\partial h^{t-1}} = \text{diag}\left(h^t (1 - h^t)\right) W",
            "one_step",
            1e-12,
        ),
        Step(
            "Applied again and again, until the first step is reached, it becomes a sum over all steps.",
            r"\frac{d h^t}{d W} = \sum_{p=1}^t \left(\prod_{q=p+1}^{t} "
            r"\frac{\partial h^q}{\partial h^{q-1}}\right) \frac{\partial^{+} h^p}{\partial W}",
            "sum",
            1e-12,
        ),
        Step(
            "The loss of a step, cross-entropy of \\(\\hat{y} = \\text{softmax}(U h)\\), multiplies it by "
            "\\((\\hat{y} - y) U\\): equation 56, with the immediate derivative.",
            r"\frac{d L^t}{d W} = (\hat{y}^t - y^t)^\top U \, \frac{d h^t}{d W}",
            "loss",
            1e-12,
        ),
        Step(
            "For \\(W_e\\) nothing changes but the immediate derivative, which has the input in the place of the state "
            "before: equation 59.",
            r"\frac{d L^t}{d W_e} = (\hat{y}^t - y^t)^\top U \sum_{p=1}^t \left(\prod_{q=p+1}^{t} "
            r"\frac{\partial h^q}{\partial h^{q-1}}\right) \frac{\partial^{+} h^p}{\partial W_e}",
            "inputs",
            1e-12,
        ),
    )
    exercises = (
        Exercise(
            "How many terms has the sum of equation 55 for \\(t = 12\\), and which of them is zero if "
            "\\(h^0\\) is a constant?",
            "Thirteen as printed, for \\(p = 0, \\dots, 12\\). The one for \\(p = 0\\) is zero, because "
            "\\(h^0\\) does not depend on \\(W\\).",
        ),
        Exercise(
            "Why do central differences agree only to about nine digits?",
            "Their error has two parts: \\(\\varepsilon^2\\) from the third derivative, and rounding, about "
            "\\(10^{-16} / \\varepsilon\\). With \\(\\varepsilon = 10^{-6}\\) the second is about "
            "\\(10^{-10}\\), times the size of the loss.",
        ),
    )
    code = """
import torch
import carousel
from carousel.lab.derivatives import StepDerivatives

layer = carousel.LSTM(3, 4, dtype=torch.float64)
x, d_output = torch.randn(12, 2, 3, dtype=torch.float64), torch.randn(12, 2, 4, dtype=torch.float64)
by_hand = StepDerivatives(layer, x).gradients(d_output)           # from the last step to the first
(layer(x)[0] * d_output).sum().backward()                         # the kernels
print((by_hand["weight_hh"] - layer.weight_hh_l0.grad).abs().max())
figure = carousel.lab.bptt(4, seeds=1).plot()
"""

    cells: tuple[dict[str, Any], ...]  # label, by_hand, gradients: of what → route → relative difference
    checks: dict[str, float]
    literal: float  # how far equation 55 is off, as it is printed
    dependence: dict[str, float]  # of ŷ on W_h: the largest entry of its derivative, directly and through the states
    lecture: dict[str, float]  # of source 004's five gradients: parameter → relative difference from autograd
    steps: int
    seeds: tuple[int, ...]
    seconds: float

    def numbers(self) -> dict[str, Any]:
        return {
            "cells": self.cells, "literal": self.literal, "dependence": self.dependence, "lecture": self.lecture,
            "steps": self.steps, "seeds": self.seeds, "seconds": self.seconds, "derivation": self.checks,
        }  # fmt: skip

    @staticmethod
    def lead(numbers: Numbers) -> str:
        derived = [cell for cell in numbers["cells"] if cell["by_hand"]]
        exact = max(worst(cell, route) or 0.0 for cell in derived for route in ROUTES[:2])
        near = max(worst(cell, "differences") or 0.0 for cell in derived)
        text = (
            f"Over {numbers['steps']} steps, all gradients of {len(derived)} cells, derived by hand, agree with "
            f"autograd and with the kernels to {power(exact)}, and with central differences to {power(near)}."
        )
        if others := [cell for cell in numbers["cells"] if not cell["by_hand"]]:
            near = max(worst(cell, "differences") or 0.0 for cell in others)
            text += (
                f" {listing(cell['label'] for cell in others)}: no derivative by hand; autograd and central "
                f"differences agree to {power(near)}."
            )
        return text

    @staticmethod
    def table(numbers: Numbers) -> Table:
        rows = [[cell["label"], *(_shown(cell, route) for route in ROUTES)] for cell in numbers["cells"]]
        if all(cell["by_hand"] for cell in numbers["cells"]):
            return ["by hand, against", *ROUTES], rows
        notes = ["" if cell["by_hand"] else ONLY_AUTOGRAD for cell in numbers["cells"]]
        return ["by hand, against", *ROUTES, ""], [[*row, note] for row, note in zip(rows, notes, strict=True)]

    def setup(self) -> Sequence[str]:
        return (
            f"For every cell, and for the notes' RNN with σ, two random sequences of {self.steps} steps in float64 and "
            "a loss that weighs every output at random. The gradient of every parameter and of the input: by the "
            "cell's hand-derived step, from the last step to the first; by autograd on the cell's equations; by the "
            "fused kernels; and by central differences of the layer's forward pass, entry by entry. The last two share "
            "that forward pass, which is the kernels'. `weight_hh` is the notes' \\(W_h\\) and `weight_ih` their "
            "\\(W_e\\). A difference is relative to the largest entry, and the largest "
            f"over {counted(len(self.seeds), 'random seed')}.",
            "The five gradients of source 004 are taken apart from these, by its equations, in an RNN with tanh and an "
            "output layer, \\(o = V h + c\\), whose softmax is compared with a target at every step.",
        )

    def render(self, page: Page) -> None:
        page.figure(
            self.figures()["routes"], "How far apart the routes are",
            "The largest relative difference from the gradients by hand, as a power of ten. Central differences have "
            "an error of their own, of about 10⁻⁹.",
        ).table(*self.table(self.measured))  # fmt: skip
        for cell in self.cells:
            rows = [
                [f"`{name}`", *(power(by[route]) if route in by else "" for route in ROUTES)]
                for name, by in cell["gradients"].items()
            ]
            page.heading(cell["label"])
            if not cell["by_hand"]:
                page.text(f"{ONLY_AUTOGRAD[0].upper()}{ONLY_AUTOGRAD[1:]}.")
            page.table(["gradient of", *ROUTES], rows)

    def figures(self) -> dict[str, Any]:
        drawn = figure(120 + 34 * len(self.cells))
        values = [[worst(cell, route) for route in ROUTES] for cell in self.cells]
        logs = [[math.nan if value is None else math.log10(max(value, 1e-17)) for value in row] for row in values]
        drawn.add_heatmap(
            x=list(ROUTES), y=[cell["label"] for cell in self.cells], z=logs, zmin=-17, zmax=-5, xgap=2, ygap=2,
            colorscale=[(0, "#08306b"), (0.5, "#5ba3cf"), (1, "#f7fbff")],
            text=[[_shown(cell, route) for route in ROUTES] for cell in self.cells], texttemplate="%{text}",
            hovertemplate="%{y}, %{x}: %{text}<extra></extra>", showscale=False,
        )  # fmt: skip
        drawn.update_yaxes(autorange="reversed", showgrid=False).update_xaxes(showgrid=False)
        return {"routes": drawn.update_layout(margin={"l": 140})}


HELP = help_text(
    "Take every gradient of every cell by four routes, and see how far apart they are.", "bptt", "--steps 50 --out bptt"
)
QUICK = {"steps": 6}


def run(
    steps: Annotated[int, Option("Steps of a sequence.", "T", minimum=1)] = 12,
    *,
    hidden: Hidden = 4,
    inputs: int = 3,
    seed: Seed = 0,
    seeds: Seeds = 5,
) -> Bptt:
    """Take every gradient of every cell by four routes.

    >>> result = run(4, hidden=2, inputs=2, seeds=1)
    >>> worst(result.cells[0], "kernels") < 1e-10
    True
    """
    check_counts(steps=steps, hidden=hidden, inputs=inputs, seeds=seeds)
    clock = Clock()
    numbers = tuple(seed_numbers(seed, seeds))
    kinds = [*CELLS.values(), sigmoid_rnn()]
    cells: list[dict[str, Any]] = [
        {"label": kind.label, "by_hand": has_derivative(kind.cell), "gradients": {}} for kind in kinds
    ]
    lecture: dict[str, float] = {}
    with torch.random.fork_rng():
        for number in numbers:
            torch.manual_seed(number)
            x = torch.randn(steps, 2, inputs, dtype=torch.float64)
            for kind, cell in zip(kinds, cells, strict=True):
                layer = kind.layer(inputs, hidden, dtype=torch.float64)
                weights = torch.randn(steps, 2, hidden, dtype=torch.float64)
                _keep_largest(cell["gradients"], compare(layer, x, weights))
            for name, difference in of_lecture(steps, hidden, inputs).items():
                lecture[name] = max(difference, lecture.get(name, 0.0))
        torch.manual_seed(seed)
        checks, literal, dependence = derive(steps, hidden, inputs)
    return Bptt(tuple(cells), checks, literal, dependence, lecture, steps, numbers, clock.seconds)


def _keep_largest(kept: dict[str, dict[str, float]], new: dict[str, dict[str, float]]) -> None:
    for name, by_route in new.items():
        old = kept.setdefault(name, {})
        for route, difference in by_route.items():
            old[route] = max(difference, old.get(route, 0.0))


def of_lecture(steps: int, hidden: int, inputs: int, outputs: int = 5) -> dict[str, float]:
    """How far the five gradients of source 004 are from autograd: h = tanh(U x + W h₋ + b), o = V h + c."""
    sizes = {"c": (outputs,), "b": (hidden,), "V": (outputs, hidden), "W": (hidden, hidden), "U": (hidden, inputs)}
    own = {name: (torch.randn(*size, dtype=torch.float64) / hidden**0.5) for name, size in sizes.items()}
    x = torch.randn(steps, inputs, dtype=torch.float64)
    targets = torch.randint(outputs, (steps,))

    def forward(own: dict[str, Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        states, scores = [torch.zeros(hidden, dtype=torch.float64)], []
        for one in x:
            states.append(torch.tanh(own["U"] @ one + own["W"] @ states[-1] + own["b"]))
            scores.append(own["V"] @ states[-1] + own["c"])
        return states, scores

    leaves = {name: value.clone().requires_grad_() for name, value in own.items()}
    loss = torch.nn.functional.cross_entropy(torch.stack(forward(leaves)[1]), targets, reduction="sum")
    expected = dict(zip(own, torch.autograd.grad(loss, list(leaves.values())), strict=True))

    h, o = forward(own)
    found = {name: torch.zeros_like(value) for name, value in own.items()}
    back = torch.zeros(hidden, dtype=torch.float64)  # what ∇h has from the next step
    for t in reversed(range(steps)):
        d_o = o[t].softmax(0) - torch.eye(outputs, dtype=torch.float64)[targets[t]]
        d_h = own["V"].T @ d_o + back
        d_sum = (1 - h[t + 1] ** 2) * d_h
        found["c"] += d_o
        found["b"] += d_sum
        found["V"] += torch.outer(d_o, h[t + 1])
        found["W"] += torch.outer(d_sum, h[t])
        found["U"] += torch.outer(d_sum, x[t])
        back = own["W"].T @ d_sum
    return {name: apart(found[name], expected[name]) for name in own}


def derive(steps: int, hidden: int, inputs: int) -> tuple[dict[str, float], float, dict[str, float]]:
    """The derivation of equations 47 to 59 in numbers: derivatives of the notes' RNN by W and W_e, by each formula.

    Returns how far the two sides of each step are apart, how far equation 55 is off with total derivatives only, and
    how much the last ŷ depends on W: directly, and through the states before.
    """
    jacobian = torch.autograd.functional.jacobian
    w, w_e, x, b, u = (
        torch.randn(*shape, dtype=torch.float64) / hidden**0.5
        for shape in ((hidden, hidden), (hidden, inputs), (steps, inputs), (hidden,), (5, hidden))
    )

    def state(w: Tensor, w_e: Tensor, last: int) -> Tensor:
        h = torch.zeros(hidden, dtype=torch.float64)
        for t in range(last):
            h = torch.sigmoid(w @ h + w_e @ x[t] + b)
        return h

    def loss(w: Tensor, w_e: Tensor) -> Tensor:
        return -(u @ state(w, w_e, steps)).log_softmax(0)[0]  # the first word is the right one

    states = [state(w, w_e, t) for t in range(steps + 1)]
    total = [jacobian(lambda w, t=t: state(w, w_e, t), w) for t in range(steps + 1)]
    eye = torch.eye(hidden, dtype=torch.float64)
    slopes = [h * (1 - h) for h in states]
    jacobians = [eye, *(slope[:, None] * w for slope in slopes[1:])]
    by_w, by_w_e = (  # immediate derivatives, in which the state before is held
        [torch.einsum("mi,m,j->mij", eye, slope, read) for slope, read in zip(slopes[1:], reads, strict=True)]
        for reads in (states[:-1], x)
    )
    by_autograd = [jacobian(lambda h, t=t: torch.sigmoid(w @ h + w_e @ x[t] + b), states[t]) for t in range(steps)]
    recursion = [
        apart(by_w[t - 1] + torch.einsum("mn,nij->mij", jacobians[t], total[t - 1]), total[t])
        for t in range(1, steps + 1)
    ]

    def over_steps(factors: Sequence[Tensor]) -> Tensor:
        """Σ_p ∂h^t/∂h^p times the factor of step p."""
        product, result = eye, torch.zeros_like(factors[0])
        for p in reversed(range(1, steps + 1)):
            result = result + torch.einsum("mn,nij->mij", product, factors[p - 1])
            product = product @ jacobians[p]
        return result

    error = (u @ states[-1]).softmax(0) - torch.eye(5, dtype=torch.float64)[0]  # ŷ − y
    loss_by_w, loss_by_w_e = (torch.einsum("l,lm,mij->ij", error, u, over_steps(each)) for each in (by_w, by_w_e))
    direct = jacobian(loss, (w, w_e))
    checks = {
        "recursion": max(recursion),
        "one_step": max(apart(one, other) for one, other in zip(jacobians[1:], by_autograd, strict=True)),
        "sum": apart(over_steps(by_w), total[-1]),
        "loss": apart(loss_by_w, direct[0]),
        "inputs": apart(loss_by_w_e, direct[1]),
    }
    y = (u @ states[-1]).softmax(0)
    of_output = (torch.diag(y) - torch.outer(y, y)) @ u  # ∂ŷ/∂h
    ways = {"directly": by_w[-1], "indirectly": total[-1] - by_w[-1]}
    dependence = {way: float(torch.einsum("km,mij->kij", of_output, part).abs().max()) for way, part in ways.items()}
    return checks, apart(over_steps(total[1:]), total[-1]), dependence


def compare(layer: Recurrent, x: Tensor, weights: Tensor) -> dict[str, dict[str, float]]:
    """How far each route is from the hand-derived gradients of Σ weights ∘ h; without those, from autograd's."""
    own = layer._parameters_of(0, 0)
    routes = {"autograd": by_autograd(lambda given: unroll(layer, given), x, weights, own)}
    if layer.path(x) == "fused":
        routes["kernels"] = by_autograd(lambda given: layer(given)[0], x, weights, own)
    routes["differences"] = by_differences(lambda given: float((layer(given)[0] * weights).sum()), x, own)
    measure = StepDerivatives(layer, x).gradients(weights) if has_derivative(layer.cell) else routes.pop("autograd")
    return {
        name: {route: apart(gradients[name], value) for route, gradients in routes.items()}
        for name, value in measure.items()
    }


def unroll(layer: Recurrent, x: Tensor) -> Tensor:
    """The cell's equations, one step after the other, without kernels: x (T, B, I) → (T, B, H)."""
    return layer._run(read(layer, x, None, None), None, by="reference")[0]


def by_autograd(
    forward: Callable[[Tensor], Tensor], x: Tensor, weights: Tensor, own: dict[str, Tensor]
) -> dict[str, Tensor]:
    """Gradients of Σ weights ∘ forward(x), as torch takes them."""
    inputs = {**own, "x": x.clone().requires_grad_()}
    loss = (forward(inputs["x"]) * weights).sum()
    gradients = torch.autograd.grad(loss, list(inputs.values()), allow_unused=True, materialize_grads=True)
    return dict(zip(inputs, gradients, strict=True))


@torch.no_grad()
def by_differences(
    loss: Callable[[Tensor], float], x: Tensor, own: dict[str, Tensor], step: float = 1e-6
) -> dict[str, Tensor]:
    """(L(v + ε) − L(v − ε)) / 2ε for every entry."""
    x = x.clone()
    gradients = {}
    for name, value in {**own, "x": x}.items():
        flat, slopes = value.view(-1), torch.zeros(value.numel(), dtype=value.dtype)
        for k in range(len(flat)):
            kept = flat[k].item()
            flat[k] = kept + step
            above = loss(x)
            flat[k] = kept - step
            slopes[k] = (above - loss(x)) / (2 * step)
            flat[k] = kept
        gradients[name] = slopes.view_as(value)
    return gradients
