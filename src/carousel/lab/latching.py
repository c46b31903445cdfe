"""The latch task (Bengio, Simard & Frasconi, 1994): its sequences, settings, and one cell trained and tested.

    x_t = s + ε_t    for the first L steps, which say the class: s = +1 or −1
    x_t = ε_t        for the T steps that follow, which say nothing;  ε_t ~ N(0, noise²)

and the class is asked after the last step.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..cells import registry
from ..errors import ArgumentError
from ..layers import Recurrent
from .cells import carrying_state, lab_cell
from .options import Seed

# ---- the task ----


def make(
    batch: int, relevant: int, irrelevant: int, noise: float, generator: torch.Generator | None = None
) -> tuple[Tensor, Tensor]:
    """Draw sequences, half of each class: input (relevant + irrelevant, batch, 1) and class (batch), 0 or 1.

    >>> x, label = make(batch=4, relevant=10, irrelevant=100, noise=0.5)
    >>> x.shape, sorted(label.tolist())
    (torch.Size([110, 4, 1]), [0, 0, 1, 1])
    """
    label = torch.randperm(batch, generator=generator) % 2
    x = noise * torch.randn(relevant + irrelevant, batch, 1, generator=generator)
    x[:relevant] += (2.0 * label - 1.0).unsqueeze(-1)
    return x, label


@dataclass(frozen=True)
class Setting:
    """The task and the training, the same for every cell that is compared."""

    relevant: int = 10  # L
    irrelevant: int = 100  # T, in training
    noise: float = 0.5
    longest: int = 3000  # T is tested up to here
    tests: int = 500  # sequences
    hidden: int = 16
    batch: int = 64
    updates: int = 400  # at most
    solved: int = 20  # training ends after so many batches in a row without a mistake
    rate: float = 0.005  # Adam's
    clip: float = 1.0  # the gradient's norm
    gates: str = "chrono"  # how the gates that keep the past start; "layer": as the layer has it; "zero": bias 0
    seed: Seed = 0

    def __post_init__(self) -> None:
        for name in ("relevant", "irrelevant", "tests", "hidden", "batch", "updates", "solved"):
            if not isinstance(value := getattr(self, name), int) or value < 1:
                raise ArgumentError(f"{name} must be a whole number from 1, got {value!r}")
        for name in ("noise", "rate", "clip"):
            if not (value := getattr(self, name)) >= 0:
                raise ArgumentError(f"{name} must be a number from 0, got {value!r}")
        if self.longest < self.irrelevant:
            raise ArgumentError(f"longest must be irrelevant ({self.irrelevant}) or more, got {self.longest!r}")
        if self.gates not in ("chrono", "layer", "zero"):
            raise ArgumentError(f"gates must be 'chrono', 'layer' or 'zero', got {self.gates!r}")

    @property
    def steps(self) -> int:
        return self.relevant + self.irrelevant

    def draw(self, batch: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Sequences of the training length."""
        return make(batch, self.relevant, self.irrelevant, self.noise, generator)


def chrono(layer: Recurrent, horizon: int) -> None:
    """Start a layer so that its units remember for 1 to `horizon` steps (Tallec & Ollivier, 2018).

    The bias of the gate that keeps the past becomes log u, u ~ U(1, horizon − 1): a gate at σ(log u) = 1 − 1/(1 + u)
    keeps for about 1 + u steps. An input gate gets the negated bias. A cell without such a gate, a sigmoid with a bias,
    stays as it is.

    >>> lstm = carousel.LSTM(1, 100)
    >>> chrono(lstm, horizon=50)
    >>> keeps = lstm.bias_ih_l0[100:200].sigmoid()     # rows i, f, g, o
    >>> 0.5 <= keeps.min() and keeps.max() <= 0.98
    tensor(True)
    """
    cell, size = layer.cell, layer.hidden_size
    own = layer._parameters_of(0, 0)
    keeps, writes = (cell.gate_with(role) for role in ("keep", "write"))
    if keeps is None or cell.gates[keeps].activation != "sigmoid" or "bias_ih" not in own:
        return
    bias = torch.empty(size).uniform_(1, max(2, horizon - 1)).log()
    with torch.no_grad():
        for gate, value in ((keeps, bias), (writes, -bias)):
            if gate is None or cell.gates[gate].activation != "sigmoid":
                continue
            own["bias_ih"][cell.gate_rows(gate, size)] = value
            if gate in cell.Recurrent._fields:
                at = cell.Recurrent._fields.index(gate)
                own["bias_hh"][at * size : (at + 1) * size] = 0.0


# ---- one cell ----


@dataclass
class Outcome:
    """One cell, trained and tested."""

    cell: str
    setting: Setting
    layer: Recurrent
    head: nn.Linear
    gradient: dict[str, list[float]]  # ‖∂L/∂state_t‖ by state, at every step, before the first update
    curve: list[float] = field(default_factory=list)  # training accuracy at every update
    solved: bool = False
    seconds: float = 0.0  # of training
    accuracy: list[float] = field(default_factory=list)  # [T]: tested with T irrelevant steps

    @property
    def parameters(self) -> int:
        return sum(p.numel() for p in (*self.layer.parameters(), *self.head.parameters()))

    @property
    def where_trained(self) -> float:
        """Test accuracy at the length of training."""
        return self.accuracy[self.setting.irrelevant]

    @property
    def gradient_kept(self) -> float:
        """The gradient at the first step as a part of that at the last, in the state that carries the past: c, or h."""
        flow = self.gradient[carrying_state(self.layer.cell)]
        return flow[0] / flow[-1] if flow[-1] else 0.0

    def trace(self) -> tuple[Tensor, Any]:
        """One new sequence of each class, (steps, 2, 1), and the trained layer's trace of them."""
        x, label = self.setting.draw(2, torch.Generator().manual_seed(self.setting.seed))
        x = x[:, label.argsort()]
        return x, self.layer.trace(x)


