"""An LSTM that adds up sentiment, its weights set by hand."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import torch
from torch import Tensor

from ...errors import ArgumentError
from ...layers import LSTM
from ...report import Page, figure
from ..by_hand import set_gates
from ..claim import Claim, Numbers, Verdict, fails, holds
from ..finding import Exercise, Finding, Table
from ..measured import Clock
from ..options import Option
from ..words import listing, percent, signed

WORDS = ("bad", "good", "not", "uh")
PHRASES = (
    "good", "bad", "not good", "not bad", "uh", "not uh", "not not", "not uh good", "not not good", "good not bad",
)  # fmt: skip
LARGE = 200.0  # σ(±200) is 1 and 0 in float32


def _score(numbers: Numbers, tolerance: float) -> Verdict:
    total, right = sum(numbers["sentences_by_length"]), sum(numbers["published_right"])
    corrected = sum(numbers["corrected_right"])
    wrong = [one for one in numbers["phrases"] if abs(one["published"] - one["right"]) > tolerance]
    text = f"Of {total:,} sentences {right:,} have the right score."
    if right == total:
        return holds(text)
    shown = listing(f"“{one['sentence']}” {signed(one['published'])} for {signed(one['right'])}" for one in wrong[:4])
    return fails(f"{text} Wrong are for example {shown}. With three units, set by hand too, {corrected:,} are right.")


def _sign(numbers: Numbers, tolerance: float) -> Verdict:
    g = {words: gates["g"][0] for words, gates in numbers["gates"].items()}
    signs = {words: signed(value) for words, value in g.items()}
    text = (
        f"g_t[0] is {signs['good']} for good and {signs['not good']} for good after not, which is reversed; but "
        f"{signs['bad']} for bad and {signs['not bad']} for bad after not, because tanh(−100 − 200·0.76) is −1 too. "
        "To reverse a sign is an exclusive or of word and flag, which no single linear gate makes."
    )
    reversed_ = all(abs(g[f"not {word}"] + g[word]) <= tolerance for word in ("good", "bad"))
    return holds(text) if reversed_ else fails(text)


def _index(numbers: Numbers, tolerance: float) -> Verdict:
    after, plain = numbers["gates"]["not good"]["i"], numbers["gates"]["good"]["i"]
    text = f"After not, i_t[1] is {after[1]:.2g}."
    if abs(plain[1] - after[1]) <= tolerance:
        text += (
            f" But so it is without not ({plain[1]:.2g}; “always”, as the source says itself). The fault is the index: "
            f"what the flag changes is i_t[0], from {plain[0]:.2g} to {after[0]:.2g}, and i_t[0] is what is meant."
        )
    return holds(text) if abs(after[1] - 1) <= tolerance else fails(text)


@dataclass(frozen=True)
class Sentiment(Finding):
    """What :func:`run` gives. `right` has, for each length, how many sentences each network scores rightly."""

    name = "sentiment"
    title = "Sentiment by weights set by hand"
    claims = (
        Claim(
            "sign",
            "if the second element of the hidden state is not zero, then the sign of g_t will be reversed.",
            "000 question 2",
            "g_t[0] for good and for bad after not is the opposite of what it is without, to {tolerance}.",
            _sign,
            tolerance=0.01,
        ),
        Claim(
            "index",
            "When the second element of h_t is set to greater than zero, then the value of i_t[1] = 1.",
            "000 question 2",
            "i_t[1] is 1 for good after not, to {tolerance}; the verdict also gives its value without not.",
            _index,
            tolerance=0.01,
        ),
        Claim(
            "score",
            "At every time step, the sentiment score = 2 × c_t[0].",
            "000 question 2",
            "the score of every sentence up to a length is right, to {tolerance}.",
            _score,
            tolerance=0.01,
            printed=(
                r"W_{ig} = \begin{bmatrix} -100 & 100 & 0 & 0 \\ 0 & 0 & 100 & 0 \end{bmatrix} \quad "
                r"W_{hg} = \begin{bmatrix} 0 & -200 \\ 0 & 0 \end{bmatrix}",
                r"W_{hi} = \begin{bmatrix} 0 & 100 \\ 0 & 0 \end{bmatrix} \quad "
                r"b_{ii} = b_{hi} = \begin{bmatrix} 0 \\ 100 \end{bmatrix} \quad "
                r"b_{if} = b_{hf} = \begin{bmatrix} 100 \\ -100 \end{bmatrix}",
            ),
            corrected=(
                r"g = \tanh\left(200 \, (x_{not},\; x_{good} - x_{bad},\; x_{bad} - x_{good})\right)",
                r"i = \sigma\left(200 \, (1,\; 1 - 4 h_{flag},\; 4 h_{flag} - 1)\right), \quad f = (0, 1, 1), \quad "
                r"o = (1, 1, 1)",
                r"\text{score} = c_P + 2 c_N",
            ),
        ),
    )
    exercises = (
        Exercise(
            "What does the published network say to “not uh good”, and why?",
            "−1 where +1 is right: the flag is cleared by uh, so good counts +1; but uh itself, after not, was "
            "counted: \\(g_t[0] = \\tanh(-200 \\cdot 0.76) = -1\\) with \\(i_t[0] = 1\\), so −2 in the score.",
        ),
        Exercise(
            "How would you let negation last until the next good or bad, over any uh between them?",
            "Keep the flag's forget gate open while uh is read: give it the weight +400 for uh in place of 0, so that "
            "\\(f_{flag} = 1\\) then and 0 otherwise.",
        ),
    )
    code = """
