"""Overfitting: training against dev perplexity, by layers and by the size of the data."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import Annotated, Any

from ...errors import check_counts
from ...layers import LSTM
from ...wording import counted
from ..claim import Claim, Numbers, Verdict, by_seed, undecided
from ..drawing import Line, line_figure
from ..finding import Exercise, Table, short_run
from ..fitting import Reader, fit, mean_path, record, seeded
from ..measured import Clock, Measured
from ..options import Hidden, Option, Seed, Seeds, help_text, seed_numbers
from ..text import dates, draw, loss, perplexity
from ..words import mean_and_spread

LAYERS = (1, 2, 3)
LINES = (50, 400, 3000)
FEW = LINES[0]


def _at(numbers: Numbers, layers: int, lines: int) -> dict[str, list[float]]:
    row: dict[str, list[float]] = numbers["trained"][f"{layers} {lines}"]
    return row


def _model(name: str) -> str:
    """
    >>> _model("1 3000")
    '1 layer, 3,000 lines'
    """
    layers, lines = map(int, name.split())
    return f"{counted(layers, 'layer')}, {lines:,} lines"


def _layers(numbers: Numbers, tolerance: float) -> Verdict:
    one, most = _at(numbers, 1, FEW)["dev"], _at(numbers, LAYERS[-1], FEW)["dev"]
    text = "; ".join(
        f"{layers}: {mean_and_spread(_at(numbers, layers, FEW)['train'])} and "
        f"{mean_and_spread(_at(numbers, layers, FEW)['dev'])}"
        for layers in LAYERS
    )
    text = f"Training and dev perplexity with {FEW} lines, by layers — {text}."
    worse = [b > a * tolerance for a, b in zip(one, most, strict=True)]
    own = zip(_at(numbers, 1, FEW)["train"], _at(numbers, LAYERS[-1], FEW)["train"], strict=True)
    fits = [b <= a for a, b in own]
    if not all(fits):
        return undecided(
            f"{text} With {fits.count(False)} of {counted(len(fits), 'seed')} the model of {LAYERS[-1]} layers has not "
            "fitted its own lines as well as that of one layer in these updates, so that nothing can be said about "
            "overfitting."
        )
    return by_seed(worse, text)


def _enough(numbers: Numbers, tolerance: float) -> Verdict:
    rows = {lines: _at(numbers, 1, lines) for lines in LINES}
    gaps = {lines: [d / t for d, t in zip(row["dev"], row["train"], strict=True)] for lines, row in rows.items()}
    text = "; ".join(f"{lines:,} lines: {mean_and_spread(gap)}" for lines, gap in gaps.items())
    text = f"Dev perplexity as a multiple of training perplexity, one layer — {text}."
    shown = [many <= tolerance < few for many, few in zip(gaps[LINES[-1]], gaps[FEW], strict=True)]
    return by_seed(shown, text, f"{LINES[-1]:,} lines of dates")


class Overfitting(Measured):
    """What :func:`run` gives."""

    name = "overfitting"
    title = "Overfitting, by layers and by the size of the data"
    trains = True
    claims = (
        Claim(
            "layers",
            "if the number of stacks increased carelessly, the model tends to overfit the current dataset and perform "
            "poor on dev dataset",
            "003 §6",
            f"with {FEW} lines and every seed, the dev perplexity of {LAYERS[-1]} layers is more than {{tolerance}} "
            "times that of one after the same updates, and training perplexity no higher.",
            _layers,
            tolerance=1.1,
            seeds=5,
        ),
        Claim(
            "enough",
            "Since my dataset is large enough (15000), I don't have to care about the problem of overfitting.",
            "002 Training",
            f"with {LINES[-1]:,} lines dev perplexity is at most {{tolerance}} times training perplexity for every "
            f"seed, and with {FEW} it is more.",
            _enough,
            tolerance=1.2,
            seeds=5,
        ),
    )
    exercises = (
        Exercise(
            "Dev perplexity falls first and rises then. What does `carousel train` keep?",
            "The epoch with the best dev perplexity; `--patience` stops after a number of epochs without improvement.",
        ),
        Exercise(
            "Name three ways to overfit less without more data.",
            "Dropout, weight decay, a smaller network; or to stop early.",
        ),
    )
    code = short_run(name, "updates=10, hidden=8, seeds=1")
    captions = {"curves": ("Dev perplexity in training", f"One layer and {LAYERS[-1]}, with {FEW} and {LINES[-1]:,} "
                           "lines; mean over the seeds.")}  # fmt: skip

    @staticmethod
    def lead(numbers: Numbers) -> str:
        one, most = _at(numbers, 1, FEW), _at(numbers, LAYERS[-1], FEW)
        return (
            f"Trained on {FEW} lines, a model of one layer has perplexity {fmean(one['train']):.2f} on them and "
            f"{fmean(one['dev']):.2f} on others; one of {LAYERS[-1]} layers {fmean(most['train']):.2f} and "
            f"{fmean(most['dev']):.2f}."
        )

    @staticmethod
    def table(numbers: Numbers) -> Table:
        rows = [
            [_model(name), *(mean_and_spread(row[key]) for key in ("train", "dev", "best"))]
            for name, row in numbers["trained"].items()
        ]
        return ["model", "training perplexity", "dev perplexity", "best dev perplexity"], rows

    def setup(self) -> Sequence[str]:
        n = self.measured
        return (
            f"Language models of dates, character by character, made by the package (not the report's poems): LSTMs of "
            f"{counted(n['hidden'], 'unit')} with 1 to {LAYERS[-1]} layers on {FEW} lines, and one layer on more; "
            f"Adam at 0.01, {counted(n['updates'], 'update')} of 16 lines, without dropout, "
            f"{counted(len(n['seeds']), 'random seed')}. The dev text is 300 lines with other dates; training "
            "perplexity is that of the first 300 lines, where there are more.",
        )

    def figures(self) -> dict[str, Any]:
        n = self.measured
        models = {f"1 {FEW}": "#0072b2", f"{LAYERS[-1]} {FEW}": "#d55e00", f"1 {LINES[-1]}": "#009e73"}
        places = [n["every"] * (k + 1) for k in range(n["updates"] // n["every"])]
        curves = [Line(_model(name), n["trained"][name]["path"], colour) for name, colour in models.items()]
        return {"curves": line_figure(curves, places, titles=("update", "dev perplexity"), type="log")}


HELP = help_text(__doc__, "overfitting", "--hidden 128 --out overfitting")
QUICK = {"updates": 60, "hidden": 24}


def run(
    updates: Annotated[int, Option("Updates of each training.", "N", minimum=10)] = 400,
    *,
    hidden: Hidden = 32,
    seeds: Seeds = 5,
    seed: Seed = 0,
) -> Overfitting:
    """Train each model, and measure it on its own lines and on others as it learns.

    >>> result = run(10, hidden=2, seeds=1)
    >>> len(result.data["trained"])
    5
    """
    check_counts(updates=updates, hidden=hidden, seeds=seeds)
    clock, numbers = Clock(), seed_numbers(seed, seeds)
    models = [*((layers, FEW) for layers in LAYERS), *((1, lines) for lines in LINES[1:])]
    every = max(1, updates // 10)
    trained = {}
    for layers, lines in models:
        each = [train(layers, hidden, lines, updates, every, number) for number in numbers]
        trained[f"{layers} {lines}"] = {
            "train": [own for own, _ in each], "dev": [path[-1] for _, path in each],
            "best": [min(path) for _, path in each], "path": mean_path([path for _, path in each]),
        }  # fmt: skip
    data = {"trained": trained, "every": every, "updates": updates, "hidden": hidden, "seeds": numbers}
    return Overfitting(data, clock.seconds)


def train(layers: int, hidden: int, count: int, updates: int, every: int, seed: int) -> tuple[float, list[float]]:
    """Perplexity on its own lines in the end, and on the dev text after every few updates."""
    lines = dates(LINES[-1])  # one vocabulary for all
    own = lines.train[:, :count]
    with seeded(seed):
        network = Reader(LSTM(16, hidden, num_layers=layers), lines.tokens, lines.tokens)
        path, watch = record(every, lambda: perplexity(network, lines.dev))
        fit(network, lambda: loss(network, draw(own, 16)), updates, lr=0.01, watch=watch)
        return perplexity(network, own[:, :300]), path
