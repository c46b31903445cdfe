"""An RNN inside an LSTM: as published, and exactly."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Any

import torch
from torch import Tensor

from ...errors import check_counts
from ...layers import LSTM
from ...report import Page, figure
from ...wording import counted
from ..by_hand import set_gates
from ..claim import Claim, Numbers, Verdict, fails, holds
from ..finding import Exercise, Finding, Step, Table
from ..measured import Clock
from ..options import Option, Seed, help_text
from ..words import power

SCALE = math.tanh(0.5)
EXACT = 1e-6


@dataclass(frozen=True)
class Construction:
    """A way to set an LSTM's weights, what its h should be a multiple of, and how far it is from that, step by step."""

    key: str
    label: str
    text: str
    errors: tuple[float, ...]  # the largest over all networks, sequences and units, at each step
    drift: float  # the most that c leaves its first value
    reaches: float  # the largest of what h should be


def _of(numbers: Numbers, key: str) -> dict[str, Any]:
    return next(one for one in numbers["constructions"] if one["key"] == key)


def _networks(numbers: Numbers) -> str:
    return counted(numbers["networks"], "random network")


def _subset(numbers: Numbers, tolerance: float) -> Verdict:
    exact = _of(numbers, "exact")
    text = (
        f"With b_f = 100, b_i = −100, c₀ = 20 and the RNN's weights in the output gate, h differs by at most "
        f"{power(exact['worst'])} over {numbers['steps']} steps of {_networks(numbers)}: then f = 1, i = 0, and "
        "tanh 20 is 1 to the last digit."
    )
    return holds(text) if exact["worst"] <= tolerance else fails(text)


def _constant(numbers: Numbers, tolerance: float) -> Verdict:
    drift = _of(numbers, "published")["drift"]
    text = f"With these weights c leaves 0.5 by at most {power(drift)}." if drift else "c stays at 0.5 exactly."
    return holds(text) if drift <= tolerance else fails(text)


def _scaled(numbers: Numbers, tolerance: float) -> Verdict:
    published, turned, divided = (_of(numbers, key) for key in ("published", "turned", "divided"))
    text = (
        f"h is off by up to {published['worst']:.2g} from the RNN's over tanh 0.5, and by up to {turned['worst']:.2g} "
        f"from tanh 0.5 times the RNN's, because the factor enters the recurrence too; with W_hh divided by tanh 0.5 "
        f"it is tanh 0.5 times the RNN's, to {power(divided['worst'])}. The RNN's h is between 0 and 1; over tanh 0.5 "
        f"it reaches {published['reaches']:.2f}, which no h of an LSTM can, and times tanh 0.5 it reaches "
        f"{turned['reaches']:.2f}."
    )
    return holds(text) if published["worst"] <= tolerance else fails(text)


def _large(numbers: Numbers, tolerance: float) -> Verdict:
    large, kept = _of(numbers, "large"), _of(numbers, "kept")
    moves = f"c leaves it by up to {power(kept['drift'])}" if kept["drift"] else "c stays at 10000"
    text = (
        f"With the published gates, f = i = ½, c does not stay there: g is at most 1, and with g = 1 the distance of c "
        f"to 1 halves at each step. It leaves 10000 by up to {large['drift']:,.0f}, and h is off by up to "
        f"{large['worst']:.2g}. With b_f = 100 and b_i = −100 {moves}, and h is off by at most "
        f"{power(kept['worst'])}."
    )
    return holds(text) if large["worst"] <= tolerance else fails(text)


