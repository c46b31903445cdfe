"""Teacher forcing against free running and scheduled sampling."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import fmean
from typing import Annotated, Any

import torch

from ...errors import check_counts
from ..claim import Claim, Numbers, Verdict, fails, holds, holds_for, undecided
from ..drawing import SHARE, Line, line_figure
from ..finding import Exercise, Step, Table
from ..fitting import fit, mean_path, record, seeded
from ..measured import Clock, Measured
from ..options import Option, Seed, Seeds, help_text, seed_numbers
from ..transduction import Translator, draw
from ..words import percent, percent_and_spread

# the share of steps that read the true token, when so much of the training is done
WAYS: dict[str, Callable[[float], float]] = {
    "teacher forcing": lambda progress: 1.0,
    "scheduled sampling": lambda progress: 1.0 - progress,
    "free running": lambda progress: 0.0,
}
COLOURS = {"teacher forcing": "#0072b2", "scheduled sampling": "#009e73", "free running": "#d55e00"}
UNITS = 3
EVERY = 10  # updates between two measurements


def _helps(numbers: Numbers, tolerance: float) -> Verdict:
    areas = {way: [fmean(path) for path in paths] for way, paths in numbers["paths"].items()}
    ahead = [a - b for a, b in zip(areas["teacher forcing"], areas["free running"], strict=True)]
    ends = {way: [path[-1] for path in paths] for way, paths in numbers["paths"].items()}
    text = (
        f"Over the whole training, translations without a fault are on average "
        f"{percent(fmean(areas['teacher forcing']))} "
        f"with teacher forcing and {percent(fmean(areas['free running']))} with free running; at the end "
        f"{percent(fmean(ends['teacher forcing']))} and {percent(fmean(ends['free running']))}. Translating, both read "
        "their own tokens."
    )
    if min(ahead) > tolerance:
        return holds_for("the speed of learning", text)
    return fails(text) if max(ahead) < -tolerance else undecided(text)


def _own_words(numbers: Numbers, tolerance: float) -> Verdict:
    ends = {way: [path[-1] for path in paths] for way, paths in numbers["paths"].items()}
    text = (
        f"Trained with true tokens alone and reading its own then, the network translates "
        f"{percent_and_spread(ends['teacher forcing'])} of the sentences without a fault; trained "
        f"with ever more of its own, {percent_and_spread(ends['scheduled sampling'])}."
    )
    if min(ends["teacher forcing"]) > tolerance:
        return holds(text)
    return fails(text) if max(ends["teacher forcing"]) <= tolerance else undecided(text)


class TeacherForcing(Measured):
    """What :func:`run` gives."""

    name = "teacher-forcing"
    title = "Teacher forcing"
    trains = True
    claims = (
        Claim(
            "helps",
            "Teacher forcing helps learn complex patterns concurrently,",
            "004 Teacher forcing",
            "with every seed the share of sentences right, averaged over the training, is more than {tolerance} above "
            "that of free running.",
            _helps,
            tolerance=0.02,
            seeds=5,
        ),
        Claim(
            "own_words",
            "at inference time, we pass the source sentence to translate. Then, we generate the words in "
            "autoregressive fashion. Each generated word is passed to t + 1 th step as an input",
            "003 §15",
            "a network that was trained with true words translates with its own: more than {tolerance} of the "
            "sentences are right with every seed.",
            _own_words,
            tolerance=0.5,
            seeds=5,
        ),
    )
    derivation = (
        Step(
            "Given the true tokens, a step's loss depends on earlier steps by the state alone, so all steps are one "
            "call. The run compares it with one step after the other.",
            r"L = -\sum_t \log p(y_t \mid y_1, \dots, y_{t-1}, x)",
            "at_once",
            1e-4,
        ),
    )
    exercises = (
        Exercise(
            "In free running, one token too many early in the sentence makes every later target wrong. Why?",
            "The target at step t is the t-th true token, whatever was produced before. After the one too many, every "
            "true one comes a step late, and counts as a fault.",
        ),
        Exercise(
            "Why can teacher forcing run all steps of Luong's decoder, without input feeding, at once?",
            "The inputs of all steps are known beforehand, since no step reads a context, and the layers are one call "
            "over time. Bahdanau's step reads \\(c_t\\), which needs \\(s_{t-1}\\).",
        ),
    )
    code = """
