"""The weighted automaton inside a trained network, by the rank of its Hankel matrix."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import torch
from torch import Tensor, nn

from ...errors import check_counts
from ...layers import GRU
from ...report import Page, figure
from ...wording import counted
from ..automata import compile_pattern
from ..claim import Claim, Numbers, Outcome, Verdict, by_case, fails, holds, holds_for
from ..finding import Exercise, Finding, Step, Table
from ..measured import Clock
from ..options import Option, Seed, Seeds, help_text, seed_numbers
from ..weighted import WeightedAutomaton, hankel, learn, strings_up_to
from ..words import listing, percent, percent_and_spread, power

LANGUAGES = ("b*(ab*ab*)*", "(a|b)*ab", "(a|b)*a(a|b)")


class Judge(nn.Module):
    """A small network that says how far a string belongs to a language."""

    def __init__(self, units: int) -> None:
        super().__init__()
        self.layer = GRU(2, units)
        self.output = nn.Linear(units, 1)

    def forward(self, strings: Sequence[str]) -> Tensor:
        """(strings,)."""
        lengths = torch.tensor([len(text) for text in strings])
        ids = torch.zeros(max(1, int(lengths.max())), len(strings), dtype=torch.int64)
        for k, text in enumerate(strings):
            ids[: len(text), k] = torch.tensor(["ab".index(symbol) for symbol in text], dtype=torch.int64)
        x = torch.nn.functional.one_hot(ids, 2).float()
        _, h = self.layer(x, lengths=lengths)
        return self.output(h[-1]).squeeze(1)


@dataclass(frozen=True)
class Extracted:
    """One language and random seed: the network's singular values, and the automaton that was read off."""

    pattern: str
    seed: int
    states: int  # of the smallest deterministic automaton
    known: int  # the rank of the language itself
    exact: list[float]  # singular values of the language's own Hankel matrix
    singular: list[float]  # of the network's
    rank: int  # that was found
    loss: float
    network_right: float  # share of unseen strings that the network judges rightly
    automaton_right: float
    agreement: float  # share on which both say the same
    apart: float  # mean difference of their numbers


def by_pattern(numbers: Numbers) -> dict[str, list[dict[str, Any]]]:
    grouped: dict[str, list[dict[str, Any]]] = {}
    for one in numbers["languages"]:
        grouped.setdefault(one["pattern"], []).append(one)
    return grouped


def _path(numbers: Numbers, tolerance: float) -> Verdict:
    apart = numbers["derivation"]["paths"]
    text = (
        f"Summed over all paths of a random automaton, the score is λᵀ A(x₁) … A(x_t) ρ to {power(apart)}: a "
        "linear recurrent network. What is printed as p(q_t) is the weight ρ(q_t) of ending in a state."
    )
    return holds(text) if apart <= tolerance else fails(text)


def _approximate(numbers: Numbers, tolerance: float) -> Verdict:
    texts, good = [], {}
    for pattern, rows in by_pattern(numbers).items():
        ranks = sum(one["rank"] == one["known"] for one in rows)
        least = min(one["agreement"] for one in rows)
        networks = counted(len(rows), "network")
        texts.append(f"`{pattern}`: the rank in {ranks} of {networks}, agreement at least {percent(least)}")
        good[f"`{pattern}`"] = [one["rank"] == one["known"] and one["agreement"] >= 1 - tolerance for one in rows]
    limits = (
        "The run has languages, functions with the values 0 and 1; the networks were trained with Adam, "
        "and Ĥ is the matrix of a network's answers, factorised, not learned. It shows nothing of functions with other "
        "values, which the sentence is about, nor of learning Ĥ with SGD."
    )
    verdict = by_case(good, f"{'; '.join(texts)}. {limits}")
    if verdict.outcome in (Outcome.HOLDS, Outcome.HOLDS_FOR):  # no run decides more than the languages that it has
        shown = [pattern for pattern, seeds in good.items() if all(seeds)]
        return holds_for(f"the language{'s' * (len(shown) > 1)} {listing(shown)}", verdict.reason)
    return verdict