def train(cell: str, setting: Setting | None = None, progress: Callable[[float], None] | None = None) -> Outcome:
    """Train one cell on the task and test it at every length. The same setting gives the same numbers.

    `progress(accuracy)` is called after each update.

    >>> outcome = train("gru", Setting(relevant=5, irrelevant=5, longest=20, updates=2))
    >>> len(outcome.curve), len(outcome.accuracy)      # T = 0, 1, … 20
    (2, 21)
    """
    setting = setting or Setting()
    kind = lab_cell(cell)
    with torch.random.fork_rng(devices=[]):
        forgets = registry()[cell].forget_bias is not None
        options = {"forget_bias": 0.0} if setting.gates == "zero" and forgets else {}
        torch.manual_seed(setting.seed)
        layer, head = kind.layer(1, setting.hidden, **options), nn.Linear(setting.hidden, 2)
        if setting.gates == "chrono":
            chrono(layer, setting.steps)
    training, testing = (torch.Generator().manual_seed(2 * setting.seed + k) for k in (0, 1))
    outcome = Outcome(cell, setting, layer, head, gradient_flow(layer, head, *setting.draw(setting.batch, testing)))

    parameters = [*layer.parameters(), *head.parameters()]
    adam = torch.optim.Adam(parameters, lr=setting.rate)
    start = time.perf_counter()
    while len(outcome.curve) < setting.updates and not outcome.solved:
        x, label = setting.draw(setting.batch, training)
        scores = head(layer(x)[0][-1])
        adam.zero_grad()
        F.cross_entropy(scores, label).backward()
        nn.utils.clip_grad_norm_(parameters, setting.clip)
        adam.step()
        outcome.curve.append((scores.argmax(-1) == label).float().mean().item())
        outcome.solved = outcome.curve[-setting.solved :] == [1.0] * setting.solved
        if progress is not None:
            progress(outcome.curve[-1])
    outcome.seconds = time.perf_counter() - start

    x, label = make(setting.tests, setting.relevant, setting.longest, setting.noise, testing)
    outcome.accuracy = accuracy_at_every_length(layer, head, x, label)[setting.relevant - 1 :]
    return outcome


def cost(cell: str, setting: Setting) -> float:
    """What a training costs at most, in no unit: the gates of the cell times the steps it reads."""
    return len(registry()[cell].gates) * setting.steps * setting.updates


def gradient_flow(layer: Recurrent, head: nn.Linear, x: Tensor, label: Tensor) -> dict[str, list[float]]:
    """‖∂L/∂h_t‖, and that of every other state, at every step of `x` (T, B, 1); mean over sequences.

    L is a sequence's own loss.
    """
    trace = layer.trace(x, gradients_of=lambda output: F.cross_entropy(head(output[-1]), label, reduction="sum"))
    return {name: trace.gradients[name][0].flatten(2).norm(dim=-1).mean(-1).tolist() for name in layer.cell.own_states}


@torch.no_grad()
def accuracy_at_every_length(layer: Recurrent, head: nn.Linear, x: Tensor, label: Tensor) -> list[float]:
    """Accuracy if the sequences of `x` (T, B, 1) ended after step 1, 2, … T: the noise does not know when it ends."""
    state, found = None, []
    for piece in x.split(100):  # in pieces, so that memory does not grow with T
        output, state = layer(piece, state)
        found += (head(output).argmax(-1) == label).float().mean(-1).tolist()
    return found


# ---- the single unit h = tanh(w h₋ + x) ----


def fixed_points(w: float, x: float) -> list[tuple[float, bool]]:
    """All h with h = tanh(w h + x), and whether each is stable: what is near it comes nearer.

    >>> [(round(h, 3) + 0.0, stable) for h, stable in fixed_points(2.0, 0.0)]
    [(-0.958, True), (0.0, False), (0.958, True)]
    """

    def rise(h: float) -> float:
        return math.tanh(w * h + x) - h

    found = []
    edges = [-1 + k / 999.5 for k in range(2000)]  # 0 is between two of them
    for low, high in pairwise(edges):
        if rise(low) * rise(high) <= 0:
            for _ in range(50):
                middle = (low + high) / 2
                low, high = (middle, high) if rise(low) * rise(middle) > 0 else (low, middle)
            found.append((low, abs(w * (1 - low * low)) < 1))
    return found


def turning_input(w: float) -> float:
    """The smallest constant input that leaves a unit with w > 1 one stable state only.

    There, tanh(w h + x) touches h from above: w (1 − h²) = 1 and h = tanh(w h + x).
    """
    h = -math.sqrt(1 - 1 / w)
    return math.atanh(h) - w * h
