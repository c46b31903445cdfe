"""A BLEU score n-gram by n-gram: matched, clipped, missed.

    BLEU = BP · exp(Σ 1/N log p_n),   p_n = Σ min(occurs, allowed) / Σ occurs

over the n-grams of the translation, n = 1 … N. `occurs` is how often the translation has an n-gram, `allowed` the most
that any one reference has it. Without that limit, repeating a good word would earn as much as saying it once.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Any

from ...errors import ArgumentError
from ...report import Page, figure
from ..claim import Claim, Numbers, Verdict, fails, holds, undecided
from ..finding import Exercise, Finding, Step, Table
from ..options import Option
from ..words import listing, percent

TRANSLATION = "the cat the cat on the mat"
REFERENCES = ("the cat is on the mat", "there is a cat on the mat")
PRINTED = ((7, 7), (5, 6))  # the notes' counts for this example, 1-grams and 2-grams

MATCHED, CLIPPED, MISSED = "matched", "clipped", "in no reference"
COLOURS = {MATCHED: "#0072b2", CLIPPED: "#e69f00", MISSED: "#c9ced6"}


@dataclass(frozen=True)
class Gram:
    """An n-gram of the translation, and how often it occurs there and in each reference."""

    words: tuple[str, ...]
    occurs: int
    references: tuple[int, ...]

    @property
    def allowed(self) -> int:
        return max(self.references)

    @property
    def matched(self) -> int:
        return min(self.occurs, self.allowed)

    @property
    def clipped(self) -> int:
        """How often it occurs more than in any reference, if one has it at all."""
        return self.occurs - self.matched if self.allowed else 0

    @property
    def missed(self) -> int:
        return 0 if self.allowed else self.occurs

    def __str__(self) -> str:
        text = " ".join(self.words)
        if self.occurs == self.matched:
            return text if self.occurs == 1 else f"{text} ×{self.occurs}"
        return f"{text} {self.matched} of {self.occurs}"


@dataclass(frozen=True)
class Order:
    """The n-grams of one length."""

    n: int
    grams: tuple[Gram, ...]

    @property
    def total(self) -> int:
        return sum(gram.occurs for gram in self.grams)

    @property
    def matched(self) -> int:
        return sum(gram.matched for gram in self.grams)

    @property
    def unclipped(self) -> int:
        """How many are in some reference, however often they occur: not what BLEU counts."""
        return sum(gram.occurs for gram in self.grams if gram.allowed)


def _precision(numbers: Numbers, tolerance: float) -> Verdict:
    orders = numbers["orders"]
    counts = [(order["matched"], order["total"]) for order in orders[:2]]
    if not numbers["worked_example"]:
        counted = [(o["without_clipping"] - o["matched"], o["without_clipping"], o["n"]) for o in orders]
        lost = [f"{less} of {of} {n}-grams" for less, of, n in counted if of]
        taken = listing(lost) if lost else "nothing"
        return undecided(f"It is about another sentence. In this one, clipping takes away {taken}.")
    (one, all_one), (two, all_two) = counts
    text = (
        f"BLEU clips: the counts of the worked example are {one}/{all_one} and {two}/{all_two}, not 7/7 and 5/6. “the” "
        "may count twice, as in reference 1, and “cat” once."
    )
    return holds(text) if tuple(counts) == PRINTED else fails(text)


def _formula(numbers: Numbers, tolerance: float) -> Verdict:
    apart = abs(numbers["bleu"] - numbers["sacrebleu"])
    text = (
        f"The formula gives {numbers['bleu']:.4f}, sacrebleu {numbers['sacrebleu']:.4f} (weights 1/N, N the longest)."
    )
    return holds(text) if apart <= tolerance else fails(text)


def _weights(numbers: Numbers, tolerance: float) -> Verdict:
    total = numbers["weights"]["printed"]
    text = (
        f"1/n for n = 1 to {numbers['weights']['N']} sum to {total:.2f}, and the notes ask for 1; 1/N do, with the sum "
        "taken to N."
    )
    return holds(text) if abs(total - 1) <= tolerance else fails(text)


def _range(numbers: Numbers, tolerance: float) -> Verdict:
    low, high = numbers["range"]["smallest"], numbers["range"]["largest"]
    text = (
        f"Of {numbers['range']['sentences']:,} random sentences the scores go from {low:.3f} to {high:.3f}. The "
        "proof leaves out two things: the brevity penalty, which lies in (0, 1], and a p_n of 0, where log p_n does "
        "not exist (BLEU is 0 then, unless it is smoothed)."
    )
    return holds(text) if low >= -tolerance and high <= 1 + tolerance else fails(text)


@dataclass(frozen=True)
class Explanation(Finding):
    """What :func:`run` gives. `score` is from 0 to 100; `unclipped_score` is an illustration, not BLEU."""

    name = "bleu"
    title = "BLEU, n-gram by n-gram"
    claims = (
        Claim(
            "precision",
            "The unigram precision is 7/7 = 1.0 … The bigram precision is 5/6 = 0.833.",
            "003 §15.2.1 and §15.2.2",
            "the counts of BLEU in the worked example are the printed ones, exactly.",
            _precision,
        ),
        Claim(
            "formula",
            "Where p_n is the precision of n-gram, with natural logarithm",
            "003 §15.2.3",
            "the formula, with clipped precisions and weights 1/N, gives sacrebleu's score to {tolerance}.",
            _formula,
            tolerance=1e-6,
            printed=(
                r"\text{BLEU} = \text{BP} \cdot \exp \left(\sum_{n=1}^N w_n \log p_n \right)",
                r"\text{BP} = \begin{cases} 1 & \text{if } c > r \\ "
                r"\exp \left(1 - \frac{r}{c} \right) & \text{if } c \leq r \end{cases}",
            ),
        ),
        Claim(
            "weights",
            "BLEU generally uses N = 4 and w_n = 1/n.",
            "003 §15.2.3",
            "the printed weights sum to 1, as the notes require, to {tolerance}.",
            _weights,
            tolerance=1e-9,
            printed=(r"w_n = \frac{1}{n}", r"\sum_{i=1}^n w_i = 1"),
            corrected=(r"w_n = \frac{1}{N}", r"\sum_{i=1}^N w_i = 1"),
        ),
        Claim(
            "range",
            "Proof of BLEU ∈ [0, 1]",
            "003 §15.2.4",
            "the score of every random sentence is in [0, 1], to {tolerance}.",
            _range,
            tolerance=1e-12,
            printed=(
                r"\exp \left(\sum_{n=1}^N w_n \log p_n \right) = \prod_{n=1}^N \exp (w_n \log p_n)",
                r"= \prod_{n=1}^N \left[\exp (\log p_n) \right]^{w_n} = \prod_{n=1}^N p_n^{w_n}",
                r"\in [0, 1]",
            ),
            corrected=(r"\text{BLEU} = \text{BP} \cdot \prod_{n=1}^N p_n^{w_n}, \quad 0 < \text{BP} \leq 1",),
        ),
    )
    derivation = (
        Step(
            "The exponential of a weighted sum of logarithms is a product of powers: the geometric mean of the "
            "precisions, if the weights are 1/N.",
            r"\exp \left(\sum_{n=1}^N w_n \log p_n \right) = \prod_{n=1}^N p_n^{w_n}",
            "product",
            1e-12,
        ),
    )
    exercises = (
        Exercise(
            "What is the unigram precision of “the the the the the the the” against the two references of the example, "
            "clipped and not?",
            "2/7: reference 1 has “the” twice. Not clipped it would be 7/7, the highest there is: that is why BLEU "
            "clips.",
        ),
        Exercise(
            "A translation has no 4-gram in common with its reference. What is its BLEU by the formula, and what does "
            "sacrebleu give?",
            "By the formula 0, since \\(p_4 = 0\\). sacrebleu smooths: it counts half of a match for the "
            "first length that has none and a quarter for the next, so the score is above 0 and need not be small: "
            "“there is a dog on the mat” has 41.11 against the two references. A sentence's score is 0 only if no word "
            "is in common.",
        ),
    )
    code = """
