"""Gradients through time by four routes: by hand, autograd, kernels, finite differences."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import torch
from torch import Tensor

from ...cells import Weights
from ...errors import check_counts
from ...layers import Recurrent
from ...report import Page, figure
from ..cells import CELLS
from ..derivatives import Walk, apart
from ..finding import Claim, Finding, Verdict
from ..options import Hidden, Option, Seed
from ..words import power

ROUTES = ("autograd", "kernels", "differences")
EXACT, NEAR = 1e-10, 1e-6  # of what is computed, and of finite differences


@dataclass(frozen=True)
class Compared:
    """One cell: for each gradient, how far each route is from the one derived by hand, relative."""

    label: str
    gradients: dict[str, dict[str, float]]  # of what → route → difference

    def worst(self, route: str) -> float:
        return max(told[route] for told in self.gradients.values() if route in told)

    @property
    def agrees(self) -> bool:
        near = {"differences": NEAR}
        return all(d < near.get(route, EXACT) for told in self.gradients.values() for route, d in told.items())


@dataclass(frozen=True)
class Bptt(Finding):
    """What :func:`run` gives."""

    name = "bptt"
    title = "Backpropagation through time, by four routes"
    claim = Claim(
        "The gradient of a loss over time is the sum, over all steps, of what each step adds, carried back step by "
        "step by the chain rule.",
        "003 §5",
        ("∂L/∂W = Σₜ ∂L/∂h_t · ∂h_t/∂W,   ∂L/∂h_{t−1} = ∂L/∂h_t · ∂h_t/∂h_{t−1} + …",),
    )

    cells: tuple[Compared, ...]
    steps: int
    seed: int
    seconds: float

    def __str__(self) -> str:
        width = max(len(one.label) for one in self.cells)
        lines = [f"{'by hand, against':{width}}  {'  '.join(f'{route:>11}' for route in ROUTES)}"]
        for one in self.cells:
            lines.append(f"{one.label:{width}}  {'  '.join(f'{power(one.worst(route)):>11}' for route in ROUTES)}")
        return "\n".join(lines)

    def lead(self) -> str:
        exact = max(one.worst(route) for one in self.cells for route in ROUTES[:2])
        near = max(one.worst("differences") for one in self.cells)
        return (
            f"Over {self.steps} steps, all gradients of {len(self.cells)} cells, derived by hand, agree with autograd "
            f"and with the kernels to {power(exact)}, and with finite differences to {power(near)}."
        )

    def ran(self) -> Sequence[str]:
        return (
            f"For every cell, two random sequences of {self.steps} steps in float64, and a loss that weighs every "
            "output at random. The gradient of every parameter and of the input: by the cell's hand-derived step, "
            "from the last step to the first; by autograd on the cell's equations; by the fused kernels; and by "
            "central differences, entry by entry. A difference is relative to the largest entry.",
        )

    def tell(self, page: Page) -> None:
        page.figure(
            self.figures()["routes"], "How far apart the routes are",
            "The largest relative difference from the gradients by hand, as a power of ten. Finite differences have "
            "an error of their own, of about 10⁻⁹.",
        )  # fmt: skip
        for one in self.cells:
            rows = [
                [f"`{name}`", *(power(told[route]) if route in told else "" for route in ROUTES)]
                for name, told in one.gradients.items()
            ]
            page.heading(one.label).table(["gradient of", *ROUTES], rows)

    def verdict(self) -> Verdict:
        if all(one.agrees for one in self.cells):
            return Verdict(True, "Four routes that share no code but the equations give the same gradients.")
        wrong = [one.label for one in self.cells if not one.agrees]
        return Verdict(False, f"The routes differ for {', '.join(wrong)}.")

    def figures(self) -> dict[str, Any]:
        drawn = figure(120 + 34 * len(self.cells))
        logs = [[math.log10(max(one.worst(route), 1e-17)) for route in ROUTES] for one in self.cells]
        drawn.add_heatmap(
            x=list(ROUTES), y=[one.label for one in self.cells], z=logs, zmin=-17, zmax=-5, xgap=2, ygap=2,
            colorscale=[(0, "#08306b"), (0.5, "#5ba3cf"), (1, "#f7fbff")],
            text=[[power(one.worst(route)) for route in ROUTES] for one in self.cells], texttemplate="%{text}",
            hovertemplate="%{y}, %{x}: %{text}<extra></extra>", showscale=False,
        )  # fmt: skip
        drawn.update_yaxes(autorange="reversed", showgrid=False).update_xaxes(showgrid=False)
        return {"routes": drawn.update_layout(margin={"l": 140})}

    def numbers(self) -> dict[str, Any]:
        told = [{"label": one.label, "gradients": one.gradients} for one in self.cells]
        return {"cells": told, "steps": self.steps, "seed": self.seed, "seconds": self.seconds}


HELP = """Take every gradient of every cell by four routes, and see how far apart they are.

