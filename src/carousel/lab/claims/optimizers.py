"""The same model with four optimizers, at one learning rate and each at its own."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Annotated, Any

from ...errors import ArgumentError, check_counts
from ...report import Page, figure
from ...wording import counted
from ..claim import Claim, Numbers, Verdict, by_case, undecided
from ..finding import Exercise, Finding, Table
from ..learning import MODEL, Curve, corpus
from ..options import Option, Seed, Seeds
from ..words import listing, mean_and_spread

RATES = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
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

    @property
    def curve(self) -> Curve:
        """The mean over the seeds."""
        whole = [curve for curve in self.curves if not curve.diverged] or list(self.curves)[:1]
        losses = tuple(map(fmean, zip(*(curve.losses for curve in whole), strict=True)))
        return Curve(whole[0].steps, losses, (), any(curve.diverged for curve in self.curves))


def _at(numbers: Numbers, name: str, rate: float = PRINTED) -> list[float]:
    """The perplexity of each seed; infinite where it diverged."""
    one = next(one for one in numbers["trained"] if (one["optimizer"], one["rate"]) == (name, rate))
    return [math.inf if value is None else value for value in one["perplexities"]]


def _own(numbers: Numbers, name: str) -> list[float]:
    """The same at the optimizer's own best rate."""
    return _at(numbers, name, numbers["best_rates"][name])


def _listed(numbers: Numbers) -> str:
    def each(values: Any) -> str:
        return listing(f"{OPTIMIZERS[name].label} {_spread(values(numbers, name))}" for name in numbers["best_rates"])

    return f"Perplexity at {PRINTED:g} for all: {each(_at)}. Each at its own best rate: {each(_own)}."


def _spread(values: Sequence[float]) -> str:
    return "diverges" if math.inf in values else mean_and_spread(values)


def _compare(numbers: Numbers, shown: Callable[[Any], list[bool]], text: str = "") -> Verdict:
    """Whether a comparison holds with every seed, at the rate for all and at each optimizer's own."""
    if set(numbers["best_rates"]) != set(OPTIMIZERS):
        return undecided("Not all of the optimizers were run.")
    same, own = (shown(lambda name, values=values: values(numbers, name)) for values in (_at, _own))
    cases = {f"a rate of {PRINTED:g} for all": same, "each optimizer's own best rate": own}
    return by_case(cases, f"{text}{_listed(numbers)}")


def _every(*columns: Sequence[float]) -> Iterator[tuple[float, ...]]:
    return zip(*columns, strict=True)


def _fastest(numbers: Numbers, tolerance: float) -> Verdict:
    def shown(of: Any) -> list[bool]:
        others = _every(*(of(name) for name in OPTIMIZERS if name != "rmsprop"))
        return [rms < min(other) for rms, other in zip(of("rmsprop"), others, strict=True)]

    return _compare(numbers, shown)


def _adam(numbers: Numbers, tolerance: float) -> Verdict:
    def shown(of: Any) -> list[bool]:
        return [rms <= adam <= (1 + tolerance) * rms for rms, adam in _every(of("rmsprop"), of("adam"))]

    def ratio(values: Any) -> float:
        return fmean(a / r for r, a in _every(values(numbers, "rmsprop"), values(numbers, "adam")))

    if not {"rmsprop", "adam"} <= set(numbers["best_rates"]):
        return undecided("Not both of the optimizers were run.")
    text = (
        f"Adam's perplexity is {ratio(_at):.2f} times RMSprop's at {PRINTED:g}, {ratio(_own):.2f} times at best rates. "
    )
    return _compare(numbers, shown, text)


