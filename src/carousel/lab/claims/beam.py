"""Greedy, beam and exhaustive search: what each finds, and what it costs.

    score(y) = 1/t Σ log p(y_i | y_1 … y_{i−1})

Exhaustive search tells what is best; so it can be counted how often a beam of width k finds it, and what it costs.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Annotated, Any

import torch
from torch import Tensor

from ...decoding import Beam, BeamTree, Exhaustive, Greedy, Hypothesis, Mean, StepFunction, Unnormalised, search
from ...errors import ArgumentError
from ...layers import LSTM, RecurrentStepper
from ...pictures import tree
from ...report import Page, figure
from ..old_finding import Claim, Finding, Verdict
from ..options import Option, Seed

END = 0  # also what a sequence starts from

# ---- the notes' example: their sentence, with probabilities of ours, chosen so that greedy's is their −3.9 ----

FOLLOWS = {
    "[END]": {"hayatın": 0.5, "yaşamak": 0.3, "bir": 0.2},
    "hayatın": {"yaşamak": 0.6, "anlamı": 0.3, "sebebi": 0.1},
    "yaşamak": {"için": 0.7, "bir": 0.3},
    "için": {"bir": 0.6, "yok": 0.2, "var": 0.2},
    "bir": {"anlamı": 0.5, "sebebi": 0.4, "amacı": 0.1},
    "anlamı": {"yok": 0.35, "var": 0.25, "için": 0.2, "bir": 0.2},
    "sebebi": {"yok": 0.9, "var": 0.1},
    "amacı": {"yok": 0.5, "var": 0.5},
    "yok": {"[END]": 0.918, "bir": 0.082},
    "var": {"[END]": 1.0},
}
WORDS = list(FOLLOWS)


def example() -> StepFunction:
    """The notes' example as a model: the next word depends on the last one."""
    table = torch.zeros(len(WORDS), len(WORDS), dtype=torch.float64)
    for word, line in FOLLOWS.items():
        for after, p in line.items():
            table[WORDS.index(word), WORDS.index(after)] = p
    log = table.log()
    return StepFunction(lambda tokens, state: (log[tokens], state), len(WORDS))


def small_model(vocabulary: int, units: int = 8, sharpness: float = 2.0) -> RecurrentStepper:
    """A language model with random weights: an LSTM that has opinions, and changes them with what it has read."""
    layer = LSTM(units, units, dtype=torch.float64)  # exact enough to tell equal scores from close ones
    with torch.no_grad():
        for weight in layer.parameters():
            weight.normal_(0, 1)
    embedding, out = (torch.randn(vocabulary, units, dtype=torch.float64) for _ in range(2))
    return RecurrentStepper(embedding, layer, sharpness * out)


