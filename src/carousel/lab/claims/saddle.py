"""RMSprop at a saddle point, by the report's formula and by torch's."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Annotated, Any

import torch
from torch import Tensor

from ...errors import ArgumentError, check_counts
from ...wording import counted
from ..claim import Claim, Numbers, Verdict, by_case, fails, holds, holds_for
from ..drawing import POWERS, Line, line_figure
from ..finding import Exercise, Step, Table
from ..measured import Clock, Measured
from ..options import Option, Seed, Seeds, help_text, seed_numbers
from ..words import listing, mean_and_spread, minus, power

RHO, EPSILON = 0.99, 1e-8  # torch's defaults
AWAY = 0.5  # a descent has escaped where |y| exceeds it; the minima are at y = ±1
DISTANCES = (1e-1, 1e-3, 1e-6, 1e-9)
COLOURS = {"SGD": "#5b6675", "momentum": "#56b4e9", "Adam": "#009e73", "RMSprop, torch": "#d55e00",
           "RMSprop, report": "#0072b2"}  # fmt: skip


def loss(place: Tensor) -> Tensor:
    """x²/2 − y²/2 + y⁴/4 of places (..., 2): a saddle at (0, 0), minima at (0, ±1)."""
    x, y = place.unbind(-1)
    return x.square() / 2 - y.square() / 2 + y**4 / 4


def gradient(place: Tensor) -> Tensor:
    x, y = place.unbind(-1)
    return torch.stack((x, y**3 - y), -1)


def turned(place: Tensor, angle: Tensor) -> Tensor:
    """Places (starts, 2), turned about the origin by `angle` (starts,)."""
    x, y = place.unbind(-1)
    return torch.stack((x * angle.cos() - y * angle.sin(), x * angle.sin() + y * angle.cos()), -1)


class Rule:
    """An optimizer of places (starts, 2), one step at a time."""

    def __init__(self, kind: str, lr: float) -> None:
        self.kind, self.lr, self.steps = kind, lr, 0
        self.m = self.v = torch.zeros((), dtype=torch.float64)

    def step(self, g: Tensor) -> Tensor:
        """What is added to the places, given the gradient there."""
        self.steps += 1
        if self.kind == "SGD":
            return -self.lr * g
        if self.kind == "momentum":
            self.m = 0.9 * self.m + g
            return -self.lr * self.m
        if self.kind == "Adam":
            self.m, self.v = 0.9 * self.m + 0.1 * g, 0.999 * self.v + 0.001 * g.square()
            m, v = self.m / (1 - 0.9**self.steps), self.v / (1 - 0.999**self.steps)
            return -self.lr * m / (v.sqrt() + EPSILON)
        self.v = RHO * self.v + (1 - RHO) * g.square()
        below = (self.v + EPSILON).sqrt() if self.kind == "RMSprop, report" else self.v.sqrt() + EPSILON
        return -self.lr * g / below


def _formula(numbers: Numbers, tolerance: float) -> Verdict:
    rows = numbers["constant"]
    text = "; ".join(
        f"g = {power(row['gradient'])}: {minus(format(row['report'], '.4f'))} by the report's formula, "
        f"{minus(format(row['torch'], '.4f'))} by torch's"
        for row in rows
    )
    text = f"Five steps of rate 0.01 with one gradient move a weight by — {text}. torch.optim.RMSprop is the latter."
    alike = [abs(row["report"] - row["torch"]) <= tolerance * abs(row["torch"]) for row in rows]
    if all(alike):
        return holds(text)
    return holds_for("gradients far above √ε", text) if any(alike) else fails(text)


def _large(numbers: Numbers, tolerance: float) -> Verdict:
    rates = numbers["rates"]
    small, large = rates[0], rates[-1]
    falling = all(b["rate"] < (1 - tolerance) * a["rate"] for a, b in pairwise(rates))
    rising = all(b["sgd"] > (1 + tolerance) * a["sgd"] for a, b in pairwise(rates))
    same = all(abs(one["sgd"] - small["sgd"]) <= tolerance * small["sgd"] for one in rates)
    text = (
        f"With a gradient of {small['gradient']:g} the rate η/√(v+ε) is {power(small['rate'])} after a step, and with "
        f"one of {large['gradient']:g} it is {power(large['rate'])}. "
    )
    text += (
        f"SGD's rate is {small['sgd']:g} for both: what is large for a large gradient is its step, "
        f"{power(small['sgd'] * small['gradient'])} and {power(large['sgd'] * large['gradient'])}."
        if same
        else f"SGD's rates are {power(small['sgd'])} and {power(large['sgd'])}."
    )
    if falling and rising:
        return holds(text)
    return holds_for("RMSprop", text) if falling else fails(text)


def _escape(numbers: Numbers, tolerance: float) -> Verdict:
    better, lines = {}, []
    for row in numbers["escapes"]:
        means = {kind: sum(steps) / len(steps) for kind, steps in row["steps"].items()}
        lines.append(f"{means['SGD']:,.0f} and {means['RMSprop, torch']:.0f} from {power(row['distance'])}")
        pairs = zip(row["steps"]["RMSprop, torch"], row["steps"]["SGD"], strict=True)
        better[f"a start {power(row['distance'])} from the saddle"] = [r < tolerance * s for r, s in pairs]
    text = f"Steps of SGD and of RMSprop (torch's) until |y| > {AWAY}: {listing(lines)}."
    return by_case(better, text)


class Saddle(Measured):
    """What :func:`run` gives."""

    name = "saddle"
    title = "Why RMSprop works: saddle points"
    claims = (
        Claim(
            "formula",
            "RMSprop works as follows: For each parameter w",
            "002 Why RMSprop works?",
            "torch's RMSprop, which the report used, moves a weight as the printed formula does, to {tolerance} of it.",
            _formula,
            tolerance=0.01,
            printed=(
                r"v_t := \rho v_{t-1} + (1-\rho) * g_t^2",
                r"w_{t+1} := w_t - \frac{\eta}{\sqrt{v_t + \epsilon}} * g_t",
            ),
            corrected=(r"w_{t+1} := w_t - \frac{\eta}{\sqrt{v_t} + \epsilon} * g_t",),
        ),
        Claim(
            "large",
            "Intuitively, learning rate for large gradient g_t will be small since v_t may be large, which is quite "
            "different from SGD, where learning rate is large for large gradient.",
            "002 Why RMSprop works?",
            "what multiplies a gradient falls with every larger gradient in RMSprop, and rises with it in SGD, by more "
            "than {tolerance} of it.",
            _large,
            tolerance=1e-9,
        ),
        Claim(
            "escape",
            "RMSprop can get larger learning rate to escape from those saddle points",
            "002 Why RMSprop works?",
            "from every random start RMSprop leaves the saddle in fewer than {tolerance} times the steps of SGD.",
            _escape,
            tolerance=0.5,
            seeds=5,
        ),
    )
    derivation = (
        Step(
            "Near the saddle the gradient along \\(y\\) is \\(-y\\), so SGD multiplies \\(y\\) by \\(1 + \\eta\\) at "
            "each step. The run compares the number of steps with SGD's, as a share of it.",
            r"t \approx \frac{\log(|y| / |y_0|)}{\log(1 + \eta)}",
            "steps", 0.15,
        ),
        Step(
            "At the first step \\(v = (1-\\rho) g^2\\), so RMSprop with \\(\\epsilon = 0\\) moves by the same length "
            "whatever the gradient.",
            r"\frac{\eta\, g}{\sqrt{(1-\rho) g^2}} = \frac{\eta}{\sqrt{1 - \rho}}\, \mathrm{sign}(g)",
            "first", 1e-5,
        ),
    )  # fmt: skip
    exercises = (
        Exercise(
            "Below which gradient does the \\(\\epsilon\\) of the report's formula stop the escape? And torch's?",
            "The report's root is at least \\(\\sqrt{\\epsilon} = 10^{-4}\\), torch's denominator at least "
            "\\(\\epsilon = 10^{-8}\\): gradients far below these are not scaled up to the full step.",
        ),
        Exercise(
            "What does RMSprop do at the minimum, where gradients are small too?",
            "It scales them up as well, and circles around the minimum at a distance of about the learning rate, "
            "unless that falls.",
        ),
        Exercise(
            "In the table, the steps of RMSprop hardly depend on how near the saddle it starts. Why?",
            "Its first step moves every weight by \\(\\eta / \\sqrt{1 - \\rho}\\), ten times the rate, whatever the "
            "gradient. Where the loss is turned, that is not along the gradient, so that one step already leads away "
            "from the line on which SGD comes to the saddle.",
        ),
    )
    code = """
