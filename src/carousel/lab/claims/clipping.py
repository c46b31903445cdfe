"""Gradient descent at a cliff, with and without clipping."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import torch
from torch import Tensor

from ...errors import ArgumentError, check_counts
from ...layers import RNN
from ...report import Page, figure
from ...wording import counted
from ..claim import Claim, Numbers, Verdict, by_case, fails, holds, undecided
from ..finding import Exercise, Finding, Step, Table
from ..measured import Clock
from ..options import Option, Seed, Seeds, help_text, seed_numbers
from ..words import listing, mean_and_spread, power

LENGTH, TARGET, BEGIN = 50, 0.7, (5.0, -3.0)  # steps of the network, what h should be at the last, w and b at the start
LAST, ARRIVED = 50, 0.02  # a descent has arrived if its mean loss over the last 50 steps is below 0.02
COLOURS = {"": "#d55e00", "norm": "#0072b2", "value": "#009e73"}


@dataclass(frozen=True)
class Descent:
    """Gradient descent on w and b from several starts, all at once. Tensors have a row for each step."""

    by: str  # "", "norm" or "value"; starts go seed by seed
    threshold: float
    path: Tensor  # (steps, starts, 2): w and b before each step
    losses: Tensor  # (steps, starts)
    gradients: Tensor  # (steps, starts): the norm, before clipping
    clipped: Tensor  # (steps, starts): the norm, after clipping
    turned: float  # the most that clipping turned a gradient, in degrees

    @property
    def label(self) -> str:
        return f"{self.by} at most {self.threshold:g}" if self.by else "without clipping"

    @property
    def steps(self) -> Tensor:
        """The length of each step: (steps − 1, starts)."""
        return self.path.diff(dim=0).norm(dim=-1)


def _algorithm(numbers: Numbers, tolerance: float) -> Verdict:
    by_norm = [one for one in numbers["descents"] if one["by"] == "norm"]
    turned = max(one["turned"] for one in by_norm)
    excess = max(one["largest_clipped"] / one["threshold"] for one in by_norm) - 1
    by_value = max(one["turned"] for one in numbers["descents"] if one["by"] == "value")
    text = (
        f"By norm, gradients were turned by at most {power(turned)}°, and the longest is {power(1 + excess)} times the "
        f"threshold; by value, entry by entry, they were turned by up to {by_value:.0f}°."
    )
    return holds(text) if turned <= tolerance and excess <= tolerance else fails(text)


def _region(numbers: Numbers, tolerance: float) -> Verdict:
    free, *others = numbers["descents"]
    clipped = [one for one in others if one["by"] == "norm"]
    starts = numbers["starts"]
    counts = listing(f"{_arrive(one)} with threshold {one['threshold']:g}" for one in clipped)
    text = f"Of {starts} descents for each random seed, {_arrive(free)} arrive without clipping, {counts}."
    if free["largest_gradient"] <= min(one["threshold"] for one in clipped):
        return undecided(f"{text} No gradient was long enough to be clipped.")
    better = {
        f"threshold {one['threshold']:g}": [
            a > b + tolerance * starts for a, b in zip(one["arrived"], free["arrived"], strict=True)
        ]
        for one in clipped
    }
    return by_case(better, text)


def _arrive(one: Numbers) -> str:
    return mean_and_spread(one["arrived"], 0)


@dataclass(frozen=True)
class Clipping(Finding):
    """What :func:`run` gives."""

    name = "clipping"
    title = "Gradient clipping at a cliff"
    claims = (
        Claim(
            "algorithm",
            "the gradient does not specify the optimal step size, but only the optimal direction within an "
            "infinitesimal region",
            "003 §10.1, algorithm 3",
            "clipping by norm turns no gradient by more than {tolerance} degrees and leaves none longer than the "
            "threshold.",
            _algorithm,
            tolerance=1e-3,
            printed=(
                r"\hat{\mathbf{g}} \leftarrow \frac{\partial E}{\partial \theta}",
                r"\text{if } \|\hat{\mathbf{g}}\| \geq \mathit{threshold}:\quad "
                r"\hat{\mathbf{g}} \leftarrow \frac{\mathit{threshold}}{\|\hat{\mathbf{g}}\|} \hat{\mathbf{g}}",
            ),
        ),
        Claim(
            "region",
            "When the traditional gradient descent algorithm proposes to make a very large step, the gradient clipping "
            "heuristic intervenes to reduce the step size to be small enough that it is less likely to go outside the "
            "region where the gradient indicates the direction of approximately steepest descent",
            "003 §10.1",
            f"with every random seed, more descents arrive (mean loss of the last {LAST} steps below {ARRIVED}) than "
            "without clipping, by more than {tolerance} of the starts.",
            _region,
            tolerance=0.1,
            seeds=5,
        ),
    )
    derivation = (
        Step(
            "The state depends on \\(w\\) directly and through the state before it, so its derivative is carried along "
            "with it, from \\(0\\) on. The run compares it with backpropagation through the layer.",
            r"\frac{d h_t}{d w} = \sigma'(w h_{t-1} + b)\left(h_{t-1} + w \frac{d h_{t-1}}{d w}\right)",
            "by_backpropagation",
            1e-12,
        ),
        Step(
            "The loss is a square, so the chain rule gives its gradient. The run compares it with central differences "
            "of the loss.",
            r"\frac{\partial E}{\partial w} = 2 (h_T - y) \frac{d h_T}{d w}, \qquad "
            r"\frac{\partial E}{\partial b} = 2 (h_T - y) \frac{d h_T}{d b}",
            "by_differences",
            1e-6,
        ),
    )
    exercises = (
        Exercise(
            "Where does the cliff come from? Look at the fixed points of \\(h = \\sigma(w h + b)\\) for \\(w = 5\\) "
            "and \\(b\\) between \\(-3\\) and \\(-2\\).",
            "For \\(w > 4\\) there are values of \\(b\\) with three fixed points, the middle one unstable: below "
            "it the state falls, above it it rises. Here the state begins at 0.5, which is the middle one for "
            "\\(b = -w/2\\). Across that line, for \\(w = 5\\) at \\(b = -2.5\\), the state after fifty steps jumps "
            "from 0.14 to 0.86, and so the loss from 0.31 to 0.02.",
        ),
        Exercise(
            "Clip \\((3, 4)\\) by norm and by value, with threshold 1. Which of the two still points the same way?",
            "By norm: \\((0.6, 0.8)\\), the same direction. By value: \\((1, 1)\\), turned by 8.1 degrees.",
        ),
    )
    code = """
