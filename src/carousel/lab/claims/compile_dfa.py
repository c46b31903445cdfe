"""Regular languages as exact weights of a network, and a counter as an LSTM."""

from __future__ import annotations

import itertools
import random
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from ...errors import ArgumentError, check_counts
from ...report import Page, figure
from ..automata import DFA, compile_dfa, compile_pattern, count_machine
from ..old_finding import Claim, Finding, Verdict
from ..options import Option, Seed
from ..words import raised

PATTERNS = ("ab*", "(a|b)*abb", "((a|b)(a|b))*", "b*(ab*ab*)*", "(ab|ba)*(aa)?")


@dataclass(frozen=True)
class Compiled:
    """One language: its automaton, and how often the network agreed with the reference."""

    pattern: str
    states: int
    units: int
    short: int  # all strings up to the length that was asked for
    accepted: int  # of them
    wrong_short: int
    long: int  # random strings
    longest: int
    wrong_long: int


@dataclass(frozen=True)
class Compilation(Finding):
    """What :func:`run` gives."""

    name = "compile-dfa"
    title = "Automata as weights"
    claim = Claim(
        "Recurrent networks can simulate any algorithm. A finite automaton recognizes ab*, but not aⁿbⁿ, for which it "
        "would have to count.",
        "003 §8",
        ("h(q, a) = relu([the state before is q] + [the symbol is a] − 1)", "c = f ∘ c₋ + i ∘ g,  f = 1, g = ±1"),
    )

    languages: tuple[Compiled, ...]
    shortest: int  # strings up to this length are all tried
    counted: tuple[tuple[int, str, bool, bool], ...]  # n, string, belongs, said
    seed: int
    seconds: float

    @property
    def exact(self) -> bool:
        return not any(one.wrong_short or one.wrong_long for one in self.languages)

    @property
    def counts(self) -> bool:
        return all(belongs == said for _, _, belongs, said in self.counted)

    @property
    def largest(self) -> int:
        return max(n for n, _, _, _ in self.counted)

    def __str__(self) -> str:
        longest = self.languages[0].longest
        lines = [f"{'language':16}  states  units  strings up to {self.shortest:<3}       random, up to {longest:,}"]
        for one in self.languages:
            short = f"{one.short - one.wrong_short:,} of {one.short:,} right"
            long = f"{one.long - one.wrong_long} of {one.long} right"
            lines.append(f"{one.pattern:16}  {one.states:6}  {one.units:5}  {short:22}  {long}")
        right = sum(belongs == said for _, _, belongs, said in self.counted)
        lines.append(f"aⁿbⁿ in an LSTM of 4 units: {right} of {len(self.counted)} right, n up to {self.largest:,}")
        return "\n".join(lines)

    def lead(self) -> str:
        total = sum(one.short + one.long for one in self.languages)
        wrong = sum(one.wrong_short + one.wrong_long for one in self.languages)
        return (
            f"{len(self.languages)} regular languages were compiled into ReLU networks: of {total:,} strings, {wrong} "
            f"were judged wrongly. A counter compiled into an LSTM of four units was "
            f"{'right' if self.counts else 'not right'} on aⁿbⁿ and its neighbours up to n = {self.largest:,}."
        )

    def ran(self) -> Sequence[str]:
        return (
            "Each regular expression became a deterministic automaton (by derivatives), and that a recurrent layer "
            "with weights 0 and 1 and biases −1: a unit for every pair of a state and a symbol. All values are whole "
            f"numbers, so nothing is rounded. All strings up to length {self.shortest} were read, and random ones up "
            f"to {self.languages[0].longest:,} symbols. The reference for the short ones is Python's `re`, for the "
            "long ones the automaton, walked step by step.",
            "The counter is an LSTM whose gates are saturated: σ(200) is 1 in float32, so c is a whole number, up to "
            "2²⁴.",
        )

    def tell(self, page: Page) -> None:
        page.heading("What came out").table(
            ["language", "states", "units", f"strings up to {self.shortest}", "in it", "wrong", "long ones", "wrong"],
            [[one.pattern, one.states, one.units, f"{one.short:,}", f"{one.accepted:,}", one.wrong_short, one.long,
              one.wrong_long] for one in self.languages],
        )  # fmt: skip
        page.figure(
            self.figures()["counter"], "The counter at work",
            "The cell states of the LSTM while it reads aaaaabbbbb, then aaabbbbb: the first is the count.",
        )  # fmt: skip

    def verdict(self) -> Verdict:
        if not (self.exact and self.counts):
            return Verdict(False, "Some strings were judged wrongly; see the table.")
        return Verdict(
            True,
            "Every regular language has an exact network, and so has aⁿbⁿ, which no finite automaton recognizes: an "
            "LSTM counts. That a network whose numbers have finite precision could simulate *any* algorithm is "
            "another matter: this counter ends at 2²⁴.",
        )

    def figures(self) -> dict[str, Any]:
        import torch

        machine = count_machine()
        drawn = figure(420, ["aaaaabbbbb: accepted", "aaabbbbb: refused"], hovermode="x")
        for row, text in ((1, "aaaaabbbbb"), (2, "aaabbbbb")):
            x = torch.nn.functional.one_hot(torch.tensor([[machine.alphabet.index(a)] for a in text]), 2).float()
            c = machine.layer.trace(x).states["c"][0, :, 0]  # (T, H)
            for k, (label, shade) in enumerate(
                (
                    ("a's less b's", "#0072b2"),
                    ("b's", "#009e73"),
                    ("a's after a b", "#e69f00"),
                    ("b's too many", "#d55e00"),
                )
            ):
                drawn.add_scatter(
                    x=list(range(1, len(text) + 1)), y=c[:, k].tolist(), name=label, legendgroup=label,
                    showlegend=row == 1, line={"color": shade}, mode="lines+markers", row=row, col=1,
                )  # fmt: skip
        return {"counter": drawn.update_xaxes(title_text="symbols read", row=2, col=1)}

    def numbers(self) -> dict[str, Any]:
        return {
            "languages": [vars(one) for one in self.languages],
            "all_strings_up_to": self.shortest,
            "counter": {"strings": len(self.counted), "largest_n": self.largest, "exact": self.counts},
            "seed": self.seed,
            "seconds": self.seconds,
        }