@dataclass(frozen=True)
class RnnInLstm(Finding):
    """What :func:`run` gives."""

    name = "rnn-in-lstm"
    title = "A recurrent network inside an LSTM"
    claims = (
        Claim(
            "subset",
            "To see how equation (7) is a subset of the LSTM, we need to show that by setting the weights of matrices "
            "used in the LSTM equations (1-6) in some known manner, we are able to get the hidden state of the LSTM … "
            "at every time t to be equal to the hidden state of the RNN",
            "000 question 1, equations 1 to 7",
            "some weights give the RNN's h at every step, in every random network, to {tolerance}.",
            _subset,
            tolerance=EXACT,
            printed=(
                r"h_t = o_t \circ \tanh(c_t), \quad c_t = f_t \circ c_{t-1} + i_t \circ g_t",
                r"h_t = \sigma(x_t W_{ih}^T + b_{ih} + h_{t-1} W_{hh}^T + b_{hh})",
            ),
        ),
        Claim(
            "constant",
            "c_t = c_{t-1} which we have chosen as 0.5",
            "000 question 1, equations 8 to 10",
            "c stays at 0.5 in every random network, to {tolerance}.",
            _constant,
            tolerance=EXACT,
            printed=(
                r"b_{ig} = b_{hg} = 0.5 * \tanh^{-1}(c_{t-1}) = 0.5 * \tanh^{-1}(0.5)",
                r"c_t = \mathbf{1} * 0.5 \circ c_{t-1} + \mathbf{1} * 0.5 \circ g_t",
            ),
        ),
        Claim(
            "scaled",
            "So the RNN output and hidden state are a scaled version of that achieved by the LSTM.",
            "000 question 1, after equation 11",
            "h is the RNN's over tanh 0.5, to {tolerance}.",
            _scaled,
            tolerance=EXACT,
            printed=(r"h_t^{LSTM} = \frac{1}{\tanh(0.5)} h_t^{RNN}", r"W_{ho} = W_{hh}"),
            corrected=(r"h_t^{LSTM} = \tanh(0.5) \, h_t^{RNN}", r"W_{ho} = \frac{1}{\tanh(0.5)} W_{hh}"),
        ),
        Claim(
            "large",
            "To get the two to exactly match, we can choose our c_t to be a large number (say 10000).",
            "000 question 1, after equation 11",
            "with c₀ = 10000 and the published gates h is the RNN's, to {tolerance}.",
            _large,
            tolerance=EXACT,
        ),
    )
    derivation = (
        Step(
            "With all weights of i, f and g zero, the gates are constant, and the cell is a fixed point of its own "
            "equation.",
            r"c = \tfrac12 c + \tfrac12 \tanh(b_g) \iff b_g = \tanh^{-1}(c), \quad |c| < 1",
            "fixed_point",
            1e-12,
        ),
        Step(
            "The output is then a constant times a logistic function, which reads the scaled state: the scale must be "
            "taken out of the recurrent weights (b is the sum of both biases).",
            r"h_t = \tanh(c) \, \sigma\left(W_{ih} x_t + \tfrac{1}{\tanh(c)} W_{hh} h_{t-1} + b\right) "
            r"= \tanh(c) \, h_t^{RNN}",
            "scaled",
            1e-12,
        ),
        Step(
            "Without a scale: a cell that is never changed, and so large that its tanh is 1.",
            r"f_t = 1, \; i_t = 0, \; c_0 = 20 \implies h_t = \sigma(W_{ih} x_t + W_{hh} h_{t-1} + b)",
            "exact",
            1e-12,
        ),
    )
    exercises = (
        Exercise(
            "To which value does c tend with \\(f = i = \\tfrac12\\) and \\(b_g = 100\\), whatever it begins with?",
            "To \\(\\tanh(100) = 1\\): the distance to it halves at every step. So \\(\\tanh(c)\\) tends to 0.76, "
            "not to 1.",
        ),
        Exercise(
            "Can an LSTM hold an RNN with tanh instead of σ?",
            "Yes, up to an affine map: \\(\\tanh z = 2\\sigma(2z) - 1\\). Let the output gate be "
            "\\(\\sigma(2 W_{ih} x + 4 W_{hh} h_- + 2 (b - W_{hh} \\mathbf{1}))\\), with "
            "\\(f = 1\\), \\(i = 0\\), \\(c_0 = 20\\) and \\(h_0 = \\tfrac12\\): then \\(2h - 1\\) is the "
            "state of the RNN with tanh.",
        ),
    )
    code = """
import torch
from carousel.lab.claims.rnn_in_lstm import inside, sigmoid_rnn

w, u, b, x = (torch.randn(*shape, dtype=torch.float64) for shape in ((4, 3), (4, 4), (4,), (50, 1, 3)))
layer, state = inside(w, u, b, c=20.0, f=100.0, i=-100.0)
print((layer(x, state)[0] - sigmoid_rnn(x, w, u, b)).abs().max())
"""

    constructions: tuple[Construction, ...]
    networks: int
    steps: int
    hidden: int
    seed: int
    seconds: float

    def numbers(self) -> dict[str, Any]:
        rows = [{**asdict(one), "worst": max(one.errors)} for one in self.constructions]
        fixed = 0.5 * 0.5 + 0.5 * math.tanh(math.atanh(0.5)) - 0.5
        by_key = {row["key"]: row["worst"] for row in rows}
        return {
            "constructions": rows, "networks": self.networks, "steps": self.steps, "hidden": self.hidden,
            "seeds": [self.seed], "seconds": self.seconds,
            "derivation": {"fixed_point": abs(fixed), "scaled": by_key["divided"], "exact": by_key["exact"]},
        }  # fmt: skip

    @staticmethod
    def lead(numbers: Numbers) -> str:
        published, exact = (_of(numbers, key)["worst"] for key in ("published", "exact"))
        return (
            f"{counted(numbers['networks'], 'random RNN')} of {counted(numbers['hidden'], 'unit')} read "
            f"{counted(numbers['steps'], 'step')} beside LSTMs with the published weights, which are off by up to "
            f"{published:.2g}, and with corrected ones, which are off by at most {power(exact)}."
        )

    @staticmethod
    def table(numbers: Numbers) -> Table:
        steps = numbers["steps"]
        shown = sorted({1, min(10, steps), steps})
        rows = [
            [one["label"], *(power(one["errors"][t - 1]) for t in shown), power(one["worst"]), power(one["drift"])]
            for one in numbers["constructions"]
        ]
        return ["construction", *(f"error at step {t}" for t in shown), "largest", "c moves by"], rows

    def setup(self) -> Sequence[str]:
        return (
            f"Random weights and inputs; {counted(self.networks, 'network')}, {counted(self.steps, 'step')}, float64. "
            "The RNN has the logistic σ, as in the source, and is computed step by step. At each step the largest "
            "difference over all units is kept. The RNN's h is between 0 and 1, so an error of 0.1 is large.",
            *(f"*{one.label}*: {one.text}" for one in self.constructions),
        )

    def render(self, page: Page) -> None:
        page.figure(
            self.figures()["errors"], "How far each is from the RNN",
            f"The largest difference at each step. What is under the dotted line, {power(EXACT)}, is rounding.",
        ).table(*self.table(self.measured))  # fmt: skip

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


