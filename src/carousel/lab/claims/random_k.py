"""random-k generation: how diverse, and at what price."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Sequence
from functools import partial
from statistics import fmean
from typing import Annotated, Any

import torch
from torch import Tensor

from ...errors import ArgumentError, check_counts
from ...layers import LSTM
from ...metrics import bleu
from ...wording import counted
from ..claim import Claim, Numbers, Verdict, by_seed, exceeds, fails, holds
from ..drawing import Line, line_figure
from ..finding import Exercise, Step, Table
from ..fitting import Reader, fit, seeded
from ..measured import Clock, Measured
from ..options import Hidden, Option, Seed, Seeds, Updates, help_text, seed_numbers
from ..text import END, START, Lines, dates, draw, loss
from ..words import mean_and_spread

# The last couplets of the seven poems that the report prints for argmax and for random-k, where 不知 and 何時 stand.
ARGMAX = (
    "何時一相送不得到前州", "何時一相送不得到前州", "不得尋常說何人問此心", "何時一相送不得到前州",
    "何時一相送不得到前州", "遙知江上月應見白雲歸", "不知山水上應是夢中流",
)  # fmt: skip
RANDOM_K = (
    "誰憐一片雨不敢望無窮", "若得從公子誰憐白草多", "欲識青天去何人到此懽", "何人問漁叟應是學仙人",
    "不嫌人笑事何計免吾身", "還聞謝公籍應笑又東風", "何當見何計應是學文翁",
)  # fmt: skip
KS = (1, 2, 3, 5, 10)
LENGTH = 40
STRETCH = 8  # characters; as many in a row that stand in the training text count as copied


def distinct(texts: Sequence[str], n: int) -> float:
    """The share of n-grams of characters that differ from all others.

    >>> distinct(["abab"], 2)                      # ab, ba, ab
    0.6666666666666666
    """
    grams = [text[k : k + n] for text in texts for k in range(len(text) - n + 1)]
    return len(set(grams)) / len(grams) if grams else 0.0


def copied(texts: Sequence[str], known: set[str]) -> float:
    """The share of stretches of characters that are among those of the training text."""
    grams = stretches(texts)
    return sum(gram in known for gram in grams) / len(grams) if grams else 0.0


def stretches(texts: Sequence[str]) -> list[str]:
    return [text[k : k + STRETCH] for text in texts for k in range(len(text) - STRETCH + 1)]


def self_bleu(texts: Sequence[str]) -> float:
    """The mean BLEU of each text against all others, by characters, between 0 and 1: 1 if all are alike."""
    scores = []
    for k, text in enumerate(texts):
        others = [[" ".join(other)] for j, other in enumerate(texts) if j != k]
        scores.append(bleu([" ".join(text)], [[one[0] for one in others]], tokenize="none").score / 100)
    return sum(scores) / len(scores)


def _many(numbers: Numbers, tolerance: float) -> Verdict:
    counts = numbers["report"]
    text = (
        f"In the last couplets of the seven poems printed for argmax, 不知 or 何時 stands {counts['argmax']} times, in "
        f"those for random-k {counts['random-k']} times. Of the seven argmax couplets {counts['argmax_different']} are "
        f"different, of the others {counts['random-k_different']}."
    )
    return holds(text) if counts["argmax"] > counts["random-k"] + tolerance else fails(text)


def _diverse(numbers: Numbers, tolerance: float) -> Verdict:
    rows = numbers["measured"]
    first, best = rows["1"], rows[str(numbers["k"])]
    text = (
        f"On dates, distinct-3 is {mean_and_spread(first['distinct'])} for argmax and "
        f"{mean_and_spread(best['distinct'])} for k = {numbers['k']}; self-BLEU {mean_and_spread(first['self_bleu'])} "
        f"and {mean_and_spread(best['self_bleu'])}."
    )
    more = exceeds(best["distinct"], first["distinct"], tolerance)
    less = [b < a - tolerance for a, b in zip(first["self_bleu"], best["self_bleu"], strict=True)]
    return by_seed([a and b for a, b in zip(more, less, strict=True)], text)


def _overfitting(numbers: Numbers, tolerance: float) -> Verdict:
    rows = numbers["measured"]
    first, last = rows["1"]["copied"], rows[str(numbers["k"])]["copied"]
    text = (
        f"Of stretches of {STRETCH} characters, {mean_and_spread(first)} of those written by argmax and "
        f"{mean_and_spread(last)} of those for k = {numbers['k']} stand in the training text. The network is the same, "
        "and so is its perplexity on other text: random-k changes what is copied, not how far the network overfits."
    )
    less = [b < a - tolerance for a, b in zip(first, last, strict=True)]
    return by_seed(less, text, "copying from the training text")


class RandomK(Measured):
    """What :func:`run` gives."""

    name = "random-k"
    title = "random-k generation and diversity"
    trains = True
    claims = (
        Claim(
            "many",
            "As we can see, many 不知 何時 are produced, which greatly affect the diversity of the poems.",
            "002 Generation",
            "counted in the last couplets of the printed poems, they stand more often in those of argmax.",
            _many,
        ),
        Claim(
            "diverse",
            "I introduce a way of random-k generation, choosing a word randomly from the k-most likely words to be the "
            "output.",
            "002 Generation",
            "with every seed distinct-3 is higher than for argmax, and self-BLEU lower, by more than {tolerance}.",
            _diverse,
            tolerance=0.05,
            seeds=5,
        ),
        Claim(
            "overfitting",
            "This method can also prevent overfitting problem.",
            "002 Generation",
            f"with every seed, the share of stretches of {STRETCH} characters that are copied from the training text "
            "is lower by more than {tolerance} than for argmax.",
            _overfitting,
            tolerance=0.05,
            seeds=5,
        ),
    )
    derivation = (
        Step(
            "A token that is drawn uniformly from the \\(k\\) best carries \\(\\log k\\) nats of the choice, whatever "
            "the model thinks of them. The run compares the entropy of many draws with it.",
            r"H = \log k",
            "entropy",
            0.02,
        ),
    )
    exercises = (
        Exercise(
            "random-k and top-k sampling both look at the k best. What is the difference?",
            "Top-k draws among them by their probabilities, random-k uniformly: it takes the tenth as often as the "
            "first, even if the model gives it a millionth.",
        ),
        Exercise(
            "distinct-n falls with the number of texts. Why is it compared for equally many?",
            "New n-grams become rarer the more text there is, as there are only so many.",
        ),
    )
    code = """
