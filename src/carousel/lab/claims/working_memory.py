"""Working memory: recall of word lists, by their length and by what comes after them."""

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
from ..fitting import Reader, by_cell, fit, seeded
from ..measured import Clock, Measured
from ..options import Hidden, Seed, Seeds, Updates, help_text, seed_numbers
from ..words import listing, percent, percent_and_spread

WORDS = 20  # that lists are made of
LENGTHS = (3, 7, 10)  # of the lecture's three lists
DISTRACTORS = (0, 10, 40)
CELLS = plain_cells()


def _means(numbers: Numbers, cell: str, distractors: int) -> list[float]:
    """The mean share of words recalled, for each length of the list."""
    rows = numbers["recall"][cell][str(distractors)]
    return [fmean(rows[str(length)]) for length in LENGTHS]


def _spread(numbers: Numbers, cell: str, distractors: int, length: int) -> str:
    return percent_and_spread(numbers["recall"][cell][str(distractors)][str(length)])


def _length(numbers: Numbers, tolerance: float) -> Verdict:
    falling = {}
    for cell in CELLS:
        rows = numbers["recall"][cell]["0"]
        short, long = rows[str(LENGTHS[0])], rows[str(LENGTHS[-1])]
        falling[cell] = exceeds(short, long, tolerance)
    shares = listing(f"{cell} {', '.join(percent(value, 0) for value in _means(numbers, cell, 0))}" for cell in CELLS)
    text = f"Words recalled of lists of {listing(map(str, LENGTHS))} words, with nothing after them: {shares}."
    return by_case(falling, text)


def _persistence(numbers: Numbers, tolerance: float) -> Verdict:
    kept, lines = {}, []
    for cell in CELLS:
        rows = numbers["recall"][cell]
        now, later = (rows[str(d)][str(LENGTHS[0])] for d in (DISTRACTORS[0], DISTRACTORS[-1]))
        lines.append(f"{cell} {percent(fmean(now), 0)} at once and {percent(fmean(later), 0)} later")
        kept[cell] = [a > 0.5 and b > a - tolerance for a, b in zip(now, later, strict=True)]
    text = f"Of lists of {LENGTHS[0]} words, before and after {DISTRACTORS[-1]} distractors: {listing(lines)}."
    return by_case(kept, text)


class WorkingMemory(Measured):
    """What :func:`run` gives."""

    name = "working-memory"
    title = "Working memory: word lists"
    trains = True
    claims = (
        Claim(
            "length",
            "Working memory … Pencil … Automobile … Evil … Working memory … Random … Bottle … Phone … Overeager … Card "
            "… Plant … Chimney … Tree … House … Roof",
            "004 Working memory",
            "the lists, of 3, 7 and 10 words, show that longer ones are harder: with every seed, the share of words "
            "recalled is more than {tolerance} lower for 10 words than for 3.",
            _length,
            tolerance=0.02,
            seeds=5,
        ),
        Claim(
            "persistence",
            "Thoughts have persistence over time. How can we capture this with an architecture?",
            "004 Hippocampus",
            f"an architecture captures it if, with every seed, recall of 3 words at once is more than a half, and "
            f"after {DISTRACTORS[-1]} distractors no more than {{tolerance}} below that.",
            _persistence,
            tolerance=0.1,
            seeds=5,
        ),
    )
    exercises = (
        Exercise(
            "How many bits must a network keep to recall a list of 10 out of 20 words, in any order?",
            "\\(\\log_2 \\binom{20}{10} \\approx 17.5\\); one unit that is on or off keeps one bit, so 18 such units "
            "are enough, and 20, one for each word, make it easy.",
        ),
        Exercise(
            "Why can a distractor hurt even if it carries nothing?",
            "Every step is another product with the recurrent weights. Unless a gate is shut, a step changes the state "
            "a little, and the changes add up.",
        ),
    )
    code = short_run(name, "updates=10, seeds=1")
    captions = {
        "recall": ("Words recalled", "Against the distractors after the list; a line for each cell and length.")
    }

    @staticmethod
    def lead(numbers: Numbers) -> str:
        lines = listing(
            f"{cell} {_spread(numbers, cell, 0, LENGTHS[0])} and {_spread(numbers, cell, 0, LENGTHS[-1])}"
            for cell in CELLS
        )
        return f"Of lists of {LENGTHS[0]} and of {LENGTHS[-1]} words the networks recall at once: {lines}."

    @staticmethod
    def table(numbers: Numbers) -> Table:
        rows = [
            [f"{cell}, {distractors} distractors", *(_spread(numbers, cell, distractors, n) for n in LENGTHS)]
            for cell in CELLS
            for distractors in DISTRACTORS
        ]
        return ["recalled, by length of the list", *map(str, LENGTHS)], rows

    def setup(self) -> Sequence[str]:
        n = self.measured
        return (
            f"A list of different words out of {WORDS}, then distractors, then a signal: which words were in the list? "
            f"The network names as many as the list had, in any order. Recall is the share that is right, less "
            f"what guessing gives: 0 for chance, 1 if all are right. One layer of {n['hidden']} units for each cell, "
            f"trained for {n['updates']} updates of 64 lists of 1 to "
            f"{LENGTHS[-1]} words with 0 to {DISTRACTORS[1]} distractors; {len(n['seeds'])} seeds. "
            f"{DISTRACTORS[-1]} distractors are more than they have seen in training.",
        )

    def figures(self) -> dict[str, Any]:
        curves = [
            Line(f"{cell}, {n} words", [_means(self.measured, cell, d)[k] for d in DISTRACTORS], kind.colour, dash)
            for cell, kind in CELLS.items()
            for k, (n, dash) in enumerate(zip(LENGTHS, ("solid", "dash", "dot"), strict=True))
        ]
        return {"recall": line_figure(curves, DISTRACTORS, titles=("distractors", "recalled"), **SHARE)}