QUICK = {"networks": 5}
HELP = help_text(
    "Put an RNN into an LSTM: with the published weights, which do not give it, and exactly.",
    "rnn-in-lstm",
    "--steps 1000 --out inside",
)


def run(
    networks: Annotated[int, Option("Random networks.", "N", minimum=1)] = 20,
    *,
    steps: Annotated[int, Option("Steps that each reads.", "T", minimum=1)] = 200,
    hidden: Annotated[int, Option("Units of each.", "H", minimum=1)] = 16,
    inputs: int = 8,
    seed: Seed = 0,
) -> RnnInLstm:
    """Put random RNNs into LSTMs in six ways, and see how far they are apart.

    >>> max(run(3, steps=30, hidden=4).constructions[-1].errors) < 1e-6
    True
    """
    check_counts(networks=networks, steps=steps, hidden=hidden, inputs=inputs)
    clock = Clock()
    draw = torch.Generator().manual_seed(seed)
    # key, label, what it is, how h relates to the RNN's by it, and the LSTM
    ways: list[tuple[str, str, str, float, dict[str, Any]]] = [
        ("published", "as published", "h against the RNN's over tanh 0.5, as the source has it.", 1 / SCALE, {}),
        ("turned", "the factor turned", "the same weights, h against tanh 0.5 times the RNN's.", SCALE, {}),
        ("large", "c = 10000", "the same, but c begins at 10000 and g is as large as it can be.", 1.0,
         {"c": 1e4, "g": 100.0}),
        ("divided", "W_hh / tanh 0.5",
         "the published one with W_hh divided by tanh 0.5; h against tanh 0.5 times the RNN's.", SCALE,
         {"divide": SCALE}),
        ("kept", "c = 10000, kept", "b_f = 100, b_i = −100, c₀ = 10000; h against the RNN's.", 1.0,
         {"c": 1e4, "f": 100.0, "i": -100.0}),
        ("exact", "exact", "b_f = 100, b_i = −100, c₀ = 20; h against the RNN's.", 1.0,
         {"c": 20.0, "f": 100.0, "i": -100.0}),
    ]  # fmt: skip
    worst, drift = torch.zeros(len(ways), steps, dtype=torch.float64), [0.0] * len(ways)
    highest = 0.0  # of the RNNs' h
    for _ in range(networks):
        shapes = (hidden, inputs), (hidden, hidden), (hidden,), (steps, 1, inputs)
        w, u, b, x = (torch.randn(*shape, generator=draw, dtype=torch.float64) for shape in shapes)
        expected = sigmoid_rnn(x, w, u, b)
        highest = max(highest, float(expected.max()))
        for k, (_, _, _, factor, options) in enumerate(ways):
            layer, state = inside(w, u, b, **options)
            trace = layer.trace(x, state)
            worst[k] = torch.maximum(worst[k], (trace.output.detach() - factor * expected).abs().amax((1, 2)))
            drift[k] = max(drift[k], float((trace.states["c"] - state[1]).abs().max()))
    constructions = tuple(
        Construction(key, label, text, tuple(errors.tolist()), moved, factor * highest)
        for (key, label, text, factor, _), errors, moved in zip(ways, worst, drift, strict=True)
    )
    return RnnInLstm(constructions, networks, steps, hidden, seed, clock.seconds)


