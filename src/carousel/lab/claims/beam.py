"""Greedy, beam and exhaustive search: what each finds, and what it costs.

    score(y) = 1/t Σ log p(y_i | y_1 … y_{i−1})

Exhaustive search tells what is best; so it can be counted how often a beam of width k finds it, and what it costs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
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
from ...wording import counted
from ..claim import Claim, Numbers, Verdict, fails, holds, undecided
from ..finding import Exercise, Finding, Table
from ..measured import Clock
from ..options import Option, Seed
from ..words import listing, minus

END = 0  # also what a sequence starts from
FURTHER = 1000  # tokens to which greedy search is continued where it finds no end

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

# ---- an example in which a wider beam finds less: c and d push “a best” out, and have no good end ----

PUSHED_OUT = {
    "[END]": {"a": 0.51, "b": 0.49},
    "a": {"best": 0.4, "e": 0.3, "f": 0.3},
    "b": {"c": 0.5, "d": 0.5},
    "best": {"[END]": 1.0},
    "c": {"e": 0.25, "f": 0.25, "g": 0.25, "h": 0.25},
    "d": {"e": 0.25, "f": 0.25, "g": 0.25, "h": 0.25},
    **{last: {"[END]": 1.0} for last in "efgh"},
}


def example(follows: Mapping[str, Mapping[str, float]] = FOLLOWS) -> StepFunction:
    """A model in which the next word depends on the last one; by default that of the notes' example."""
    words = list(follows)
    table = torch.zeros(len(words), len(words), dtype=torch.float64)
    for word, line in follows.items():
        for after, p in line.items():
            table[words.index(word), words.index(after)] = p
    log = table.log()
    return StepFunction(lambda tokens, state: (log[tokens], state), len(words))


def pushed_out() -> list[dict[str, Any]]:
    """What beams of 1, 2 and 3, to the last step, find in the second example: text and mean log-probability."""
    words, found = list(PUSHED_OUT), []
    for width in (1, 2, 3):
        beam = Beam(width, completed=math.inf)
        [[best]] = search(example(PUSHED_OUT), 1, beam, start=END, end=END, max_length=5)
        text = " ".join(words[token] for token in best.tokens if token != END)
        found.append({"width": width, "text": text, "score": best.score})
    return found


def small_model(vocabulary: int, units: int = 8, sharpness: float = 2.0) -> RecurrentStepper:
    """A language model with random weights: an LSTM that has opinions, and changes them with what it has read."""
    layer = LSTM(units, units, dtype=torch.float64)  # exact enough to tell equal scores from close ones
    with torch.no_grad():
        for weight in layer.parameters():
            weight.normal_(0, 1)
    embedding, out = (torch.randn(vocabulary, units, dtype=torch.float64) for _ in range(2))
    return RecurrentStepper(embedding, layer, sharpness * out)


@torch.no_grad()
def continued(model: RecurrentStepper, longest: int) -> str:
    """What greedy search comes to if nothing stops it.

    It "ended"; it "repeated" a token and a state exactly, so that it never ends; or it is "open" after `longest`.
    """
    token, seen = END, set[tuple[Any, ...]]()
    state: Any = None
    for _ in range(longest):
        output, state = model.layer(model.embedding[token].view(1, 1, -1), state)
        token = int((model.weight @ output[0, 0]).argmax())
        if token == END:
            return "ended"
        place = (token, *(part.numpy().tobytes() for part in state))
        if place in seen:
            return "repeated"
        seen.add(place)
    return "open"


