"""An LSTM that adds up sentiment, its weights set by hand."""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import torch
from torch import Tensor

from ...errors import ArgumentError
from ...layers import LSTM
from ...report import Page, figure
from ..by_hand import set_gates
from ..old_finding import Claim, Finding, Verdict
from ..options import Option
from ..words import percent

WORDS = ("bad", "good", "not", "uh")
PHRASES = (
    "good", "bad", "not good", "not bad", "uh", "not uh", "not not", "not uh good", "not not good", "good not bad",
)  # fmt: skip
LARGE = 200.0  # σ(±200) is 1 and 0 in float32


@dataclass(frozen=True)
class Sentiment(Finding):
    """What :func:`run` gives. `right` has, for each length, how many sentences each network scores rightly."""

    name = "sentiment"
    title = "Sentiment by weights set by hand"
    claim = Claim(
        "An LSTM of two units, with weights that one can write down, adds up the sentiment of a sentence: good is +1, "
        "bad −1, not good −2, not bad +2; uh counts nothing. One unit holds half the score, the other whether the "
        "word before was not, and the sign of the candidate is reversed if it was.",
        "000 question 2",
        ("g₁ = tanh(100 (good − bad) − 200 h₂),  i₁ = σ(100 h₂),  score = 2 c₁",),
    )

    phrases: tuple[tuple[str, int, float, float], ...]  # words, what is right, the published score, the corrected one
    total: tuple[int, ...]  # sentences of each length, from 1 on
    published: tuple[int, ...]  # of them right
    corrected: tuple[int, ...]
    seconds: float

    @property
    def sentences(self) -> int:
        return sum(self.total)

    def __str__(self) -> str:
        lines = [f"{'sentence':14}  right  published  corrected"]
        for words, right, published, corrected in self.phrases:
            wrong = "" if abs(published - right) < 0.01 else "  ×"
            lines.append(f"{words:14}  {right:+5}  {published:+9.2f}  {corrected:+9.2f}{wrong}")
        lines.append(
            f"of all {self.sentences:,} sentences up to {len(self.total)} words right: published "
            f"{sum(self.published):,}, corrected {sum(self.corrected):,}"
        )
        return "\n".join(lines)

    def lead(self) -> str:
        return (
            f"Of all {self.sentences:,} sentences of up to {len(self.total)} words, the published weights score "
            f"{percent(sum(self.published) / self.sentences)} rightly; three units, set otherwise, "
            f"{percent(sum(self.corrected) / self.sentences)}."
        )

    def ran(self) -> Sequence[str]:
        return (
            "Both networks were set as an `LSTM` layer and read every sentence over bad, good, not, uh. What is "
            "right is said by five lines of Python: a word counts +1, −1 or 0; after not it counts twice and the "
            "other way round. Negation acts on the next word only.",
            "The text names no gate for its last matrices; they are taken for the output gate's, as its words say.",
        )

    def tell(self, page: Page) -> None:
        page.heading("Some sentences").table(
            ["sentence", "right", "published", "corrected"],
            [[words, f"{right:+}", f"{said:+.2f}" if abs(said - right) < 0.01 else f"*{said:+.2f}*", f"{other:+.2f}"]
             for words, right, said, other in self.phrases],
        )  # fmt: skip
        page.figure(
            self.figures()["right"], "All sentences, by length", "The share of them that each network scores rightly."
        )
        page.heading("The three units").text(
            "A *flag*: c is 1 after not and 0 after any other word, since its forget gate is closed. *P* opens its "
            "input gate only when the flag is down, *N* only when it is up; P adds +1 for good and −1 for bad, N the "
            "opposite. The score is c_P + 2 c_N."
        ).equation(
            "g = tanh 200 (not, good − bad, bad − good)",
            "i = σ 200 (1, 1 − 4 h_flag, 4 h_flag − 1)",
            "f = (0, 1, 1),  o = (1, 1, 1)",
        )

    def verdict(self) -> Verdict:
        if sum(self.corrected) != self.sentences:
            return Verdict(None, "The corrected weights fail here too.")
        if sum(self.published) == self.sentences:
            return Verdict(True, "The published weights score every sentence rightly.")
        return Verdict(
            False,
            "not bad comes out as −2: for bad after not, g₁ = tanh(−100 − 200·0.76) is −1, as without the not. To "
            "reverse a sign is an exclusive or of word and flag, and no one linear gate makes that. Three units can, "
            "and are right on every sentence.",
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

    def numbers(self) -> dict[str, Any]:
        keys = ("sentence", "right", "published", "corrected")
        return {
            "phrases": [dict(zip(keys, one, strict=True)) for one in self.phrases],
            "sentences_by_length": self.total,
            "published_right": self.published,
            "corrected_right": self.corrected,
            "seconds": self.seconds,
        }


HELP = """Add up sentiment with an LSTM whose weights are set by hand: the published one, and one that is right.

\b
carousel lab sentiment
carousel lab sentiment --out sentiment    # and a page
"""


def run(
    longest: Annotated[int, Option("The most words of a sentence.", "N", minimum=1, maximum=10)] = 8,
) -> Sentiment:
    """Score every sentence of up to `longest` words with both networks.

    >>> found = run(4)
    >>> found.sentences, sum(found.corrected), found.verdict().stands
    (340, 340, False)
    """
    if not 1 <= longest <= 10:
        raise ArgumentError(f"longest must be between 1 and 10, got {longest}: there are 4ⁿ sentences of n words")
    start = time.perf_counter()
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
    return Sentiment(tuple(phrases), total, counts[0], counts[1], time.perf_counter() - start)


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
