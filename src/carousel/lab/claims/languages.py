"""aⁿbⁿ, brackets, parity: which cells count beyond the lengths of training."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from statistics import fmean
from typing import Annotated, Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ...errors import ArgumentError
from ...report import Page, figure
from ...threads import threads
from ...wording import counted
from ..cells import CELLS, carrying_state, lab_cell
from ..claim import Claim, Numbers, Verdict, fails, holds, holds_for, undecided
from ..finding import Exercise, Finding, Table
from ..grammars import GRAMMARS, Grammar, Strings
from ..options import Hidden, Option, Seed, help_text
from ..progress import Bar
from ..words import listing, mean_and_spread, percent, span

SAMPLES = 2  # strings of each size in the test
SHOWN = ("lstm", "gru", "rnn")  # whose counting units are drawn
COUNTING = ("anbn", "anbncn", "dyck-1")  # languages that take counting, and no stack
FOLLOWED = 0.99  # a unit follows the count where its |r| exceeds it
COMPARED = ("rnn", "lstm", "peephole", "coupled", "gru")
BOUNDED = ("rnn", "coupled", "gru", "gru-reset-before")  # cells whose state stays between −1 and 1
LABELS = {name: grammar.label for name, grammar in GRAMMARS.items()}


@dataclass(frozen=True)
class Setting:
    """The task and the training, the same for every cell and language."""

    trained: Annotated[int, Option("The largest n in training.", "N", minimum=1)] = 50
    tested: Annotated[int, Option("The largest n in the test.", "N", minimum=2)] = 200
    hidden: Hidden = 8
    pool: int = 400  # strings to train on
    batch: int = 24
    updates: int = 700
    rates: tuple[float, ...] = (
        0.05,
        0.02,
        0.005,
    )  # Adam's, network by network: what suits an LSTM is too much for an RNN
    networks: Annotated[int, Option("Networks of each cell, each with its own random seed.", "N", minimum=1)] = 5
    seed: Seed = 0

    def __post_init__(self) -> None:
        for name in ("trained", "hidden", "pool", "batch", "updates", "networks"):
            if not isinstance(value := getattr(self, name), int) or value < 1:
                raise ArgumentError(f"{name} must be a whole number from 1, got {value!r}")
        if not self.rates or min(self.rates) <= 0:
            raise ArgumentError(f"rates must be some numbers above 0, got {list(self.rates)}")
        if self.tested <= self.further:
            raise ArgumentError(
                f"tested must be more than {self.further}, half as much again as trained; got {self.tested!r}"
            )

    @property
    def further(self) -> int:
        """Half as long again as in training: strings beyond this are the long ones."""
        return self.trained + max(1, self.trained // 2)


class Reader(nn.Module):
    """One recurrent layer; after each symbol, how probable each symbol (and the end) is to be allowed next."""

    def __init__(self, cell: str, symbols: int, hidden: int) -> None:
        super().__init__()
        self.layer = lab_cell(cell).layer(symbols, hidden)
        self.output = nn.Linear(hidden, symbols + 1)

    def forward(self, strings: Strings) -> Tensor:
        """Before the sigmoid: (T, B, A + 1)."""
        return self.output(self.layer(strings.inputs, lengths=strings.lengths)[0])

    def loss(self, strings: Strings) -> Tensor:
        mask = strings.mask
        return F.binary_cross_entropy_with_logits(self(strings)[mask], strings.targets[mask])

    @torch.no_grad()
    def right(self, strings: Strings) -> Tensor:
        """Which strings are read without a single mistake: (B)."""
        wrong = ((self(strings) > 0) != (strings.targets > 0.5)).any(-1)
        return ~(wrong & strings.mask).any(0)


@dataclass(frozen=True)
class Unit:
    """The unit of a trained network whose state is most linear in what there is to count, on one long string."""

    state: str
    number: int
    correlation: float
    values: list[float]
    count: list[int]


@dataclass(frozen=True)
class Outcome:
    """One network: a cell on one language, with one random seed and learning rate."""

    language: str
    cell: str
    seed: int
    rate: float
    loss: float  # at the end
    right: tuple[float, ...]  # share of the strings of size 1, 2, … that were read without a mistake
    unit: Unit
    seconds: float

    def share(self, first: int, last: int) -> float:
        """Of strings of these sizes."""
        return sum(self.right[first - 1 : last]) / (last - first + 1)

    @property
    def reach(self) -> int:
        """The largest n such that of the strings of all sizes up to n at least 95 of 100 were right."""
        return max((n for n, sum in enumerate(accumulate(self.right), 1) if sum >= 0.95 * n), default=0)


def _group(numbers: Numbers, language: str, cell: str) -> list[dict[str, Any]]:
    return [one for one in numbers["outcomes"] if (one["language"], one["cell"]) == (language, cell)]


def _best(numbers: Numbers, language: str, cell: str) -> float:
    """The largest share of long strings that one of the networks reads."""
    return max(one["beyond"] for one in _group(numbers, language, cell))


def _names(numbers: Numbers, cells: Iterable[str]) -> str:
    return listing(numbers["labels"][cell] for cell in cells)


def _languages(numbers: Numbers) -> list[str]:
    return list(dict.fromkeys(one["language"] for one in numbers["outcomes"]))


def _counts(numbers: Numbers, tolerance: float) -> Verdict:
    if "anbn" not in _languages(numbers):
        return undecided("aⁿbⁿ was not among the languages.")
    s, labels = numbers["setting"], numbers["labels"]
    networks = {cell: _group(numbers, "anbn", cell) for cell in labels}
    shares = listing(f"{labels[cell]} {percent(_best(numbers, 'anbn', cell))}" for cell in labels)
    text = (
        f"Of the strings with n = {s['further'] + 1} to {s['tested']}, the best of "
        f"{counted(s['networks'], 'network')} reads: {shares}."
    )
    reading = {cell: _followed(one for one in own if one["beyond"] > tolerance) for cell, own in networks.items()}
    able = [cell for cell in labels if reading[cell]]
    if not able:
        return undecided(f"{text} No network reads on, so none shows whether it must count.")
    text += f" In the networks that read on, the counting unit has an |r| of {_each(numbers, reading)}."
    others = {cell: _followed(networks[cell]) for cell in labels if cell not in able}
    if others:
        text += f" In the cells of which no network reads on, it is {_each(numbers, others)}."
    stopping = _followed(one for own in networks.values() for one in own if one["beyond"] <= tolerance)
    if idle := sum(r > FOLLOWED for r in stopping):
        text += f" Such a unit is not enough: {counted(idle, 'network has', 'networks have')} one without reading on."
    text += " A run shows whether those that read on do count; that they must, it cannot show."
    counting = [cell for cell in able if min(reading[cell]) > FOLLOWED]
    if len(counting) == len(labels):
        return holds(text)
    return holds_for(_names(numbers, counting), text) if counting else fails(text)


def _followed(networks: Iterable[dict[str, Any]]) -> list[float]:
    """How well the counting unit of each network follows the count, in either direction."""
    return [abs(one["unit"]["correlation"]) for one in networks]


def _each(numbers: Numbers, correlations: dict[str, list[float]]) -> str:
    return listing(f"{mean_and_spread(r)} with {numbers['labels'][cell]}" for cell, r in correlations.items() if r)


def _finite(numbers: Numbers, tolerance: float) -> Verdict:
    known = [name for name in COUNTING if name in _languages(numbers)]
    bounded = [cell for cell in numbers["labels"] if cell in BOUNDED]
    if not known or not bounded:
        return undecided(f"It takes one of {listing(LABELS[n] for n in COUNTING)}, and a cell whose state is bounded.")
    most = {name: max((_best(numbers, name, cell), cell) for cell in bounded) for name in known}
    text = (
        f"The state of {_names(numbers, bounded)} stays between −1 and 1, so it would have to count in ever smaller "
        "steps. The most that one of their networks reads of the long strings: "
        + listing(
            f"{LABELS[name]} {percent(share)}" + (f" ({numbers['labels'][cell]})" if share else "")
            for name, (share, cell) in most.items()
        )
        + "."
    )
    if "dyck-1" in known:
        text += " A string of Dyck-1 can be long and shallow, and then a small count is enough."
    text += (
        " Bounded is not finite, though: one number between 0 and 1 can hold a stack of any depth, if it is exact "
        "(`carousel lab stack`). What is finite is the precision of a float, and what such a network learns."
    )
    limited = [LABELS[name] for name, (share, _) in most.items() if share <= tolerance]
    return holds_for(f"{listing(limited)}, in the networks of this run", text) if limited else undecided(text)


@dataclass(frozen=True)
class Languages(Finding):
    """What :func:`run` gives."""

    name = "languages"
    title = "Which cells count"
    trains = True
    claims = (
        Claim(
            "count",
            'we must "count" the n to recognize b^n after a^n .',
            "003 §8",
            "of a cell, some network reads more than {tolerance} of the strings of aⁿbⁿ that are half as long again as "
            "those of the training, and longer, without a mistake, and every network that does so has a unit that "
            f"follows the count, |r| > {FOLLOWED}.",
            _counts,
            tolerance=0.05,
            seeds=5,
        ),
        Claim(
            "finite",
            "Finite-state automata represent the limits of computation with only finite memory available.",
            "003 §8",
            "of a language that takes counting, no network whose state is bounded reads more than {tolerance} of the "
            f"long strings; the languages are {listing(LABELS[name] for name in COUNTING)}.",
            _finite,
            tolerance=0.05,
            seeds=5,
        ),
    )
    exercises = (
        Exercise(
            "Why can a coupled LSTM not count as an LSTM does?",
            "Its cell is a mean of the old value and a candidate between −1 and 1, "
            "\\(c = f \\circ c_- + (1 - f) \\circ g\\), so it stays between −1 and 1. A counter needs "
            "\\(f = i = 1\\).",
        ),
        Exercise(
            "Parity, whether the number of ones is even, takes two states. Why is it hard to learn all the same?",
            "One symbol read wrongly turns every answer after it, so there is no part of the task that can be learned "
            "first: the gradient of a network that is not yet right says little.",
        ),
    )
    code = """