import torch

w = torch.nn.Parameter(torch.zeros(1, dtype=torch.float64))
optimizer = torch.optim.RMSprop([w], lr=0.01)
for _ in range(5):
    w.grad = torch.full_like(w, 1e-6)
    optimizer.step()
print(w.item())                         # the report's formula gives −0.0005
"""
    captions = {
        "paths": ("Leaving a saddle", "The distance from it along the direction that falls, for the first seed, from "
                  "the third distance. Logarithmic."),
    }  # fmt: skip

    @staticmethod
    def lead(numbers: Numbers) -> str:
        row = numbers["escapes"][-1]
        means = {kind: sum(steps) / len(steps) for kind, steps in row["steps"].items()}
        return (
            f"From {power(row['distance'])} beside a saddle, SGD needs {means['SGD']:,.0f} steps to leave it, torch's "
            f"RMSprop {means['RMSprop, torch']:.0f}, and RMSprop as the report prints it "
            f"{means['RMSprop, report']:.0f}."
        )

    @staticmethod
    def table(numbers: Numbers) -> Table:
        kinds = list(numbers["escapes"][0]["steps"])
        rows = [[kind, *(mean_and_spread(row["steps"][kind], 0) for row in numbers["escapes"])] for kind in kinds]
        return ["steps to leave, from", *(power(row["distance"]) for row in numbers["escapes"])], rows

    def setup(self) -> Sequence[str]:
        n = self.measured
        return (
            "The loss \\(x^2/2 - y^2/2 + y^4/4\\) has a saddle at the origin and minima at \\(y = \\pm 1\\). Descent "
            "starts at \\(x\\) between 0.5 and 1.5 and about as far from the saddle along \\(y\\) as the table says, "
            f"{counted(len(n['seeds']), 'random start')} for each, in double precision with rate {n['lr']:g}, until "
            f"\\(|y| > {AWAY}\\) (at most {n['most']:,} steps). The loss is turned by a random angle, since rules that "
            "scale each weight for itself would otherwise see the two directions apart.",
            f"RMSprop has \\(\\rho = {RHO}\\) and \\(\\epsilon = 10^{{-8}}\\), as torch has by default. The five "
            "steps with one gradient are by `torch.optim.RMSprop` itself.",
        )

    def figures(self) -> dict[str, Any]:
        curves = [
            Line(kind, path, COLOURS[kind], "dot" if kind == "RMSprop, report" else "solid")
            for kind, path in self.measured["paths"].items()
        ]
        steps = range(max(len(path) for path in self.measured["paths"].values()))
        return {"paths": line_figure(curves, steps, titles=("step", "|y|"), **POWERS)}


HELP = help_text(
    "RMSprop at a saddle point, by the report's formula and by torch's; SGD, momentum and Adam beside it.",
    "saddle",
    "--lr 0.001 --out saddle",
)


def run(
    lr: Annotated[float, Option("The learning rate.")] = 0.01,
    *,
    most: int | None = None,
    seeds: Seeds = 5,
    seed: Seed = 0,
) -> Saddle:
    """Descend from beside the saddle by each rule, and count the steps until it is left: at most `most`, by default
    half as many again as SGD takes from the nearest start.

    >>> result = run(seeds=1)
    >>> result.verdicts()["formula"].short
    'holds for gradients far above √ε'
    """
    check_counts(seeds=seeds)
    if not 0 < lr < 1:
        raise ArgumentError(f"lr must be between 0 and 1, got {lr:g}")
    most = most or math.ceil(1.5 * math.log(AWAY / (DISTANCES[-1] / 2)) / math.log1p(lr))
    clock = Clock()
    numbers = seed_numbers(seed, seeds)
    drawn = [torch.rand(3, dtype=torch.float64, generator=torch.Generator().manual_seed(n)) for n in numbers]
    x, y, angle = torch.stack(drawn, 1)
    angle = angle * math.pi / 2
    escapes: list[dict[str, Any]] = []
    paths: dict[str, list[float]] = {}
    for distance in DISTANCES:
        places = turned(torch.stack((0.5 + x, distance * (0.5 + y)), 1), angle)
        steps: dict[str, list[int]] = {}
        for kind in COLOURS:
            steps[kind], path = descend(kind, lr, places, angle, most)
            if distance == DISTANCES[2]:
                paths[kind] = path
        escapes.append({"distance": distance, "steps": steps})
    expected = [math.log(AWAY / (DISTANCES[2] * (0.5 + float(v)))) / math.log1p(lr) for v in y]
    sgd = next(row["steps"]["SGD"] for row in escapes if row["distance"] == DISTANCES[2])
    [first] = Rule("RMSprop, torch", lr).step(torch.tensor([1.0], dtype=torch.float64)).tolist()
    data = {
        "escapes": escapes, "paths": paths, "constant": constant_gradients(), "rates": effective_rates(lr), "lr": lr,
        "most": most, "seeds": numbers, "derivation": {
            "steps": max(abs(s - e) / e for s, e in zip(sgd, expected, strict=True)),
            "first": abs(-first - lr / math.sqrt(1 - RHO)) / lr,
        },
    }  # fmt: skip
    return Saddle(data, clock.seconds)


def descend(kind: str, lr: float, places: Tensor, angle: Tensor, most: int) -> tuple[list[int], list[float]]:
    """From each of `places` (starts, 2), with the loss turned by `angle` (starts,): how many steps until |y| > AWAY
    (`most` if never), and |y| of the first, step by step."""
    rule, left, path = Rule(kind, lr), torch.full((len(places),), most), []
    for step in range(most):
        own = turned(places, -angle)
        y = own[:, 1].abs()
        path.append(float(y[0]))
        left = torch.where((y > AWAY) & (left == most), step, left)
        if (left < most).all():
            break
        places = places + rule.step(turned(gradient(own), angle))
    return left.tolist(), path


def constant_gradients() -> list[dict[str, float]]:
    """Where five steps of rate 0.01 with one gradient lead, by the report's formula and by torch itself."""
    rows = []
    for g in (1.0, 1e-3, 1e-6):
        rule, place = Rule("RMSprop, report", 0.01), torch.zeros(1, dtype=torch.float64)
        parameter = torch.nn.Parameter(place.clone())
        optimizer = torch.optim.RMSprop([parameter], lr=0.01)
        for _ in range(5):
            place = place + rule.step(torch.full_like(place, g))
            parameter.grad = torch.full_like(parameter, g)
            optimizer.step()
        rows.append({"gradient": g, "report": place.item(), "torch": parameter.item()})
    return rows


def effective_rates(lr: float) -> list[dict[str, float]]:
    """By what RMSprop, as the report prints it, and SGD multiply a gradient at the first step, for several sizes."""

    def rate(kind: str, g: float) -> float:
        return -Rule(kind, lr).step(torch.tensor(g, dtype=torch.float64)).item() / g

    gradients = (0.01, 0.1, 1.0, 10.0)
    return [{"gradient": g, "rate": rate("RMSprop, report", g), "sgd": rate("SGD", g)} for g in gradients]