\b
carousel lab bptt
carousel lab bptt --steps 50 --out bptt
"""


def run(
    steps: Annotated[int, Option("Steps of a sequence.", "T", minimum=1)] = 12,
    *,
    hidden: Hidden = 4,
    inputs: int = 3,
    seed: Seed = 0,
) -> Bptt:
    """Take every gradient of every cell by four routes.

    >>> found = run(4, hidden=2, inputs=2)
    >>> found.verdict().stands
    True
    """
    check_counts(steps=steps, hidden=hidden, inputs=inputs)
    start = time.perf_counter()
    cells = []
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        x = torch.randn(steps, 2, inputs, dtype=torch.float64)
        for kind in CELLS.values():
            layer = kind.layer(inputs, hidden, dtype=torch.float64)
            weights = torch.randn(steps, 2, hidden, dtype=torch.float64)
            cells.append(Compared(kind.label, compare(layer, x, weights)))
    return Bptt(tuple(cells), steps, seed, time.perf_counter() - start)


def compare(layer: Recurrent, x: Tensor, weights: Tensor) -> dict[str, dict[str, float]]:
    """How far each route is from the hand-derived gradients of Σ weights ∘ h."""
    hand = Walk(layer, x).gradients(weights)
    own = layer._parameters_of(0, 0)
    routes = {"autograd": by_autograd(unroll(layer, own), x, weights, own)}
    if layer.path(x) == "fused":
        routes["kernels"] = by_autograd(lambda given: layer(given)[0], x, weights, own)
    routes["differences"] = by_differences(lambda given: float((layer(given)[0] * weights).sum()), x, own)
    return {name: {route: apart(found[name], value) for route, found in routes.items()} for name, value in hand.items()}


def unroll(layer: Recurrent, own: dict[str, Tensor]) -> Callable[[Tensor], Tensor]:
    """The cell's equations, one step after the other: x (T, B, I) → (T, B, H)."""
    cell, w = layer.cell, Weights(layer.cell, own)

    def forward(x: Tensor) -> Tensor:
        state = tuple(x.new_zeros(x.shape[1], *layer.state_shape(name)) for name in cell.states)
        found = []
        for rows in cell.project_input(x, w):
            state = cell.step(cell.inputs(rows), state, w, lambda name, value: value)
            found.append(state[0])
        return torch.stack(found)

    return forward


def by_autograd(
    forward: Callable[[Tensor], Tensor], x: Tensor, weights: Tensor, own: dict[str, Tensor]
) -> dict[str, Tensor]:
    """Gradients of Σ weights ∘ forward(x), as torch takes them."""
    inputs = {**own, "x": x.clone().requires_grad_()}
    found = torch.autograd.grad((forward(inputs["x"]) * weights).sum(), list(inputs.values()))
    return dict(zip(inputs, found, strict=True))


@torch.no_grad()
def by_differences(
    loss: Callable[[Tensor], float], x: Tensor, own: dict[str, Tensor], step: float = 1e-6
) -> dict[str, Tensor]:
    """(L(v + ε) − L(v − ε)) / 2ε for every entry."""
    x = x.clone()
    found = {}
    for name, value in {**own, "x": x}.items():
        flat, slopes = value.view(-1), torch.zeros(value.numel(), dtype=value.dtype)
        for k in range(len(flat)):
            kept = flat[k].item()
            flat[k] = kept + step
            above = loss(x)
            flat[k] = kept - step
            slopes[k] = (above - loss(x)) / (2 * step)
            flat[k] = kept
        found[name] = slopes.view_as(value)
    return found