@dataclass(frozen=True)
class Spectra(Finding):
    """What :func:`run` gives."""

    name = "hankel"
    title = "The automaton inside a network"
    trains = True
    claims = (
        Claim(
            "path",
            "A path score is seen like a basic RNN:",
            "003 §8, equation 63",
            "the sum over all paths of a random weighted automaton is a product of matrices, to {tolerance}.",
            _path,
            tolerance=1e-10,
            printed=(
                r"W(\pi) = \lambda(q_0) \otimes \left(\bigotimes_{i=1}^t \tau(q_{i-1}, x_i, q_i) \right) "
                r"\otimes p(q_t)",
            ),
            corrected=(
                r"W(\pi) = \lambda(q_0) \otimes \left(\bigotimes_{i=1}^t \tau(q_{i-1}, x_i, q_i) \right) "
                r"\otimes \rho(q_t)",
            ),
        ),
        Claim(
            "approximate",
            "If we introduce a Hankel Matrix H_f to a WFS, we can approximate any non-binary string with learning "
            "optimal Ĥ_f with SGD … This definition is related to computational power of RNNs.",
            "003 §8",
            "with every random seed, the rank of the trained network's Hankel matrix is that of the language, and the "
            "automaton read off says the same as the network on all but {tolerance} of unseen, longer strings.",
            _approximate,
            tolerance=0.05,
            seeds=5,
            printed=(r"\text{approximate any non-binary string}",),
            corrected=(r"\text{approximate a function from strings to numbers}",),
        ),
    )
    derivation = (
        Step(
            "The scores of all paths of a string, summed: a matrix for each symbol, \\(A(x)_{qr} = \\tau(q, x, r)\\). "
            "The run sums over every path of a random automaton of three states.",
            r"f(x_1 \dots x_t) = \sum_{\pi} W(\pi) = \lambda^\top A(x_1) \cdots A(x_t) \, \rho",
            "paths",
            1e-10,
        ),
        Step(
            "The Hankel matrix \\(H[p, s] = f(ps)\\) splits into what the beginning does and what the ending does, so "
            "its rank is at most the number of states.",
            r"H = P S, \quad P_p = \lambda^\top A(p), \quad S_s = A(s) \rho",
            "factors",
            1e-10,
        ),
        Step(
            "From any factorisation of that rank the automaton can be read off (the run compares its numbers with "
            "those of the automaton it came from).",
            r"A(x) = P^{+} H_x S^{+}, \quad H_x[p, s] = f(p x s)",
            "read_off",
            1e-6,
        ),
    )
    exercises = (
        Exercise(
            "The language (a|b)*a(a|b), “the last symbol but one is an a”, needs a deterministic automaton of 4 "
            "states. Its Hankel matrix has rank 3. How can a weighted automaton do with 3?",
            "Its states are numbers, not alternatives: one state that is always 1, one that is 1 if the last symbol is "
            "an a, and one that is 1 if the last but one is. The deterministic automaton has a state for each of the "
            "four combinations of the last two.",
        ),
        Exercise(
            "What is the rank of the Hankel matrix of “the number of a's in the string”?",
            "2: the number of a's in \\(ps\\) is that of \\(p\\) plus that of \\(s\\), a sum of two products, "
            "\\(n_a(p) \\cdot 1 + 1 \\cdot n_a(s)\\).",
        ),
    )
    code = """
import numpy as np
from carousel.lab.weighted import hankel, learn, strings_up_to

even = lambda strings: np.array([float(text.count("a") % 2 == 0) for text in strings])
basis = strings_up_to("ab", 3)
print(np.linalg.svd(hankel(even, basis, basis), compute_uv=False)[:4])       # two are not zero
automaton = learn(even, "ab", basis, rank=2)
print(automaton(["aa", "aab", "a"]))
"""

    extracted: tuple[Extracted, ...]
    checks: dict[str, float]
    basis: int
    unseen: int
    seeds: tuple[int, ...]
    seconds: float

    def numbers(self) -> dict[str, Any]:
        return {
            "languages": [vars(one) for one in self.extracted], "basis": self.basis, "unseen": self.unseen,
            "seeds": self.seeds, "seconds": self.seconds, "derivation": self.checks,
        }  # fmt: skip

    @staticmethod
    def lead(numbers: Numbers) -> str:
        rows = numbers["languages"]
        right = sum(one["rank"] == one["known"] for one in rows)
        least = min(one["agreement"] for one in rows)
        return (
            f"{counted(len(rows), 'small GRU was', 'small GRUs were')} trained on "
            f"{counted(len(by_pattern(numbers)), 'regular language')}. From the numbers that a network gives to short "
            f"strings alone, the rank of the language was found in {right}, and an automaton that agrees with the "
            f"network on at least {percent(least)} of unseen, longer strings."
        )

    @staticmethod
    def table(numbers: Numbers) -> Table:
        rows = []
        for pattern, group in by_pattern(numbers).items():
            shares = [percent_and_spread([one[key] for one in group], 1) for key in ("network_right", "agreement")]
            ranks = ", ".join(str(one["rank"]) for one in group)
            apart = power(max(one["apart"] for one in group))
            rows.append([f"`{pattern}`", group[0]["states"], group[0]["known"], ranks, *shares, apart])
        return [
            "language",
            "states",
            "rank",
            "found",
            "network right",
            "automaton agrees",
            "apart, at most",
        ], rows

    def setup(self) -> Sequence[str]:
        return (
            "Each network (a GRU) was trained with Adam to give 1 to the strings of its language and 0 to others, up "
            "to length 10. Then it was only asked: for the numbers of all strings made of two parts from a basis of "
            f"{self.basis} short strings. The rank is where the singular values of that matrix, above a hundredth of "
            f"the largest, fall the most, by their ratio. The automaton is read off as below, and both judge "
            f"{self.unseen:,} random strings of 11 to 20 symbols, which neither has seen. The states are those of "
            "the smallest deterministic automaton: a weighted one can do with fewer, as many as the rank.",
        )

    def render(self, page: Page) -> None:
        seed = self.seeds[0]
        page.figure(
            self.plot(), "Singular values", f"Of the network's Hankel matrix (seed {seed}), and of the language's own."
        )
        page.heading("Results").table(*self.table(self.measured))

    def figures(self) -> dict[str, Any]:
        shown_first = [one for one in self.extracted if one.seed == self.seeds[0]]
        drawn = figure(200 * len(shown_first) + 80, [one.pattern for one in shown_first], hovermode="x")
        for row, one in enumerate(shown_first, 1):
            for label, values, shade in (("network", one.singular, "#0072b2"), ("language", one.exact, "#d55e00")):
                shown = [max(value, 1e-6) for value in values[:10]]
                drawn.add_scatter(
                    x=list(range(1, len(shown) + 1)), y=shown, mode="lines+markers", name=label, legendgroup=label,
                    showlegend=row == 1, line={"color": shade}, row=row, col=1,
                )  # fmt: skip
        drawn.update_yaxes(type="log", exponentformat="power")
        return {"singular": drawn.update_xaxes(title_text="singular value", row=len(shown_first), col=1)}


