"""Subject–verb agreement, over distance and over nouns that mislead."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from statistics import fmean
from typing import Any

import torch
from torch import Tensor

from ...errors import check_counts
from ..cells import plain_cells
from ..claim import Claim, Numbers, Verdict, by_case, exceeds
from ..drawing import SHARE, Line, line_figure
from ..finding import Exercise, Table, short_run
from ..fitting import Reader, by_cell, fit, next_token_loss, seeded
from ..measured import Clock, Measured
from ..options import Hidden, Seed, Seeds, Updates, help_text, seed_numbers
from ..words import listing, percent, percent_and_spread

# "the writer of the books is": nouns singular and plural, then the words between them, then two verbs
NOUNS = 8
OF, THE, END, IS, ARE = range(2 * NOUNS, 2 * NOUNS + 5)
TOKENS = 2 * NOUNS + 5
PHRASES = (0, 1, 2, 3, 4, 6, 8)  # "of the …" between subject and verb
TRAINED = 3  # the most of them in training
CELLS = plain_cells()


def _recency(numbers: Numbers, tolerance: float) -> Verdict:
    led, lines, far = {}, [], str(PHRASES[-1])
    for cell in CELLS:
        alike, other = (numbers["accuracy"][cell][kind][far] for kind in ("alike", "misleading"))
        lines.append(f"{cell} {percent(fmean(alike), 0)} and {percent(fmean(other), 0)}")
        led[cell] = exceeds(alike, other, tolerance)
    text = (
        f"Accuracy with {far} phrases between subject and verb, where their nouns have the subject's number and where "
        f"they all have the other: {listing(lines)}. Whether vanishing gradients are the cause was not "
        "measured."
    )
    return by_case(led, text)


def _growing(numbers: Numbers, tolerance: float) -> Verdict:
    worse, lines = {}, []
    for cell in CELLS:
        rows = numbers["accuracy"][cell]["misleading"]
        near, far = rows[str(PHRASES[1])], rows[str(PHRASES[-1])]
        lines.append(f"{cell} from {percent(fmean(near), 0)} to {percent(fmean(far), 0)}")
        worse[cell] = exceeds(near, far, tolerance)
    text = f"From {PHRASES[1]} to {PHRASES[-1]} misleading nouns the accuracy goes: {listing(lines)}."
    return by_case(worse, text)


class Agreement(Measured):
    """What :func:`run` gives."""

    name = "agreement"
    title = "The writer of the books is: agreement over a distance"
    trains = True
    claims = (
        Claim(
            "recency",
            "what we call “syntactic recency” vs “sequential recency”. … the writer of the books is . VS the writer of "
            "the books are .",
            "003 §10",
            f"with {PHRASES[-1]} nouns between, every seed is right more often by {{tolerance}} where they have the "
            "subject's number than where they have the other.",
            _recency,
            tolerance=0.05,
            seeds=5,
        ),
        Claim(
            "growing",
            "the problem of recency is getting important while sentence length is increasing",
            "003 §10",
            "with every seed, accuracy falls by more than {tolerance} from one misleading noun to the most.",
            _growing,
            tolerance=0.05,
            seeds=5,
        ),
    )
    exercises = (
        Exercise(
            "A network that looks at nothing but the noun before the verb: how often is it right on this text, and how "
            "often where all nouns mislead?",
            "In training each noun's number is drawn, so it is right half of the time where there is a phrase, always "
            "where there is none; where all nouns mislead, never.",
        ),
        Exercise(
            "Is a network that fails here a victim of vanishing gradients?",
            "Not necessarily: it may be trained well at short distances and still lose the subject at longer ones, "
            "because its state is overwritten. `carousel lab vanishing` measures the gradients themselves.",
        ),
    )
    code = short_run(name, "updates=10, seeds=1")
    captions = {"accuracy": ("Accuracy of the verb", f"Networks have seen at most {TRAINED} phrases in training. "
                             "Dashed: all nouns between have the other number.")}  # fmt: skip

    @staticmethod
    def lead(numbers: Numbers) -> str:
        far = str(PHRASES[-1])
        lines = listing(f"{cell} {percent_and_spread(numbers['accuracy'][cell]['misleading'][far])}" for cell in CELLS)
        return f"Share of correct verbs with {far} misleading nouns between subject and verb: {lines}."

    @staticmethod
    def table(numbers: Numbers) -> Table:
        columns = [(cell, kind) for cell in CELLS for kind in ("alike", "misleading")]
        each = [numbers["accuracy"][cell][kind] for cell, kind in columns]
        rows = [[str(p), *(percent_and_spread(accuracy[str(p)]) for accuracy in each)] for p in PHRASES]
        return ["phrases between", *(f"{cell}, {kind}" for cell, kind in columns)], rows

    def setup(self) -> Sequence[str]:
        n = self.measured
        return (
            f"Sentences such as “the writer of the books of the town …” of {NOUNS} nouns, singular or plural, and a "
            f"verb, is or are, that agrees with the first. Language models of one layer with {n['hidden']} units learn "
            f"sentences with 0 to {TRAINED} phrases, each noun's number drawn, for {n['updates']} updates of 64; then "
            f"the more probable of the two verbs is compared with the right one, on 200 sentences for each number of "
            f"phrases, {len(n['seeds'])} seeds.",
        )

    def figures(self) -> dict[str, Any]:
        accuracy = self.measured["accuracy"]
        curves = [
            Line(f"{cell}, {kind}", [fmean(accuracy[cell][kind][str(p)]) for p in PHRASES], kept.colour, dash)
            for cell, kept in CELLS.items()
            for kind, dash in (("alike", "solid"), ("misleading", "dash"))
        ]
        return {"accuracy": line_figure(curves, PHRASES, titles=("phrases between subject and verb", "right"), **SHARE)}


HELP = help_text(__doc__, "agreement", "--hidden 32 --out agreement")
QUICK = {"updates": 80}


def run(
    updates: Updates = 200,
    *,
    hidden: Hidden = 16,
    seeds: Seeds = 5,
    seed: Seed = 0,
) -> Agreement:
    """Train a language model for each cell and seed, and compare the probabilities of is and are.

    >>> result = run(1, hidden=2, seeds=1)
    >>> sorted(result.data["accuracy"]["LSTM"])
    ['alike', 'misleading']
    """
    check_counts(updates=updates, hidden=hidden, seeds=seeds)
    clock, numbers = Clock(), seed_numbers(seed, seeds)
    accuracy = by_cell(CELLS, partial(train, hidden=hidden, updates=updates), numbers)
    return Agreement({"accuracy": accuracy, "updates": updates, "hidden": hidden, "seeds": numbers}, clock.seconds)


def sentences(rows: int, phrases: int, kind: str = "drawn") -> tuple[Tensor, Tensor]:
    """Tokens (T, B) that end with a verb, and whether the subject is plural, (B,)."""
    plural = torch.randint(2, (rows,))
    parts = [torch.full((rows,), THE), torch.randint(NOUNS, (rows,)) + NOUNS * plural]
    for _ in range(phrases):
        number = {"alike": plural, "misleading": 1 - plural}.get(kind, torch.randint(2, (rows,)))
        parts += [torch.full((rows,), OF), torch.full((rows,), THE), torch.randint(NOUNS, (rows,)) + NOUNS * number]
    return torch.stack([*parts, IS + plural]), plural


def train(layer: Any, seed: int, hidden: int, updates: int) -> dict[tuple[str, int], float]:
    """The accuracy of the verb after training, by kind and number of phrases."""
    with seeded(seed):
        network = Reader(layer(8, hidden), TOKENS, TOKENS)

        def loss() -> Tensor:
            return next_token_loss(network, sentences(64, int(torch.randint(TRAINED + 1, ())))[0])

        fit(network, loss, updates, lr=0.02)
        accuracy = {}
        with torch.no_grad():
            for kind in ("alike", "misleading"):
                for phrases in PHRASES:
                    tokens, plural = sentences(200, phrases, kind)
                    scores = network(tokens[:-1])[-1]
                    accuracy[kind, phrases] = float(((scores[:, ARE] > scores[:, IS]) == plural.bool()).double().mean())
        return accuracy