class Counting:
    """A stepper that counts the rows it is asked about: what a search costs.

    `unused` are those of them whose sequence has ended, or extends one that has: `Beam` asks about as many rows as
    it is wide, or as there are continuations, if fewer are unfinished too; it gives such a row no probability.
    """

    def __init__(self, stepper: Any) -> None:
        self.stepper, self.rows, self.unused = stepper, 0, 0
        self.vocab_size, self.device, self.start = stepper.vocab_size, stepper.device, stepper.start
        self._ended: Tensor | None = None  # (rows,); None before the start token

    def select(self, state: Any, rows: Tensor) -> Any:
        if self._ended is not None:
            self._ended = self._ended[rows]
        return self.stepper.select(state, rows)

    def step(self, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        if self._ended is None:  # the token that a sequence starts from is the end token too
            self._ended = torch.zeros_like(tokens, dtype=torch.bool)
        else:
            self._ended = self._ended | (tokens == END)
        self.rows += len(tokens)
        self.unused += int(self._ended.sum())
        return self.stepper.step(tokens, state)


# ---- what is found ----


@dataclass
class Line:
    """One way to search, over all models."""

    label: str
    width: int | None = None  # of a beam
    scores: list[float] = field(
        default_factory=list
    )  # of the best complete hypothesis, one for each model; -inf without one
    tokens: list[tuple[int, ...]] = field(default_factory=list)
    rows: int = 0  # asked of the models, over all of them
    unused: int = 0  # of these, for sequences that have ended

    def add(self, best: Hypothesis, asked: Counting) -> None:
        self.scores.append(best.score if best.finished else -math.inf)
        self.tokens.append(best.tokens)
        self.rows += asked.rows
        self.unused += asked.unused


def _by_kind(numbers: Numbers, kind: str) -> list[dict[str, Any]]:
    return [one for one in numbers["searches"] if one["kind"] == kind]


def _models(numbers: Numbers) -> str:
    return counted(numbers["models"], "model")


def _log(value: float, digits: int = 2) -> str:
    return minus(f"{value:.{digits}f}")


def _greedy(numbers: Numbers, tolerance: float) -> Verdict:
    [greedy] = _by_kind(numbers, "greedy")
    missed = numbers["models"] - greedy["found"]
    text = f"Greedy search misses the best sequence in {missed} of {_models(numbers)}."
    return holds(text) if missed else undecided(text)


def _endless(numbers: Numbers, tolerance: float) -> Verdict:
    run, [greedy] = numbers["continued"], _by_kind(numbers, "greedy")
    text = (
        f"After {counted(numbers['longest'], 'token')} greedy search has found no end in {greedy['without_end']} of "
        f"{_models(numbers)}. Continued to at most {counted(run['longest'], 'token')}, it ends in {run['ended']}; in "
        f"{run['repeated']} a token and a state of the network come back, to the last bit, so that the same tokens "
        f"follow for ever; {run['open']} are open."
    )
    return holds(text) if run["repeated"] else undecided(text)


def _ended(numbers: Numbers, tolerance: float) -> Verdict:
    [greedy] = _by_kind(numbers, "greedy")
    ended = numbers["models"] - greedy["without_end"]
    missed = ended - greedy["found"]
    text = (
        f"Greedy search finds an end in {ended} of {_models(numbers)}, and in {missed} of them not the best sequence."
    )
    return holds(text) if missed else undecided(text)


def _exhaustive(numbers: Numbers, tolerance: float) -> Verdict:
    [exhaustive] = _by_kind(numbers, "exhaustive")
    v, t = numbers["vocabulary"], numbers["longest"]
    expected = sum((v - 1) ** k for k in range(t))
    text = (
        f"The model is asked {exhaustive['steps']:,.0f} times, which is the sum of (|V| − 1)ᵏ for k = 0 to T − 1, "
        f"{expected:,}; |V|ᵀ is {v**t:,}."
    )
    return holds(text) if abs(exhaustive["steps"] - expected) <= tolerance else fails(text)


def _guarantee(numbers: Numbers, tolerance: float) -> Verdict:
    patient = _by_kind(numbers, "patient")
    counts = listing(f"{one['found']} with a width of {one['width']}" for one in patient)
    text = f"Of {numbers['models']} best sequences, a beam that searches to the last step finds {counts}."
    exact = patient[-1]["found"] == numbers["models"]
    missing = any(one["found"] < numbers["models"] for one in patient[:-1])
    if not exact:
        return undecided(f"{text} The widest beam, which drops nothing, should find all.")
    return holds(text) if missing else undecided(f"{text} No beam missed one here.")


def _length(numbers: Numbers, tolerance: float) -> Verdict:
    [exhaustive] = _by_kind(numbers, "exhaustive")
    by_total, long = numbers["by_total"], exhaustive["mean_length"]
    text = (
        f"The best sequence by total log-probability has {by_total['mean_length']:.2f} tokens on average, by mean "
        f"log-probability {long:.2f}; it is shorter in {by_total['shorter']} and longer in {by_total['longer']} of "
        f"{_models(numbers)}."
    )
    if by_total["longer"]:
        return fails(text)
    return holds(text) if by_total["shorter"] else undecided(text)


def _example(numbers: Numbers, tolerance: float) -> Verdict:
    greedy, beam = numbers["example"]["greedy"], numbers["example"]["beam of 2"]
    return undecided(
        "The text of the notes does not have the probabilities. With those chosen here, greedy search finds "
        f"“{greedy['text']}” with {_log(greedy['log_prob'], 1)}, and a beam of 2 “{beam['text']}” with "
        f"{_log(beam['log_prob'], 1)}."
    )


def _pushed_out(numbers: Numbers) -> str:
    return listing(
        f"a beam of {one['width']} finds “{one['text']}” with a mean log-probability of {_log(one['score'])}"
        for one in numbers["pushed_out"]
    )


@dataclass
class Comparison(Finding):
    """What :func:`run` gives."""

    name = "beam"
    title = "Greedy, beam and exhaustive search"
    claims = (
        Claim(
            "greedy",
            "we have one output with highest probability, but this does not mean that it will converge to highest "
            "overall probability.",
            "003 §15.1.1",
            "greedy search misses the best sequence, which exhaustive search finds, in at least one model.",
            _greedy,
        ),
        Claim(
            "endless",
            "Also we are not guaranteed that, there will be ⟨END⟩ token at decoding state.",
            "003 §15.1.1",
            "in at least one model greedy search comes back, before any end, to a token and a state that it has had.",
            _endless,
        ),
        Claim(
            "ended",
            "if we get a ⟨END⟩ token, there is still a possibility that it may not be the most optimal solution.",
            "003 §15.1.1",
            "in at least one model greedy search finds an end, and not the best sequence.",
            _ended,
        ),
        Claim(
            "exhaustive",
            "Could we try computing all possible sentences y ? … This has O(|V|^T) complexity.",
            "003 §15.1.2",
            "the number of times that the model is asked is the number of all beginnings, exactly.",
            _exhaustive,
            tolerance=1e-9,
            printed=(r"O(|V|^T)",),
        ),
        Claim(
            "guarantee",
            "Beam search is not guaranteed to find optimal solution.",
            "003 §15.1.3",
            "some beam misses the best sequence in some model, and one that drops nothing finds it in all.",
            _guarantee,
        ),
        Claim(
            "length",
            "Choosing shortest one is a problem: longer hypotheses have lower scores. … So, normalize by length!",
            "003 §15.1.3",
            "without division by length the best sequence is shorter in some models, and longer in none.",
            _length,
            printed=(r"\frac{1}{t} \sum_{i=1}^t \log p_{\text{LM}}(y_i \mid y_{i-1}, \dots, y_1, x)",),
        ),
        Claim(
            "example",
            "Greedy Decoding chooses … with score of -3.9. But it is not the most probable sentence. With Beam Search, "
            "with beam size = 2, we can select the most probable sentence (in the space of beam size = 2)",
            "003 §15.1.3, figure 26",
            "it cannot be: the text does not have the probabilities, and its figure 26 was not at "
            "hand. An example of this package's shows that it can be so.",
            _example,
        ),
    )
    exercises = (
        Exercise(
            "Why is the best sequence by total log-probability never longer than the best by its mean?",
            "Let it have \\(n\\) tokens and the total \\(-S\\), the other one \\(m\\) and \\(-T\\). Then "
            "\\(S \\le T\\), and \\(S/n \\ge T/m\\), so that \\(n \\le m S/T \\le m\\).",
        ),
        Exercise(
            "How many beginnings are there with 5 tokens, one of them the end, and sequences of at most 5?",
            "\\(1 + 4 + 16 + 64 + 256 = 341\\): a sequence that has ended is not continued.",
        ),
        Exercise(
            "Why can a wider beam find less than a narrower one?",
            "What the wider one keeps in addition can push out a beginning that the narrower one continues: at a "
            "later step the extra beginning may have better continuations for a while, and a worse end.",
        ),
    )
    code = """
from carousel.decoding import Beam, Exhaustive, Greedy, search
from carousel.lab.claims.beam import END, WORDS, example

for strategy in (Greedy(), Beam(2), Exhaustive()):
    [[best]] = search(example(), 1, strategy, start=END, end=END, max_length=8)
    print(round(best.log_prob, 2), " ".join(WORDS[t] for t in best.tokens if t != END))
"""

    vocabulary: int
    longest: int
    greedy: Line
    beams: list[Line]  # by width; they stop when as many are complete as they are wide
    patient: list[Line]  # the same, to the last step
    exhaustive: Line
    shortest: Line  # exhaustive, without dividing by length
    continuations: list[str]  # of greedy search, to at most FURTHER tokens: "ended", "repeated" or "open"
    seed: int = 0
    seconds: float = 0.0

    # ---- numbers ----

    @property
    def models(self) -> int:
        return len(self.greedy.scores)

    @property
    def lines(self) -> list[Line]:
        return [self.greedy, *self.beams, *self.patient, self.exhaustive]

    def successes(self, line: Line) -> int:
        """In how many models a search finds the best sequence."""
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
        searches = {}
        for name, strategy in (("greedy", Greedy()), ("beam of 2", Beam(2)), ("exhaustive", Exhaustive())):
            record = BeamTree()
            [[best]] = search(example(), 1, strategy, start=END, end=END, max_length=8, record=record)
            searches[name] = (best, record)
        return searches

    @staticmethod
    def spell(best: Hypothesis) -> str:
        return " ".join(WORDS[t] for t in best.tokens if t != END)

    # ---- words ----

    @staticmethod
    def table(numbers: Numbers) -> Table:
        rows = [
            [
                one["label"], f"{one['found']} of {numbers['models']}", one["without_end"], f"{one['steps']:,.0f}",
                f"{one['steps_unused']:,.0f}",
            ]
            for one in numbers["searches"]
        ]  # fmt: skip
        return ["search", "finds the best", "finds no end", "steps of the model", "of them after an end"], rows

    def __str__(self) -> str:
        example = self.measured["example"]
        lines = [f"{name + ':':12} {one['log_prob']:6.2f}  {one['text']}" for name, one in example.items()]
        return "\n".join([super().__str__(), "", "the notes' sentence, log-probability and text", *lines])

    @staticmethod
    def lead(numbers: Numbers) -> str:
        [greedy], [exhaustive] = _by_kind(numbers, "greedy"), _by_kind(numbers, "exhaustive")
        beams = _by_kind(numbers, "beam")
        two = next((one for one in beams if one["width"] == 2), beams[-1])
        return (
            f"On {counted(numbers['models'], 'small model')}, greedy search finds the best sequence in "
            f"*{greedy['found']}*, a {two['label']} in *{two['found']}*; exhaustive search takes "
            f"{exhaustive['steps'] / two['steps']:,.0f} times as many steps of the model as that beam."
        )

    def setup(self) -> Sequence[str]:
        widest, [exhaustive] = _by_kind(self.measured, "beam")[-1], _by_kind(self.measured, "exhaustive")
        return (
            f"{counted(self.models, 'LSTM language model')} with random weights, each with {self.vocabulary} tokens, "
            f"the end among them, and sequences of at most {self.longest}. Exhaustive search looks at every sequence, "
            "so what it finds is the best there is. A beam puts a hypothesis aside when it is complete and continues "
            "with the others, until as many are complete as it is wide, or, in the second half of the table, to the "
            "last step; in both, no further than an unfinished one could still reach the best score, which changes no "
            "result. Scores are the mean log-probability of a token; a sequence that has not come to its end does "
            "not count.",
            "A step of the model is one row of a batch that it is asked about. A beam asks about as many rows as it is "
            "wide, or as there are continuations if these are fewer. Where fewer are unfinished, some of the rows are "
            "of sequences that have ended; what the model says of them is not used (the last column). Exhaustive "
            f"search extends unfinished sequences only. So the widest beam takes {widest['steps']:,.0f} steps, "
            f"{widest['steps_unused']:,.0f} of them after an end, where exhaustive search takes "
            f"{exhaustive['steps']:,.0f} (means over the models; the rest are fewer because the beam stops where the "
            "best score is out of reach).",
            f"Greedy search is also continued, to at most {counted(FURTHER, 'token')}, until it ends or comes back to "
            "a token and a state of the network that it has had: what follows is then what followed before.",
            "The sentence of the notes was searched too, in a model where the next word depends on the last one. Its "
            "probabilities are ours, chosen so that greedy search finds the notes' sentence with the notes' score.",
        )

    def render(self, page: Page) -> None:
        drawn, numbers = self.figures(), self.measured
        page.figure(
            drawn["found"], "How often the best is found, and at what cost",
            "How many of the models' best sequences are found, and how many steps of the model that takes.",
        ).table(*self.table(numbers))  # fmt: skip
        page.heading("Wider beams").text(
            f"In {numbers['wider_found_less']} of {_models(numbers)} some wider beam found a worse "
            "sequence than a narrower one, both to the last step. What the wider one keeps in addition can push out a "
            f"beginning that the narrower one continues: in a small example (`PUSHED_OUT`) {_pushed_out(numbers)}."
        )
        page.figure(
            drawn["tree"], "The notes' sentence, with a beam of 2",
            "Each word stands with the log-probability of the path to it.",
        )  # fmt: skip

    def figures(self) -> dict[str, Any]:
        best, record = self.example["beam of 2"]
        return {"found": self._found(), "tree": tree(record, name=WORDS.__getitem__, best=best.tokens)}

    def _found(self) -> Any:
        drawn = figure(500, ["the best sequence found", "steps of the model, for each search"], hovermode="x")
        widths = [line.width for line in self.beams]
        for label, lines, shade in (
            ("until as many are complete as the beam is wide", self.beams, "#0072b2"),
            ("to the last step", self.patient, "#009e73"),
            ("exhaustive search", [self.exhaustive] * len(widths), "#d55e00"),
        ):
            for row, ys in (
                (1, [self.successes(line) / self.models for line in lines]),
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
        ticks: list[int] = []
        for width in filter(None, widths):
            if not ticks or width >= 1.5 * ticks[-1]:  # numbers that are closer would overlap on small screens
                ticks.append(width)
        drawn.update_xaxes(type="log", tickvals=ticks, ticktext=[str(w) for w in ticks])
        return drawn.update_xaxes(title_text="width of the beam; 1 is greedy", row=2, col=1)

    def numbers(self) -> dict[str, Any]:
        lengths = [(len(a), len(b)) for a, b in zip(self.shortest.tokens, self.exhaustive.tokens, strict=True)]
        kinds = [("greedy", [self.greedy]), ("beam", self.beams), ("patient", self.patient)]
        searches = [
            {
                "kind": kind, "label": line.label, "width": line.width, "found": self.successes(line),
                "without_end": line.scores.count(-math.inf), "score_below_best": self.short_of(line),
                "steps": line.rows / self.models, "steps_unused": line.unused / self.models,
                "mean_length": self.mean_length(line),
            }
            for kind, lines in [*kinds, ("exhaustive", [self.exhaustive])]
            for line in lines
        ]  # fmt: skip
        return {
            "models": self.models, "vocabulary": self.vocabulary, "longest": self.longest, "seeds": [self.seed],
            "seconds": self.seconds, "searches": searches,
            "by_total": {
                "mean_length": self.mean_length(self.shortest), "shorter": sum(a < b for a, b in lengths),
                "longer": sum(a > b for a, b in lengths),
            },
            "continued": {
                "longest": FURTHER, **{how: self.continuations.count(how) for how in ("ended", "repeated", "open")}
            },
            "wider_found_less": self.worse(), "pushed_out": pushed_out(),
            "example": {
                name: {"text": self.spell(best), "log_prob": best.log_prob} for name, (best, _) in self.example.items()
            },
        }  # fmt: skip


QUICK = {"models": 20}
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

    >>> result = run(5, vocabulary=3, longest=4, widths=(1, 2))
    >>> result.successes(result.exhaustive), result.beams[0].tokens == result.greedy.tokens
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
    clock = Clock()
    continuations: list[str] = []
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        for _ in range(models):
            model = small_model(vocabulary)
            continuations.append(continued(model, FURTHER))
            for line, strategy in searches:
                asked = Counting(model)
                [[best]] = search(asked, 1, strategy, start=END, end=END, max_length=longest, seed=0)
                line.add(best, asked)
    seconds = clock.seconds
    return Comparison(vocabulary, longest, greedy, beams, patient, exhaustive, shortest, continuations, seed, seconds)