from carousel.lab.claims.random_k import ARGMAX, RANDOM_K, distinct, self_bleu

for texts in (ARGMAX, RANDOM_K):
    print(distinct(texts, 2), self_bleu(texts))
"""
    captions = {"diversity": ("Diversity and perplexity by k", "k = 1 is argmax. Mean over the seeds.")}

    @staticmethod
    def lead(numbers: Numbers) -> str:
        counts, rows = numbers["report"], numbers["measured"]
        means = {k: {key: sum(v) / len(v) for key, v in row.items()} for k, row in rows.items()}
        k = str(numbers["k"])
        return (
            f"In the last couplets of the report's own poems 不知 and 何時 go from {counts['argmax']} to "
            f"{counts['random-k']}. On dates, distinct-3 goes from {means['1']['distinct']:.2f} to "
            f"{means[k]['distinct']:.2f} with k = {k}, and the perplexity of what is written from "
            f"{means['1']['perplexity']:.2f} to {means[k]['perplexity']:.2f}."
        )

    @staticmethod
    def table(numbers: Numbers) -> Table:
        rows = [
            [
                "argmax" if k == "1" else f"k = {k}",
                *(mean_and_spread(row[key]) for key in ("distinct", "self_bleu", "copied", "perplexity")),
            ]
            for k, row in numbers["measured"].items()
        ]  # fmt: skip
        return ["generation", "distinct-3", "self-BLEU", "copied", "perplexity of the texts"], rows

    def setup(self) -> Sequence[str]:
        n = self.measured
        return (
            "Of the report's poems the last couplets are counted as they are printed (its model and data are not at "
            "hand). The rest is measured on language models of dates, character by character, which the package makes: "
            f"an LSTM of {counted(n['hidden'], 'unit')}, {counted(n['updates'], 'update')} of 16 lines, "
            f"{counted(len(n['seeds']), 'random seed')}. Each writes {n['texts']} texts of at most {LENGTH} "
            "characters, which begin with the most frequent first characters of the corpus in turn, by argmax and by "
            "random-k.",
        )

    def figures(self) -> dict[str, Any]:
        rows = self.measured["measured"]
        shown = (("distinct", "distinct-3", "#0072b2"), ("self_bleu", "self-BLEU", "#d55e00"))
        curves = [Line(name, [fmean(row[key]) for row in rows.values()], colour) for key, name, colour in shown]
        drawn = line_figure(curves, list(rows), titles=("k", ""), rangemode="tozero")
        return {"diversity": drawn.update_xaxes(type="category")}


HELP = help_text(__doc__, "random-k", "--updates 300 --out random-k")
QUICK = {"updates": 80}


def run(
    updates: Updates = 150,
    *,
    k: Annotated[int, Option("The k that is compared with argmax.", "K", minimum=2)] = 5,
    texts: Annotated[int, Option("Texts for each k.", "N", minimum=2)] = 30,
    hidden: Hidden = 48,
    seeds: Seeds = 5,
    seed: Seed = 0,
) -> RandomK:
    """Train a model with each seed, and let it write by argmax and by random-k.

    >>> result = run(1, texts=3, hidden=4, seeds=1)
    >>> result.data["report"]["argmax"]
    5
    """
    check_counts(updates=updates, texts=texts, hidden=hidden, seeds=seeds)
    if k not in KS:
        raise ArgumentError(f"k must be one of {', '.join(map(str, KS[1:]))}; got {k}")
    clock, numbers, lines = Clock(), seed_numbers(seed, seeds), dates(2000)
    measured: dict[str, dict[str, list[float]]] = {
        str(each): {"distinct": [], "self_bleu": [], "copied": [], "perplexity": []} for each in KS
    }
    known = set(stretches([lines.text(row[1:]) for row in lines.train.T.tolist()]))
    for number in numbers:
        with seeded(number):
            network = Reader(LSTM(16, hidden), lines.tokens, lines.tokens)
            fit(network, partial(_loss, network, lines), updates)
            firsts = [token for token, _ in Counter(lines.train[1].tolist()).most_common()]
            begin = torch.tensor([one for one, _ in zip(itertools.cycle(firsts), range(texts), strict=False)])
            for each in KS:
                tokens, score = write(network, begin, each)
                written = [lines.text(row) for row in tokens.T.tolist()]
                row = measured[str(each)]
                row["distinct"].append(distinct(written, 3))
                row["self_bleu"].append(self_bleu(written))
                row["copied"].append(copied(written, known))
                row["perplexity"].append(score)
    data = {
        "report": count_report(), "measured": measured, "k": k, "texts": texts, "hidden": hidden, "updates": updates,
        "seeds": numbers, "derivation": {"entropy": abs(entropy(k) - math.log(k))},
    }  # fmt: skip
    return RandomK(data, clock.seconds)


def _loss(network: Reader, lines: Lines) -> Tensor:
    return loss(network, draw(lines.train, 16))


def count_report() -> dict[str, int]:
    """不知 and 何時 in the last couplets of the report's poems, and how many of these differ."""
    counts = {}
    for name, couplets in (("argmax", ARGMAX), ("random-k", RANDOM_K)):
        counts[name] = sum(couplet.count(word) for couplet in couplets for word in ("不知", "何時"))
        counts[f"{name}_different"] = len(set(couplets))
    return counts


