"""The same model with four optimizers, at one learning rate and each at its own."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Annotated, Any

from ...errors import ArgumentError, check_counts
from ...report import Page, figure
from ...wording import counted
from ..claim import Claim, Numbers, Outcome, Verdict, by_case, holds_for, undecided
from ..finding import Exercise, Finding, Table
from ..learning import MODEL, Curve, corpus
from ..measured import Clock
from ..options import Option, Seed, Seeds, help_text, seed_numbers
from ..words import listing, mean_and_spread

RATES = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
PRINTED = 0.01  # the source's learning rate


@dataclass(frozen=True)
class Kind:
    label: str
    colour: str
    settings: dict[str, Any]


OPTIMIZERS = {
    "rmsprop": Kind("RMSprop", "#d55e00", {"optimizer": "rmsprop"}),
    "adam": Kind("Adam", "#0072b2", {"optimizer": "adam"}),
    "sgd": Kind("SGD, momentum 0.9", "#009e73", {"optimizer": "sgd", "momentum": 0.9}),
    "adadelta": Kind("Adadelta", "#cc79a7", {"optimizer": "adadelta"}),
}


@dataclass(frozen=True)
class Trained:
    """One optimizer at one learning rate, from one seed or several."""

    optimizer: str
    rate: float
    curves: tuple[Curve, ...]

    @property
    def perplexities(self) -> list[float | None]:
        """On dates that were held out, after the last epoch, of each seed; None: the training diverged."""
        return [curve.perplexity if math.isfinite(curve.perplexity) else None for curve in self.curves]

    def updates_to(self, goal: float) -> list[int | None]:
        """After how many updates the loss that is logged is first below `goal`, with each seed; None: never."""
        logged = [zip(curve.steps, curve.losses, strict=True) for curve in self.curves]
        return [next((step for step, loss in each if loss < goal), None) for each in logged]

    @property
    def curve(self) -> Curve:
        """The mean over the seeds."""
        whole = [curve for curve in self.curves if not curve.diverged] or list(self.curves)[:1]
        losses = tuple(map(fmean, zip(*(curve.losses for curve in whole), strict=True)))
        return Curve(whole[0].steps, losses, (), any(curve.diverged for curve in self.curves))


CASES = {"same": f"a rate of {PRINTED:g} for all", "own": "each optimizer's own best rate"}


def _updates(numbers: Numbers, case: str, name: str) -> list[float]:
    """Of each seed, until the loss is reached; infinite where it is not."""
    return [math.inf if value is None else value for value in numbers["updates"][case][name]]


def _perplexities(numbers: Numbers, case: str, name: str) -> list[float]:
    """Of each seed, at the end; infinite where it diverged."""
    rate = PRINTED if case == "same" else numbers["best_rates"][name]
    one = next(one for one in numbers["trained"] if (one["optimizer"], one["rate"]) == (name, rate))
    return [math.inf if value is None else value for value in one["perplexities"]]


def _last(numbers: Numbers) -> int:
    """The updates of a whole training."""
    return max(one["steps"][-1] for one in numbers["trained"] if one["steps"])


def _listed(numbers: Numbers) -> str:
    parts = []
    for case, label in CASES.items():
        each = [
            f"{OPTIMIZERS[name].label} {_speed(numbers, _updates(numbers, case, name))}"
            for name in numbers["best_rates"]
        ]
        goal = numbers["goals"][case]
        parts.append(f"Updates with {label}, until the training loss is below {goal:.2f}: {listing(each)}.")
    return " ".join(parts)


def _speed(numbers: Numbers, values: Sequence[float]) -> str:
    reached = [value for value in values if value < math.inf]
    if len(reached) == len(values):
        return mean_and_spread(values, 0)
    never = f"not in {_last(numbers)}"
    return f"{never} with {len(values) - len(reached)} of {len(values)} seeds" if reached else never


def _spread(values: Sequence[float]) -> str:
    return "diverges" if math.inf in values else mean_and_spread(values)


def slower(one: float, other: float, factor: float, last: int) -> bool | None:
    """Whether `one` takes more than `factor` times as many updates as `other`; inf: more than `last`. None: unknown.

    >>> slower(150, 90, 1.5, 200), slower(math.inf, 90, 1.5, 200), slower(math.inf, 150, 1.5, 200)
    (True, True, None)
    """
    if math.isinf(other):
        return None if math.isinf(one) else False
    if math.isinf(one):
        return True if last >= factor * other else None
    return one > factor * other


def _every(parts: Iterable[bool | None]) -> bool | None:
    """Whether all are so; None if it depends on one that is unknown."""
    known = list(parts)
    return False if False in known else None if None in known else True


def _not(part: bool | None) -> bool | None:
    return None if part is None else not part


def _compare(numbers: Numbers, shown: Callable[[dict[str, float], int], bool | None], text: str = "") -> Verdict:
    """Whether a comparison holds with every seed, at the rate for all and at each optimizer's own; where some did not
    get far enough to be compared, that case is left open."""
    if set(numbers["best_rates"]) != set(OPTIMIZERS):
        return undecided("Not all of the optimizers were run.")
    text += _listed(numbers)
    cases: dict[str, list[bool]] = {}
    for case, label in CASES.items():
        columns = [_updates(numbers, case, name) for name in OPTIMIZERS]
        each = [shown(dict(zip(OPTIMIZERS, row, strict=True)), _last(numbers)) for row in zip(*columns, strict=True)]
        if None not in each:
            cases[label] = [bool(one) for one in each]
    if not cases:
        return undecided(text)
    verdict = by_case(cases, text)
    if len(cases) == len(CASES):
        return verdict
    return {Outcome.HOLDS: holds_for(listing(cases), text), Outcome.FAILS: undecided(text)}.get(
        verdict.outcome, verdict
    )


def _fastest(numbers: Numbers, tolerance: float) -> Verdict:
    def shown(of: dict[str, float], last: int) -> bool | None:
        return _every(slower(of[name], of["rmsprop"], 1, last) for name in OPTIMIZERS if name != "rmsprop")

    return _compare(numbers, shown)


def _adam(numbers: Numbers, tolerance: float) -> Verdict:
    def shown(of: dict[str, float], last: int) -> bool | None:
        faster, much = (
            slower(of["rmsprop"], of["adam"], 1, last),
            slower(of["adam"], of["rmsprop"], 1 + tolerance, last),
        )
        return _every((_not(faster), _not(much)))

    text = ""
    for case, label in CASES.items():
        if {"rmsprop", "adam"} <= set(numbers["best_rates"]):
            pairs = list(zip(*(_updates(numbers, case, name) for name in ("rmsprop", "adam")), strict=True))
            if all(max(pair) < math.inf for pair in pairs):
                ratio = fmean(adam / rms for rms, adam in pairs)
                text += f"Adam takes {ratio:.2f} times the updates of RMSprop with {label}. "
    return _compare(numbers, shown, text)


def _slow(numbers: Numbers, tolerance: float) -> Verdict:
    def shown(of: dict[str, float], last: int) -> bool | None:
        pairs = itertools.product(("sgd", "adadelta"), ("rmsprop", "adam"))
        return _every(slower(of[slow], of[fast], 1 + tolerance, last) for slow, fast in pairs)

    return _compare(numbers, shown)


def _end(trained: Trained) -> float:
    """The last loss; infinite where a training diverged."""
    end = trained.curve.losses[-1] if trained.curve.losses else math.inf
    return end if math.isfinite(end) and not trained.curve.diverged else math.inf


@dataclass(frozen=True)
class Optimizers(Finding):
    """What :func:`run` gives."""

    name = "optimizers"
    title = "Which optimizer is fastest"
    trains = True
    claims = (
        Claim(
            "fastest",
            "In general RMSProp is the best one, which converge fastest.",
            "002 Optimizer",
            "with every random seed RMSprop brings the training loss below a quarter above the lowest one in fewer "
            "updates than the others, with one rate for all, and with each optimizer's own best rate.",
            _fastest,
            seeds=5,
        ),
        Claim(
            "adam",
            "Adam is like RMSProp, only a little slower than it.",
            "002 Optimizer",
            "with every random seed Adam takes as many updates as RMSprop to reach that loss or more, by at most "
            "{tolerance} of them.",
            _adam,
            tolerance=0.2,
            seeds=5,
        ),
        Claim(
            "slow",
            "Adadelta and SGD are much more slower than them.",
            "002 Optimizer",
            "with every random seed both take more updates than the other two to reach that loss, by more than "
            "{tolerance} of them.",
            _slow,
            tolerance=0.5,
            seeds=5,
        ),
    )
    exercises = (
        Exercise(
            "With a constant gradient, how long is a step of RMSprop after many steps? And of SGD?",
            "\\(v\\) tends to \\(g^2\\), so the step tends to \\(\\eta\\), however large the gradient is. A step of "
            "SGD has the length \\(\\eta |g|\\).",
        ),
        Exercise(
            "Why is the first step of RMSprop with \\(\\rho = 0.99\\) ten times as long as \\(\\eta\\)?",
            "\\(v_1 = 0.01 g^2\\), so that \\(g / \\sqrt{v_1} = 10\\). Adam divides \\(v\\) by "
            "\\(1 - \\rho^t\\), so that its first step has the length \\(\\eta\\): one rate for both is not "
            "one length of step for both.",
        ),
    )
    code = """
