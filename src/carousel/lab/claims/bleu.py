"""A BLEU score n-gram by n-gram: matched, clipped, missed.

    BLEU = BP · exp(Σ 1/N log p_n),   p_n = Σ min(said, allowed) / Σ said

over the n-grams of the translation, n = 1 … N. `said` is how often the translation has an n-gram, `allowed` the most
that any one reference has it. Without that limit, repeating a good word would earn as much as saying it once.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Any

from ...errors import ArgumentError
from ...report import Page, figure
from ..old_finding import Claim, Finding, Verdict
from ..options import Option
from ..words import listing, percent

TRANSLATION = "the cat the cat on the mat"
REFERENCES = ("the cat is on the mat", "there is a cat on the mat")
PRINTED = ((7, 7), (5, 6))  # the notes' counts for this example, 1-grams and 2-grams

MATCHED, CLIPPED, MISSED = "matched", "clipped", "in no reference"
COLOURS = {MATCHED: "#0072b2", CLIPPED: "#e69f00", MISSED: "#c9ced6"}


@dataclass(frozen=True)
class Gram:
    """An n-gram of the translation, and how often it is said there and in each reference."""

    words: tuple[str, ...]
    said: int
    references: tuple[int, ...]

    @property
    def allowed(self) -> int:
        return max(self.references)

    @property
    def matched(self) -> int:
        return min(self.said, self.allowed)

    @property
    def clipped(self) -> int:
        """How often it is said more than any reference says it, if one says it at all."""
        return self.said - self.matched if self.allowed else 0

    @property
    def missed(self) -> int:
        return 0 if self.allowed else self.said

    def __str__(self) -> str:
        text = " ".join(self.words)
        if self.said == self.matched:
            return text if self.said == 1 else f"{text} ×{self.said}"
        return f"{text} {self.matched} of {self.said}"


@dataclass(frozen=True)
class Order:
    """The n-grams of one length."""

    n: int
    grams: tuple[Gram, ...]

    @property
    def total(self) -> int:
        return sum(gram.said for gram in self.grams)

    @property
    def matched(self) -> int:
        return sum(gram.matched for gram in self.grams)

    @property
    def unclipped(self) -> int:
        """How many are in some reference, however often they are said: not what BLEU counts."""
        return sum(gram.said for gram in self.grams if gram.allowed)


@dataclass(frozen=True)
class Explanation(Finding):
    """What :func:`run` gives. `score` is from 0 to 100; `unclipped_score` is an illustration, not BLEU."""

    name = "bleu"
    title = "BLEU, n-gram by n-gram"
    claim = Claim(
        "Unigram precision of a translation is the share of its words that are shown in the references, counted for "
        "every time they are said; bigram precision likewise. In the worked example, “the cat the cat on the mat” has "
        "a unigram precision of 7/7 and a bigram precision of 5/6. BLEU is made of these, with weights 1/n.",
        "003 §15.2",
        ("BLEU = BP · exp(Σₙ wₙ log pₙ)", "BP = 1 if c > r, exp(1 − r/c) if c ≤ r"),
    )

    words: tuple[str, ...]
    references: tuple[tuple[str, ...], ...]
    orders: tuple[Order, ...]
    brevity_penalty: float
    reference_length: int
    score: float
    unclipped_score: float
    sacrebleu: float  # its score of the same sentence
    signature: str

    @property
    def precisions(self) -> list[float]:
        """Of each order; smoothed where nothing matches."""
        return smoothed([(order.matched, order.total) for order in self.orders])

    @property
    def is_the_notes(self) -> bool:
        """Whether this is the worked example of the notes."""
        texts = (" ".join(self.words), tuple(map(" ".join, self.references)))
        return texts == (TRANSLATION, REFERENCES) and len(self.orders) >= 2

    def fates(self, n: int) -> list[str]:
        """What becomes of each n-gram of the translation, from left to right; of equal ones the first are matched."""
        allowed = {gram.words: gram.allowed for gram in self.orders[n - 1].grams}
        seen: Counter[tuple[str, ...]] = Counter()
        found = []
        for words in grams(self.words, n):
            seen[words] += 1
            found.append(MATCHED if seen[words] <= allowed[words] else CLIPPED if allowed[words] else MISSED)
        return found

    def __str__(self) -> str:
        lines = [" ".join(self.words), *(f"  against  {' '.join(one)}" for one in self.references)]
        for order, precision in zip(self.orders, self.precisions, strict=True):
            share, mark = f"{order.matched}/{order.total}", "" if order.matched else " *"
            lines.append(f"{order.n}-grams  {share:>7}  {percent(precision):>7}{mark}")
            for fate, which in (
                (MATCHED, [g for g in order.grams if g.matched == g.said]),
                (CLIPPED, [g for g in order.grams if g.clipped]),
                (MISSED, [g for g in order.grams if g.missed]),
            ):
                if which:
                    lines.append(
                        f"    {fate + ':':17}{', '.join(' '.join(g.words) if g.missed else str(g) for g in which)}"
                    )
        if self.score and any(not order.matched for order in self.orders):
            lines.append("* nothing matches, and sacrebleu's smoothing counts a half of a match, then a quarter …")
        lines.append(
            f"brevity penalty {self.brevity_penalty:.3f}: {len(self.words)} words against {self.reference_length}"
        )
        product = " · ".join(f"{p:.3f}" for p in self.precisions)
        root = f"({product})^(1/{len(self.orders)})" if len(self.orders) > 1 else product
        lines.append(f"BLEU = {self.brevity_penalty:.3f} · {root} = {self.score / 100:.4f}")
        unclipped = ", ".join(f"{order.unclipped}/{order.total}" for order in self.orders)
        lines.append(f"without clipping, which is not BLEU: {unclipped}; {self.unclipped_score / 100:.4f}")
        return "\n".join(lines)

    # ---- the page ----

    def lead(self) -> str:
        parts = listing(f"{order.matched}/{order.total}" for order in self.orders)
        return (
            f"“{' '.join(self.words)}” has a BLEU of *{self.score:.2f}*: of its n-grams, {parts} count, by length from "
            f"1. Counted without clipping they would be "
            f"{listing(f'{order.unclipped}/{order.total}' for order in self.orders)}."
        )

    def ran(self) -> Sequence[str]:
        n = len(self.references)
        return (
            f"The n-grams of the translation, from 1 to {len(self.orders)} words, were looked up in "
            f"{'the reference' if n == 1 else f'each of the {n} references'}. An n-gram counts as often as it is said, "
            "but not more often than the one reference has it that has it most: the rest is clipped. sacrebleu gives "
            f"this sentence {self.sacrebleu:.4f} (`{self.signature}`); what is worked out below, {self.score:.4f}.",
        )

    def tell(self, page: Page) -> None:
        drawn = self.figures()
        page.figure(
            drawn["ngrams"], "What came out", "Each block is an n-gram, over its words. Of equal ones the first count."
        )
        columns = ["n-gram", "said", *(f"reference {k + 1}" for k in range(len(self.references))), "counts", "clipped"]
        rows = [
            [" ".join(g.words), g.said, *g.references, g.matched, g.clipped]
            for order in self.orders
            for g in order.grams
        ]
        page.table(columns, rows)
        page.figure(
            drawn["precisions"],
            "Clipped and not",
            "BLEU's precisions, and beside them those that come of counting every n-gram that is in some reference, "
            "as often as it is said. The second are an illustration: no tool calls a score made of them BLEU.",
        )
        page.heading("The score").text(
            f"The translation has {len(self.words)} words, the reference closest in length {self.reference_length}: "
            f"the brevity penalty is {self.brevity_penalty:.4f}. With it, BLEU = {self.score:.2f}; without clipping it "
            f"would be {self.unclipped_score:.2f}."
        )
        if any(not order.matched for order in self.orders):
            page.text("Where no n-gram matches, sacrebleu counts a half of one, then a quarter, so that log p exists.")

    def verdict(self) -> Verdict:
        if not self.is_the_notes:
            lost = [f"{o.unclipped - o.matched} of {o.unclipped} {o.n}-grams" for o in self.orders if o.unclipped]
            taken = listing(lost) if lost else "nothing"
            return Verdict(None, f"It is about another sentence. In this one, clipping takes away {taken}.")
        one, two = ((order.matched, order.total) for order in self.orders[:2])
        return Verdict(
            (one, two) == PRINTED,
            f"BLEU clips: the counts of the worked example are {one[0]}/{one[1]} and {two[0]}/{two[1]}, not 7/7 and "
            "5/6. “the” may count twice, as in reference 1, and “cat” once. Nor are the weights 1/n: they must sum to "
            "1, so they are 1/N, N being the longest n-gram; 1/n for n = 1 to 4 sum to 2.08.",
        )

    def figures(self) -> dict[str, Any]:
        return {"ngrams": self._ngrams(), "precisions": self._precisions()}

    def _ngrams(self) -> Any:
        """A block for each n-gram, over its words: the rows are n, the colours say what becomes of it."""
        drawn = figure(110 + 62 * len(self.orders), barmode="overlay", hovermode="closest")
        for fate, shade in COLOURS.items():
            blocks = [
                (k + (order.n - 1) / 2, order.n, words)
                for order in self.orders
                for k, (words, its) in enumerate(zip(grams(self.words, order.n), self.fates(order.n), strict=True))
                if its == fate
            ]
            drawn.add_bar(
                x=[centre for centre, _, _ in blocks],
                y=[0.82] * len(blocks),
                base=[n - 0.41 for _, n, _ in blocks],
                width=[0.92] * len(blocks),
                text=["<br>".join(words) if len(self.words) <= 16 else "" for _, _, words in blocks],
                textposition="inside",
                insidetextanchor="middle",
                textangle=0,
                textfont={"color": "#ffffff" if fate == MATCHED else "#1c2430", "size": 11},
                hovertext=[f"{' '.join(words)}: {fate}" for _, _, words in blocks],
                hoverinfo="text",
                marker={"color": shade},
                name=fate,
                showlegend=True,
            )
        drawn.update_layout(height=110 + sum(30 + 16 * order.n for order in self.orders))
        places = list(range(len(self.words)))
        drawn.update_xaxes(
            tickvals=places, ticktext=list(self.words), showgrid=False, range=[-0.6, max(0, len(places) - 1) + 0.6]
        )
        orders = [order.n for order in self.orders]
        drawn.update_yaxes(
            tickvals=orders, ticktext=[f"{n}-grams" for n in orders], showgrid=False, range=[0.5, len(orders) + 0.5]
        )
        return drawn

    def _precisions(self) -> Any:
        drawn = figure(300, barmode="group")
        names = [f"{order.n}-grams" for order in self.orders]
        for label, counts, shade in (
            ("clipped: BLEU", [order.matched for order in self.orders], COLOURS[MATCHED]),
            ("not clipped: an illustration", [order.unclipped for order in self.orders], COLOURS[CLIPPED]),
        ):
            totals = [order.total for order in self.orders]
            drawn.add_bar(
                x=names,
                y=[count / total for count, total in zip(counts, totals, strict=True)],
                text=[f"{count}/{total}" for count, total in zip(counts, totals, strict=True)],
                textposition="outside",
                marker={"color": shade},
                name=label,
            )
        return drawn.update_yaxes(range=[0, 1.12], tickformat=".0%", title_text="precision")

    def numbers(self) -> dict[str, Any]:
        return {
            "translation": " ".join(self.words),
            "references": [" ".join(one) for one in self.references],
            "bleu": self.score,
            "sacrebleu": self.sacrebleu,
            "signature": self.signature,
            "brevity_penalty": self.brevity_penalty,
            "length": len(self.words),
            "reference_length": self.reference_length,
            "without_clipping": self.unclipped_score,
            "orders": [
                {
                    "n": order.n,
                    "matched": order.matched,
                    "total": order.total,
                    "without_clipping": order.unclipped,
                    "precision": precision,
                    "ngrams": [
                        {**asdict(g), "counts": g.matched, "clipped": g.clipped, "missed": g.missed}
                        for g in order.grams
                    ],
                }
                for order, precision in zip(self.orders, self.precisions, strict=True)
            ],
        }


HELP = """Explain the BLEU of a sentence, n-gram by n-gram: what matches, what is clipped, what is in no reference.

