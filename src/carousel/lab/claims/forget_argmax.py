"""What opens a forget gate widest, and how wide."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

import torch
from torch import Tensor

from ...errors import ArgumentError, check_counts
from ...inspect import LayerReading, read_layers
from ...report import Page, figure
from ...wording import an
from ..claim import Claim, Numbers, Verdict, fails, holds
from ..finding import Exercise, Finding, Step, Table
from ..gate_use import SHUT, GateUse, by_token, gate_use, keeping_gate, label
from ..measured import Clock
from ..options import Option, Seed
from ..words import percent, power

CLOSE = 1e-9


@dataclass(frozen=True)
class Unit:
    """One unit's gate over all h of length 1."""

    norm: float  # ‖U_f‖, which source 001 gives as the largest value
    closed: float  # σ(‖U_f‖), at h = U_f / ‖U_f‖
    drawn: float  # the largest of all random directions
    climbed: float  # where gradient ascent on the sphere ends
    apart: float  # ‖h − U_f / ‖U_f‖‖ there


@dataclass(frozen=True)
class Preference:
    """The gates that keep the past (f, or a GRU's z) of one layer and direction of a model, by unit: b, and ‖U_f‖."""

    layer: str
    biases: tuple[float, ...]
    norms: tuple[float, ...]

    @property
    def spans(self) -> list[tuple[float, float, float]]:
        """For each unit: how far it closes, where it stands at h = 0, how far it opens; x = 0 and ‖h‖ = 1."""
        b, n = torch.tensor(self.biases), torch.tensor(self.norms)
        return list(zip(*(torch.sigmoid(v).tolist() for v in (b - n, b, b + n)), strict=True))


def _direction(numbers: Numbers, tolerance: float) -> Verdict:
    units = numbers["units"]
    apart = max(unit["apart"] for unit in units)
    above = sum(unit["drawn"] > unit["closed"] + CLOSE for unit in units)
    more = f"for {above} of them some" if above else "for none of them does any"
    text = (
        f"Gradient ascent ends within {power(apart)} of U_f/‖U_f‖ for {len(units)} gates, and {more} of "
        f"{numbers['samples']:,} random directions give more."
    )
    return holds(text) if apart <= tolerance and not above else fails(text)


def _value(numbers: Numbers, tolerance: float) -> Verdict:
    units = numbers["units"]
    printed = max(abs(unit["climbed"] - unit["norm"]) for unit in units)
    corrected = max(abs(unit["climbed"] - unit["closed"]) for unit in units)
    text = (
        f"The largest value is up to {printed:.2g} away from ‖U_f‖, and {power(corrected)} from σ(‖U_f‖): the gate is "
        "the σ of the product."
    )
    return holds(text) if printed <= tolerance else fails(text)


