"""Hidden size and learning rate of a small language model."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import Annotated, Any

from ...errors import check_counts
from ...layers import LSTM
from ...report import figure
from ..claim import Claim, Numbers, Verdict, by_seed, exceeds
from ..drawing import Line, line_figure
from ..finding import Exercise, Table, short_run
from ..fitting import Reader, fit, mean_path, seeded
from ..measured import Clock, Measured
from ..options import Option, Seed, Seeds, help_text, seed_numbers
from ..text import dates, draw, loss, perplexity
from ..words import mean_and_spread

SIZES = (2, 8, 32, 64)
RATES = (0.001, 0.01, 0.1)
BASE_SIZE, BASE_RATE = 32, 0.01
BEGINNING = 20  # updates


def _hidden(numbers: Numbers, tolerance: float) -> Verdict:
    rows = [numbers["sizes"][str(size)] for size in SIZES]
    text = "; ".join(f"{size} units {mean_and_spread(row)}" for size, row in zip(SIZES, rows, strict=True))
    text = (
        f"Dev perplexity after {numbers['updates']} updates: {text}. Whether cells communicate, the run does not show."
    )
    small, large = rows[0], rows[SIZES.index(BASE_SIZE)]
    return by_seed([a > b * tolerance for a, b in zip(small, large, strict=True)], text, "the performance")


def _rate(numbers: Numbers, tolerance: float) -> Verdict:
    slow, good = (numbers["rates"][str(rate)] for rate in (0.001, 0.01))
    start = {rate: mean_and_spread(numbers["rates"][str(rate)]["beginning"]) for rate in (0.001, 0.01)}
    end = {rate: mean_and_spread(numbers["rates"][str(rate)]["dev"]) for rate in RATES}
    text = (
        f"The training loss after {BEGINNING} updates is {start[0.01]} at 0.01 and {start[0.001]} at 0.001; dev "
        f"perplexity at the end is {end[0.01]} and {end[0.001]}, and at 0.1 {end[0.1]}."
    )
    slower = exceeds(slow["beginning"], good["beginning"], tolerance)
    return by_seed(slower, text, "the beginning of the training")


class Hyperparameters(Measured):
    """What :func:`run` gives."""

    name = "hyperparameters"
    title = "Hidden size and learning rate"
    trains = True
    claims = (
        Claim(
            "hidden",
            "I find that hidden size really matters. If the hidden size is not large enough, LSTM cell cannot "
            "communicate with each other well, reducing the performance of the output",
            "002 Initialization, hidden size",
            f"with every seed the dev perplexity of {SIZES[0]} units is more than {{tolerance}} times that of "
            f"{BASE_SIZE}.",
            _hidden,
            tolerance=1.1,
            seeds=5,
        ),
        Claim(
            "rate",
            "learning rate with 0.01 works extremely well with Adam in my case. I have tried 0.001 but just made it "
            "slower to decrease at the beginning",
            "002 Initialization, learning rate",
            f"with every seed the loss after {BEGINNING} updates is higher by more than {{tolerance}} at 0.001. How "
            "long the difference lasts, a short run cannot say.",
            _rate,
            tolerance=0.1,
            seeds=5,
        ),
    )
    exercises = (
        Exercise(
            "How many recurrent parameters does an LSTM with 2 units and 16 inputs have, and one with 32?",
            "\\(4h(16 + h + 2)\\): 160 and 6,400 (with torch's two biases).",
        ),
        Exercise(
            "Adam moves each weight by about the learning rate at first, whatever the gradient. How far can weights go "
            "in 20 updates at 0.001?",
            "About 0.02: little beside their initial size of up to \\(1/\\sqrt{h} = 0.18\\).",
        ),
    )
    code = short_run(name, "updates=20, seeds=1")
    captions = {
        "rates": ("The training loss by learning rate", f"{BASE_SIZE} units, mean over the seeds."),
        "sizes": ("Dev perplexity by hidden size", f"Learning rate {BASE_RATE}; a point for each seed."),
    }

    @staticmethod
    def lead(numbers: Numbers) -> str:
        sizes = {size: fmean(numbers["sizes"][str(size)]) for size in SIZES}
        rates = {rate: fmean(numbers["rates"][str(rate)]["dev"]) for rate in RATES}
        return (
            f"Dev perplexity is {sizes[SIZES[0]]:.2f} with {SIZES[0]} units and {sizes[SIZES[-1]]:.2f} with "
            f"{SIZES[-1]}; {rates[0.001]:.2f} at a learning rate of 0.001, {rates[0.01]:.2f} at 0.01 and "
            f"{rates[0.1]:.2f} at 0.1."
        )

    @staticmethod
    def table(numbers: Numbers) -> Table:
        rows = []
        for size in SIZES:
            if size != BASE_SIZE:
                rows.append([f"{size} units", str(BASE_RATE), mean_and_spread(numbers["sizes"][str(size)]), "–"])
                continue
            for rate in RATES:
                row = numbers["rates"][str(rate)]
                rows.append([
                    f"{size} units", str(rate), mean_and_spread(row["dev"]), mean_and_spread(row["beginning"]),
                ])  # fmt: skip
        return ["network", "learning rate", "dev perplexity", f"loss after {BEGINNING} updates"], rows

    def setup(self) -> Sequence[str]:
        n = self.measured
        return (
            f"Language models of dates, character by character, which the package makes (not of the report's poems): "
            f"an LSTM with embeddings of 16, Adam, {n['updates']} updates of 16 lines, {len(n['seeds'])} seeds, "
            "without dropout. Perplexity is that of 300 lines with other dates.",
        )

    def figures(self) -> dict[str, Any]:
        n = self.measured
        colours = ("#56b4e9", "#0072b2", "#d55e00")
        curves = [Line(f"{rate:g}", n["rates"][str(rate)]["path"], c) for rate, c in zip(RATES, colours, strict=True)]
        rates = line_figure(curves, titles=("update", "loss"), height=380)
        sizes = figure(340, hovermode="closest")
        for k in range(len(n["seeds"])):
            values = [n["sizes"][str(size)][k] for size in SIZES]
            sizes.add_scatter(x=list(SIZES), y=values, mode="markers", marker={"color": "#0072b2"}, showlegend=False)
        sizes.update_xaxes(type="log", title_text="hidden units", tickvals=SIZES)
        sizes.update_yaxes(type="log", title_text="perplexity")
        return {"rates": rates, "sizes": sizes}


HELP = help_text(__doc__, "hyperparameters", "--updates 400 --out hyperparameters")
QUICK = {"updates": 60}


def run(
    updates: Annotated[int, Option("Updates of each training.", "N", minimum=BEGINNING)] = 120,
    *,
    seeds: Seeds = 5,
    seed: Seed = 0,
) -> Hyperparameters:
    """Train with each size and each rate.

    >>> result = run(20, seeds=1)
    >>> sorted(result.data["rates"])
    ['0.001', '0.01', '0.1']
    """
    check_counts(updates=updates, seeds=seeds)
    clock, numbers = Clock(), seed_numbers(seed, seeds)
    trained = {
        (size, rate): [train(size, rate, updates, number) for number in numbers]
        for size, rate in {*((size, BASE_RATE) for size in SIZES), *((BASE_SIZE, rate) for rate in RATES)}
    }
    rates = {}
    for rate in RATES:
        each = trained[BASE_SIZE, rate]
        rates[str(rate)] = {
            "dev": [dev for dev, _ in each], "beginning": [path[BEGINNING - 1] for _, path in each],
            "path": mean_path([path for _, path in each]),
        }  # fmt: skip
    sizes = {str(size): [dev for dev, _ in trained[size, BASE_RATE]] for size in SIZES}
    return Hyperparameters({"sizes": sizes, "rates": rates, "updates": updates, "seeds": numbers}, clock.seconds)


def train(size: int, rate: float, updates: int, seed: int) -> tuple[float, list[float]]:
    """The dev perplexity, and the loss of each update."""
    lines = dates(2000)
    with seeded(seed):
        network = Reader(LSTM(16, size), lines.tokens, lines.tokens)
        path = fit(network, lambda: loss(network, draw(lines.train, 16)), updates, lr=rate)
        return perplexity(network, lines.dev), path
