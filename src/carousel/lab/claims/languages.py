"""aⁿbⁿ, brackets, parity: which cells count beyond the lengths of training."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
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
from ..cells import CELLS, carrying_state, lab_cell
from ..grammars import GRAMMARS, Grammar, Strings
from ..old_finding import Claim, Finding, Verdict
from ..options import Hidden, Option, Seed
from ..progress import Bar
from ..words import listing, percent

SAMPLES = 2  # strings of each size in the test
SHOWN = ("lstm", "gru", "rnn")  # whose counting units are drawn
COUNTING = ("anbn", "anbncn")  # languages in which n is what must be counted
CONTESTANTS = ("rnn", "lstm", "peephole", "coupled", "gru")


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
    )  # Adam's, a network at each: what suits an LSTM is too much for an RNN
    seed: Seed = 0

    def __post_init__(self) -> None:
        for name in ("trained", "hidden", "pool", "batch", "updates"):
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
        """The size of the strings by which one of the networks is chosen: half as long again as in training."""
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
    """One cell on one language."""

    language: str
    cell: str
    losses: tuple[float, ...]  # at the end, at each rate
    right: tuple[float, ...]  # share of the strings of size 1, 2, … that were read without a mistake
    unit: Unit
    seconds: float

    def share(self, first: int, last: int) -> float:
        """Of strings of these sizes."""
        return sum(self.right[first - 1 : last]) / (last - first + 1)

    @property
    def reach(self) -> int:
        """The largest n up to which at least 95 of 100 strings were right."""
        return max((n for n, sum in enumerate(accumulate(self.right), 1) if sum >= 0.95 * n), default=0)


@dataclass(frozen=True)
class Languages(Finding):
    """What :func:`run` gives."""

    name = "languages"
    title = "Which cells count"
    claim = Claim(
        "Recurrent networks are Turing complete: with enough data and resources, one can simulate any algorithm. A "
        "finite automaton cannot recognise aⁿbⁿ, because it takes counting, nor brackets, which take a stack.",
        "003 §8",
        ("aⁿbⁿ ∉ regular languages", "c = f∘c₋ + i∘g with f = i = 1 and g = ±1 counts; |h| ≤ 1 in an RNN and a GRU"),
    )

    outcomes: tuple[Outcome, ...]
    setting: Setting
    seconds: float

    @property
    def seed(self) -> int:  # type: ignore[override]
        return self.setting.seed

    @property
    def languages(self) -> list[str]:
        return list(dict.fromkeys(one.language for one in self.outcomes))

    @property
    def cells(self) -> list[str]:
        return list(dict.fromkeys(one.cell for one in self.outcomes))

    def of(self, language: str, cell: str) -> Outcome:
        return next(one for one in self.outcomes if (one.language, one.cell) == (language, cell))

    def beyond(self, one: Outcome) -> float:
        """The share of strings right that are longer than all by which it was trained or chosen."""
        return one.share(self.setting.further + 1, self.setting.tested)

    def head(self) -> str:
        s = self.setting
        return f"{'language':10}{'cell':18}{f'n ≤ {s.trained}':>9}{f'n > {s.further}':>9}{'95 % to n =':>14}{'r':>7}"

    def row(self, one: Outcome) -> str:
        names = f"{GRAMMARS[one.language].label:10}{CELLS[one.cell].label:18}"
        shares = f"{percent(one.share(1, self.setting.trained)):>9}{percent(self.beyond(one)):>9}"
        return f"{names}{shares}{one.reach:>14}{one.unit.correlation:>7.2f}"

    def __str__(self) -> str:
        return "\n".join([self.head(), *map(self.row, self.outcomes)])

    def _counters(self) -> tuple[list[str], list[str]]:
        """Cells that go on counting, to a tenth of the way at least on average, and those that do not at all."""
        known = [name for name in COUNTING if name in self.languages]
        shares = {cell: fmean(self.beyond(self.of(name, cell)) for name in known) for cell in self.cells if known}
        return [c for c, share in shares.items() if share > 0.1], [c for c, share in shares.items() if share < 0.02]

    def lead(self) -> str:
        language = self.languages[0]
        reach = {cell: self.of(language, cell).reach for cell in self.cells}
        best, worst = max(reach, key=lambda c: reach[c]), min(reach, key=lambda c: reach[c])
        return (
            f"Trained on {GRAMMARS[language].label} with n up to {self.setting.trained}, the {CELLS[best].label} is "
            f"right up to n = {reach[best]}, the {CELLS[worst].label} up to n = {reach[worst]}."
        )

    def ran(self) -> Sequence[str]:
        s = self.setting
        return (
            f"Networks of {s.hidden} units read strings of size n ≤ {s.trained}, the short ones first, and say after "
            f"every symbol which symbols may come next and whether the string may end: {s.updates} updates by Adam on "
            f"batches of {s.batch} strings. Of {len(s.rates)} networks of each cell, at learning rates of "
            f"{listing(f'{rate:g}' for rate in s.rates)}, the one counts that reads most strings of size "
            f"{s.trained + 1} to {s.further}. The size n is that of aⁿbⁿ, the number of pairs of brackets, and the "
            "length of a string of zeros and ones, which may end where its ones are even.",
            "The training was settled by trying what lets an LSTM count far; another may suit another cell better.",
            f"Then they read strings up to n = {s.tested}. A string is right if there is no mistake after any of its "
            "symbols.",
            "The counting unit is the one whose state (c, or h in a cell without one) correlates most, in either "
            f"direction, with what there is to count, on a string of size {s.tested}: the brackets that are open, the "
            "a's less the b's, or whether the ones are odd.",
        )

    def tell(self, page: Page) -> None:
        drawn = self.figures()
        s = self.setting
        page.figure(
            drawn["right"], "How far each cell reads",
            f"The share of strings without a mistake, for ten sizes at a time; grey: the sizes of the training, n ≤ "
            f"{s.trained}.",
        )  # fmt: skip
        rows = [
            [CELLS[cell].label, *(f"{one.reach} ({percent(self.beyond(one), 0)})" for one in (
                self.of(language, cell) for language in self.languages))] for cell in self.cells
        ]  # fmt: skip
        page.heading("Right up to n").text(
            "Up to which n at least 95 of 100 strings are right. In brackets, how many of the longer strings are, n = "
            f"{s.further + 1} to {s.tested}, which had no part in training or choosing."
        )
        page.table(["cell", *(GRAMMARS[name].label for name in self.languages)], rows)
        page.figure(
            drawn["units"], "The counting unit",
            "Its state while one long string is read; dotted: what there is to count, on the scale that fits best.",
        )  # fmt: skip

    def verdict(self) -> Verdict:
        does, does_not = self._counters()
        if not does or not does_not:
            return Verdict(None, "It does not tell cells that count from cells that do not.")
        reach, best = max((one.reach, one.cell) for one in self.outcomes if one.language in COUNTING)
        told = [
            "Not of every recurrent network as it is trained. What a network can do with exact numbers and what "
            f"gradient descent makes of it are two things: {_names(does)} went on counting past n = "
            f"{self.setting.trained}, the {CELLS[best].label} to n = {reach}; {_names(does_not)} did "
            "not. A counter takes a state that grows, c = c₋ + 1, and an LSTM has one. The h of an RNN or GRU, and "
            "the c of a coupled LSTM, whose i is 1 − f, stay between −1 and 1, and would have to count in ever "
            "smaller steps."
        ]
        if "dyck-2" in self.languages:
            most = max(self.beyond(self.of("dyck-2", cell)) for cell in self.cells)
            told.append(f"Two kinds of brackets take a stack: of those, no cell reads more than {percent(most, 0)} of "
                        "the longer strings.")  # fmt: skip
        return Verdict(False, " ".join(told))

    def figures(self) -> dict[str, Any]:
        return {"right": self._right(), "units": self._units()}

    def _right(self) -> Any:
        drawn = figure(70 + 150 * len(self.languages), [GRAMMARS[name].label for name in self.languages], hovermode="x")
        wide = max(1, self.setting.tested // 20)
        for row, language in enumerate(self.languages, 1):
            for cell in self.cells:
                kind, one = CELLS[cell], self.of(language, cell)
                firsts = range(1, self.setting.tested + 1, wide)
                ends = [min(first + wide - 1, self.setting.tested) for first in firsts]
                drawn.add_scatter(
                    x=[(first + last) / 2 for first, last in zip(firsts, ends, strict=True)],
                    y=[one.share(first, last) for first, last in zip(firsts, ends, strict=True)],
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
        found = [(cell, self.of(language, cell).unit) for cell in cells]
        titles = [
            f"{CELLS[cell].label}: {unit.state} of unit {unit.number}, r = {unit.correlation:.2f}".replace("-", "−")
            for cell, unit in found
        ]
        drawn = figure(80 + 180 * len(cells), titles, hovermode="x")
        for row, (cell, unit) in enumerate(found, 1):
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

    def numbers(self) -> dict[str, Any]:
        told = [
            {
                **{name: getattr(one, name) for name in ("language", "cell", "losses", "reach", "right", "seconds")},
                "beyond": self.beyond(one),
                "unit": vars(one.unit),
            }
            for one in self.outcomes
        ]
        return {"setting": vars(self.setting), "outcomes": told, "seconds": self.seconds}


HELP = """Train every cell on short strings of formal languages and let it read long ones: which cells count?