QUICK = {"seeds": 1, "patterns": LANGUAGES[:1]}
HELP = help_text(
    "Train a network on a language and find the weighted automaton inside it, from its answers alone.",
    "hankel",
    '"(ab)*" --out hankel',
)


def run(
    patterns: Annotated[
        Sequence[str], Option("Regular expressions over a and b; else three.", "PATTERN", argument=True)
    ] = LANGUAGES,
    *,
    units: Annotated[int, Option("Units of the network.", "N", minimum=1)] = 12,
    steps: Annotated[int, Option("Training steps.", "N", minimum=1)] = 600,
    unseen: int = 500,
    seed: Seed = 0,
    seeds: Seeds = 5,
) -> Spectra:
    """Train a network on each language with each of `seeds` random seeds, and find its automaton.

    `patterns` are regular expressions over a and b.
    """
    check_counts(units=units, steps=steps, unseen=unseen, seeds=seeds)
    clock = Clock()
    numbers = tuple(seed_numbers(seed, seeds))
    extracted = []
    with torch.random.fork_rng(devices=[]):
        for number in numbers:
            torch.manual_seed(number)
            draw = random.Random(number)
            extracted += [_extract(pattern, units, steps, unseen, number, draw) for pattern in patterns]
    basis = len(strings_up_to("ab", 3))
    return Spectra(tuple(extracted), check_formulas(seed), basis, unseen, numbers, clock.seconds)