def _slow(numbers: Numbers, tolerance: float) -> Verdict:
    def shown(of: Any) -> list[bool]:
        columns = [of(name) for name in ("rmsprop", "adam", "sgd", "adadelta")]
        return [min(sgd, delta) > (1 + tolerance) * max(r, a) for r, a, sgd, delta in _every(*columns)]

    return _compare(numbers, shown)


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
            "with every random seed RMSprop ends at the lowest perplexity, at one rate for all, and at each "
            "optimizer's own best rate.",
            _fastest,
            seeds=5,
        ),
        Claim(
            "adam",
            "Adam is like RMSProp, only a little slower than it.",
            "002 Optimizer",
            "with every random seed Adam's perplexity is above RMSprop's, by at most {tolerance} of it.",
            _adam,
            tolerance=0.2,
            seeds=5,
        ),
        Claim(
            "slow",
            "Adadelta and SGD are much more slower than them.",
            "002 Optimizer",
            "with every random seed both end above the other two by more than {tolerance} of the perplexity.",
            _slow,
            tolerance=0.1,
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
        trained = [
            {
                "optimizer": one.optimizer, "rate": one.rate, "perplexities": one.perplexities,
                "steps": one.curve.steps,
                "losses": [loss if math.isfinite(loss) else None for loss in one.curve.losses],
            }
            for one in self.trained
        ]  # fmt: skip
        lowest = min(self.best(name).curve.losses[-1] for name in self.kinds)
        return {
            "trained": trained, "best_rates": {name: self.best(name).rate for name in self.kinds},
            "goal": 1.25 * lowest, "lines": self.lines, "epochs": self.epochs,
            "seeds": self.seeds, "seconds": self.seconds,
        }  # fmt: skip

    @staticmethod
    def table(numbers: Numbers) -> Table:
        rows = []
        for name, rate in numbers["best_rates"].items():
            cells: list[str] = []
            for given in (PRINTED, rate):
                one = next(o for o in numbers["trained"] if (o["optimizer"], o["rate"]) == (name, given))
                curve = zip(one["steps"], one["losses"], strict=True)
                reached = next((step for step, loss in curve if loss is not None and loss < numbers["goal"]), None)
                last = one["steps"][-1] if one["steps"] else 0
                cells += [_spread(_at(numbers, name, given)), str(reached or f"not in {last}")]
            rows.append([OPTIMIZERS[name].label, *cells[:2], f"{rate:g}", *cells[2:]])
        same = [f"perplexity at {PRINTED:g}", "updates"]
        return ["optimizer", *same, "best rate", "perplexity there", "updates there"], rows

    @staticmethod
    def lead(numbers: Numbers) -> str:
        def ends(values: Any) -> list[tuple[float, str]]:
            return sorted((fmean(values(numbers, name)), OPTIMIZERS[name].label) for name in numbers["best_rates"])

        same, own = ends(_at), ends(_own)
        return (
            f"At a learning rate of {PRINTED:g} for all, {same[0][1]} ends at a perplexity of {same[0][0]:.2f} and "
            f"{same[-1][1]} at {same[-1][0]:.2f}, mean over {counted(len(numbers['seeds']), 'random seed')}. Each "
            f"at its own best rate, they end between {own[0][0]:.2f} ({own[0][1]}) and {own[-1][0]:.2f} ({own[-1][1]})."
        )

    def setup(self) -> Sequence[str]:
        return (
            f"The same small LSTM language model ({MODEL['hidden']} units), trained by the package's own engine on "
            f"{self.lines:,} dates as people write them, which the package makes, for {self.epochs} epochs with "
            f"batches of {MODEL['batch_size']}: with each optimizer, at {len({o.rate for o in self.trained})} learning "
            f"rates; at {PRINTED:g} and at the best of them from {counted(len(self.seeds), 'random seed')}. Shown "
            "is the mean, with the smallest and the largest. Perplexity is that of 500 dates that were held out; by "
            "the same the best rate is chosen, for all alike, with the first seed.",
            f"The source has {PRINTED:g} for its learning rate and does not name another for any optimizer. Updates "
            f"are counted until the training loss is below {self.measured['goal']:.2f}, a quarter above the lowest.",
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
HELP = """The same model with four optimizers: at one learning rate, as the text has it, and each at its own best.

\b
carousel lab optimizers
carousel lab optimizers --seeds 10 --out optimizers
"""


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
    began = time.perf_counter()
    numbers = tuple(range(seed, seed + seeds))
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
    return Optimizers(tuple(trained), lines, epochs, numbers, time.perf_counter() - began)
