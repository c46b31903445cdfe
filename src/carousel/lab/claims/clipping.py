"""Gradient descent at a cliff, with and without clipping."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import torch
from torch import Tensor

from ...errors import ArgumentError, check_counts
from ...layers import RNN
from ...report import Page, figure
from ..finding import Claim, Finding, Verdict
from ..options import Option

LENGTH, TARGET, BEGIN = 50, 0.7, (5.0, -3.0)  # steps of the network, what h should be at the last, w and b at the start
COLOURS = {"": "#d55e00", "norm": "#0072b2", "value": "#009e73"}


@dataclass(frozen=True)
class Descent:
    """Gradient descent on w and b: where it was before each step, the loss there, and the size of the gradient."""

    by: str  # "", "norm" or "value"
    threshold: float
    path: tuple[tuple[float, float], ...]
    losses: tuple[float, ...]
    gradients: tuple[float, ...]
    turned: float  # the most that clipping turned a gradient, in degrees

    @property
    def label(self) -> str:
        return f"{self.by} at most {self.threshold:g}" if self.by else "without clipping"

    @property
    def farthest(self) -> float:
        """The longest single step."""
        return max((math.dist(a, b) for a, b in zip(self.path, self.path[1:], strict=False)), default=0.0)


@dataclass(frozen=True)
class Clipping(Finding):
    """What :func:`run` gives."""

    name = "clipping"
    title = "Gradient clipping at a cliff"
    claim = Claim(
        "A gradient that is too long is shortened to a threshold and keeps its direction. Its direction can be "
        "trusted, its length cannot: so a step does not leave the region in which it points downhill.",
        "003 §10.1, algorithm 3",
        ("if ‖g‖ ≥ threshold:  g ← threshold / ‖g‖ · g",),
    )

    descents: tuple[Descent, ...]  # the first without clipping
    lr: float
    seconds: float

    @property
    def free(self) -> Descent:
        return self.descents[0]

    def __str__(self) -> str:
        width = max(len(one.label) for one in self.descents)
        lines = [f"{'descent':{width}}  largest gradient  longest step  turned  loss at the end"]
        for one in self.descents:
            lines.append(
                f"{one.label:{width}}  {max(one.gradients):16.2f}  {one.farthest:12.3f}  {one.turned:5.1f}°  "
                f"{one.losses[-1]:15.5f}"
            )
        return "\n".join(lines)

    def lead(self) -> str:
        best = min(self.descents[1:], key=lambda one: one.losses[-1])
        return (
            f"Without clipping, one gradient of {max(self.free.gradients):.0f} throws the weights "
            f"{self.free.farthest:.1f} away, and the loss ends at {self.free.losses[-1]:.3f}; with clipping "
            f"({best.label}) it ends at {best.losses[-1]:.5f}."
        )

    def ran(self) -> Sequence[str]:
        return (
            f"One unit, h = σ(w h₋ + b), {LENGTH} steps from h = 0.5, and the loss (h − {TARGET})² at the end. "
            f"Gradient descent on w and b, {len(self.free.losses)} steps of rate {self.lr:g} from w = {BEGIN[0]:g}, b "
            f"= {BEGIN[1]:g}. Near w = 4 to 9 the loss has a cliff: on one side of it h ends low, on the other high.",
            "Clipped by norm, as the algorithm has it; and by value, each entry for itself, which turns the gradient.",
        )

    def tell(self, page: Page) -> None:
        drawn = self.figures()
        page.figure(
            drawn["cliff"], "The loss over w and b, and where descent went",
            "The darker, the larger the loss. Descent begins at the same place, with and without clipping.",
        )  # fmt: skip
        page.figure(drawn["loss"], "The loss, step by step", "On a logarithmic scale.")
        rows = [
            [
                one.label,
                f"{max(one.gradients):.2f}",
                f"{one.farthest:.3f}",
                f"{one.turned:.1f}°",
                f"{one.losses[-1]:.5f}",
            ]
            for one in self.descents
        ]
        page.table(["descent", "largest gradient", "longest step", "turned by at most", "loss at the end"], rows)

    def verdict(self) -> Verdict:
        by_norm = [one for one in self.descents if one.by == "norm"]
        kept = all(one.turned < 1e-3 for one in by_norm)
        better = [one for one in by_norm if one.losses[-1] < self.free.losses[-1]]
        if not kept:
            return Verdict(False, "Clipping by norm turned a gradient.")
        if not better:
            return Verdict(None, "Clipping did not help with these thresholds.")
        by_value = max((one.turned for one in self.descents if one.by == "value"), default=0.0)
        return Verdict(
            True,
            f"Clipping by norm keeps every direction and, with {len(better)} of {len(by_norm)} thresholds, descends "
            "where plain descent is thrown off the cliff. Clipping by value turned gradients by up to "
            f"{by_value:.0f}°.",
        )

    def figures(self) -> dict[str, Any]:
        chosen = min((one for one in self.descents if one.by == "norm"), key=lambda one: one.losses[-1])
        shown = (self.free, chosen)
        cliff = figure(480, hovermode="closest")
        w, b = torch.linspace(2, 9, 71, dtype=torch.float64), torch.linspace(-5, 1.5, 66, dtype=torch.float64)
        cliff.add_heatmap(
            x=w.tolist(), y=b.tolist(), z=surface(w, b).T.tolist(), zmin=0, colorbar={"title": {"text": "loss"}},
            colorscale=[(0, "#ffffff"), (0.25, "#cfd8e3"), (1, "#3a4757")],
        )  # fmt: skip
        for one in shown:
            x, y = zip(*one.path, strict=True)
            cliff.add_scatter(
                x=x, y=y, mode="lines+markers", name=one.label, marker={"size": 4},
                line={"color": COLOURS[one.by], "width": 1.8},
            )  # fmt: skip
        cliff.update_xaxes(range=[2, 9], title_text="w", showgrid=False)
        cliff.update_yaxes(range=[-5, 1.5], title_text="b", showgrid=False)
        loss = figure(340, hovermode="x")
        for one in shown:
            loss.add_scatter(
                y=one.losses, x=list(range(len(one.losses))), name=one.label, line={"color": COLOURS[one.by]}
            )
        loss.update_yaxes(type="log", exponentformat="power", dtick=1, title_text="loss").update_xaxes(
            title_text="step"
        )
        return {"cliff": cliff, "loss": loss}

    def numbers(self) -> dict[str, Any]:
        told = [
            {
                "label": one.label,
                "path": one.path,
                "losses": one.losses,
                "gradients": one.gradients,
                "turned": one.turned,
            }
            for one in self.descents
        ]
        return {"descents": told, "lr": self.lr, "seconds": self.seconds}


HELP = """Gradient descent at a cliff, with and without clipping.