from carousel.lab.automata import count_machine

machine = count_machine()                         # an LSTM of four units, its weights set by hand
print(machine.accepts(["a" * n + "b" * n for n in (1, 50, 200, 5000)]))
"""

    outcomes: tuple[Outcome, ...]
    setting: Setting
    seconds: float

    @property
    def languages(self) -> list[str]:
        return list(dict.fromkeys(one.language for one in self.outcomes))

    @property
    def cells(self) -> list[str]:
        return list(dict.fromkeys(one.cell for one in self.outcomes))

    def of(self, language: str, cell: str) -> list[Outcome]:
        """The networks of one cell on one language, the one that reads most long strings first."""
        own = [one for one in self.outcomes if (one.language, one.cell) == (language, cell)]
        return sorted(own, key=lambda one: (-self.beyond(one), one.loss))

    def beyond(self, one: Outcome) -> float:
        """The share of long strings that are right."""
        return one.share(self.setting.further + 1, self.setting.tested)

    def head(self) -> str:
        s = self.setting
        return f"{'language':10}{'cell':18}{'rate':>6}{f'n ≤ {s.trained}':>9}{f'n > {s.further}':>9}{'95 % to n =':>14}"

    def row(self, one: Outcome) -> str:
        names = f"{GRAMMARS[one.language].label:10}{CELLS[one.cell].label:18}{one.rate:>6g}"
        shares = f"{percent(one.share(1, self.setting.trained)):>9}{percent(self.beyond(one)):>9}"
        return f"{names}{shares}{one.reach:>14}"

    def numbers(self) -> dict[str, Any]:
        outcomes = [
            {**vars(one), "unit": vars(one.unit), "reach": one.reach, "beyond": self.beyond(one)}
            for one in self.outcomes
        ]
        s = self.setting
        return {
            "setting": {**vars(s), "further": s.further}, "outcomes": outcomes, "seconds": self.seconds,
            "labels": {cell: CELLS[cell].label for cell in self.cells},
            "seeds": list(range(s.seed, s.seed + s.networks)),
        }  # fmt: skip

    @staticmethod
    def table(numbers: Numbers) -> Table:
        rows = []
        for cell, label in numbers["labels"].items():
            row = [label]
            for language in _languages(numbers):
                reaches = span([one["reach"] for one in _group(numbers, language, cell)])
                row.append(f"{reaches} ({percent(_best(numbers, language, cell))})")
            rows.append(row)
        return ["cell", *(LABELS[name] for name in _languages(numbers))], rows

    @staticmethod
    def lead(numbers: Numbers) -> str:
        language = _languages(numbers)[0]
        reach = {cell: max(one["reach"] for one in _group(numbers, language, cell)) for cell in numbers["labels"]}
        best, worst = max(reach, key=lambda c: reach[c]), min(reach, key=lambda c: reach[c])
        return (
            f"Trained on {LABELS[language]} with n up to {numbers['setting']['trained']}, the best of "
            f"{counted(numbers['setting']['networks'], 'network')} reads at least 95 % of the strings without a "
            f"mistake up to n = {reach[best]} with the cell {numbers['labels'][best]}, and up to n = {reach[worst]} "
            f"with {numbers['labels'][worst]}."
        )

    def setup(self) -> Sequence[str]:
        s = self.setting
        return (
            f"Networks of {counted(s.hidden, 'unit')} read strings of size n ≤ {s.trained}, the short ones first, "
            "and give after every symbol which symbols may come next and whether the string may end: "
            f"{counted(s.updates, 'update')} by Adam on batches of {counted(s.batch, 'string')}. "
            f"{counted(s.networks, 'network')} of each cell, with random seeds from {s.seed} on and learning rates of "
            f"{listing(f'{rate:g}' for rate in s.rates)} in turn. "
            "The size n is that of aⁿbⁿ, the number of pairs of brackets, and the length of a string of zeros and "
            "ones, which may end where its ones are even.",
            "The training was settled by trying what lets an LSTM count far; another may suit another cell better, so "
            "that a cell learns little here does not show that it cannot.",
            f"Then they read strings up to n = {s.tested}. A string is right if there is no mistake after any of its "
            "symbols.",
            "The counting unit is the one whose state (c, or h in a cell without one) correlates most, in either "
            f"direction, with what there is to count, on a string of size {s.tested}: the brackets that are open, the "
            f"a's less the b's, or whether the ones are odd. The bound of {FOLLOWED} for its |r| was chosen with the "
            "correlations of a run known.",
        )

    def render(self, page: Page) -> None:
        drawn = self.figures()
        s = self.setting
        page.figure(
            drawn["right"], "How far each cell reads",
            f"The share of strings without a mistake, mean over {counted(s.networks, 'network')}, for ten sizes at a "
            f"time; grey: the sizes of the training, n ≤ {s.trained}.",
        )  # fmt: skip
        page.heading("95 of 100 right, up to n").text(
            "The largest n such that of the strings of all sizes up to n at least 95 of 100 are right, from the worst "
            f"to the best of {counted(s.networks, 'network')}. In brackets, how many of the long strings the best one "
            f"reads, n = {s.further + 1} to {s.tested}."
        ).table(*self.table(self.measured))
        page.figure(
            drawn["units"], "The counting unit",
            "Its state in the best network while one long string is read; dotted: what there is to count, on the scale "
            "that fits best.",
        )  # fmt: skip

    def figures(self) -> dict[str, Any]:
        return {"right": self._right(), "units": self._units()}

    def _right(self) -> Any:
        drawn = figure(70 + 150 * len(self.languages), [GRAMMARS[name].label for name in self.languages], hovermode="x")
        wide = max(1, self.setting.tested // 20)
        for row, language in enumerate(self.languages, 1):
            for cell in self.cells:
                kind, networks = CELLS[cell], self.of(language, cell)
                firsts = range(1, self.setting.tested + 1, wide)
                ends = [min(first + wide - 1, self.setting.tested) for first in firsts]
                drawn.add_scatter(
                    x=[(first + last) / 2 for first, last in zip(firsts, ends, strict=True)],
                    y=[fmean(one.share(*span) for one in networks) for span in zip(firsts, ends, strict=True)],
                    name=kind.label, legendgroup=cell, showlegend=row == 1, mode="lines",
                    line={"color": kind.colour, "dash": kind.dash, "width": 1.8}, row=row, col=1,
                )  # fmt: skip
            drawn.add_shape(
                type="rect", x0=0, x1=self.setting.trained, y0=0, y1=1, yref="y domain", fillcolor="#eceff2",
                line={"width": 0}, layer="below", row=row, col=1,
            )  # fmt: skip
        drawn.update_yaxes(range=[-0.05, 1.08], tickformat=".0%", tickvals=[0, 0.5, 1])
        return drawn.update_xaxes(title_text="n", row=len(self.languages), col=1)

    def _units(self) -> Any:
        language = self.languages[0]
        cells = [cell for cell in SHOWN if cell in self.cells] or self.cells[:1]
        units = [(cell, self.of(language, cell)[0].unit) for cell in cells]
        titles = [
            f"{CELLS[cell].label}: {unit.state} of unit {unit.number}, r = {unit.correlation:.2f}".replace("-", "−")
            for cell, unit in units
        ]
        drawn = figure(80 + 180 * len(cells), titles, hovermode="x")
        for row, (cell, unit) in enumerate(units, 1):
            steps = list(range(1, len(unit.values) + 1))
            drawn.add_scatter(
                x=steps, y=unit.values, name="state", legendgroup="state", showlegend=row == 1,
                line={"color": CELLS[cell].colour}, row=row, col=1,
            )  # fmt: skip
            drawn.add_scatter(
                x=steps, y=fitted(unit.values, unit.count), name=f"count in {GRAMMARS[language].label}",
                legendgroup="count", showlegend=row == 1, line={"color": "#1c2430", "dash": "dot", "width": 1.5},
                row=row, col=1,
            )  # fmt: skip
        return drawn.update_xaxes(title_text="symbols read", row=len(cells), col=1)


QUICK = {"languages": ("anbn", "parity"), "setting": Setting(networks=1, updates=300)}
HELP = help_text(
    "Train every cell on short strings of formal languages and let it read long ones: which cells count?",
    "languages",
    "anbn dyck-1 --tested 1000 --out count",
)


def run(
    languages: Annotated[
        Sequence[str], Option("anbn, anbncn, dyck-1, dyck-2, parity; without them, all.", "LANGUAGE", argument=True)
    ] = tuple(GRAMMARS),
    cells: Sequence[str] = COMPARED,
    setting: Setting | None = None,
    bar: Bar | None = None,
) -> Languages:
    """Train each of `cells` on each of `languages`, and let it read longer strings.

    >>> result = run(["parity"], ["gru"], Setting(trained=5, tested=12, updates=2, networks=1))
    >>> len(result.outcomes), len(result.outcomes[0].right)
    (1, 12)
    """
    for kind, given, known in (("languages", languages, GRAMMARS), ("cells", cells, CELLS)):
        wrong = [name for name in given if name not in known]
        if wrong or not given:
            raise ArgumentError(f"{kind} must be some of {', '.join(known)}; got {', '.join(wrong) or 'none'}")
    s, bar = setting or Setting(), bar or Bar(quiet=True)
    result = Languages((), s, 0.0)
    start, outcomes = time.perf_counter(), []
    with threads(1), bar.over(result.head(), len(languages) * len(cells) * s.networks * s.updates, "loss {:.3f}"):
        for language in languages:
            draw = random.Random(f"{language} {s.seed}")
            grammar = GRAMMARS[language]
            strings = {grammar.draw(draw.randint(1, s.trained), draw) for _ in range(s.pool)}
            pool = grammar.encode(sorted(strings, key=lambda text: (len(text), text)))
            tests = [grammar.draw(n, draw) for n in range(1, s.tested + 1) for _ in range(SAMPLES)]
            encoded = grammar.encode(tests)
            for cell, k in itertools.product(cells, range(s.networks)):
                bar.start(f"{language}, {CELLS[cell].label}")
                began, rate = time.perf_counter(), s.rates[k % len(s.rates)]
                model, loss = train(cell, pool, s, rate, s.seed + k, lambda loss: bar.advance(1, loss))
                right = model.right(encoded).float().reshape(s.tested, SAMPLES).mean(1)
                outcomes.append(
                    Outcome(
                        language, cell, s.seed + k, rate, loss, tuple(right.tolist()),
                        counting_unit(model, grammar, tests[-1]), time.perf_counter() - began,
                    )
                )  # fmt: skip
                bar.finish(result.row(outcomes[-1]))
    return Languages(tuple(outcomes), s, time.perf_counter() - start)


def train(
    cell: str,
    pool: Strings,
    setting: Setting,
    rate: float,
    seed: int,
    progress: Callable[[float], None] = lambda loss: None,
) -> tuple[Reader, float]:
    """A network that has learned from `pool`, which is sorted by length, and its loss there.

    Short strings come first: the longest that is drawn grows, from a tenth of all, over the first half of the updates.
    The rate falls to nothing over the last third.
    """
    s = setting
    draw = torch.Generator().manual_seed(seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Reader(cell, pool.inputs.shape[-1], s.hidden)
    adam = torch.optim.Adam(model.parameters(), rate, fused=True)
    falling = torch.optim.lr_scheduler.LambdaLR(adam, lambda k: min(1.0, 3 * (1 - k / s.updates)))
    for k in range(s.updates):
        longest = len(pool.inputs) * (0.1 + 1.8 * k / s.updates)
        known = max(1, int((pool.lengths <= longest).sum()))
        loss = model.loss(pool.take(torch.randint(known, (s.batch,), generator=draw)))
        adam.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        adam.step()
        falling.step()
        progress(loss.item())
    with torch.no_grad():
        return model, model.loss(pool).item()


def counting_unit(model: Reader, grammar: Grammar, text: str) -> Unit:
    """The unit whose state correlates most with what there is to count in `text`.

    Of a matrix or complex state a unit is one number: an entry, a real or an imaginary part.
    """
    trace = model.layer.trace(grammar.encode([text]).inputs)
    state = carrying_state(model.layer.cell)
    values = trace.states[state][0, :, 0].detach()  # (T, *shape)
    if values.is_complex():
        values = torch.view_as_real(values)
    values = values.flatten(1).double()
    count = grammar.count(text)
    correlations = torch.corrcoef(torch.cat([values.T, torch.tensor([count], dtype=torch.float64)]))[
        -1, :-1
    ].nan_to_num(0)
    number = int(correlations.abs().argmax())
    return Unit(state, number, float(correlations[number]), values[:, number].tolist(), count)


def fitted(values: Sequence[float], count: Sequence[int]) -> list[float]:
    """`count` on the scale of `values`: a + b · count, by least squares.

    >>> [round(value, 6) for value in fitted([5.0, 3.0, 1.0], [0, 1, 2])]
    [5.0, 3.0, 1.0]
    """
    x, y = (torch.tensor(part, dtype=torch.float64) for part in (count, values))
    slope = ((x - x.mean()) * (y - y.mean())).sum() / (x - x.mean()).square().sum().clamp(min=1e-12)
    return (y.mean() + slope * (x - x.mean())).tolist()