def estimate_rank(singular: np.ndarray) -> int:
    """After which of the singular values, of those above a hundredth of the largest, the next is smallest by its ratio.

    >>> estimate_rank(np.array([5.0, 3.0, 0.01, 0.009, 1e-5]))
    2
    """
    ratios = singular[:-1] / np.maximum(singular[1:], 1e-9)
    return int(np.argmax(np.where(singular[:-1] > 0.01 * singular[0], ratios, 0.0))) + 1


def check_formulas(seed: int) -> dict[str, float]:
    """The steps of the derivation, in a random automaton of three states: how far the sides are apart."""
    draw = np.random.default_rng(seed)
    start, end, steps = draw.normal(size=3), draw.normal(size=3), draw.normal(size=(2, 3, 3))
    automaton = WeightedAutomaton("ab", start, steps, end)

    def over_paths(text: str) -> float:
        paths = itertools.product(range(3), repeat=len(text) + 1)
        symbols = ["ab".index(symbol) for symbol in text]
        return sum(
            start[path[0]]
            * np.prod([steps[x, q, r] for x, q, r in zip(symbols, path, path[1:], strict=False)])
            * end[path[-1]]
            for path in paths
        )

    basis = strings_up_to("ab", 3)
    values = automaton(basis)
    paths = np.array([over_paths(text) for text in basis])
    H = hankel(automaton, basis, basis)
    rows = np.array([_product(start, steps, text) for text in basis])
    columns = np.array([_product(end, steps.transpose(0, 2, 1), text[::-1]) for text in basis])
    longer = ["".join(draw.choice(list("ab"), size=6)) for _ in range(20)]
    again = learn(automaton, "ab", basis, 3)(longer)
    return {
        "paths": _apart(paths, values),
        "factors": _apart(rows @ columns.T, H),
        "read_off": _apart(again, automaton(longer)),
    }


def _product(row: np.ndarray, steps: np.ndarray, text: str) -> np.ndarray:
    for symbol in text:
        row = row @ steps["ab".index(symbol)]
    return row


def _apart(one: np.ndarray, other: np.ndarray) -> float:
    return float(np.abs(one - other).max() / np.abs(other).max())


def _extract(pattern: str, units: int, steps: int, unseen: int, seed: int, draw: random.Random) -> Extracted:
    dfa = compile_pattern(pattern, "ab")

    def truth(strings: Sequence[str]) -> np.ndarray:
        return np.array([float(dfa.accepts(text)) for text in strings])

    model = Judge(units)
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    rate = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    loss = torch.zeros(())
    for _ in range(steps):
        strings = ["".join(draw.choices("ab", k=draw.randint(0, 10))) for _ in range(64)]
        loss = nn.functional.mse_loss(model(strings), torch.from_numpy(truth(strings)).float())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        rate.step()

    def answer(strings: Sequence[str]) -> np.ndarray:
        with torch.no_grad():
            return model(strings).double().numpy()

    basis = strings_up_to("ab", 3)
    singular = np.linalg.svd(hankel(answer, basis, basis), compute_uv=False)
    exact = np.linalg.svd(hankel(truth, basis, basis), compute_uv=False)
    rank = estimate_rank(singular)
    automaton = learn(answer, "ab", basis, rank)
    new = ["".join(draw.choices("ab", k=draw.randint(11, 20))) for _ in range(unseen)]
    right, ours, its = truth(new) > 0.5, answer(new), automaton(new)
    longer = strings_up_to("ab", 5)
    states = len(np.unique(hankel(truth, longer, longer), axis=0))  # rows that some ending tells apart
    return Extracted(
        pattern, seed, states, int((exact > 1e-9).sum()), exact.tolist(), singular.tolist(), rank, float(loss.detach()),
        float(((ours > 0.5) == right).mean()), float(((its > 0.5) == right).mean()),
        float(((ours > 0.5) == (its > 0.5)).mean()), float(np.abs(ours - its).mean()),
    )  # fmt: skip