import torch
from carousel.lab.claims.sentiment import WORDS, corrected, published, scores

for words in ("good", "not good", "bad", "not bad"):
    ids = torch.tensor([[WORDS.index(word)] for word in words.split()])
    two, three = scores(published(), torch.tensor([2.0, 0.0]), ids), scores(corrected(), torch.tensor([0.0, 1, 2]), ids)
    print(words, two[-1].item(), three[-1].item())
"""

    phrases: tuple[tuple[str, int, float, float], ...]  # words, what is right, the published score, the corrected one
    gates: dict[str, dict[str, list[float]]]  # of the published network at the last word of some phrases
    total: tuple[int, ...]  # sentences of each length, from 1 on
    published: tuple[int, ...]  # of them right
    corrected: tuple[int, ...]
    seconds: float

    def numbers(self) -> dict[str, Any]:
        keys = ("sentence", "right", "published", "corrected")
        return {
            "phrases": [dict(zip(keys, one, strict=True)) for one in self.phrases], "gates": self.gates,
            "sentences_by_length": self.total, "published_right": self.published,
            "corrected_right": self.corrected, "seconds": self.seconds,
        }  # fmt: skip

    @staticmethod
    def lead(numbers: Numbers) -> str:
        total = sum(numbers["sentences_by_length"])
        two, three = (percent(sum(numbers[key]) / total) for key in ("published_right", "corrected_right"))
        return (
            f"Of all {total:,} sentences of up to {len(numbers['sentences_by_length'])} words, the published weights "
            f"score {two} rightly; three units, set otherwise, {three}."
        )

    @staticmethod
    def table(numbers: Numbers) -> Table:
        rows = []
        for one in numbers["phrases"]:
            score = signed(one["published"], 2)
            wrong = abs(one["published"] - one["right"]) > 0.01
            rows.append(
                [
                    one["sentence"], signed(one["right"]), f"*{score}*" if wrong else score,
                    signed(one["corrected"], 2),
                    "wrong" if wrong else "",
                ]
            )  # fmt: skip
        return ["sentence", "right", "published", "corrected", "published is"], rows

    def setup(self) -> Sequence[str]:
        return (
            "Both networks were set as an `LSTM` layer and read every sentence over bad, good, not, uh. What is right "
            "is computed by five lines of Python: a word counts +1, −1 or 0; after not it counts twice and the other "
            "way round. Negation acts on the next word only.",
            "The source names the forget gate in its last matrices; they are taken for the output gate's, as its words "
            "say. It announces that all biases will be zero, and then sets some that are not; those are used.",
        )

    def render(self, page: Page) -> None:
        page.heading("Some sentences").table(*self.table(self.measured))
        page.figure(
            self.figures()["right"], "All sentences, by length", "The share of them that each network scores rightly."
        )
        page.heading("The three units").text(
            "A *flag*: c is 1 after not and 0 after any other word, since its forget gate is closed. *P* opens its "
            "input gate only when the flag is down, *N* only when it is up; P adds +1 for good and −1 for bad, N the "
            "opposite. The score is \\(c_P + 2 c_N\\)."
        )

    def figures(self) -> dict[str, Any]:
        drawn = figure(340, barmode="group")
        lengths = list(range(1, len(self.total) + 1))
        for label, right, shade in (
            ("published", self.published, "#d55e00"),
            ("corrected", self.corrected, "#0072b2"),
        ):
            shares = [a / b for a, b in zip(right, self.total, strict=True)]
            drawn.add_bar(x=lengths, y=shares, name=label, marker={"color": shade}, hovertemplate="%{y:.1%}")
        drawn.update_yaxes(range=[0, 1.05], tickformat=".0%", title_text="right")
        drawn.update_xaxes(title_text="words", dtick=1, showgrid=False)
        return {"right": drawn}


QUICK = {"longest": 6}
HELP = """Add up sentiment with an LSTM whose weights are set by hand: the published one, and one that is right.

