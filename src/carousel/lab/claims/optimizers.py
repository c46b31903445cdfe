"""The same model with four optimizers, at one learning rate and each at its own."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Annotated, Any

from ...errors import ArgumentError, check_counts
from ...report import Page, figure
from ..learning import MODEL, Curve, corpus
from ..old_finding import Claim, Finding, Verdict
from ..options import Option, Seed
from ..words import listing

RATES = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
PRINTED = 0.01  # the text's learning rate


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
    def perplexity(self) -> float:
        """On dates that were held out, after the last epoch, mean over the seeds."""
        return fmean(curve.perplexity for curve in self.curves)

    @property
    def curve(self) -> Curve:
        """The mean over the seeds."""
        whole = [curve for curve in self.curves if not curve.diverged] or list(self.curves)[:1]
        losses = tuple(map(fmean, zip(*(curve.losses for curve in whole), strict=True)))
        return Curve(whole[0].steps, losses, (), any(curve.diverged for curve in self.curves))

    def updates_to(self, goal: float) -> int | None:
        """After how many updates the loss is first below `goal`."""
        curve = self.curve
        return next((step for step, loss in zip(curve.steps, curve.losses, strict=True) if loss < goal), None)


@dataclass(frozen=True)
class Optimizers(Finding):
    """What :func:`run` gives."""

    name = "optimizers"
    title = "Which optimizer is fastest"
    claim = Claim(
        "Of Adam, RMSprop, SGD with momentum and Adadelta, RMSprop is the best and converges fastest; Adam is only a "
        "little slower; Adadelta and SGD are much slower.",
        "002 Optimizer",
        ("v = ρ v₋ + (1 − ρ) g²", "w = w₋ − η / √(v + ε) · g", "η = 0.01"),
    )

    trained: tuple[Trained, ...]
    lines: int
    epochs: int
    seeds: tuple[int, ...]
    seconds: float

    @property
    def seed(self) -> int:  # type: ignore[override]
        return self.seeds[0]

    @property
    def kinds(self) -> list[str]:
        return list(dict.fromkeys(one.optimizer for one in self.trained))

    def at(self, optimizer: str, rate: float = PRINTED) -> Trained:
        return next(one for one in self.trained if (one.optimizer, one.rate) == (optimizer, rate))

    def best(self, optimizer: str) -> Trained:
        """At the rate that gives the lowest perplexity from the first seed."""
        own = (one for one in self.trained if one.optimizer == optimizer)
        return min(own, key=lambda one: one.curves[0].perplexity)

    @property
    def goal(self) -> float:
        """The loss that counts as learned: a quarter above the lowest of all."""
        return 1.25 * min(one.curve.losses[-1] for one in map(self.best, self.kinds))

    def _rows(self) -> list[list[str]]:
        rows = []
        for name in self.kinds:
            same, own = self.at(name), self.best(name)
            rows.append(
                [
                    OPTIMIZERS[name].label, f"{same.perplexity:.2f}", str(same.updates_to(self.goal) or "never"),
                    f"{own.rate:g}", f"{own.perplexity:.2f}", str(own.updates_to(self.goal) or "never"),
                ]
            )  # fmt: skip
        return rows

    def __str__(self) -> str:
        head = ["optimizer", f"rate {PRINTED:g}", "updates", "its best", "perplexity", "updates"]
        widths = [18, 9, 8, 9, 11, 8]
        return "\n".join(
            f"{first:{widths[0]}}" + "".join(f"{cell:>{w}}" for cell, w in zip(rest, widths[1:], strict=True))
            for first, *rest in [head, *self._rows()]
        )

    def lead(self) -> str:
        same = sorted(self.kinds, key=lambda name: self.at(name).perplexity)
        own = sorted(self.kinds, key=lambda name: self.best(name).perplexity)
        first, last = self.at(same[0]), self.at(same[-1])
        return (
            f"At a learning rate of {PRINTED:g} for all, {OPTIMIZERS[same[0]].label} ends at a perplexity of "
            f"{first.perplexity:.2f} and {OPTIMIZERS[same[-1]].label} at {last.perplexity:.2f}. Each at its own best "
            f"rate, they end between {self.best(own[0]).perplexity:.2f} ({OPTIMIZERS[own[0]].label}) and "
            f"{self.best(own[-1]).perplexity:.2f} ({OPTIMIZERS[own[-1]].label})."
        )

    def ran(self) -> Sequence[str]:
        return (
            f"The same small LSTM language model ({MODEL['hidden']} units), trained by the package's own engine on "
            f"{self.lines:,} dates as people write them, which the package makes, for {self.epochs} epochs with "
            f"batches of {MODEL['batch_size']}: with each optimizer, at {len({o.rate for o in self.trained})} learning "
            f"rates; at {PRINTED:g} and at the best of them from {len(self.seeds)} seeds, of which the mean is shown. "
            "Perplexity is that of 500 dates that were held out; by the same the best rate is chosen, for all alike.",
            f"The text has {PRINTED:g} for its learning rate and does not say that it was another for any optimizer. "
            f"Learned is what has a loss of at most {self.goal:.2f}, a quarter above the lowest.",
        )

    def tell(self, page: Page) -> None:
        drawn = self.figures()
        page.figure(
            drawn["loss"], "The loss, update by update",
            f"Above at a rate of {PRINTED:g} for all, as the text's; below each at the best of the rates tried.",
        )  # fmt: skip
        page.table(
            ["optimizer", f"perplexity at {PRINTED:g}", "updates to learn", "its best rate", "perplexity there",
             "updates to learn"], self._rows(),
        )  # fmt: skip
        page.figure(
            drawn["rates"], "Perplexity against the learning rate",
            "After the same number of updates. Each optimizer has its own place on this axis. What breaks off above "
            "has left the figure.",
        )  # fmt: skip

    def _order(self) -> tuple[bool, bool]:
        """At the text's rate: is RMSprop first, then Adam; are both much better than the others?"""
        p = {name: self.at(name).perplexity for name in self.kinds}
        slow = min(p["sgd"], p["adadelta"])
        return p["rmsprop"] <= p["adam"], max(p["rmsprop"], p["adam"]) < 0.9 * slow

    def _behind(self) -> float:
        """Adam's perplexity as a multiple of RMSprop's, at the text's rate."""
        return self.at("adam").perplexity / self.at("rmsprop").perplexity

    def verdict(self) -> Verdict:
        if set(self.kinds) != set(OPTIMIZERS):
            return Verdict(None, "Not all of the optimizers were run.")
        first, apart = self._order()
        own = sorted(self.kinds, key=lambda name: self.best(name).perplexity)
        near = listing(f"{OPTIMIZERS[n].label} {self.best(n).perplexity:.2f} at {self.best(n).rate:g}" for n in own)
        same = listing(f"{OPTIMIZERS[n].label} {self.at(n).perplexity:.2f}" for n in self.kinds)
        told = f"At {PRINTED:g} for all: {same}."
        if first and apart:
            told += " That is the text's order"
            told += ", though Adam is more than a little behind." if self._behind() > 1.2 else "."
        elif apart:
            told += " SGD and Adadelta are much slower, as the text says; but Adam is before RMSprop."
        else:
            told += " That is not the text's order."
        return Verdict(
            first and apart,
            f"{told} Each at its own best rate: {near}. One rate for all compares rates as much as optimizers: "
            "RMSprop and Adam divide by the size of the gradient, so that a rate is a length, and SGD and Adadelta "
            "do not take theirs in the same unit.",
        )

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
                y=[one.perplexity if math.isfinite(one.perplexity) else None for one in every], name=kind.label,
                mode="lines+markers", line=line,
            )  # fmt: skip
        loss.update_yaxes(title_text="loss").update_xaxes(title_text="updates", row=2, col=1)
        rates.update_xaxes(type="log", dtick=1, title_text="learning rate")
        rates.update_yaxes(type="log", range=[0.4, 2.6], title_text="dev perplexity")
        return {"loss": loss, "rates": rates}

    def numbers(self) -> dict[str, Any]:
        told = [
            {"optimizer": one.optimizer, "rate": one.rate, "curves": [vars(curve) for curve in one.curves]}
            for one in self.trained
        ]
        return {"trained": told, **{name: getattr(self, name) for name in ("lines", "epochs", "seeds", "seconds")}}