from carousel.lab.transduction import Translator, draw

network = Translator("additive", "luong")
print(network.loss(draw(8, units=3)), network.loss(draw(8, units=3), share=0.0))
"""
    captions = {"accuracy": ("Sentences translated without a fault", "Each step reads the model's own token. Mean over "
                             "the seeds.")}  # fmt: skip

    @staticmethod
    def lead(numbers: Numbers) -> str:
        ends = {way: fmean([path[-1] for path in paths]) for way, paths in numbers["paths"].items()}
        return (
            f"After {numbers['updates']} updates {percent(ends['teacher forcing'], 0)} of the sentences are right with "
            f"teacher forcing, {percent(ends['scheduled sampling'], 0)} with scheduled sampling and "
            f"{percent(ends['free running'], 0)} with free running."
        )

    @staticmethod
    def table(numbers: Numbers) -> Table:
        rows = [
            [
                way, percent_and_spread([fmean(path) for path in paths]),
                percent_and_spread([path[-1] for path in paths]),
            ]
            for way, paths in numbers["paths"].items()
        ]  # fmt: skip
        return ["training", "right, mean over training", "right at the end"], rows

    def setup(self) -> Sequence[str]:
        n = self.measured
        return (
            f"The translator of `carousel lab attention`, with additive attention and Luong's decoder, on sentences of "
            f"{UNITS} units; {n['updates']} updates of 32 sentences, {len(n['seeds'])} seeds. A step reads the true "
            "previous token always (teacher forcing), never (free running: the model's most probable token), or with a "
            "probability that falls from 1 to 0 over the training (scheduled sampling). 100 fresh sentences are "
            f"translated after every {EVERY} updates.",
        )

    def figures(self) -> dict[str, Any]:
        paths = self.measured["paths"]
        places = [EVERY * (k + 1) for k in range(self.measured["updates"] // EVERY)]
        curves = [Line(way, mean_path(each), COLOURS[way]) for way, each in paths.items()]
        return {"accuracy": line_figure(curves, places, titles=("updates", "right"), **SHARE)}


HELP = help_text(__doc__, "teacher-forcing", "--updates 300 --out forcing")
QUICK = {"updates": 60}


def run(
    updates: Annotated[int, Option("Updates of each training.", "N", minimum=EVERY)] = 150,
    *,
    seeds: Seeds = 5,
    seed: Seed = 0,
) -> TeacherForcing:
    """Train the same translator in three ways, from the same weights.

    >>> result = run(10, seeds=1)
    >>> sorted(result.data["paths"])
    ['free running', 'scheduled sampling', 'teacher forcing']
    """
    check_counts(updates=updates, seeds=seeds)
    clock, numbers = Clock(), seed_numbers(seed, seeds)
    paths = {way: [train(way, updates, number) for number in numbers] for way in WAYS}
    with seeded(seed), torch.no_grad():
        network, batch = Translator("additive", "luong"), draw(16, UNITS)
        apart = float((network(batch)[0] - network.free(batch, 1.0)).abs().max())
    data = {"paths": paths, "updates": updates, "seeds": numbers, "derivation": {"at_once": apart}}
    return TeacherForcing(data, clock.seconds)


def train(way: str, updates: int, seed: int) -> list[float]:
    """The share of fresh sentences that are right after every few updates."""
    with seeded(seed):
        network, done = Translator("additive", "luong"), [0]
        path, measure = record(EVERY, lambda: network.accuracy(draw(100, UNITS)))

        def watch(update: int, loss: float) -> None:
            done[0] = update
            measure(update, loss)

        fit(network, lambda: network.loss(draw(32, UNITS), WAYS[way](done[0] / updates)), updates, lr=0.01, watch=watch)
        return path