\b
carousel lab sentiment
carousel lab sentiment --out sentiment    # and a page
"""


def run(
    longest: Annotated[int, Option("The most words of a sentence.", "N", minimum=1, maximum=10)] = 8,
) -> Sentiment:
    """Score every sentence of up to `longest` words with both networks.

    >>> result = run(4)
    >>> sum(result.total), sum(result.corrected), sum(result.published)
    (340, 340, 202)
    """
    if not 1 <= longest <= 10:
        raise ArgumentError(f"longest must be between 1 and 10, got {longest}: there are 4ⁿ sentences of n words")
    clock = Clock()
    # every shorter sentence is the beginning of one of these
    every = torch.tensor(list(itertools.product(range(len(WORDS)), repeat=longest))).T  # (T, 4ᵀ)
    right = oracle(every)
    networks = [(published(), torch.tensor([2.0, 0.0])), (corrected(), torch.tensor([0.0, 1.0, 2.0]))]
    counts: list[tuple[int, ...]] = []
    for layer, weights in networks:
        good = (scores(layer, weights, every) - right).abs() < 0.01
        counts.append(tuple(int(good[t].sum()) // len(WORDS) ** (longest - 1 - t) for t in range(longest)))
    phrases: list[tuple[str, int, float, float]] = []
    for words in PHRASES:
        ids = torch.tensor([[WORDS.index(word)] for word in words.split()])
        first, second = (float(scores(layer, weights, ids)[-1, 0]) for layer, weights in networks)
        phrases.append((words, int(oracle(ids)[-1, 0]), first, second))
    total = tuple(len(WORDS) ** n for n in range(1, longest + 1))
    return Sentiment(tuple(phrases), last_gates(), total, counts[0], counts[1], clock.seconds)


def last_gates() -> dict[str, dict[str, list[float]]]:
    """i and g of the published network at the last word of good and bad, with and without not."""
    gates = {}
    for words in ("good", "bad", "not good", "not bad"):
        ids = torch.tensor([[WORDS.index(word)] for word in words.split()])
        trace = published().trace(torch.nn.functional.one_hot(ids, len(WORDS)).float())
        gates[words] = {name: trace.gates[name][0, -1, 0].tolist() for name in "ig"}
    return gates


def oracle(ids: Tensor) -> Tensor:
    """What is right, after each word: ids (T, B) → (T, B)."""
    values = torch.tensor([-1.0, 1.0, 0.0, 0.0])[ids]
    negated = torch.zeros_like(values)
    negated[1:] = (ids[:-1] == WORDS.index("not")).float()
    return torch.where(negated > 0, -2 * values, values).cumsum(0)


def scores(layer: LSTM, weights: Tensor, ids: Tensor) -> Tensor:
    """A weighted sum of a layer's cells after each word: ids (T, B) → (T, B)."""
    x = torch.nn.functional.one_hot(ids, len(WORDS)).float()
    return layer.trace(x).states["c"][0] @ weights


def published() -> LSTM:
    """The two units as the text sets them."""
    gates = {
        "i": (0, [[0, 100], [0, 0]], [0, 200]),
        "f": (0, 0, [200, -200]),
        "g": ([[-100, 100, 0, 0], [0, 0, 100, 0]], [[0, -200], [0, 0]], 0),
        "o": (0, 0, 200),
    }
    return set_gates(LSTM(4, 2), gates)


def corrected() -> LSTM:
    """A flag, a unit that opens when it is down, and one that opens when it is up."""
    gates = {
        "i": (0, [[0, 0, 0], [-4 * LARGE, 0, 0], [4 * LARGE, 0, 0]], [LARGE, LARGE, -LARGE]),
        "f": (0, 0, [-LARGE, LARGE, LARGE]),
        "g": ([[0, 0, LARGE, 0], [-LARGE, LARGE, 0, 0], [LARGE, -LARGE, 0, 0]], 0, 0),
        "o": (0, 0, LARGE),
    }
    return set_gates(LSTM(4, 3), gates)
