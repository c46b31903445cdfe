"""An RNN inside an LSTM: as published, and exactly."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import torch
from torch import Tensor

from ...errors import check_counts
from ...layers import LSTM
from ...report import Page, figure
from ..by_hand import set_gates
from ..old_finding import Claim, Finding, Verdict
from ..options import Option, Seed
from ..words import power

SCALE = math.tanh(0.5)
EXACT = 1e-6


@dataclass(frozen=True)
class Construction:
    """A way to set an LSTM's weights, what its h should be a multiple of, and how far it is from that, step by step."""

    label: str
    says: str
    errors: tuple[float, ...]  # the largest over all networks, sequences and units, at each step

    @property
    def worst(self) -> float:
        return max(self.errors)


@dataclass(frozen=True)
class RnnInLstm(Finding):
    """What :func:`run` gives."""

    name = "rnn-in-lstm"
    title = "A recurrent network inside an LSTM"
    claim = Claim(
        "An RNN is a special case of the LSTM. With W_i, W_f, W_g and the biases of i and f zero, c₀ = 0.5 and "
        "b_g = tanh⁻¹ 0.5, c stays where it is; with the RNN's weights in the output gate, h is the RNN's, but for a "
        "factor 1/tanh 0.5. With c = 10000 there is no factor.",
        "000 question 1",
        ("h = σ(W x + U h₋ + b)", "h = o ∘ tanh(c),  c = ½ c₋ + ½ tanh(b_g),  o = σ(W x + U h₋ + b)"),
    )

    constructions: tuple[Construction, ...]
    networks: int
    steps: int
    hidden: int
    seed: int
    seconds: float

    @property
    def published(self) -> tuple[Construction, ...]:
        return self.constructions[:3]

    @property
    def corrected(self) -> tuple[Construction, ...]:
        return self.constructions[3:]

    def __str__(self) -> str:
        width = max(len(one.label) for one in self.constructions)
        lines = [f"{'construction':{width}}  error at step 1  step 10  {f'step {self.steps}':>8}  worst"]
        for one in self.constructions:
            told = [power(one.errors[min(t, self.steps) - 1]) for t in (1, 10, self.steps)]
            lines.append(f"{one.label:{width}}  {told[0]:>15}  {told[1]:>7}  {told[2]:>8}  {power(one.worst)}")
        return "\n".join(lines)

    def lead(self) -> str:
        exact = self.constructions[-1]
        return (
            f"{self.networks} random networks of {self.hidden} units were read for {self.steps} steps beside LSTMs "
            f"with the published weights, which are off by {power(self.constructions[1].worst)}, and with corrected "
            f"ones, which are off by at most {power(exact.worst)}."
        )

    def ran(self) -> Sequence[str]:
        return (
            f"Random weights and inputs; {self.networks} networks, {self.steps} steps, float64. The RNN has the "
            "logistic σ, as in the text, and is worked step by step. At each step the largest difference over all "
            "units is kept. An output is between 0 and 1, so an error of 0.1 is large.",
            *(f"*{one.label}*: {one.says}" for one in self.constructions),
        )

    def tell(self, page: Page) -> None:
        page.figure(
            self.figures()["errors"], "How far each is from the RNN",
            f"The largest difference at each step. What is under the dotted line, {power(EXACT)}, is rounding.",
        )  # fmt: skip
        rows = [
            [one.label, power(one.errors[0]), power(one.errors[-1]), power(one.worst)] for one in self.constructions
        ]
        page.table(["construction", "step 1", f"step {self.steps}", "worst"], rows)

    def verdict(self) -> Verdict:
        if any(one.worst > EXACT for one in self.corrected):
            return Verdict(None, "Not even the corrected constructions are exact here; look at the table.")
        if all(one.worst <= EXACT for one in self.published):
            return Verdict(True, "The published weights give the RNN.")
        return Verdict(
            False,
            "An LSTM does hold every RNN, but not with these weights. Its h is tanh(c) times the RNN's, not "
            "1/tanh(c) times; that factor also enters the recurrence, so U must be divided by it. And c cannot stay "
            "at 10000 with f = i = ½, because |g| ≤ 1: it halves at each step until it is 1. Exact is b_f = 100, b_i "
            "= −100, c₀ = 20: then f = 1, i = 0, and tanh 20 is 1, to the last digit that a number has.",
        )

    def figures(self) -> dict[str, Any]:
        drawn = figure(460, hovermode="x")
        for one in self.constructions:
            drawn.add_scatter(
                x=list(range(1, self.steps + 1)), y=[error or None for error in one.errors], name=one.label,
                hovertemplate="%{y:.1e}",
            )  # fmt: skip
        drawn.add_hline(EXACT, line={"color": "#5b6675", "width": 1.2, "dash": "dot"})
        drawn.update_yaxes(
            type="log", exponentformat="power", dtick=4, range=[-17, 0.6], title_text="largest error of h"
        )
        drawn.update_xaxes(title_text="step")
        drawn.update_layout(margin={"b": 130})
        return {"errors": drawn}

    def numbers(self) -> dict[str, Any]:
        told = [{"label": one.label, "worst": one.worst, "errors": one.errors} for one in self.constructions]
        kept = {name: getattr(self, name) for name in ("networks", "steps", "hidden", "seed", "seconds")}
        return {"constructions": told, **kept}