@dataclass(frozen=True)
class ForgetArgmax(Finding):
    """What :func:`run` gives."""

    name = "forget-argmax"
    title = "What opens a forget gate widest"
    claims = (
        Claim(
            "direction",
            "Therefore the greatest activation of the forget gate component f_t^{(d)}, when no bias is used, is "
            "acheieved when h_{t-1} is aligned with weight vector U_f^{(d)}.",
            "001 Forget gate activation",
            "gradient ascent from a random start ends within {tolerance} of U_f/‖U_f‖, for every gate, and no random "
            "direction gives more.",
            _direction,
            tolerance=1e-4,
            printed=(r"\hat{h}_{t-1} = \frac{h_{t-1}}{\|h_{t-1}\|} = \frac{U_f^{(d)}}{\|U_f^{(d)}\|}",),
        ),
        Claim(
            "value",
            "f_t^{(d)} attains its maximum at ||U_f^{(d)}|| when θ = 0, subject to ||h_{t-1}|| = 1.",
            "001 Forget gate activation",
            "the largest value of the gate is ‖U_f‖, to {tolerance}.",
            _value,
            tolerance=1e-9,
            corrected=(r"\max f_t^{(d)} = \sigma(\|U_f^{(d)}\|)",),
        ),
    )
    derivation = (
        Step(
            "σ increases, so the gate is largest where the product is. The product of two vectors is the product of "
            "their lengths times the cosine of the angle between them (the run compares both over all random "
            "directions).",
            r"U_f^{(d)} \cdot h = \|U_f^{(d)}\| \, \|h\| \cos\theta",
            "cosine",
            1e-12,
        ),
        Step(
            "It is largest at θ = 0; the value of the gate there is the σ of the length.",
            r"\max_{\|h\| = 1} \sigma(U_f^{(d)} \cdot h) = \sigma(\|U_f^{(d)}\|)",
            "value",
            1e-9,
        ),
    )
    exercises = (
        Exercise(
            "Which h of length 1 closes the gate furthest, and how far?",
            "The opposite one, \\(-U_f / \\|U_f\\|\\): \\(\\sigma(-\\|U_f\\|) = 1 - \\sigma(\\|U_f\\|)\\).",
        ),
        Exercise(
            "With a bias \\(b\\) and an input \\(x\\), does the direction change? Does the value?",
            "The direction does not, since both are constants beside the product. The largest value is "
            "\\(\\sigma(\\|U_f\\| + W_f x + b)\\).",
        ),
    )
    code = """
import torch

u = torch.randn(16, dtype=torch.float64)
h = torch.randn(100_000, 16, dtype=torch.float64)
h = h / h.norm(dim=1, keepdim=True)
print((h @ u).sigmoid().max())                    # the best of many
print(u.norm().sigmoid(), u.norm())               # the closed form; as printed
"""

    units: tuple[Unit, ...]
    hidden: int
    samples: int
    seed: int
    seconds: float
    preferences: tuple[Preference, ...] = field(default=())
    use: tuple[GateUse, ...] = ()  # of a model's gates
    tokens: tuple[tuple[str, float, int], ...] = ()  # the mean of the gate that keeps the past, where they are read
    source: str = ""  # what the model read
    checks: dict[str, float] = field(default_factory=dict)

    def numbers(self) -> dict[str, Any]:
        return {
            "units": [vars(unit) for unit in self.units], "hidden": self.hidden, "samples": self.samples,
            "seeds": [self.seed], "seconds": self.seconds, "preferences": [vars(one) for one in self.preferences],
            "gates": [vars(one) for one in self.use], "tokens": self.tokens, "source": self.source,
            "derivation": self.checks,
        }  # fmt: skip

    @staticmethod
    def table(numbers: Numbers) -> Table:
        rows = [
            [k, f"{u['norm']:.3f}", f"{u['closed']:.6f}", f"{u['drawn']:.6f}", f"{u['climbed']:.6f}", power(u["apart"])]
            for k, u in enumerate(numbers["units"])
        ]
        best = f"best of {numbers['samples']:,}"
        return ["gate", "‖U_f‖", "σ(‖U_f‖)", best, "gradient ascent", "ends from U_f/‖U_f‖ by"], rows

    def __str__(self) -> str:
        lines = [super().__str__()]
        for one in self.preferences:
            low, rest, high = (sum(part) / len(part) for part in zip(*one.spans, strict=True))
            lines.append(
                f"{one.layer}: {len(one.norms)} units, on average {low:.2f} to {high:.2f} over all directions of h, "
                f"{rest:.2f} at h = 0"
            )
        for use in self.use:
            shut, wide = (sum(part) / len(part) for part in (use.shut, use.open))
            lines.append(
                f"{use.layer} {use.gate}: {use.mean:.2f} on average; shut at {percent(shut)} of steps, open at "
                f"{percent(wide)}"
            )
        if self.tokens:
            ends = [" ".join(f"{token!r} {mean:.2f}" for token, mean, _ in part) for part in self._ends(5)]
            lines.append(f"keeps least at {ends[0]}; most at {ends[1]}")
        return "\n".join(lines)

    def _ends(self, most: int) -> tuple[Sequence[tuple[str, float, int]], Sequence[tuple[str, float, int]]]:
        """Tokens at which a model lets go most, and at which it keeps most."""
        most = min(most, (len(self.tokens) + 1) // 2)
        return self.tokens[:most], self.tokens[::-1][:most]

    @staticmethod
    def lead(numbers: Numbers) -> str:
        units = numbers["units"]
        largest = max(units, key=lambda unit: unit["norm"])
        return (
            f"For {len(units)} gates of {numbers['hidden']} weights each, gradient ascent ends within "
            f"{power(max(unit['apart'] for unit in units))} of U_f/‖U_f‖. The value there is σ(‖U_f‖), "
            f"{largest['climbed']:.3f} for instance, where ‖U_f‖ is {largest['norm']:.3f}."
        )

    def setup(self) -> Sequence[str]:
        texts = [
            f"Random weights of {len(self.units)} units, x = 0, no bias. For each, the gate at {self.samples:,} "
            "random h of length 1, and where gradient ascent, put back on the sphere after each step, ends from a "
            "random start.",
        ]
        if self.preferences:
            texts.append(
                "Then the gates of a trained model that keep the past (f; a GRU's z): U and b of each unit, and so how "
                "far it can close and open as h turns through all directions, at length 1 and x = 0: from σ(b − ‖U‖) "
                f"to σ(b + ‖U‖). And what its gates do while it reads {self.source}: one is shut below {SHUT:g} and "
                f"open above {1 - SHUT:g}."
            )
        return texts

    def render(self, page: Page) -> None:
        drawn = self.figures()
        page.figure(
            drawn["maximum"], "The largest value of a gate, against the length of its weights",
            "The printed value leaves the range of σ as soon as ‖U_f‖ reaches 1.",
        ).table(*self.table(self.measured))  # fmt: skip
        if "preferences" in drawn:
            page.figure(
                drawn["preferences"], "The gates of the trained model that keep the past",
                "A line for each unit, from as far as it can close to as far as it can open; the dot is where it "
                "stands at h = 0.",
            )  # fmt: skip
        if "saturation" in drawn:
            page.figure(
                drawn["saturation"], "Gates that are shut, gates that are open",
                "A dot for each unit: at which share of the steps it is shut, and at which it is open. A unit at 100 % "
                "of either does not decide anything.",
            )  # fmt: skip
            page.table(
                ["gate", "mean", "shut", "open"],
                [[f"{use.layer} {use.gate}", f"{use.mean:.2f}",
                  *(percent(sum(part) / len(part)) for part in (use.shut, use.open))] for use in self.use],
            )  # fmt: skip
        if self.tokens:
            low, high = self._ends(12)
            page.heading("What makes it let go").text(
                "The gate that keeps the past in the first layer, mean over its units, when a token is read; of tokens "
                "that were read at least five times."
            )
            page.table(
                ["lets go at", "mean", "read", "keeps at", "mean", "read"],
                [[f"`{one[0]}`", f"{one[1]:.2f}", one[2], f"`{other[0]}`", f"{other[1]:.2f}", other[2]]
                 for one, other in zip(low, high, strict=True)],
            )  # fmt: skip

    def figures(self) -> dict[str, Any]:
        drawn = figure(380, hovermode="closest")
        norms = [unit.norm for unit in self.units]
        line = [k * max(norms) / 100 for k in range(101)]
        drawn.add_scatter(
            x=line, y=torch.sigmoid(torch.tensor(line)).tolist(), name="σ(‖U_f‖)", line={"color": "#0072b2"}
        )
        drawn.add_scatter(x=line, y=line, name="‖U_f‖, as printed", line={"color": "#d55e00", "dash": "dash"})
        drawn.add_scatter(
            x=norms, y=[unit.drawn for unit in self.units], mode="markers", name=f"best of {self.samples:,}",
            marker={"color": "#e69f00", "size": 9, "symbol": "diamond"},
        )  # fmt: skip
        drawn.add_scatter(
            x=norms, y=[unit.climbed for unit in self.units], mode="markers", name="climbed",
            marker={"color": "#1c2430", "size": 6},
        )  # fmt: skip
        drawn.update_xaxes(title_text="‖U_f‖").update_yaxes(range=[0.4, 1.6], title_text="largest f")
        figures = {"maximum": drawn}
        if self.preferences:
            figures["preferences"] = self._preferences()
        if self.use:
            figures["saturation"] = self._saturation()
        return figures

    def _saturation(self) -> Any:
        layers = list(dict.fromkeys(use.layer for use in self.use))
        drawn = figure(120 + 260 * len(layers), layers, hovermode="closest")
        gates = list(dict.fromkeys(use.gate for use in self.use))
        for use in self.use:
            row = layers.index(use.layer) + 1
            shade = drawn.layout.colorway[gates.index(use.gate)]
            drawn.add_scatter(
                x=use.shut, y=use.open, mode="markers", name=use.title, legendgroup=use.gate,
                showlegend=row == 1, marker={"color": shade, "size": 6}, row=row, col=1,
            )  # fmt: skip
        drawn.update_yaxes(range=[-0.03, 1.03], tickformat=".0%", title_text="open")
        drawn.update_xaxes(range=[-0.03, 1.03], tickformat=".0%")
        return drawn.update_xaxes(title_text="shut", row=len(layers), col=1)

    def _preferences(self) -> Any:
        drawn = figure(120 + 200 * len(self.preferences), [one.layer for one in self.preferences], showlegend=False)
        for row, one in enumerate(self.preferences, 1):
            spans = sorted(one.spans, key=lambda span: span[1])
            x: list[Any] = []
            y: list[Any] = []
            for k, (low, _, high) in enumerate(spans):
                x += [k, k, None]
                y += [low, high, None]
            drawn.add_scatter(x=x, y=y, mode="lines", line={"color": "#56b4e9", "width": 1.5}, row=row, col=1)
            rest = [middle for _, middle, _ in spans]
            mark = {"color": "#1c2430", "size": 4}
            drawn.add_scatter(x=list(range(len(rest))), y=rest, mode="markers", marker=mark, row=row, col=1)
        drawn.update_yaxes(range=[0, 1], title_text="f")
        return drawn.update_xaxes(title_text="units, by where they stand", row=len(self.preferences), col=1)


QUICK = {"samples": 10_000}
HELP = """What opens a forget gate widest: the closed form, random directions, and climbing.

\b
carousel lab forget-argmax
# and what the gates of a model do
carousel lab forget-argmax --run demo-dates/run --out gates
"""


def run(
    units: Annotated[int, Option("How many gates are tried.", "N", minimum=1)] = 8,
    *,
    hidden: Annotated[int, Option("Weights of each.", "H", minimum=1)] = 16,
    samples: Annotated[int, Option("Random directions.", "N", minimum=1)] = 100_000,
    model: Any = None,
    data: Any = None,
    seed: Seed = 0,
) -> ForgetArgmax:
    """Look for the h that opens a gate widest in three ways; and, if given, at the gates of a trained `model`.

    The model reads the file `data`; without it, its own dev or training file.

    >>> unit = run(2, hidden=4, samples=1000).units[0]
    >>> unit.apart < 1e-4, unit.drawn < unit.closed
    (True, True)
    """
    check_counts(units=units, hidden=hidden, samples=samples)
    reading = None if model is None else read_layers(model, data)  # first: an unusable model is an error
    preferences = () if reading is None else tuple(look(reading))
    clock = Clock()
    draw = torch.Generator().manual_seed(seed)
    length = torch.linspace(0.2, 1.5, units, dtype=torch.float64)  # of U_f, so that figures show the whole range
    weights = _unit(torch.randn(units, hidden, generator=draw, dtype=torch.float64)) * length[:, None]
    directions = _unit(torch.randn(samples, hidden, generator=draw, dtype=torch.float64))
    gates = []
    for row in weights:
        norm = row.norm()
        h = climb(row, _unit(torch.randn(hidden, generator=draw, dtype=torch.float64)))
        gates.append(
            Unit(
                float(norm), float(norm.sigmoid()), float((directions @ row).sigmoid().max()),
                float((h @ row).sigmoid()), float((h - row / norm).norm()),
            )
        )  # fmt: skip
    angles = torch.nn.functional.cosine_similarity(directions, weights[0][None], dim=1)
    checks = {
        "cosine": float((directions @ weights[0] - weights[0].norm() * angles).abs().max()),
        "value": max(abs(unit.climbed - unit.closed) for unit in gates),
    }
    result = ForgetArgmax(tuple(gates), hidden, samples, seed, 0.0, preferences, checks=checks)
    if reading is not None:
        use, tokens = tuple(gate_use(reading)), tuple(by_token(reading))
        result = replace(result, use=use, tokens=tokens, source=reading.source)
    return replace(result, seconds=clock.seconds)


def climb(weights: Tensor, h: Tensor, steps: int = 60) -> Tensor:
    """Gradient ascent of σ(weights · h) over ‖h‖ = 1, by autograd; knows nothing of the closed form.

    Steps have length 1 before h is put back, because where σ is flat its slope is short.
    """
    for _ in range(steps):
        h = h.detach().requires_grad_()
        (slope,) = torch.autograd.grad(torch.sigmoid(weights @ h), h)
        h = _unit(h + _unit(slope))
    return h.detach()


def look(reading: LayerReading) -> list[Preference]:
    """The gates that keep the past, of every layer and direction."""
    layer, preferences = reading.layer, []
    gate = keeping_gate(layer.cell)
    if gate is None:
        raise ArgumentError(
            f"{reading.name}: {an(type(layer).__name__)} has no gate that keeps the past; give an LSTM or GRU"
        )
    at = layer.cell.gate_rows(gate, layer.hidden_size).start
    rows = slice(at, at + layer.hidden_size)
    for k in range(layer.num_layers):
        for way in range(layer.num_directions):
            own = {name: value.detach() for name, value in layer._parameters_of(k, way).items()}
            norms = own["weight_hh"][rows].norm(dim=1)
            bias = sum((own[name][rows] for name in ("bias_ih", "bias_hh") if name in own), torch.zeros_like(norms))
            preferences.append(Preference(label(reading.name, k, way), tuple(bias.tolist()), tuple(norms.tolist())))
    return preferences


def _unit(vectors: Tensor) -> Tensor:
    return vectors / vectors.norm(dim=-1, keepdim=True)