\b
carousel lab clipping
carousel lab clipping --lr 0.5 --out clipping
"""


def run(
    steps: Annotated[int, Option("Steps of descent.", "N", minimum=1)] = 300,
    *,
    lr: Annotated[float, Option("The learning rate.")] = 0.1,
    thresholds: Sequence[float] = (10.0, 1.0, 0.5, 0.1),
) -> Clipping:
    """Descend without clipping, with each threshold for the norm, and with one for each value.

    >>> found = run(30, thresholds=[0.5])
    >>> found.descents[1].farthest <= 0.5 * found.lr + 1e-9
    True
    """
    check_counts(steps=steps)
    if not lr > 0:
        raise ArgumentError(f"lr must be above 0, got {lr:g}")
    if not thresholds or min(thresholds) <= 0:
        raise ArgumentError(f"thresholds must be some numbers above 0, got {list(thresholds)}")
    start = time.perf_counter()
    ways = [
        ("", math.inf),
        *(("norm", limit) for limit in thresholds),
        ("value", min(thresholds, key=lambda t: abs(t - 0.5))),
    ]
    found = tuple(descend(by, threshold, steps, lr) for by, threshold in ways)
    return Clipping(found, lr, time.perf_counter() - start)


def descend(by: str, threshold: float, steps: int, lr: float) -> Descent:
    layer = unit(*BEGIN)
    w, b = layer.get_parameter("weight_hh_l0"), layer.get_parameter("bias_ih_l0")
    path, losses, gradients, turned = [], [], [], 0.0
    for _ in range(steps):
        layer.zero_grad()
        value = loss_of(layer)
        value.backward()
        before = torch.stack([w.grad.flatten()[0], b.grad.flatten()[0]])  # type: ignore[union-attr]
        after = clip(before, by, threshold)
        path.append((w.item(), b.item()))
        losses.append(value.item())
        gradients.append(before.norm().item())
        turned = max(turned, _angle(before, after))
        with torch.no_grad():
            w.sub_(lr * after[0])
            b.sub_(lr * after[1])
    return Descent(by, threshold, tuple(path), tuple(losses), tuple(gradients), turned)


def clip(gradient: Tensor, by: str, threshold: float) -> Tensor:
    """Algorithm 3, or the same entry by entry.

    >>> clip(torch.tensor([3.0, 4.0]), "norm", 1.0)
    tensor([0.6000, 0.8000])
    """
    if by == "value":
        return gradient.clamp(-threshold, threshold)
    if by == "norm" and gradient.norm() >= threshold:
        return gradient * (threshold / gradient.norm())
    return gradient


def unit(w: float, b: float) -> RNN:
    """h = σ(w h₋ + b)."""
    layer = RNN(1, 1, nonlinearity="sigmoid", dtype=torch.float64)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.zero_()
        layer.get_parameter("weight_hh_l0").fill_(w)
        layer.get_parameter("bias_ih_l0").fill_(b)
    return layer


def loss_of(layer: RNN) -> Tensor:
    x = torch.zeros(LENGTH, 1, 1, dtype=torch.float64)
    output, _ = layer(x, torch.full((1, 1, 1), 0.5, dtype=torch.float64))
    return (output[-1, 0, 0] - TARGET).square()


def surface(w: Tensor, b: Tensor) -> Tensor:
    """The loss for each of `w` and `b`: (len(w), len(b))."""
    h = torch.full((len(w), len(b)), 0.5, dtype=w.dtype)
    for _ in range(LENGTH):
        h = torch.sigmoid(w[:, None] * h + b)
    return (h - TARGET).square()


def _angle(one: Tensor, other: Tensor) -> float:
    """Between two vectors, in degrees."""
    across = one[0] * other[1] - one[1] * other[0]
    return abs(math.degrees(math.atan2(float(across), float(one @ other)))) if one.any() and other.any() else 0.0
