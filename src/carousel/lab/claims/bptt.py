"""Gradients through time by four routes: by hand, autograd, kernels, finite differences."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import torch
from torch import Tensor

from ...errors import check_counts
from ...layers import Recurrent
from ...layers.batch import read
from ...report import Page, figure
from ..cells import CELLS
from ..derivatives import StepDerivatives, apart, has_derivative
from ..old_finding import Claim, Finding, Verdict
from ..options import Hidden, Option, Seed
from ..words import listing, power

ROUTES = ("autograd", "kernels", "differences")
ONLY_AUTOGRAD = "no derivative by hand: against autograd"
EXACT, NEAR = 1e-10, 1e-6  # of what is computed, and of finite differences


@dataclass(frozen=True)
class Compared:
    """One cell: for each gradient, how far each route is, relative, from the one derived by hand.

    A cell without a derivative by hand is measured from autograd. A route that a cell does not have is absent.
    """

    label: str
    gradients: dict[str, dict[str, float]]  # of what → route → difference
    by_hand: bool = True

    def worst(self, route: str) -> float | None:
        """The largest difference of a route; None: the cell does not have it."""
        return max((told[route] for told in self.gradients.values() if route in told), default=None)

    def shown(self, route: str) -> str:
        worst = self.worst(route)
        return "–" if worst is None else power(worst)

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
            note = "" if one.by_hand else f"  {ONLY_AUTOGRAD}"
            lines.append(f"{one.label:{width}}  {'  '.join(f'{one.shown(route):>11}' for route in ROUTES)}{note}")
        return "\n".join(lines)

    def lead(self) -> str:
        derived = [one for one in self.cells if one.by_hand]
        exact = max(one.worst(route) or 0.0 for one in derived for route in ROUTES[:2])
        near = max(one.worst("differences") or 0.0 for one in derived)
        text = (
            f"Over {self.steps} steps, all gradients of {len(derived)} cells, derived by hand, agree with autograd "
            f"and with the kernels to {power(exact)}, and with finite differences to {power(near)}."
        )
        if others := [one for one in self.cells if not one.by_hand]:
            near = max(one.worst("differences") or 0.0 for one in others)
            text += (
                f" {listing(one.label for one in others)}: no derivative by hand; autograd and finite differences "
                f"agree to {power(near)}."
            )
        return text

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
            page.heading(one.label)
            if not one.by_hand:
                page.text(f"{ONLY_AUTOGRAD[0].upper()}{ONLY_AUTOGRAD[1:]}.")
            page.table(["gradient of", *ROUTES], rows)

    def verdict(self) -> Verdict:
        if all(one.agrees for one in self.cells):
            return Verdict(True, "Four routes that share no code but the equations give the same gradients.")
        wrong = [one.label for one in self.cells if not one.agrees]
        return Verdict(False, f"The routes differ for {', '.join(wrong)}.")

    def figures(self) -> dict[str, Any]:
        drawn = figure(120 + 34 * len(self.cells))
        worst = [[one.worst(route) for route in ROUTES] for one in self.cells]
        logs = [[math.nan if value is None else math.log10(max(value, 1e-17)) for value in row] for row in worst]
        drawn.add_heatmap(
            x=list(ROUTES), y=[one.label for one in self.cells], z=logs, zmin=-17, zmax=-5, xgap=2, ygap=2,
            colorscale=[(0, "#08306b"), (0.5, "#5ba3cf"), (1, "#f7fbff")],
            text=[[one.shown(route) for route in ROUTES] for one in self.cells], texttemplate="%{text}",
            hovertemplate="%{y}, %{x}: %{text}<extra></extra>", showscale=False,
        )  # fmt: skip
        drawn.update_yaxes(autorange="reversed", showgrid=False).update_xaxes(showgrid=False)
        return {"routes": drawn.update_layout(margin={"l": 140})}

    def numbers(self) -> dict[str, Any]:
        told = [{"label": one.label, "gradients": one.gradients, "by_hand": one.by_hand} for one in self.cells]
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
            cells.append(Compared(kind.label, compare(layer, x, weights), has_derivative(layer.cell)))
    return Bptt(tuple(cells), steps, seed, time.perf_counter() - start)


def compare(layer: Recurrent, x: Tensor, weights: Tensor) -> dict[str, dict[str, float]]:
    """How far each route is from the hand-derived gradients of Σ weights ∘ h; without those, from autograd's."""
    own = layer._parameters_of(0, 0)
    routes = {"autograd": by_autograd(lambda given: unroll(layer, given), x, weights, own)}
    if layer.path(x) == "fused":
        routes["kernels"] = by_autograd(lambda given: layer(given)[0], x, weights, own)
    routes["differences"] = by_differences(lambda given: float((layer(given)[0] * weights).sum()), x, own)
    measure = StepDerivatives(layer, x).gradients(weights) if has_derivative(layer.cell) else routes.pop("autograd")
    return {
        name: {route: apart(found[name], value) for route, found in routes.items()} for name, value in measure.items()
    }


def unroll(layer: Recurrent, x: Tensor) -> Tensor:
    """The cell's equations, one step after the other, without kernels: x (T, B, I) → (T, B, H)."""
    return layer._run(read(layer, x, None, None), None, fused=False)[0]


def by_autograd(
    forward: Callable[[Tensor], Tensor], x: Tensor, weights: Tensor, own: dict[str, Tensor]
) -> dict[str, Tensor]:
    """Gradients of Σ weights ∘ forward(x), as torch takes them."""
    inputs = {**own, "x": x.clone().requires_grad_()}
    loss = (forward(inputs["x"]) * weights).sum()
    found = torch.autograd.grad(loss, list(inputs.values()), allow_unused=True, materialize_grads=True)
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