from carousel.lab.claims.optimizers import OPTIMIZERS
from carousel.lab.learning import corpus

with corpus(640, seed=0) as dates:
    for name in ("rmsprop", "adam"):
        _, curve = dates.train(**OPTIMIZERS[name].settings, lr=0.01, epochs=1)
        print(name, curve.losses)
"""

    trained: tuple[Trained, ...]
    lines: int
    epochs: int
    seeds: tuple[int, ...]
    seconds: float

    @property
    def kinds(self) -> list[str]:
        return list(dict.fromkeys(one.optimizer for one in self.trained))

    def at(self, optimizer: str, rate: float = PRINTED) -> Trained:
        return next(one for one in self.trained if (one.optimizer, one.rate) == (optimizer, rate))

    def best(self, optimizer: str) -> Trained:
        """At the rate that gives the lowest perplexity from the first seed."""
        own = (one for one in self.trained if one.optimizer == optimizer)
        return min(own, key=lambda one: one.curves[0].perplexity)

    def numbers(self) -> dict[str, Any]:
        compared = {
            "same": {name: self.at(name) for name in self.kinds},
            "own": {name: self.best(name) for name in self.kinds},
        }
        goals = {case: 1.25 * min(_end(one) for one in each.values()) for case, each in compared.items()}
        trained = [
            {
                "optimizer": one.optimizer, "rate": one.rate, "perplexities": one.perplexities,
                "steps": one.curve.steps,
                "losses": [loss if math.isfinite(loss) else None for loss in one.curve.losses],
            }
            for one in self.trained
        ]  # fmt: skip
        return {
            "trained": trained, "best_rates": {name: self.best(name).rate for name in self.kinds},
            "goals": goals, "updates": {
                case: {name: one.updates_to(goals[case]) for name, one in each.items()}
                for case, each in compared.items()
            },
            "lines": self.lines, "epochs": self.epochs,
            "seeds": self.seeds, "seconds": self.seconds,
        }  # fmt: skip

    @staticmethod
    def table(numbers: Numbers) -> Table:
        rows = []
        for name, rate in numbers["best_rates"].items():
            cells: list[str] = []
            for case in CASES:
                cells += [
                    _speed(numbers, _updates(numbers, case, name)),
                    _spread(_perplexities(numbers, case, name)),
                ]
            rows.append([OPTIMIZERS[name].label, *cells[:2], f"{rate:g}", *cells[2:]])
        same = [f"updates at {PRINTED:g}", "perplexity"]
        return ["optimizer", *same, "best rate", "updates there", "perplexity there"], rows

    @staticmethod
    def lead(numbers: Numbers) -> str:
        return f"{_listed(numbers)} With {counted(len(numbers['seeds']), 'random seed')}."

    def setup(self) -> Sequence[str]:
        return (
            f"The same small LSTM language model ({MODEL['hidden']} units), trained by the package's own engine on "
            f"{self.lines:,} dates as people write them, which the package makes, for "
            f"{counted(self.epochs, 'epoch')} with batches of {MODEL['batch_size']}: with each optimizer, at "
            f"{counted(len({o.rate for o in self.trained}), 'learning rate')}; at {PRINTED:g} and at the best of them "
            f"from {counted(len(self.seeds), 'random seed')}. Shown is the mean, with the smallest and the "
            "largest. Perplexity is that of 500 dates that were held out, after the last update; by the same the best "
            "rate is chosen, for all alike, with the first seed.",
            f"The source has {PRINTED:g} for its learning rate and does not name another for any optimizer. How "
            f"fast an optimizer is, is the number of updates until the training loss, a mean over {MODEL['log_steps']} "
            "updates, is less than a quarter above the lowest that one of them ends at: one loss for the rate for all, "
            "and one for the best rates.",
            "RMSprop is PyTorch's, which divides by \\(\\sqrt{v} + \\epsilon\\), not by \\(\\sqrt{v + \\epsilon}\\) as "
            "printed (`carousel lab saddle` compares the two). One rate for all compares rates as much as optimizers: "
            "RMSprop and Adam divide by the size of the gradient, so that a rate is a length, and SGD and Adadelta do "
            "not take theirs in the same unit.",
        )

    def render(self, page: Page) -> None:
        drawn = self.figures()
        page.figure(
            drawn["loss"], "The loss, update by update",
            f"Above at a rate of {PRINTED:g} for all, as in the source; below each at the best of the rates tried.",
        ).table(*self.table(self.measured))  # fmt: skip
        page.figure(
            drawn["rates"], "Perplexity against the learning rate",
            "After the same number of updates. Each optimizer has its own place on this axis. What breaks off above "
            "has left the figure.",
        )  # fmt: skip

    def figures(self) -> dict[str, Any]:
        loss = figure(640, [f"at {PRINTED:g}", "each at its best rate"], hovermode="x")
        rates = figure(380, hovermode="x")
        for name in self.kinds:
            kind = OPTIMIZERS[name]
            line = {"color": kind.colour, "width": 1.8}
            for row, one in ((1, self.at(name)), (2, self.best(name))):
                loss.add_scatter(
                    x=one.curve.steps, y=one.curve.losses, name=kind.label, legendgroup=name, showlegend=row == 1,
                    line=line, row=row, col=1,
                )  # fmt: skip
            every = sorted((one for one in self.trained if one.optimizer == name), key=lambda one: one.rate)
            rates.add_scatter(
                x=[one.rate for one in every],
                y=[None if None in one.perplexities else fmean(map(float, one.perplexities)) for one in every],  # type: ignore[arg-type]
                name=kind.label, mode="lines+markers", line=line,
            )  # fmt: skip
        loss.update_yaxes(title_text="loss").update_xaxes(title_text="updates", row=2, col=1)
        rates.update_xaxes(type="log", dtick=1, title_text="learning rate")
        rates.update_yaxes(type="log", range=[0.4, 2.6], title_text="dev perplexity")
        return {"loss": loss, "rates": rates}


QUICK = {"rates": (0.03, 1.0, 10.0), "lines": 1280, "epochs": 2, "seeds": 1}
HELP = help_text(
    "The same model with four optimizers: at one learning rate, as the text has it, and each at its own best.",
    "optimizers",
    "--seeds 10 --out optimizers",
)


def run(
    rates: Sequence[float] = RATES,
    *,
    lines: int = 3200,
    epochs: Annotated[int, Option("Epochs of each training.", "N", minimum=1)] = 4,
    seed: Seed = 0,
    seeds: Seeds = 5,
) -> Optimizers:
    """Train the same model with each optimizer at each of `rates`; at 0.01 and at the best of them from all `seeds`.

    The source's own rate, 0.01, is always among them.
    """
    check_counts(lines=lines, epochs=epochs, seeds=seeds)
    if any(not 0 < rate < math.inf for rate in rates):
        raise ArgumentError(f"rates must be numbers above 0, got {list(rates)}")
    clock = Clock()
    numbers = tuple(seed_numbers(seed, seeds))
    trained: list[Trained] = []
    with corpus(lines, seed) as dates:

        def train(name: str, rate: float, number: int) -> Curve:
            return dates.train(**OPTIMIZERS[name].settings, lr=rate, epochs=epochs, seed=number)[1]

        for name in OPTIMIZERS:
            curves = {rate: [train(name, rate, seed)] for rate in sorted({*rates, PRINTED})}
            best = min(curves, key=lambda rate: curves[rate][0].perplexity)
            for rate in {PRINTED, best}:
                curves[rate] += [train(name, rate, number) for number in numbers[1:]]
            trained += [Trained(name, rate, tuple(each)) for rate, each in curves.items()]
    return Optimizers(tuple(trained), lines, epochs, numbers, clock.seconds)