HELP = """Turn regular expressions into exact weights of a network, and a counter into an LSTM; then try them.

\b
carousel lab compile-dfa
carousel lab compile-dfa "(ab|c)*" "a*b*c*" --shortest 7
carousel lab compile-dfa --out automata   # and a page
"""


def run(
    patterns: Annotated[
        Sequence[str], Option("Regular expressions; without them, five.", "PATTERN", argument=True)
    ] = PATTERNS,
    *,
    shortest: Annotated[int, Option("All strings up to this length.", "N", minimum=0, maximum=14)] = 10,
    longest: Annotated[int, Option("Random strings up to this length.", "N", minimum=1)] = 10_000,
    strings: int = 20,
    largest: Annotated[int, Option("The largest n of aⁿbⁿ.", "N", minimum=1)] = 10_000,
    seed: Seed = 0,
) -> Compilation:
    """Compile regular expressions, and the counter, and try them.

    All strings up to length `shortest`, `strings` random ones of up to `longest` symbols, aⁿbⁿ up to n = `largest`.

    >>> found = run(["(ab)*"], shortest=6, longest=100, strings=4, largest=50)
    >>> found.exact, found.counts, found.languages[0].units
    (True, True, 7)
    """
    if not patterns:
        raise ArgumentError("patterns is empty; give at least one regular expression")
    check_counts(shortest=shortest, longest=longest, strings=strings, largest=largest)
    start = time.perf_counter()
    draw = random.Random(seed)
    languages = tuple(_try(pattern, shortest, longest, strings, draw) for pattern in patterns)
    machine = count_machine()
    tried = sorted({n for n in (*range(1, 21), 100, 1000, largest // 2, largest) if n <= largest})
    counted = []
    for n in tried:
        near = [("a" * i + "b" * j, i == j) for i, j in ((n, n), (n, n + 1), (n + 1, n), (n, n - 1), (n - 1, n))]
        near += [("a" * n + "b" * (n - 1) + "ab", False), ("b" + "a" * n + "b" * (n - 1), False)]
        near = [(text, belongs and bool(text)) for text, belongs in near]
        said = machine.accepts([text for text, _ in near])
        counted += [(n, _brief(text), belongs, it) for (text, belongs), it in zip(near, said, strict=True)]
    return Compilation(languages, shortest, tuple(counted), seed, time.perf_counter() - start)


def _try(pattern: str, shortest: int, longest: int, strings: int, draw: random.Random) -> Compiled:
    dfa: DFA = compile_pattern(pattern)
    network = compile_dfa(dfa)
    expression = re.compile(pattern)
    short = ["".join(text) for n in range(shortest + 1) for text in itertools.product(dfa.alphabet, repeat=n)]
    right = [expression.fullmatch(text) is not None for text in short]
    wrong = sum(a != b for a, b in zip(network.accepts(short), right, strict=True))
    long = ["".join(draw.choices(dfa.alphabet, k=draw.randint(longest // 2, longest))) for _ in range(strings)]
    wrong_long = sum(a != dfa.accepts(text) for a, text in zip(network.accepts(long), long, strict=True))
    return Compiled(
        pattern, dfa.states, network.layer.hidden_size, len(short), sum(right), wrong, len(long), longest, wrong_long
    )


def _brief(text: str) -> str:
    """A string with its runs counted: a³b²."""
    return "".join(f"{symbol}{raised(len(list(run)))}" for symbol, run in itertools.groupby(text))