\b
carousel lab languages
carousel lab languages anbn dyck-1 --tested 1000 --out count
"""


def run(
    languages: Annotated[
        Sequence[str], Option("anbn, anbncn, dyck-1, dyck-2, parity; without them, all.", "LANGUAGE", argument=True)
    ] = tuple(GRAMMARS),
    cells: Sequence[str] = CONTESTANTS,
    setting: Setting | None = None,
    bar: Bar | None = None,
) -> Languages:
    """Train each of `cells` on each of `languages`, and let it read longer strings.

    >>> found = run(["parity"], ["gru"], Setting(trained=5, tested=12, updates=2))
    >>> len(found.outcomes), len(found.outcomes[0].right)
    (1, 12)
    """
    for kind, given, known in (("languages", languages, GRAMMARS), ("cells", cells, CELLS)):
        wrong = [name for name in given if name not in known]
        if wrong or not given:
            raise ArgumentError(f"{kind} must be some of {', '.join(known)}; got {', '.join(wrong) or 'none'}")
    s, bar = setting or Setting(), bar or Bar(quiet=True)
    result = Languages((), s, 0.0)
    start, outcomes = time.perf_counter(), []
    with threads(1), bar.over(result.head(), len(languages) * len(cells) * len(s.rates) * s.updates, "loss {:.3f}"):
        for language in languages:
            draw = random.Random(f"{language} {s.seed}")
            grammar = GRAMMARS[language]
            drawn = {grammar.draw(draw.randint(1, s.trained), draw) for _ in range(s.pool)}
            pool = grammar.encode(sorted(drawn, key=lambda text: (len(text), text)))
            tests = [grammar.draw(n, draw) for n in range(1, s.tested + 1) for _ in range(SAMPLES)]
            encoded = grammar.encode(tests)
            further = grammar.encode([grammar.draw(n, draw) for n in range(s.trained + 1, s.further + 1)])
            for cell in cells:
                bar.start(f"{language}, {CELLS[cell].label}")
                began = time.perf_counter()
                tried = [train(cell, pool, s, rate, lambda loss: bar.advance(1, loss)) for rate in s.rates]
                model, _ = max(tried, key=lambda pair: (int(pair[0].right(further).sum()), -pair[1]))
                right = model.right(encoded).float().reshape(s.tested, SAMPLES).mean(1)
                outcomes.append(
                    Outcome(
                        language, cell, tuple(loss for _, loss in tried), tuple(right.tolist()),
                        counting_unit(model, grammar, tests[-1]), time.perf_counter() - began,
                    )
                )  # fmt: skip
                bar.finish(result.row(outcomes[-1]))
    return Languages(tuple(outcomes), s, time.perf_counter() - start)


def train(
    cell: str, pool: Strings, setting: Setting, rate: float, progress: Callable[[float], None] = lambda loss: None
) -> tuple[Reader, float]:
    """A network that has learned from `pool`, which is sorted by length, and its loss there.

    Short strings come first: the longest that is drawn grows, from a tenth of all, over the first half of the updates.
    The rate falls to nothing over the last third.
    """
    s = setting
    draw = torch.Generator().manual_seed(s.seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(s.seed)
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
    found = torch.corrcoef(torch.cat([values.T, torch.tensor([count], dtype=torch.float64)]))[-1, :-1].nan_to_num(0)
    number = int(found.abs().argmax())
    return Unit(state, number, float(found[number]), values[:, number].tolist(), count)


def fitted(values: Sequence[float], count: Sequence[int]) -> list[float]:
    """`count` on the scale of `values`: a + b · count, by least squares.

    >>> [round(value, 6) for value in fitted([5.0, 3.0, 1.0], [0, 1, 2])]
    [5.0, 3.0, 1.0]
    """
    x, y = (torch.tensor(part, dtype=torch.float64) for part in (count, values))
    slope = ((x - x.mean()) * (y - y.mean())).sum() / (x - x.mean()).square().sum().clamp(min=1e-12)
    return (y.mean() + slope * (x - x.mean())).tolist()


def _names(cells: Sequence[str]) -> str:
    return listing(CELLS[cell].label for cell in cells)