HELP = help_text(__doc__, "working-memory", "--hidden 64 --out memory")
QUICK = {"updates": 100}


def run(
    updates: Updates = 300,
    *,
    hidden: Hidden = 32,
    seeds: Seeds = 5,
    seed: Seed = 0,
) -> WorkingMemory:
    """Train each cell to recall lists, and measure its recall by length and distractors.

    >>> result = run(1, hidden=2, seeds=1)
    >>> sorted(result.data["recall"])
    ['GRU', 'LSTM', 'RNN']
    """
    check_counts(updates=updates, hidden=hidden, seeds=seeds)
    clock, numbers = Clock(), seed_numbers(seed, seeds)
    recall = by_cell(CELLS, partial(train, hidden=hidden, updates=updates), numbers)
    return WorkingMemory({"recall": recall, "updates": updates, "hidden": hidden, "seeds": numbers}, clock.seconds)


def draw(rows: int, length: int, distractors: int) -> tuple[Tensor, Tensor]:
    """Tokens (T, B): words, distractors, the signal; and which words are in each list, (B, WORDS)."""
    words = torch.stack([torch.randperm(WORDS)[:length] for _ in range(rows)], 1)  # (length, B)
    rest = torch.cat((torch.full((distractors, rows), WORDS), torch.full((1, rows), WORDS + 1)))
    there = torch.zeros(rows, WORDS).scatter_(1, words.T, 1.0)
    return torch.cat((words, rest)), there


def train(layer: Any, seed: int, hidden: int, updates: int) -> dict[tuple[int, int], float]:
    """The recall after training, by distractors and length."""
    with seeded(seed):
        network = Reader(layer(16, hidden), WORDS + 2, WORDS)

        def loss() -> Tensor:
            length = int(torch.randint(1, LENGTHS[-1] + 1, ()))
            tokens, there = draw(64, length, int(torch.randint(DISTRACTORS[1] + 1, ())))
            return torch.nn.functional.binary_cross_entropy_with_logits(network(tokens)[-1], there)

        fit(network, loss, updates, lr=0.01)
        recall = {}
        with torch.no_grad():
            for distractors in DISTRACTORS:
                for length in LENGTHS:
                    tokens, there = draw(200, length, distractors)
                    named = network(tokens)[-1].topk(length, 1).indices
                    hits, chance = float(there.gather(1, named).mean()), length / WORDS
                    recall[distractors, length] = (hits - chance) / (1 - chance)
        return recall
