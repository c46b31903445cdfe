"""The latch task (Bengio, Simard & Frasconi, 1994): remember one bit through noise.

    x_t = s + ε_t    for the first L steps, which say the class: s = +1 or −1
    x_t = ε_t        for the T steps that follow, which say nothing;  ε_t ~ N(0, noise²)

and the class is asked after the last step. One tanh unit can hold it: `h = tanh(w h₋ + x)` with `w > 1` has two stable
states. The claim is that gradient descent does not find them once T is long, because the gradient that should teach
the first steps has vanished on its way back to them, and that a gated cell lets it through.

    result = carousel.lab.latch()
    print(result)                            # a table
    result.plot().show()                     # accuracy against length
    result.write("latch")                    # all figures, with words
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ... import report
from ...cells import registry
from ...errors import ArgumentError
from ...layers import Recurrent
from ...threads import threads
from ..cells import CELLS, lab_cell
from ..finding import Claim, Finding, Verdict
from ..progress import Bar
from ..words import percent
from . import latch_page

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
    gates: str = (
        "chrono"  # how the gates that keep the past start: "chrono"; "layer": as the layer has it; "zero": bias 0
    )
    seed: int = 0

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
    keeps for about 1 + u steps. An input gate gets the negated bias. A cell without such a gate stays as it is.

    >>> lstm = carousel.LSTM(1, 100)
    >>> chrono(lstm, horizon=50)
    >>> keeps = lstm.bias_ih_l0[100:200].sigmoid()     # rows i, f, g, o
    >>> 0.5 <= keeps.min() and keeps.max() <= 0.98
    tensor(True)
    """
    cell, size = layer.cell, layer.hidden_size
    keeps = cell.gate_with("keep")
    if keeps is None:
        return
    bias = torch.empty(size).uniform_(1, max(2, horizon - 1)).log()
    with torch.no_grad():
        for gate, value in ((keeps, bias), (cell.gate_with("write"), -bias)):
            if gate is not None:
                rows = cell.gate_rows(gate, size)
                layer.get_parameter("bias_ih_l0")[rows] = value
                layer.get_parameter("bias_hh_l0")[rows] = 0.0


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
        flow = self.gradient[list(self.layer.cell.states)[-1]]
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


def gradient_flow(layer: Recurrent, head: nn.Linear, x: Tensor, label: Tensor) -> dict[str, list[float]]:
    """‖∂L/∂h_t‖ (and ‖∂L/∂c_t‖) at every step of `x` (T, B, 1), L being a sequence's own loss; mean over sequences."""
    trace = layer.trace(x, gradients_of=lambda output: F.cross_entropy(head(output[-1]), label, reduction="sum"))
    return {name: trace.gradients[name][0].norm(dim=-1).mean(-1).tolist() for name in layer.cell.states}


@torch.no_grad()
def accuracy_at_every_length(layer: Recurrent, head: nn.Linear, x: Tensor, label: Tensor) -> list[float]:
    """Accuracy if the sequences of `x` (T, B, 1) ended after step 1, 2, … T: the noise does not know when it ends."""
    state, found = None, []
    for piece in x.split(100):  # in pieces, so that memory does not grow with T
        output, state = layer(piece, state)
        found += (head(output).argmax(-1) == label).float().mean(-1).tolist()
    return found


# ---- all of them ----