from carousel import lab
from sacrebleu.metrics import BLEU

print(lab.bleu("the cat the cat on the mat", ["the cat is on the mat", "there is a cat on the mat"]))
theirs = BLEU(tokenize="none", effective_order=True)
print(theirs.sentence_score("the cat the cat on the mat", ["the cat is on the mat", "there is a cat on the mat"]))
"""

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
        fates = []
        for words in grams(self.words, n):
            seen[words] += 1
            fates.append(MATCHED if seen[words] <= allowed[words] else CLIPPED if allowed[words] else MISSED)
        return fates

    def __str__(self) -> str:
        lines = [" ".join(self.words), *(f"  against  {' '.join(one)}" for one in self.references)]
        for order, precision in zip(self.orders, self.precisions, strict=True):
            share, mark = f"{order.matched}/{order.total}", "" if order.matched else " *"
            lines.append(f"{order.n}-grams  {share:>7}  {percent(precision):>7}{mark}")
            for fate, which in (
                (MATCHED, [g for g in order.grams if g.matched == g.occurs]),
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

    @staticmethod
    def lead(numbers: Numbers) -> str:
        orders = numbers["orders"]
        clipped, plain = (
            listing(f"{order[key]}/{order['total']}" for order in orders) for key in ("matched", "without_clipping")
        )
        return (
            f"“{numbers['translation']}” has a BLEU of *{numbers['bleu']:.2f}*: of its n-grams, {clipped} count, by "
            f"length from 1. Counted without clipping they would be {plain}."
        )

    @staticmethod
    def table(numbers: Numbers) -> Table:
        columns = ["n-gram", "occurs", *(f"reference {k + 1}" for k in range(len(numbers["references"])))]
        rows = [
            [" ".join(g["words"]), g["occurs"], *g["references"], g["counts"], g["clipped"]]
            for order in numbers["orders"]
            for g in order["ngrams"]
        ]
        return [*columns, "counts", "clipped"], rows

    def setup(self) -> Sequence[str]:
        n = len(self.references)
        return (
            f"The n-grams of the translation, from 1 to {len(self.orders)} words, were looked up in "
            f"{'the reference' if n == 1 else f'each of the {n} references'}. An n-gram counts as often as it occurs, "
            "but not more often than the one reference has it that has it most: the rest is clipped. sacrebleu gives "
            f"this sentence {self.sacrebleu:.4f} (`{self.signature}`); what is worked out below, {self.score:.4f}.",
        )

    def render(self, page: Page) -> None:
        drawn = self.figures()
        page.figure(
            drawn["ngrams"], "The n-grams", "Each block is an n-gram, over its words. Of equal ones the first count."
        ).table(*self.table(self.measured))
        page.figure(
            drawn["precisions"],
            "Clipped and not",
            "BLEU's precisions, and beside them those that come of counting every n-gram that is in some reference, "
            "as often as it occurs. The second are an illustration: no tool calls a score made of them BLEU.",
        )
        page.heading("The score").text(
            f"The translation has {len(self.words)} words, the reference closest in length {self.reference_length}: "
            f"the brevity penalty is {self.brevity_penalty:.4f}. With it, BLEU = {self.score:.2f}; without clipping it "
            f"would be {self.unclipped_score:.2f}."
        )
        if any(not order.matched for order in self.orders):
            page.text("Where no n-gram matches, sacrebleu counts a half of one, then a quarter, so that log p exists.")

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
            "worked_example": self.is_the_notes,
            "weights": {"N": 4, "printed": sum(1 / n for n in range(1, 5))},
            "range": random_scores(),
            "derivation": {"product": self._products_apart()},
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

    def _products_apart(self) -> float:
        """The two forms of the geometric mean: exp Σ w log p and Π p^w."""
        shares = [p for p in self.precisions if p > 0] or [1.0]
        by_logs = math.exp(sum(math.log(p) / len(shares) for p in shares))
        return abs(by_logs - mean(shares))


QUICK: dict[str, Any] = {}
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

    >>> result = run()
    >>> [(order.matched, order.unclipped, order.total) for order in result.orders]
    [(5, 7, 7), (4, 5, 6), (2, 2, 5), (1, 1, 4)]
    >>> round(result.score, 2)
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
    candidate, expected = tuple(translation.split()), [tuple(one.split()) for one in right]

    orders = []
    for n in range(1, min(longest, len(candidate)) + 1):
        there = [Counter(grams(one, n)) for one in expected]
        counts = Counter(grams(candidate, n)).items()
        orders.append(Order(n, tuple(Gram(words, k, tuple(c[words] for c in there)) for words, k in counts)))
    closest = min((abs(len(one) - len(candidate)), len(one)) for one in expected)[1]
    penalty = min(1.0, math.exp(1 - closest / len(candidate)))
    reference = BLEU(tokenize="none", max_ngram_order=longest, effective_order=True)
    theirs = reference.sentence_score(" ".join(candidate), [" ".join(one) for one in expected])
    return Explanation(
        words=candidate,
        references=tuple(expected),
        orders=tuple(orders),
        brevity_penalty=penalty,
        reference_length=closest,
        score=100 * penalty * mean(smoothed([(o.matched, o.total) for o in orders])),
        unclipped_score=100 * penalty * mean(smoothed([(o.unclipped, o.total) for o in orders])),
        sacrebleu=theirs.score,
        signature=str(reference.get_signature()),
    )


def random_scores(sentences: int = 1000) -> dict[str, float]:
    """The smallest and largest score, from 0 to 1, of random sentences over four words, without smoothing."""
    draw, scores = random.Random(0), []
    for _ in range(sentences):
        translation, reference = (draw.choices("abcd", k=draw.randint(1, 12)) for _ in range(2))
        shares = []
        for n in range(1, min(4, len(translation)) + 1):
            there = Counter(grams(reference, n))
            counts = Counter(grams(translation, n))
            shares.append(sum(min(count, there[words]) for words, count in counts.items()) / counts.total())
        penalty = min(1.0, math.exp(1 - len(reference) / len(translation)))
        scores.append(penalty * mean(shares))
    return {"sentences": sentences, "smallest": min(scores), "largest": max(scores)}


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
    shares, halves = [], 0
    for matched, total in counts:
        halves += not matched
        shares.append((matched or 0.5**halves) / total if counts[0][0] else 0.0)
    return shares


def mean(precisions: Sequence[float]) -> float:
    """The geometric mean, exp(Σ 1/N log p).

    >>> mean([0.25, 1.0])
    0.5
    """
    return math.prod(precisions) ** (1 / len(precisions))