def sigmoid_rnn(x: Tensor, w: Tensor, u: Tensor, b: Tensor) -> Tensor:
    """h = σ(W_ih x + W_hh h₋ + b), with W_ih `w` and W_hh `u`, for x (T, B, I): (T, B, H)."""
    h, states = x.new_zeros(x.shape[1], len(u)), []
    for step in x:
        h = torch.sigmoid(step @ w.T + h @ u.T + b)
        states.append(h)
    return torch.stack(states)


def inside(
    w: Tensor, u: Tensor, b: Tensor, *, c: float = 0.5, g: float | None = None, f: float = 0.0, i: float = 0.0,
    divide: float = 1.0,
) -> tuple[LSTM, tuple[Tensor, Tensor]]:  # fmt: skip
    """An LSTM with an RNN's weights in its output gate, and its first state: h = 0, and `c` everywhere.

    `g`, `f` and `i` are biases; without `g` it is the one that keeps c, tanh⁻¹ c. The recurrent weights `u` are
    divided by `divide`.
    """
    hidden, inputs = w.shape
    bias = math.atanh(c) if g is None and abs(c) < 1 else g or 0.0
    gates = {"i": (0, 0, i), "f": (0, 0, f), "g": (0, 0, bias), "o": (w, u / divide, b)}
    layer = set_gates(LSTM(inputs, hidden, dtype=w.dtype), gates)
    return layer, (w.new_zeros(1, 1, hidden), w.new_full((1, 1, hidden), c))