@dataclass
class Latch(Finding):
    """What :func:`run` found. An outcome that does not share `setting` is there for comparison."""

    name = "latch"
    title = "The latch task: which cell remembers?"
    claim = Claim(
        "A single tanh unit can hold one bit for as long as one likes, but gradient descent has trouble finding out "
        "how: the more firmly the bit is held, the less gradient gets back to where it was written. A gated cell lets "
        "the gradient through (Bengio, Simard and Frasconi, 1994; Hochreiter and Schmidhuber, 1997).",
        "004 “Learning Long-Term Dependencies”",
        ("h = tanh(w h₋ + x), which has two stable states for w > 1", "c = f∘c₋ + i∘g, so that ∂c/∂c₋ = f"),
    )

    setting: Setting
    outcomes: list[Outcome]
    seconds: float = 0.0

    @property
    def seed(self) -> int:  # type: ignore[override]
        return self.setting.seed

    @property
    def contenders(self) -> list[Outcome]:
        return [o for o in self.outcomes if o.setting == self.setting]

    @property
    def comparisons(self) -> list[Outcome]:
        return [o for o in self.outcomes if o.setting != self.setting]

    def label(self, outcome: Outcome) -> str:
        """What a page calls it: the cell, and what it does not share with the others."""
        says = [CELLS[outcome.cell].label]
        for part in fields(Setting):
            if (value := getattr(outcome.setting, part.name)) != getattr(self.setting, part.name):
                if part.name == "irrelevant":
                    says.append(f"trained with T = {value}")
                elif part.name == "gates" and outcome.layer.forget_bias is not None and value != "chrono":
                    says.append(f"forget bias {outcome.layer.forget_bias:g}")
                else:
                    says.append(f"{part.name} {value}")
        return ", ".join(says)

    def head(self) -> str:
        """The head of the table that `print` gives."""
        last = f"at {self.setting.longest}"
        return f"{'cell':31}{'parameters':>11}{'updates':>8}{'accuracy':>9}{last:>9}{'seconds':>9}"

    def row(self, o: Outcome) -> str:
        accuracies = f"{percent(o.where_trained):>9}{percent(o.accuracy[self.setting.longest]):>9}"
        return f"{self.label(o):31}{o.parameters:>11}{len(o.curve):>8}{accuracies}{o.seconds:>9.1f}"

    def __str__(self) -> str:
        return "\n".join([self.head(), *map(self.row, self.outcomes)])

    def figures(self) -> dict[str, Any]:
        """`accuracy`, `gradient`, `unit` and, if an LSTM took part, `gate`."""
        found = {"accuracy": latch_page.plot_accuracy(self), "gradient": latch_page.plot_gradient(self)}
        if (lstm := self.lstm) is not None:
            found["gate"] = latch_page.plot_gate(lstm)
        return {**found, "unit": latch_page.plot_unit()}

    @property
    def lstm(self) -> Outcome | None:
        """The LSTM among the contenders: the one that is looked into."""
        return next((o for o in self.contenders if o.cell == "lstm"), None)

    def paths(self) -> str:
        """Which code ran the layers."""
        batch = torch.empty(self.setting.steps, self.setting.batch, 1)
        return "; ".join(sorted({repr(o.layer.path(batch)) for o in self.outcomes}))

    def facts(self) -> dict[str, str]:
        return {"Layers": self.paths()}

    def lead(self) -> str:
        return latch_page.lead(self)

    def ran(self) -> list[str]:
        return [latch_page.describe_task(self.setting), *latch_page.describe_training(self)]

    def tell(self, page: report.Page) -> None:
        latch_page.tell(self, page)

    def verdict(self) -> Verdict:
        return latch_page.judge(self)

    def numbers(self) -> dict[str, Any]:
        return {
            "setting": asdict(self.setting),
            "seconds": self.seconds,
            "outcomes": [
                {
                    "cell": o.cell,
                    "setting": asdict(o.setting),
                    "parameters": o.parameters,
                    "solved": o.solved,
                    "seconds": o.seconds,
                    "training_accuracy": o.curve,
                    "test_accuracy_by_irrelevant_steps": o.accuracy,
                    "gradient_by_step": o.gradient,
                }
                for o in self.outcomes
            ],
        }


def run(
    setting: Setting | None = None,
    cells: Sequence[str] = tuple(CELLS),
    compare: Iterable[tuple[str, Setting]] | None = None,
    bar: Bar | None = None,
) -> Latch:
    """Train every one of `cells` with the same `setting`, and then each (cell, setting) to `compare` them with.

    These are, if nothing else is said, the RNN at a length it can learn and the LSTM with forget bias 1 and 0.

    >>> result = run(Setting(irrelevant=5, longest=20, updates=1), cells=["rnn", "lstm"], compare=[])
    >>> [outcome.cell for outcome in result.outcomes]
    ['rnn', 'lstm']
    """
    result = Latch(setting or Setting(), [])
    if compare is None:
        short = replace(result.setting, irrelevant=max(1, result.setting.irrelevant // 10))
        compare = [("rnn", short), *(("lstm", replace(result.setting, gates=start)) for start in ("layer", "zero"))]
    trainings = [*((cell, result.setting) for cell in cells), *compare]
    costs = [cost(*training) for training in trainings]
    bar = bar or Bar(quiet=True)
    start = time.perf_counter()
    # Networks this small gain nothing from a second thread, and lose much by it where cores are shared.
    with threads(1), bar.over(result.head(), total=sum(costs)):
        for (cell, its), whole in zip(trainings, costs, strict=True):
            bar.start(CELLS[cell].label)
            outcome = train(cell, its, partial(bar.advance, whole / its.updates))
            result.outcomes.append(outcome)
            bar.finish(result.row(outcome), unused=whole * (1 - len(outcome.curve) / its.updates))
    result.seconds = time.perf_counter() - start
    return result


def cost(cell: str, setting: Setting) -> float:
    """What a training costs at most, in no unit: the gates of the cell times the steps it reads."""
    return len(registry()[cell].gates) * setting.steps * setting.updates