\b
carousel lab bleu
carousel lab bleu "ein mann geht" "ein mann läuft" "ein mann geht dort"
carousel lab bleu --out bleu         # and a page
"""


def run(
    translation: Annotated[
        str, Option("A sentence; without it, the notes' example.", "TRANSLATION", argument=True)
    ] = TRANSLATION,
    references: Annotated[
        str | Sequence[str], Option("What it should have been: one or more.", "REFERENCE", argument=True)
    ] = REFERENCES,
    *,
    longest: Annotated[int, Option("The longest n-grams that count.", "N", minimum=1)] = 4,
) -> Explanation:
    """Explain the BLEU of one sentence. Words are what stands between spaces.

    `longest` is N, the n-grams' greatest length; BLEU has 4. A shorter translation has as many orders as it has words.

    >>> found = run()
    >>> [(order.matched, order.unclipped, order.total) for order in found.orders]
    [(5, 7, 7), (4, 5, 6), (2, 2, 5), (1, 1, 4)]
    >>> round(found.score, 2)
    46.71
    """
    from sacrebleu.metrics.bleu import BLEU

    right = [references] if isinstance(references, str) else list(references)
    if not isinstance(longest, int) or longest < 1:
        raise ArgumentError(f"longest must be a whole number from 1, got {longest!r}")
    if not right:
        raise ArgumentError("references is empty; there must be at least one")
    for name, text in (("the translation", translation), *((f"reference {k}", one) for k, one in enumerate(right, 1))):
        if not text.split():
            raise ArgumentError(f"{name} has no words")
    said, expected = tuple(translation.split()), [tuple(one.split()) for one in right]

    orders = []
    for n in range(1, min(longest, len(said)) + 1):
        there = [Counter(grams(one, n)) for one in expected]
        found = [Gram(words, count, tuple(c[words] for c in there)) for words, count in Counter(grams(said, n)).items()]
        orders.append(Order(n, tuple(found)))
    closest = min((abs(len(one) - len(said)), len(one)) for one in expected)[1]
    penalty = min(1.0, math.exp(1 - closest / len(said)))
    reference = BLEU(tokenize="none", max_ngram_order=longest, effective_order=True)
    theirs = reference.sentence_score(" ".join(said), [" ".join(one) for one in expected])
    return Explanation(
        words=said,
        references=tuple(expected),
        orders=tuple(orders),
        brevity_penalty=penalty,
        reference_length=closest,
        score=100 * penalty * mean(smoothed([(o.matched, o.total) for o in orders])),
        unclipped_score=100 * penalty * mean(smoothed([(o.unclipped, o.total) for o in orders])),
        sacrebleu=theirs.score,
        signature=str(reference.get_signature()),
    )


def grams(words: Sequence[str], n: int) -> list[tuple[str, ...]]:
    """
    >>> grams(["on", "the", "mat"], 2)
    [('on', 'the'), ('the', 'mat')]
    """
    return [tuple(words[k : k + n]) for k in range(len(words) - n + 1)]


def smoothed(counts: Sequence[tuple[int, int]]) -> list[float]:
    """Matched / total of each order. Where nothing matches, as sacrebleu has it: a half of a match, then a quarter …

    >>> smoothed([(2, 4), (0, 3), (0, 2)])
    [0.5, 0.16666666666666666, 0.125]
    """
    found, halves = [], 0
    for matched, total in counts:
        halves += not matched
        found.append((matched or 0.5**halves) / total if counts[0][0] else 0.0)
    return found


def mean(precisions: Sequence[float]) -> float:
    """The geometric mean, exp(Σ 1/N log p).

    >>> mean([0.25, 1.0])
    0.5
    """
    return math.prod(precisions) ** (1 / len(precisions))