import torch
from carousel import lab
from carousel.lab.claims.clipping import clip

print(clip(torch.tensor([3.0, 4.0]), "norm", 1.0))    # algorithm 3
print(clip(torch.tensor([3.0, 4.0]), "value", 1.0))   # entry by entry: it turns
figure = lab.clipping(60, starts=5).plot()
"""

    descents: tuple[Descent, ...]  # the first without clipping
    derivation_checks: dict[str, float]
    lr: float
    seeds: tuple[int, ...]
    seconds: float

    def numbers(self) -> dict[str, Any]:
        def told(one: Descent) -> dict[str, Any]:
            final = one.losses[-LAST:].mean(0)
            return {
                "label": one.label, "by": one.by, "threshold": one.threshold if one.by else None,
                "largest_gradient": float(one.gradients.max()), "largest_clipped": float(one.clipped.max()),
                "longest_step": float(one.steps.max()) if len(one.steps) else 0.0, "turned": one.turned,
                "arrived": (final < ARRIVED).reshape(len(self.seeds), -1).sum(1).tolist(), "final": final.tolist(),
                "first": {"path": one.path[:, 0].tolist(), "losses": one.losses[:, 0].tolist()},
            }  # fmt: skip

        return {
            "descents": [told(one) for one in self.descents],
            "starts": self.descents[0].losses.shape[1] // len(self.seeds),
            "steps": len(self.descents[0].losses),
            "lr": self.lr,
            "seeds": self.seeds,
            "seconds": self.seconds,
            "derivation": self.derivation_checks,
        }

    @staticmethod
    def lead(numbers: Numbers) -> str:
        free, *clipped = numbers["descents"]
        best = max(clipped, key=lambda one: sum(one["arrived"]))
        return (
            f"Of {numbers['starts']} descents at a cliff, {_arrive(free)} arrive without clipping, where the longest "
            f"step is {free['longest_step']:.1f}, and {_arrive(best)} with the best clipping ({best['label']}), "
            f"where it is {best['longest_step']:.2g}; {counted(len(numbers['seeds']), 'random seed')}."
        )

    @staticmethod
    def table(numbers: Numbers) -> Table:
        rows = [
            [
                one["label"], f"{one['largest_gradient']:.2f}", f"{one['longest_step']:.3f}", f"{one['turned']:.1f}°",
                f"{_arrive(one)} of {numbers['starts']}", f"{one['first']['losses'][-1]:.5f}",
            ]
            for one in numbers["descents"]
        ]  # fmt: skip
        return ["descent", "largest gradient", "longest step", "turned by", "arrive", "first start ends at"], rows

    def setup(self) -> Sequence[str]:
        numbers = self.measured
        return (
            f"One unit, \\(h_t = \\sigma(w h_{{t-1}} + b)\\), {LENGTH} steps from \\(h_0 = 0.5\\), and the loss "
            f"\\(E = (h_T - {TARGET})^2\\) at the end. Gradient descent on \\(w\\) and \\(b\\), {numbers['steps']} "
            f"steps of rate {self.lr:g}, from \\(w = {BEGIN[0]:g}\\), \\(b = {BEGIN[1]:g}\\), which the figures show, "
            f"and from random places near it (\\(\\pm 0.5\\)), {numbers['starts']} for each of "
            f"{counted(len(self.seeds), 'random seed')}. The loss has a cliff there: on one side of it the state ends "
            "low, on the other high.",
            "Clipped by norm, as the algorithm has it; and by value, each entry for itself, which turns the gradient.",
        )

    def render(self, page: Page) -> None:
        drawn = self.figures()
        page.figure(
            drawn["cliff"], "The loss over w and b, and the descent from the first start",
            "The darker, the larger the loss. Both begin at the same place, with and without clipping.",
        )  # fmt: skip
        page.figure(drawn["loss"], "The loss, step by step", "On a logarithmic scale, from the first start.")
        page.table(*self.table(self.measured))

    def figures(self) -> dict[str, Any]:
        numbers = self.measured["descents"]
        chosen = max((one for one in numbers if one["by"] == "norm"), key=lambda one: sum(one["arrived"]))
        shown = (numbers[0], chosen)
        cliff = figure(480, hovermode="closest")
        w, b = torch.linspace(2, 9, 71, dtype=torch.float64), torch.linspace(-5, 1.5, 66, dtype=torch.float64)
        cliff.add_heatmap(
            x=w.tolist(), y=b.tolist(), z=surface(w, b).T.tolist(), zmin=0, colorbar={"title": {"text": "loss"}},
            colorscale=[(0, "#ffffff"), (0.25, "#cfd8e3"), (1, "#3a4757")],
        )  # fmt: skip
        for one in shown:
            x, y = zip(*one["first"]["path"], strict=True)
            cliff.add_scatter(
                x=x, y=y, mode="lines+markers", name=one["label"], marker={"size": 4},
                line={"color": COLOURS[one["by"]], "width": 1.8},
            )  # fmt: skip
        cliff.update_xaxes(range=[2, 9], title_text="w", showgrid=False)
        cliff.update_yaxes(range=[-5, 1.5], title_text="b", showgrid=False)
        loss = figure(340, hovermode="x")
        for one in shown:
            losses = one["first"]["losses"]
            loss.add_scatter(
                y=losses, x=list(range(len(losses))), name=one["label"], line={"color": COLOURS[one["by"]]}
            )
        loss.update_yaxes(type="log", exponentformat="power", dtick=1, title_text="loss")
        return {"cliff": cliff, "loss": loss.update_xaxes(title_text="step")}


HELP = help_text(__doc__, "clipping", "--lr 0.5 --out clipping")
QUICK = {"steps": 150, "starts": 10}


def run(
    steps: Annotated[int, Option("Steps of descent.", "N", minimum=1)] = 300,
    *,
    lr: Annotated[float, Option("The learning rate.")] = 0.1,
    starts: Annotated[int, Option("How many places descent starts from.", "N", minimum=1)] = 40,
    thresholds: Sequence[float] = (10.0, 5.0, 1.0, 0.5, 0.1),
    seeds: Seeds = 5,
    seed: Seed = 0,
) -> Clipping:
    """Descend without clipping, with each threshold for the norm, and with one for each value.

    >>> result = run(30, thresholds=[0.5], starts=2)
    >>> result.descents[1].steps.max() <= 0.5 * result.lr + 1e-9
    tensor(True)
    """
    check_counts(steps=steps, starts=starts, seeds=seeds)
    if not lr > 0:
        raise ArgumentError(f"lr must be above 0, got {lr:g}")
    if not thresholds or min(thresholds) <= 0:
        raise ArgumentError(f"thresholds must be some numbers above 0, got {list(thresholds)}")
    clock = Clock()
    ways = [
        ("", math.inf),
        *(("norm", limit) for limit in thresholds),
        ("value", min(thresholds, key=lambda t: abs(t - 0.5))),
    ]
    numbers = tuple(seed_numbers(seed, seeds))
    drawn = [torch.Generator().manual_seed(number) for number in numbers]
    near = torch.cat([torch.rand(starts, 2, dtype=torch.float64, generator=one) - 0.5 for one in drawn])
    near[0] = 0
    places = torch.tensor(BEGIN, dtype=torch.float64) + near
    descents = tuple(descend(by, threshold, places, steps, lr) for by, threshold in ways)
    return Clipping(descents, check_gradients(places[:starts]), lr, numbers, clock.seconds)


def descend(by: str, threshold: float, places: Tensor, steps: int, lr: float) -> Descent:
    """Gradient descent from `places` (starts, 2)."""
    path, losses, gradients, clipped, turned = [], [], [], [], 0.0
    for _ in range(steps):
        loss, gradient = loss_and_gradient(places)
        step = clip(gradient, by, threshold)
        path.append(places)
        losses.append(loss)
        gradients.append(gradient.norm(dim=-1))
        clipped.append(step.norm(dim=-1))
        turned = max(turned, _angle(gradient, step))
        places = places - lr * step
    path_, losses_, gradients_, clipped_ = map(torch.stack, (path, losses, gradients, clipped))
    return Descent(by, threshold, path_, losses_, gradients_, clipped_, turned)


def loss_and_gradient(places: Tensor) -> tuple[Tensor, Tensor]:
    """The loss (starts,) at `places` (starts, 2), and its gradient by w and b, carried along with the state."""
    w, b = places.unbind(-1)
    h, dw, db = torch.full_like(w, 0.5), torch.zeros_like(w), torch.zeros_like(w)
    for _ in range(LENGTH):
        new = torch.sigmoid(w * h + b)
        slope = new * (1 - new)
        h, dw, db = new, slope * (h + w * dw), slope * (1 + w * db)
    return (h - TARGET).square(), 2 * (h - TARGET)[:, None] * torch.stack([dw, db], -1)


def check_gradients(places: Tensor) -> dict[str, float]:
    """How far the gradient is from backpropagation through the layer and from central differences, relatively."""
    _, gradient = loss_and_gradient(places)
    by_layer = []
    for w, b in places.tolist():
        layer = unit(w, b)
        loss_of(layer).backward()
        parts = (layer.get_parameter(name).grad for name in ("weight_hh_l0", "bias_ih_l0"))
        by_layer.append(torch.cat([part.flatten() for part in parts if part is not None]))
    size = gradient.abs().max()
    differences = []
    for direction in torch.eye(2, dtype=places.dtype) * 1e-6:
        up, down = (loss_and_gradient(places + sign * direction)[0] for sign in (1, -1))
        differences.append((up - down) / 2e-6)
    return {
        "by_backpropagation": float((gradient - torch.stack(by_layer)).abs().max() / size),
        "by_differences": float((gradient - torch.stack(differences, -1)).abs().max() / size),
    }


def clip(gradient: Tensor, by: str, threshold: float) -> Tensor:
    """Algorithm 3 on each gradient (..., n), or the same entry by entry.

    >>> clip(torch.tensor([3.0, 4.0]), "norm", 1.0)
    tensor([0.6000, 0.8000])
    """
    if by == "value":
        return gradient.clamp(-threshold, threshold)
    if by == "norm":
        norm = gradient.norm(dim=-1, keepdim=True)
        return torch.where(norm >= threshold, gradient * (threshold / norm), gradient)
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
    places = torch.cartesian_prod(w, b)
    return loss_and_gradient(places)[0].reshape(len(w), len(b))


def _angle(one: Tensor, other: Tensor) -> float:
    """The largest angle between rows of two tensors (n, 2), in degrees."""
    across = one[:, 0] * other[:, 1] - one[:, 1] * other[:, 0]
    return float(torch.atan2(across, (one * other).sum(-1)).rad2deg().abs().max())