@torch.no_grad()
def write(network: Reader, begin: Tensor, k: int) -> tuple[Tensor, float]:
    """Texts from first tokens (N,): tokens (T, N) with them, and the model's perplexity of the rest."""
    tokens = torch.stack((torch.full_like(begin, START), begin))
    ended, total, count = torch.zeros(len(begin), dtype=torch.bool), 0.0, 0
    for _ in range(LENGTH - 1):
        log_probs = network(tokens)[-1].log_softmax(1)
        log_probs[:, :END] = -math.inf  # neither padding nor a start
        best = log_probs.topk(k, 1).indices
        chosen = best.gather(1, torch.randint(k, (len(begin), 1))).squeeze(1)
        scores = log_probs.gather(1, chosen.unsqueeze(1)).squeeze(1)
        total, count = total - float(scores[~ended].sum()), count + int((~ended).sum())
        tokens = torch.cat((tokens, torch.where(ended, END, chosen).unsqueeze(0)))
        ended |= chosen == END
        if ended.all():
            break
    return tokens[1:], math.exp(min(50.0, total / max(1, count)))


def entropy(k: int, draws: int = 20_000) -> float:
    """The entropy of the place of the chosen token among the k best, in nats, from many draws."""
    counts = torch.randint(k, (draws,), generator=torch.Generator().manual_seed(0)).bincount(minlength=k)
    share = counts / draws
    return float(-(share * share.log()).sum())
