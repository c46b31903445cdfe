"""What a coupled gate can do, and what tanh does to stored and to running values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import torch
from torch import Tensor

from ...errors import check_counts
from ...layers import LSTM, RNN, CoupledLSTM, Recurrent
from ...wording import counted
from ..claim import Claim, Numbers, Verdict, by_seed, fails, holds, holds_for, undecided
from ..drawing import POWERS, Line, line_figure
from ..finding import Exercise, Step, Table
from ..fitting import Reader, fit, mean_path, seeded
from ..measured import Clock, Measured
from ..options import Option, Seed, Seeds, help_text, seed_numbers
from ..words import listing, mean_and_spread, percent_and_spread, power, power_and_spread

STORED = 0.9  # a candidate counts as binary where |g| exceeds it
SHUT = 40.0  # a bias that opens or shuts a gate altogether, in double precision


def _decay(numbers: Numbers, tolerance: float) -> Verdict:
    apart = numbers["decay"]["apart"]
    text = (
        f"With g = 0 and f = ½ its cell is halved at every step: over {numbers['steps']} steps it is 2⁻ᵗ "
        f"{_exactly(apart)}. What it cannot do is keep its cell and add to it: counting, the LSTM's cell reaches "
        f"{numbers['count']['LSTM']:.0f} and the coupled one's {numbers['count']['coupled']:.2f}."
    )
    return fails(text) if apart <= tolerance else undecided(text)


def _exactly(apart: float) -> str:
    return f"to {power(apart)}" if apart else "exactly"


def _binary(numbers: Numbers, tolerance: float) -> Verdict:
    shares = numbers["binary"]
    text = (
        f"Of the candidates at the step that stores a bit, a share of {mean_and_spread(shares['after'])} is above "
        f"{STORED} in size after training, {mean_and_spread(shares['before'])} before."
    )
    more = [after - before > tolerance for before, after in zip(shares["before"], shares["after"], strict=True)]
    return by_seed(more, text, "" if min(shares["after"]) > 0.5 else "a part of the units")


def _resilient(numbers: Numbers, tolerance: float) -> Verdict:
    rows = numbers["noise"]
    text = "; ".join(f"at {row['size']:g} by {row['passed']:.2f}" for row in rows)
    text = f"tanh multiplies small noise around a sum of that size — {text}. Without tanh it is 1 throughout."
    if all(row["passed"] < tolerance for row in rows):
        return holds(text)
    strong = [f"{row['size']:g}" for row in rows if row["passed"] < tolerance]
    return holds_for(f"sums of {listing(strong)}", text) if strong else fails(text)


def _exploding(numbers: Numbers, tolerance: float) -> Verdict:
    largest = numbers["largest"]
    tanh, relu, none = (power_and_spread(largest[name]) for name in ("tanh", "relu", "none"))
    above = sum(size > tolerance for size in largest["relu"])
    text = (
        f"With recurrent weights of spectral radius {numbers['radius']:g}, the largest activation after "
        f"{numbers['steps']} steps is {tanh} with tanh, {relu} with ReLU and {none} with no activation. With ReLU it "
        f"exceeds {tolerance:g} with {above} of {counted(len(largest['relu']), 'seed')}."
    )
    grown = min(largest["none"]) > tolerance
    return holds(text) if max(largest["tanh"]) <= 1 and grown else fails(text)


class Coupled(Measured):
    """What :func:`run` gives."""

    name = "coupled"
    title = "Coupled gates decay, and tanh keeps values in bounds"
    trains = True
    claims = (
        Claim(
            "decay",
            "Couple delete and write, but can not do decay anymore!",
            "004 Variant: Couple read and write",
            "the statement falls if a coupled LSTM with constant gates decays as 2⁻ᵗ to {tolerance}.",
            _decay,
            tolerance=1e-12,
            printed=(r"C_t = f_t * C_{t-1} + (1 - f_t) * \tilde{C}_t",),
        ),
        Claim(
            "binary",
            "Tanh kinda binarizes the to-be-stored values.",
            "004 Write new value if makes sense",
            f"in networks trained to keep a bit, the share of candidates above {STORED} in size grows by more than "
            "{tolerance} with every seed, and is more than half; if it only grows, it holds for a part of the units.",
            _binary,
            tolerance=0.05,
            seeds=5,
            printed=(r"\tilde{C}_t = \tanh(W_C \cdot [h_{t-1}, x_t] + b_C)",),
        ),
        Claim(
            "resilient",
            "Even more resilient.",
            "004 Write new value if makes sense",
            "small noise in the sum is multiplied by less than {tolerance}.",
            _resilient,
            tolerance=0.5,
        ),
        Claim(
            "exploding",
            "Usually tanh … Want to keep activations from exploding",
            "004 Activation functions",
            "with every seed, activations stay within 1 with tanh, and exceed {tolerance} without any activation.",
            _exploding,
            tolerance=100.0,
            seeds=5,
        ),
    )
    derivation = (
        Step(
            "With \\(\\tilde{C} = 0\\) and \\(f = \\tfrac12\\), the second term is zero and the first halves the cell.",
            r"C_t = \tfrac12 C_{t-1} + \tfrac12 \cdot 0 = 2^{-t} C_0",
            "decay",
            1e-12,
        ),
        Step(
            "The new cell is a weighted mean of the old one and of a number within \\(\\pm 1\\), so it never leaves "
            "the interval that holds both. The run has random weights, ten times as large as usual, and \\(C_0 = 0\\).",
            r"|C_t| \le \max(|C_{t-1}|, |\tilde{C}_t|) \le \max(|C_0|, 1)",
            "bound",
            0.0,
            inequality=True,
        ),
    )
    exercises = (
        Exercise(
            "Set the biases of a coupled LSTM so that its cell decays by a tenth at each step, whatever it reads.",
            "\\(f = 0.9\\) needs a bias of \\(\\log(0.9/0.1) = 2.197\\), with all weights of f and g and the bias of "
            "g 0.",
        ),
        Exercise(
            "Why can an LSTM recognise aⁿbⁿ for large n, and a coupled one not in the same way?",
            "It counts: with f = i = 1 and g = ±1 the cell goes up and down without bound. The coupled cell stays "
            "within ±1, so it can only count in ever smaller steps.",
        ),
    )
    code = """