class Counting:
    """A stepper that counts the rows it is asked about: what a search costs."""

    def __init__(self, stepper: Any) -> None:
        self.stepper, self.rows = stepper, 0
        self.vocab_size, self.device, self.start, self.select = (
            stepper.vocab_size,
            stepper.device,
            stepper.start,
            stepper.select,
        )

    def step(self, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        self.rows += len(tokens)
        return self.stepper.step(tokens, state)


# ---- what is found ----


@dataclass
class Line:
    """One way to search, over all models."""

    label: str
    width: int | None = None  # of a beam
    scores: list[float] = field(default_factory=list)  # of the best complete hypothesis, one a model; -inf without one
    tokens: list[tuple[int, ...]] = field(default_factory=list)
    rows: int = 0  # asked of the models, over all of them

    def add(self, best: Hypothesis, rows: int) -> None:
        self.scores.append(best.score if best.finished else -math.inf)
        self.tokens.append(best.tokens)
        self.rows += rows


@dataclass
class Comparison(Finding):
    """What :func:`run` found."""

    name = "beam"
    title = "Greedy, beam and exhaustive search"
    claim = Claim(
        "Greedy decoding cannot undo a decision, and what it finds need not be the most probable sentence. Trying all "
        "sentences costs O(|V|^T). Beam search keeps the k best beginnings at every step; it is not guaranteed to find "
        "the best either. Longer hypotheses have lower scores, so scores are divided by length.",
        "003 §15.1",
        ("score(y) = 1/t Σᵢ log p(yᵢ | y₁ … yᵢ₋₁, x)",),
    )

    vocabulary: int
    longest: int
    greedy: Line
    beams: list[Line]  # by width; they stop when as many are complete as they are wide
    patient: list[Line]  # the same, to the last step
    exhaustive: Line
    shortest: Line  # exhaustive, without dividing by length
    seed: int = 0
    seconds: float = 0.0

    # ---- numbers ----

    @property
    def models(self) -> int:
        return len(self.greedy.scores)

    @property
    def lines(self) -> list[Line]:
        return [self.greedy, *self.beams, *self.patient, self.exhaustive]

    def found(self, line: Line) -> int:
        """In how many models a search found what is best."""
        return sum(s >= best - 1e-9 for s, best in zip(line.scores, self.exhaustive.scores, strict=True))

    def short_of(self, line: Line) -> float:
        """How far the score of what was found is below the best, on average over the models where it is complete."""
        pairs = zip(self.exhaustive.scores, line.scores, strict=True)
        gaps = [best - score for best, score in pairs if score > -math.inf]
        return sum(gaps) / max(1, len(gaps))

    def worse(self) -> int:
        """In how many models some wider beam found less than a narrower one, both to the last step."""
        each = zip(*(line.scores for line in self.patient), strict=True)
        return sum(any(b < a - 1e-9 for a, b in pairwise(s)) for s in each)

    def mean_length(self, line: Line) -> float:
        return sum(map(len, line.tokens)) / self.models

    # ---- the notes' example ----

    @cached_property
    def example(self) -> dict[str, tuple[Hypothesis, BeamTree]]:
        """The notes' sentence: what greedy, a beam of 2 and exhaustive search find, and the record of each."""
        found = {}
        for name, strategy in (("greedy", Greedy()), ("beam of 2", Beam(2)), ("exhaustive", Exhaustive())):
            record = BeamTree()
            [[best]] = search(example(), 1, strategy, start=END, end=END, max_length=8, record=record)
            found[name] = (best, record)
        return found

    @staticmethod
    def spell(best: Hypothesis) -> str:
        return " ".join(WORDS[t] for t in best.tokens if t != END)

    # ---- words ----

    def table(self) -> tuple[list[str], list[list[str]]]:
        columns = ["search", "finds the best", "finds no end", "steps of the model"]
        rows = [
            [
                line.label,
                f"{self.found(line)} of {self.models}",
                str(line.scores.count(-math.inf)),
                f"{line.rows / self.models:,.0f}",
            ]
            for line in self.lines
        ]
        return columns, rows

    def __str__(self) -> str:
        columns, rows = self.table()
        widths = [max(len(row[k]) for row in [columns, *rows]) for k in range(len(columns))]
        lines = [
            "  ".join([f"{row[0]:{widths[0]}}", *(f"{c:>{w}}" for c, w in zip(row[1:], widths[1:], strict=True))])
            for row in [columns, *rows]
        ]
        said = [f"{name + ':':12} {best.log_prob:6.2f}  {self.spell(best)}" for name, (best, _) in self.example.items()]
        return "\n".join([*lines, "", "the notes' sentence, log-probability and text", *said])

    def lead(self) -> str:
        two = next((line for line in self.beams if line.width == 2), self.beams[-1])
        return (
            f"On {self.models} small models, greedy search finds the best sequence in *{self.found(self.greedy)}*, a "
            f"{two.label} in *{self.found(two)}*; looking at all of them costs "
            f"{self.exhaustive.rows / max(1, two.rows):,.0f} times as much as that beam."
        )

    def ran(self) -> Sequence[str]:
        return (
            f"{self.models} LSTM language models with random weights, each with {self.vocabulary} tokens, the end "
            f"among them, and sequences of at most {self.longest}. Exhaustive search looks at every sequence, so what "
            "it finds is the best there is. A beam puts a hypothesis aside when it is complete and goes on with the "
            "others, until as many are complete as it is wide, or, in the second half of the table, to the last step. "
            "Scores are the mean log-probability of a token; a sequence that has not come to its end is not found.",
            "The sentence of the notes was searched too, in a model where the next word depends on the last one. Its "
            "probabilities are ours, chosen so that greedy search finds the notes' sentence with the notes' score.",
        )

    def tell(self, page: Page) -> None:
        drawn = self.figures()
        page.figure(
            drawn["found"],
            "What came out",
            "How many of the models' best sequences are found, and how many steps of the model that takes.",
        ).table(*self.table())
        short, long = self.mean_length(self.shortest), self.mean_length(self.exhaustive)
        page.heading("Length").text(
            f"The best sequence by total log-probability has {short:.2f} tokens on average, by mean log-probability "
            f"{long:.2f}: every further token makes the total lower, so without division by length "
            f"{'shorter ones win' if short < long else 'shorter ones did not win here'}."
        )
        worse = self.worse()
        page.heading("Wider is not always better").text(
            f"In {worse} of the {self.models} models a wider beam found a worse sequence than a narrower one: what the "
            "wider one keeps in addition can push out a beginning that the narrower one went on with."
        )
        greedy, beam = self.example["greedy"][0], self.example["beam of 2"][0]
        page.figure(
            drawn["tree"],
            "The notes' sentence, with a beam of 2",
            f"Greedy search finds “{self.spell(greedy)}” with a log-probability of {greedy.log_prob:.1f}; a beam of 2 "
            f"finds “{self.spell(beam)}” with {beam.log_prob:.1f}. Each word stands with the log-probability of the "
            "path to it.",
        )

    def verdict(self) -> Verdict:
        missed = self.models - self.found(self.greedy)
        says = [f"Greedy search misses the best sequence in {missed} of {self.models} models."]
        first, widest = self.beams[0], self.patient[-1]
        same = first.width != 1 or first.tokens == self.greedy.tokens
        if first.width == 1:
            says.append(f"A beam of 1 is {'the same as' if same else 'not the same as'} greedy search.")
        misses = [line for line in self.patient[:-1] if self.found(line) < self.models]
        if misses:
            says.append(f"A {misses[-1].label} misses it in {self.models - self.found(misses[-1])}.")
        exact = self.found(widest) == self.models
        says.append(f"A beam so wide that it drops nothing ({widest.width}) finds it in {self.found(widest)}.")
        shorter = self.mean_length(self.shortest) < self.mean_length(self.exhaustive)
        says.append(f"By total log-probability, shorter sequences {'win' if shorter else 'do not win'}.")
        stands = same and exact and shorter and bool(misses) and missed > 0
        return Verdict(stands if self.models >= 20 else None, " ".join(says))

    def figures(self) -> dict[str, Any]:
        best, record = self.example["beam of 2"]
        return {"found": self._found(), "tree": tree(record, name=WORDS.__getitem__, best=best.tokens)}

    def _found(self) -> Any:
        drawn = figure(500, ["the best sequence found", "steps of the model, a search"], hovermode="x")
        widths = [line.width for line in self.beams]
        for label, lines, shade in (
            ("until as many are complete as the beam is wide", self.beams, "#0072b2"),
            ("to the last step", self.patient, "#009e73"),
            ("exhaustive search", [self.exhaustive] * len(widths), "#d55e00"),
        ):
            for row, ys in (
                (1, [self.found(line) / self.models for line in lines]),
                (2, [line.rows / self.models for line in lines]),
            ):
                drawn.add_scatter(
                    x=widths,
                    y=ys,
                    mode="lines" if shade == "#d55e00" else "lines+markers",
                    line={"color": shade, "dash": "dash" if shade == "#d55e00" else "solid"},
                    name=label,
                    legendgroup=label,
                    showlegend=row == 1,
                    row=row,
                    col=1,
                )
        drawn.update_yaxes(tickformat=".0%", range=[0, 1.08], row=1, col=1).update_yaxes(type="log", row=2, col=1)
        drawn.update_xaxes(type="log", tickvals=widths, ticktext=[str(w) for w in widths])
        return drawn.update_xaxes(title_text="width of the beam; 1 is greedy", row=2, col=1)

    def numbers(self) -> dict[str, Any]:
        return {
            "models": self.models,
            "vocabulary": self.vocabulary,
            "longest": self.longest,
            "seed": self.seed,
            "seconds": self.seconds,
            "searches": [
                {
                    "search": line.label,
                    "width": line.width,
                    "found": self.found(line),
                    "score_below_best": self.short_of(line),
                    "steps": line.rows / self.models,
                    "mean_length": self.mean_length(line),
                }
                for line in self.lines
            ],
            "mean_length_without_division": self.mean_length(self.shortest),
            "wider_found_less": self.worse(),
            "example": {
                name: {"text": self.spell(best), "log_prob": best.log_prob} for name, (best, _) in self.example.items()
            },
        }


HELP = """Greedy, beam and exhaustive search: how often each finds the best sequence, and what it costs.

\b
carousel lab beam                    # a table, in ten seconds
carousel lab beam --out beam         # and a page with the tree of a search
carousel lab beam --vocabulary 8 --longest 4
"""


def run(
    models: Annotated[int, Option("How many small models are searched.", "N", minimum=1)] = 100,
    *,
    vocabulary: Annotated[int, Option("Tokens of each, the end among them.", "V", minimum=2)] = 5,
    longest: Annotated[int, Option("The most tokens of a sequence.", "T", minimum=1)] = 5,
    widths: Sequence[int] = (1, 2, 3, 4, 5, 8, 16, 64, 256),
    seed: Seed = 0,
) -> Comparison:
    """Search `models` random language models of `vocabulary` tokens for their best sequence up to `longest` tokens.

    Beside the beams of `widths` there is one so wide that it never drops anything.

    >>> found = run(5, vocabulary=3, longest=4, widths=(1, 2))
    >>> found.found(found.exhaustive), found.beams[0].tokens == found.greedy.tokens
    (5, True)
    """
    for name, value, least in (("models", models, 1), ("vocabulary", vocabulary, 2), ("longest", longest, 1)):
        if not isinstance(value, int) or value < least:
            raise ArgumentError(f"{name} must be a whole number from {least}, got {value!r}")
    if (vocabulary - 1) ** (longest - 1) > 200_000:
        raise ArgumentError(
            f"exhaustive search of {vocabulary} tokens and {longest} steps would look at more than 200,000 sequences "
            "at once; lower one of them"
        )
    everything = vocabulary * (vocabulary - 1) ** (longest - 1)  # continuations at the last step
    if not all(isinstance(w, int) and w >= 1 for w in widths):
        raise ArgumentError(f"widths must be whole numbers from 1, got {list(widths)}")
    widths = sorted({w for w in widths if w < everything} | {everything})
    greedy, exhaustive, shortest = Line("greedy"), Line("exhaustive"), Line("exhaustive, by total")
    beams = [Line(f"beam of {w}", w) for w in widths]
    patient = [Line(f"beam of {w}, to the last step", w) for w in widths]
    searches: list[tuple[Line, Any]] = [
        (greedy, Greedy()),
        *((line, Beam(line.width or 1, wide=True)) for line in beams),
        *((line, Beam(line.width or 1, wide=True, completed=math.inf)) for line in patient),
        (exhaustive, Exhaustive(length=Mean())),
        (shortest, Exhaustive(length=Unnormalised())),
    ]
    start = time.perf_counter()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        for _ in range(models):
            model = small_model(vocabulary)
            for line, strategy in searches:
                counted = Counting(model)
                [[best]] = search(counted, 1, strategy, start=END, end=END, max_length=longest, seed=0)
                line.add(best, counted.rows)
    seconds = time.perf_counter() - start
    return Comparison(vocabulary, longest, greedy, beams, patient, exhaustive, shortest, seed, seconds)