HELP = """Put an RNN into an LSTM: with the published weights, which do not give it, and exactly.

\b
carousel lab rnn-in-lstm
carousel lab rnn-in-lstm --steps 1000 --out inside
"""


def run(
    networks: Annotated[int, Option("Random networks.", "N", minimum=1)] = 20,
    *,
    steps: Annotated[int, Option("Steps that each reads.", "T", minimum=1)] = 200,
    hidden: Annotated[int, Option("Units of each.", "H", minimum=1)] = 16,
    inputs: int = 8,
    seed: Seed = 0,
) -> RnnInLstm:
    """Put random RNNs into LSTMs in five ways, and see how far they are apart.

    >>> found = run(3, steps=30, hidden=4)
    >>> found.verdict().stands, found.constructions[-1].worst < 1e-6
    (False, True)
    """
    check_counts(networks=networks, steps=steps, hidden=hidden, inputs=inputs)
    start = time.perf_counter()
    draw = torch.Generator().manual_seed(seed)
    # label, what it is, how h relates to the RNN's by it, and the LSTM
    ways: list[tuple[str, str, float, dict[str, Any]]] = [
        ("as published", "h against the RNN's over tanh 0.5, as the text has it.", 1 / SCALE, {}),
        ("the factor turned", "the same weights, h against tanh 0.5 times the RNN's.", SCALE, {}),
        ("c = 10000", "the same, but c begins at 10000 and g is as large as it can be.", 1.0, {"c": 1e4, "g": 100.0}),
        ("U / tanh 0.5", "the published one with U divided by tanh 0.5; h against tanh 0.5 times the RNN's.", SCALE,
         {"divide": SCALE}),
        ("exact", "b_f = 100, b_i = −100, c₀ = 20; h against the RNN's.", 1.0, {"c": 20.0, "f": 100.0, "i": -100.0}),
    ]  # fmt: skip
    worst = torch.zeros(len(ways), steps, dtype=torch.float64)
    for _ in range(networks):
        shapes = (hidden, inputs), (hidden, hidden), (hidden,), (steps, 1, inputs)
        w, u, b, x = (torch.randn(*shape, generator=draw, dtype=torch.float64) for shape in shapes)
        expected = sigmoid_rnn(x, w, u, b)
        for k, (_, _, factor, options) in enumerate(ways):
            layer, state = inside(w, u, b, **options)
            found = layer(x, state)[0].detach()
            worst[k] = torch.maximum(worst[k], (found - factor * expected).abs().amax((1, 2)))
    told = tuple(
        Construction(label, says, tuple(errors.tolist()))
        for (label, says, _, _), errors in zip(ways, worst, strict=True)
    )
    return RnnInLstm(told, networks, steps, hidden, seed, time.perf_counter() - start)


def sigmoid_rnn(x: Tensor, w: Tensor, u: Tensor, b: Tensor) -> Tensor:
    """h = σ(W x + U h₋ + b) for x (T, B, I): (T, B, H)."""
    h, found = x.new_zeros(x.shape[1], len(u)), []
    for step in x:
        h = torch.sigmoid(step @ w.T + h @ u.T + b)
        found.append(h)
    return torch.stack(found)


def inside(
    w: Tensor, u: Tensor, b: Tensor, *, c: float = 0.5, g: float | None = None, f: float = 0.0, i: float = 0.0,
    divide: float = 1.0,
) -> tuple[LSTM, tuple[Tensor, Tensor]]:  # fmt: skip
    """An LSTM with an RNN's weights in its output gate, and its first state: h = 0, and `c` everywhere.

    `g`, `f` and `i` are biases; without `g` it is the one that keeps c, tanh⁻¹ c. U is divided by `divide`.
    """
    hidden, inputs = w.shape
    bias = math.atanh(c) if g is None and abs(c) < 1 else g or 0.0
    gates = {"i": (0, 0, i), "f": (0, 0, f), "g": (0, 0, bias), "o": (w, u / divide, b)}
    layer = set_gates(LSTM(inputs, hidden, dtype=w.dtype), gates)
    return layer, (w.new_zeros(1, 1, hidden), w.new_full((1, 1, hidden), c))