import torch, carousel

layer = carousel.CoupledLSTM(1, 1, bias=False, dtype=torch.float64)
for parameter in layer.parameters():
    torch.nn.init.zeros_(parameter)                     # f = σ(0) = ½, g = tanh(0) = 0
start = (torch.zeros(1, 1, 1).double(), torch.ones(1, 1, 1).double())
print(layer.trace(torch.zeros(8, 1, 1).double(), start).states["c"].flatten())
"""
    captions = {
        "decay": ("The cell, step by step", "Gates are held by the biases. On a logarithmic scale decay is a line."),
        "exploding": ("The largest activation", "Mean over the seeds, logarithmic; the table has the range."),
    }

    @staticmethod
    def lead(numbers: Numbers) -> str:
        return (
            f"A coupled LSTM decays like any other: with f = ½ and g = 0 its cell is 2⁻ᵗ "
            f"{_exactly(numbers['decay']['apart'])}. "
            f"It cannot count: where an LSTM's cell reaches {numbers['count']['LSTM']:.0f}, its own ends at "
            f"{numbers['count']['coupled']:.2f}."
        )

    @staticmethod
    def table(numbers: Numbers) -> Table:
        shares = numbers["binary"]
        rows = [
            ["coupled LSTM: distance from 2⁻ᵗ", power(numbers["decay"]["apart"])],
            ["counting: cell of the LSTM", f"{numbers['count']['LSTM']:.2f}"],
            ["counting: cell of the coupled LSTM", f"{numbers['count']['coupled']:.2f}"],
            [
                f"candidates above {STORED}, before training",
                percent_and_spread(shares["before"]),
            ],
            [
                f"candidates above {STORED}, after training",
                percent_and_spread(shares["after"]),
            ],
            ["accuracy of the bit after training", percent_and_spread(numbers["accuracy"], 1)],
            *([f"largest activation, {name}", power_and_spread(values)] for name, values in numbers["largest"].items()),
        ]
        return ["measured", "value"], rows

    def setup(self) -> Sequence[str]:
        n = self.measured
        return (
            f"Decay and counting: layers of one unit in double precision whose gates are held by their biases, "
            f"{n['steps']} steps. Stored values: LSTMs of {n['hidden']} units are trained to name the first of ten "
            f"symbols, a bit, after the last; the candidates at the first step are counted. Noise: the slope of tanh. "
            f"Activations: {n['units']} units with random recurrent weights of spectral radius {n['radius']:g}, "
            f"{n['steps']} steps from a random state, for each of {len(n['seeds'])} seeds.",
        )

    def figures(self) -> dict[str, Any]:
        n = self.measured
        cells = [Line("coupled", n["decay"]["coupled"], "#0072b2"), Line("LSTM", n["decay"]["LSTM"], "#d55e00", "dot")]
        sizes = [Line(name, path) for name, path in n["sizes"].items()]
        return {
            "decay": line_figure(cells, titles=("step", "cell"), height=360, **POWERS),
            "exploding": line_figure(sizes, titles=("step", "largest |h|"), height=360, **POWERS),
        }


HELP = help_text(
    "Coupled gates and decay; what tanh does to stored and to running values.",
    "coupled",
    "--seeds 10 --out coupled",
)
QUICK = {"updates": 60}


def run(
    steps: Annotated[int, Option("Steps of decay.", "T", minimum=1)] = 30,
    *,
    hidden: Annotated[int, Option("Units of the trained LSTMs.", "H", minimum=1)] = 8,
    updates: Annotated[int, Option("Updates of their training.", "N", minimum=1)] = 150,
    seeds: Seeds = 5,
    seed: Seed = 0,
) -> Coupled:
    """Hold the gates of small layers, train others to keep a bit, and let random ones run.

    >>> result = run(4, updates=1, seeds=1)
    >>> result.data["decay"]["coupled"]
    [0.5, 0.25, 0.125, 0.0625]
    """
    check_counts(steps=steps, hidden=hidden, updates=updates, seeds=seeds)
    clock, numbers = Clock(), seed_numbers(seed, seeds)
    halving = {"coupled": held(CoupledLSTM, steps, f=0.0, g=0.0), "LSTM": held(LSTM, steps, f=0.0, g=0.0, i=-SHUT)}
    count = {"coupled": held(CoupledLSTM, steps, start=0.0, f=0.0, g=SHUT)[-1],
             "LSTM": held(LSTM, steps, start=0.0, f=SHUT, g=SHUT, i=SHUT)[-1]}  # fmt: skip
    apart = max(abs(c - 2.0**-t) for t, c in enumerate(halving["coupled"], 1))
    before, after, accuracy = zip(*(stored_bits(hidden, updates, n) for n in numbers), strict=True)
    units, radius = 32, 1.5
    paths = {name: [wander(name, units, radius, steps, n) for n in numbers] for name in ("tanh", "relu", "none")}
    sizes = torch.tensor([0.25, 1.0, 2.0, 3.0], dtype=torch.float64)
    data = {
        "decay": {**halving, "apart": apart}, "count": count, "steps": steps, "hidden": hidden, "units": units,
        "radius": radius, "binary": {"before": before, "after": after}, "accuracy": accuracy,
        "noise": [{"size": float(a), "passed": float(1 - a.tanh() ** 2)} for a in sizes],
        "largest": {name: [path[-1] for path in each] for name, each in paths.items()},
        "sizes": {name: mean_path(each) for name, each in paths.items()},
        "seeds": numbers, "derivation": {"decay": apart, "bound": max(beyond_one(n) for n in numbers)},
    }  # fmt: skip
    return Coupled(data, clock.seconds)


def held(kind: Any, steps: int, start: float = 1.0, **biases: float) -> list[float]:
    """The cell of one unit at each step, whose gates are functions of these biases alone."""
    layer = kind(1, 1, dtype=torch.float64)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.zero_()
        for gate, value in biases.items():
            layer.bias_ih_l0[layer.cell.gate_rows(gate, 1)] = value
    state = tuple(torch.full((1, 1, 1), value, dtype=torch.float64) for value in (0.0, start))
    with torch.no_grad():
        return layer.trace(torch.zeros(steps, 1, 1, dtype=torch.float64), state).states["c"].flatten().tolist()


def stored_bits(hidden: int, updates: int, seed: int, length: int = 10) -> tuple[float, float, float]:
    """The share of binary candidates at the step that stores, before and after training; the accuracy then."""
    with seeded(seed):
        layer = LSTM(4, hidden)
        network = Reader(layer, 4, 2)

        def draw(rows: int) -> tuple[Tensor, Tensor]:
            bits = torch.randint(2, (rows,))
            return torch.cat((bits.unsqueeze(0), torch.randint(2, 4, (length - 1, rows)))), bits

        def loss() -> Tensor:
            tokens, bits = draw(64)
            return torch.nn.functional.cross_entropy(network(tokens)[-1], bits)

        def binary() -> float:
            with torch.no_grad():
                seen = layer.trace(network.embedding(draw(200)[0]))
            return float((seen.gates["g"][0, 0].abs() > STORED).double().mean())

        before = binary()
        fit(network, loss, updates, lr=0.03)
        with torch.no_grad():
            tokens, bits = draw(500)
            accuracy = float((network(tokens)[-1].argmax(1) == bits).double().mean())
        return before, binary(), accuracy


def wander(activation: str, units: int, radius: float, steps: int, seed: int) -> list[float]:
    """The largest activation at each step, from a random state, with recurrent weights of this spectral radius."""
    generator = torch.Generator().manual_seed(seed)
    U = torch.randn(units, units, dtype=torch.float64, generator=generator)
    U *= radius / torch.linalg.eigvals(U).abs().max()
    h = torch.randn(units, dtype=torch.float64, generator=generator)
    if activation == "none":
        path = []
        for _ in range(steps):
            h = U @ h
            path.append(float(h.abs().max()))
        return path
    layer = RNN(1, units, bias=False, nonlinearity=activation, dtype=torch.float64)
    with torch.no_grad():
        layer.get_parameter("weight_hh_l0").copy_(U)
        return layer(torch.zeros(steps, 1, 1).double(), h.view(1, 1, -1))[0].abs().amax((1, 2)).tolist()


def beyond_one(seed: int) -> float:
    """By how much the cell of a coupled layer with large random weights leaves ±1, 0 if it never does."""
    with seeded(seed), torch.no_grad():
        layer: Recurrent = CoupledLSTM(4, 16, dtype=torch.float64)
        for parameter in layer.parameters():
            parameter.mul_(10)
        cells = layer.trace(torch.randn(200, 8, 4, dtype=torch.float64)).states["c"]
    return max(0.0, float(cells.abs().max()) - 1)
