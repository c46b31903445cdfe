"""A claim of a source: quoted with its place, and decided by a test over the numbers that a run has saved."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from ..wording import counted
from .words import listing, power

# The sources, by the numbers that the documentation calls them by.
SOURCES = {
    "000": "M. Arora, ECE 684 Natural Language Processing, homework (2024)",
    "001": "J. Huang, 50.039 Theory and Practice of Deep Learning, theory homework 6 (2019)",
    "002": "Assignment 3 report: LSTM variants and Tang poems",
    "003": "M. Ş. Bilici, Recurrent Neural Networks, lecture notes",
    "004": "CIS 522, lecture 12: RNNs and LSTMs (2020)",
}

# Headings that have no numbers, in the order of the source, as far as labs quote what is under them.
HEADINGS = {
    "001": (
        "Cell state and hidden state", "Hidden state derivative", "Forget gate derivative", "Forget gate activation",
    ),
    "002": ("Part 1", "Initialization", "Training", "Generation", "Optimizer", "Why RMSprop works?"),
    "004": (
        "Working memory", "Hippocampus", "How does the number of parameters scale?", "What if we use a deep convnet?",
        "We share weights across time", "how many parameters?", "Activation functions", "Teacher forcing",
        "Backpropagation through time (BPTT)", "RNNs are awful at learning long-term patterns", "A hard task for this",
        "Write new value if makes sense", "Variant: Couple read and write", "Success stories of LSTMs",
        "BiLSTM performance", "biLSTM",
    ),
}  # fmt: skip

Numbers = Mapping[str, Any]  # what numbers.json holds


class Outcome(StrEnum):
    """What a run says about a claim."""

    HOLDS = "holds"
    HOLDS_FOR = "holds for"
    FAILS = "does not hold as printed"
    UNDECIDED = "not decided by this run"


@dataclass(frozen=True)
class Verdict:
    """The outcome, the reason in words, and for HOLDS_FOR the cases it holds for."""

    outcome: Outcome
    reason: str
    cases: str = ""

    @property
    def short(self) -> str:
        """
        >>> holds_for("GRU and LSTM", "Their states stay bounded.").short
        'holds for GRU and LSTM'
        """
        return f"{self.outcome} {self.cases}".rstrip()

    def __str__(self) -> str:
        return f"{self.short[0].upper()}{self.short[1:]}. {self.reason}".rstrip()


def holds(reason: str) -> Verdict:
    return Verdict(Outcome.HOLDS, reason)


def holds_for(cases: str, reason: str) -> Verdict:
    return Verdict(Outcome.HOLDS_FOR, reason, cases)


def fails(reason: str) -> Verdict:
    return Verdict(Outcome.FAILS, reason)


def undecided(reason: str) -> Verdict:
    return Verdict(Outcome.UNDECIDED, reason)


def exceeds(first: Sequence[float], second: Sequence[float], by: float = 0.0) -> list[bool]:
    """With which seeds a number of `first` is above that of `second` by more than `by`.

    >>> exceeds([0.9, 0.5], [0.5, 0.5], by=0.1)
    [True, False]
    """
    return [a > b + by for a, b in zip(first, second, strict=True)]


def by_seed(shown: Sequence[bool], reason: str, cases: str = "") -> Verdict:
    """What every random seed shows holds (for `cases`), what none shows does not; where they disagree, undecided.

    >>> by_seed([True, False], "Adam ends lower.")
    Verdict(outcome=<Outcome.UNDECIDED: 'not decided by this run'>, reason='Adam ends lower. Seeds that show it: \
1 of 2.', cases='')
    """
    if all(shown):
        return Verdict(Outcome.HOLDS_FOR if cases else Outcome.HOLDS, reason, cases)
    if not any(shown):
        return fails(reason)
    return undecided(f"{reason} Seeds that show it: {sum(shown)} of {len(shown)}.")


def by_case(shown: Mapping[str, Sequence[bool]], reason: str) -> Verdict:
    """Holds for the cases that every random seed shows; undecided if no case is so, and seeds disagree about one.

    >>> by_case({"RNN": [True, True], "GRU": [True, False]}, "Accuracy falls.").reason
    'Accuracy falls. Seeds that show it: GRU 1 of 2.'
    """
    always = [case for case, seeds in shown.items() if all(seeds)]
    some = [
        f"{case} {sum(seeds)} of {len(seeds)}" for case, seeds in shown.items() if any(seeds) and case not in always
    ]
    if some:
        reason = f"{reason} Seeds that show it: {listing(some)}."
    if len(always) == len(shown):
        return holds(reason)
    if always:
        return holds_for(listing(always), reason)
    return undecided(reason) if some else fails(reason)


@dataclass(frozen=True)
class Claim:
    """One claim of a source, and how a run decides it.

    `decide(numbers, tolerance)` reads nothing but the numbers as numbers.json holds them, so that a verdict can be
    computed again from the file. With fewer than `seeds` random seeds (`numbers["seeds"]`) nothing is decided.
    """

    key: str  # its name within the lab
    quote: str  # the source's own words; " … " where words were left out
    where: str  # "003 §10, equation 68": number of the source, then the place
    test: str  # the criterion in words; {tolerance} is replaced by the tolerance
    decide: Callable[[Numbers, float], Verdict]
    tolerance: float = 0.0
    seeds: int = 1  # the least number of random seeds that decides it
    printed: tuple[str, ...] = ()  # the source's equations, TeX, as the source prints them
    corrected: tuple[str, ...] = ()  # what they should be, where they are wrong

    @property
    def source(self) -> str:
        number, _, place = self.where.partition(" ")
        return f"{SOURCES[number]} (source {number}), {place}"

    @property
    def criterion(self) -> str:
        seeds = f" At least {self.seeds} random seeds." if self.seeds > 1 else ""
        tolerance = power(self.tolerance) if self.tolerance < 0.001 else f"{self.tolerance:g}"
        return self.test.format(tolerance=tolerance) + seeds

    def verdict(self, numbers: Numbers) -> Verdict:
        """Decide the claim from the numbers of a run."""
        verdict = self.decide(numbers, self.tolerance)
        given = len(numbers.get("seeds", (0,)))
        if given >= self.seeds or verdict.outcome is Outcome.UNDECIDED:
            return verdict
        return undecided(f"{verdict.reason} This run has {counted(given, 'random seed')}; it takes {self.seeds}.")
