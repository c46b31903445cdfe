"""The weighted automaton inside a trained network, by the rank of its Hankel matrix."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import torch
from torch import Tensor, nn

from ...errors import check_counts
from ...layers import GRU
from ...report import Page, figure
from ..automata import compile_pattern
from ..old_finding import Claim, Finding, Verdict
from ..options import Option, Seed
from ..weighted import WeightedAutomaton, hankel, learn, strings_up_to
from ..words import percent, power

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
class Found:
    """One language: the network's singular values, and the automaton that was read off."""

    pattern: str
    known: int  # the rank of the language itself
    exact: list[float]  # singular values of the language's own Hankel matrix
    singular: list[float]  # of the network's
    rank: int  # that was found
    loss: float
    automaton: WeightedAutomaton
    network_right: float  # share of unseen strings that the network judges rightly
    automaton_right: float
    agreement: float  # share on which both say the same
    apart: float  # mean difference of their numbers


@dataclass(frozen=True)
class Spectra(Finding):
    """What :func:`run` gives."""

    name = "hankel"
    title = "The automaton inside a network"
    claim = Claim(
        "A weighted automaton gives a string a number, and a path's score is like a basic recurrent network. By its "
        "Hankel matrix such a function can be approximated; this is related to the power of recurrent networks.",
        "003 §8",
        ("W(π) = λ(q₀) ⊗ (⊗ᵢ τ(qᵢ₋₁, xᵢ, qᵢ)) ⊗ ρ(q_t)", "H[p, s] = f(ps)", "A(x) = P⁺ H_x S⁺,  H = P S"),
    )

    found: tuple[Found, ...]
    basis: int
    unseen: int
    seed: int
    seconds: float

    def __str__(self) -> str:
        lines = ["language        rank  found  network right  automaton right  agree  apart"]
        for one in self.found:
            lines.append(
                f"{one.pattern:14}  {one.known:4}  {one.rank:5}  {percent(one.network_right):>13}  "
                f"{percent(one.automaton_right):>15}  {percent(one.agreement):>6}  {power(one.apart)}"
            )
        return "\n".join(lines)

    def lead(self) -> str:
        right = sum(one.rank == one.known for one in self.found)
        least = min(one.agreement for one in self.found)
        return (
            f"Small GRUs were trained on {len(self.found)} regular languages. From the numbers they give to short "
            f"strings alone, the rank was found in {right} of them, and an automaton of so many states that agrees "
            f"with the network on at least {percent(least)} of unseen, longer strings."
        )

    def ran(self) -> Sequence[str]:
        return (
            "Each network learnt to give 1 to the strings of its language and 0 to others, up to length 10. Then it "
            f"was only asked: for the numbers of all strings made of two parts from a basis of {self.basis} short "
            "strings. The rank is where the singular values of that matrix fall the most, by their ratio. The "
            f"automaton is read off as in the formula, and both judge {self.unseen:,} random strings of 11 to 20 "
            "symbols, which neither has seen.",
        )

    def tell(self, page: Page) -> None:
        page.figure(self.plot(), "Singular values", "Of the network's Hankel matrix, and of the language's own.")
        page.heading("What came out").table(
            ["language", "rank", "found", "network right", "automaton right", "they agree", "apart, mean"],
            [[one.pattern, one.known, one.rank, percent(one.network_right), percent(one.automaton_right),
              percent(one.agreement), power(one.apart)] for one in self.found],
        )  # fmt: skip

    def verdict(self) -> Verdict:
        if not all(one.rank == one.known and one.agreement > 0.95 for one in self.found):
            return Verdict(False, "In at least one language the rank or the automaton was not found.")
        return Verdict(
            True,
            "The rank of the Hankel matrix counts the states that the network uses, and the automaton read off says "
            "what the network says.",
        )

    def figures(self) -> dict[str, Any]:
        drawn = figure(200 * len(self.found) + 80, [one.pattern for one in self.found], hovermode="x")
        for row, one in enumerate(self.found, 1):
            for label, values, shade in (("network", one.singular, "#0072b2"), ("language", one.exact, "#d55e00")):
                shown = [max(value, 1e-6) for value in values[:10]]
                drawn.add_scatter(
                    x=list(range(1, len(shown) + 1)), y=shown, mode="lines+markers", name=label, legendgroup=label,
                    showlegend=row == 1, line={"color": shade}, row=row, col=1,
                )  # fmt: skip
        drawn.update_yaxes(type="log")
        return {"singular": drawn.update_xaxes(title_text="singular value", row=len(self.found), col=1)}

    def numbers(self) -> dict[str, Any]:
        rows = []
        for one in self.found:
            row = {name: value for name, value in vars(one).items() if name != "automaton"}
            row["automaton"] = {
                name: value.tolist() for name, value in vars(one.automaton).items() if name != "alphabet"
            }
            rows.append(row)
        return {
            "languages": rows,
            "basis": self.basis,
            "unseen": self.unseen,
            "seed": self.seed,
            "seconds": self.seconds,
        }


HELP = """Train a network on a language and find the weighted automaton inside it, from its answers alone.

\b
carousel lab hankel
carousel lab hankel "(ab)*" --out hankel
"""


def run(
    patterns: Annotated[
        Sequence[str], Option("Regular expressions over a and b; else three.", "PATTERN", argument=True)
    ] = LANGUAGES,
    *,
    units: Annotated[int, Option("Units of the network.", "N", minimum=1)] = 12,
    steps: Annotated[int, Option("Training steps.", "N", minimum=1)] = 600,
    unseen: int = 500,
    seed: Seed = 0,
) -> Spectra:
    """Train a network on each language, and find its automaton.

    `patterns` are regular expressions over a and b.
    """
    check_counts(units=units, steps=steps, unseen=unseen)
    start = time.perf_counter()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        draw = random.Random(seed)
        found = tuple(_find(pattern, units, steps, unseen, draw) for pattern in patterns)
    return Spectra(found, len(strings_up_to("ab", 3)), unseen, seed, time.perf_counter() - start)


def _find(pattern: str, units: int, steps: int, unseen: int, draw: random.Random) -> Found:
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

    def said(strings: Sequence[str]) -> np.ndarray:
        with torch.no_grad():
            return model(strings).double().numpy()

    basis = strings_up_to("ab", 3)
    singular = np.linalg.svd(hankel(said, basis, basis), compute_uv=False)
    exact = np.linalg.svd(hankel(truth, basis, basis), compute_uv=False)
    rank = int(np.argmax(singular[:-1] / np.maximum(singular[1:], 1e-9))) + 1
    automaton = learn(said, "ab", basis, rank)
    new = ["".join(draw.choices("ab", k=draw.randint(11, 20))) for _ in range(unseen)]
    right, ours, its = truth(new) > 0.5, said(new), automaton(new)
    return Found(
        pattern, int((exact > 1e-9).sum()), exact.tolist(), singular.tolist(), rank, float(loss.detach()), automaton,
        float(((ours > 0.5) == right).mean()), float(((its > 0.5) == right).mean()),
        float(((ours > 0.5) == (its > 0.5)).mean()), float(np.abs(ours - its).mean()),
    )  # fmt: skip