HELP = """The same model with four optimizers: at one learning rate, as the text has it, and each at its own best.

\b
carousel lab optimizers
carousel lab optimizers --seeds 5 --out optimizers
"""


def run(
    rates: Sequence[float] = RATES,
    *,
    lines: int = 3200,
    epochs: Annotated[int, Option("Epochs of each training.", "N", minimum=1)] = 4,
    seeds: Annotated[int, Option("Trainings at 0.01, and at the best rate.", "N", minimum=1)] = 3,
    seed: Seed = 0,
) -> Optimizers:
    """Train the same model with each optimizer at each of `rates`; at 0.01 and at the best of them from all `seeds`.

    The text's own rate, 0.01, is always among them.
    """
    check_counts(lines=lines, epochs=epochs, seeds=seeds)
    if any(not 0 < rate < math.inf for rate in rates):
        raise ArgumentError(f"rates must be numbers above 0, got {list(rates)}")
    began = time.perf_counter()
    numbers = tuple(range(seed, seed + seeds))
    found: list[Trained] = []
    with corpus(lines, seed) as dates:

        def train(name: str, rate: float, number: int) -> Curve:
            return dates.train(**OPTIMIZERS[name].settings, lr=rate, epochs=epochs, seed=number)[1]

        for name in OPTIMIZERS:
            curves = {rate: [train(name, rate, seed)] for rate in sorted({*rates, PRINTED})}
            best = min(curves, key=lambda rate: curves[rate][0].perplexity)
            for rate in {PRINTED, best}:
                curves[rate] += [train(name, rate, number) for number in numbers[1:]]
            found += [Trained(name, rate, tuple(each)) for rate, each in curves.items()]
    return Optimizers(tuple(found), lines, epochs, numbers, time.perf_counter() - began)
