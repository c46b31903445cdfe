"""Regular languages as exact weights of a network, and a counter as an LSTM."""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import torch

from ...errors import ArgumentError, check_counts
from ...report import Page, figure
from ...wording import counted
from ..automata import DFA, Recognizer, compile_dfa, compile_pattern, count_machine
from ..claim import Claim, Numbers, Verdict, fails, holds
from ..finding import Exercise, Finding, Table
from ..measured import Clock
from ..options import Option, Seed
from ..words import listing, raised

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


def _recognized(numbers: Numbers, tolerance: float) -> Verdict:
    wrong = [one["pattern"] for one in numbers["languages"] if one["wrong_short"] or one["wrong_long"]]
    short, long = (sum(one[key] for one in numbers["languages"]) for key in ("short", "long"))
    if wrong:
        return fails(f"Strings of {listing(wrong)} were judged wrongly.")
    return holds(
        f"Of the {short:,} strings up to length {numbers['all_strings_up_to']} of "
        f"{counted(len(numbers['languages']), 'regular language')}, neither the automaton nor the network that it was "
        f"compiled into judges one otherwise than Python's `re`; of {long:,} random ones the network judges none "
        "otherwise than the automaton."
    )


def _counting(numbers: Numbers, tolerance: float) -> Verdict:
    counter, classes = numbers["counter"], numbers["classes"]
    text = (
        f"The beginnings a⁰ to a{raised(classes['n'])} fall into {classes['distinct']} classes that some ending tells "
        f"apart, so that an automaton needs at least as many states, and more for longer ones. An LSTM of four units "
        f"that counts is right on {counter['right']:,} of {counter['strings']:,} strings, n up to "
        f"{counter['largest_n']:,}; in float32 its count stands still at {counter['stops']:,}."
    )
    right = classes["distinct"] == classes["n"] + 1 and counter["right"] == counter["strings"]
    return holds(text) if right else fails(text)


def _stack(numbers: Numbers, tolerance: float) -> Verdict:
    stack = numbers["stack"]
    text = (
        f"Of the strings up to length {stack['longest']}, the empty one among them, the machine as described accepts "
        f"{stack['accepted']:,}; {stack['equal']} of them are aⁿbⁿ. It accepts {stack['brackets']:,} of the "
        f"{stack['balanced']:,} strings in which every a is a bracket that a later b closes (Dyck-1)"
    )
    if stack["accepted"] == stack["equal"]:
        return holds(f"{text}.")
    return fails(
        f"{text}, such as {listing(stack['others'])}. It takes a state beside the stack that refuses an a after a b."
    )


@dataclass(frozen=True)
class Compilation(Finding):
    """What :func:`run` gives."""

    name = "compile-dfa"
    title = "Automata as weights"
    claims = (
        Claim(
            "recognized",
            "For example, a Deterministic Finite Automaton can recognize ab^* .",
            "003 §8",
            "neither the automaton nor the network that it is compiled into judges a string wrongly.",
            _recognized,
        ),
        Claim(
            "counting",
            "However it cannot recognize a^n b^n",
            "003 §8",
            "the beginnings aⁱ, i = 0 … n, are all told apart by some ending, so that no number of states is enough; "
            "and a counter recognizes the language.",
            _counting,
        ),
        Claim(
            "stack",
            "We push each a onto the stack. For a b , we pop if the stack contains a , and raise an error if it "
            "contains a b or is empty. Finally, at the end of the string, we accept if the stack is empty.",
            "003 §8",
            "the machine as described accepts aⁿbⁿ and nothing else.",
            _stack,
        ),
    )
    exercises = (
        Exercise(
            "How many units has the network for an automaton of 3 states over 2 symbols? What does each stand for?",
            "Seven: one for each pair of a state and a symbol, which is 1 when that symbol was just read in that "
            "state, and one that is 1 before anything was read.",
        ),
        Exercise(
            "Why does the counter end at \\(2^{24}\\)?",
            "Float32 has a mantissa of 24 bits: \\(2^{24} + 1\\) is rounded to \\(2^{24}\\), and the count stands "
            "still. In float64 it would be \\(2^{53}\\).",
        ),
        Exercise(
            "Change the stack machine of the notes so that it accepts \\(a^n b^n\\) and nothing else.",
            "Give it two states. It begins in the first, where it reads a's; a b moves it to the second, where an a is "
            "an error.",
        ),
    )
    code = """
from carousel.lab.automata import compile_dfa, compile_pattern, count_machine

network = compile_dfa(compile_pattern("(a|b)*abb"))
print(network.accepts(["abb", "ab", "ab" * 5000 + "abb"]))
print(count_machine().accepts(["aabb", "aab", "a" * 5000 + "b" * 5000]))
print(network.layer.weight_hh_l0)                 # zeros and ones
"""

    languages: tuple[Compiled, ...]
    shortest: int  # strings up to this length are all tried
    counted: tuple[tuple[int, bool, bool], ...]  # n, belongs, accepted
    stops: int  # where the counter stands still
    classes: dict[str, int]
    stack: dict[str, Any]
    seed: int
    seconds: float

    def numbers(self) -> dict[str, Any]:
        counter = {
            "strings": len(self.counted), "right": sum(belongs == said for _, belongs, said in self.counted),
            "largest_n": max(n for n, _, _ in self.counted), "stops": self.stops,
        }  # fmt: skip
        return {
            "languages": [vars(one) for one in self.languages], "all_strings_up_to": self.shortest, "counter": counter,
            "classes": self.classes, "stack": self.stack, "seeds": [self.seed], "seconds": self.seconds,
        }  # fmt: skip

    @staticmethod
    def lead(numbers: Numbers) -> str:
        total = sum(one["short"] + one["long"] for one in numbers["languages"])
        wrong = sum(one["wrong_short"] + one["wrong_long"] for one in numbers["languages"])
        counter = numbers["counter"]
        return (
            f"{counted(len(numbers['languages']), 'regular language was', 'regular languages were')} compiled into "
            f"ReLU networks: of {total:,} strings, {wrong} were judged wrongly. A counter compiled into an LSTM of "
            f"four units was right on {counter['right']} of {counter['strings']} strings, aⁿbⁿ and its neighbours up "
            f"to n = {counter['largest_n']:,}."
        )

    @staticmethod
    def table(numbers: Numbers) -> Table:
        up_to = f"strings up to {numbers['all_strings_up_to']}"
        columns = ["language", "states", "units", up_to, "in it", "wrong", "random", "up to", "wrong, random"]
        names = ("pattern", "states", "units", "short", "accepted", "wrong_short", "long", "longest", "wrong_long")
        return columns, [
            [f"{one[name]:,}" if isinstance(one[name], int) else f"`{one[name]}`" for name in names]
            for one in numbers["languages"]
        ]

    def setup(self) -> Sequence[str]:
        return (
            "Each regular expression became a deterministic automaton (by derivatives), and that a recurrent layer "
            "with weights 0 and 1 and biases −1 (the construction is this package's own): a unit for every pair of a "
            "state \\(q\\) and a symbol \\(a\\), \\(h_{qa} = \\text{relu}(s_q + x_a - 1)\\), where \\(s_q\\) is 1 if "
            "the state before is \\(q\\), and \\(x_a\\) if the symbol is \\(a\\).",
            "All values are whole numbers, so nothing is rounded. All strings up to length "
            f"{self.shortest} were read, and random ones up to {self.languages[0].longest:,} symbols. The reference "
            "for the short ones is Python's `re`, for the long ones the automaton, followed step by step.",
            "The counter is an LSTM whose gates are saturated, \\(c = f \\circ c_- + i \\circ g\\) with \\(f = 1\\) "
            "and \\(g = \\pm 1\\): σ(200) is 1 in float32, so c is a whole number, up to 2²⁴.",
        )

    def render(self, page: Page) -> None:
        page.heading("Results").table(*self.table(self.measured))
        page.figure(
            self.figures()["counter"], "The counter at work",
            "The cell states of the LSTM while it reads aaaaabbbbb, then aaabbbbb: the first is the count.",
        )  # fmt: skip

    def figures(self) -> dict[str, Any]:
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


QUICK = {"shortest": 8, "longest": 1000, "largest": 1000}
HELP = """Turn regular expressions into exact weights of a network, and a counter into an LSTM; then try them.

\b
carousel lab compile-dfa
carousel lab compile-dfa "(ab|c)*" "[ab]*c{2}" --shortest 7
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

    >>> result = run(["(ab)*"], shortest=6, longest=100, strings=4, largest=50)
    >>> result.languages[0].wrong_short, result.languages[0].units
    (0, 7)
    """
    if not patterns:
        raise ArgumentError("patterns is empty; give at least one regular expression")
    check_counts(shortest=shortest, longest=longest, strings=strings, largest=largest)
    clock = Clock()
    draw = random.Random(seed)
    languages = tuple(_try(pattern, shortest, longest, strings, draw) for pattern in patterns)
    machine = count_machine()
    tried = sorted({n for n in (*range(1, 21), 100, 1000, largest // 2, largest) if n <= largest})
    judged = []
    for n in tried:
        near = [("a" * i + "b" * j, i == j) for i, j in ((n, n), (n, n + 1), (n + 1, n), (n, n - 1), (n - 1, n))]
        near += [("a" * n + "b" * (n - 1) + "ab", False), ("b" + "a" * n + "b" * (n - 1), False)]
        near = [(text, belongs and bool(text)) for text, belongs in near]
        accepted = machine.accepts([text for text, _ in near])
        judged += [(n, belongs, it) for (_, belongs), it in zip(near, accepted, strict=True)]
    return Compilation(
        languages, shortest, tuple(judged), stops_at(machine), count_classes(20), try_stack(12), seed,
        clock.seconds,
    )  # fmt: skip


@torch.no_grad()
def stops_at(machine: Recognizer) -> int:
    """The first power of two that the counter does not exceed by reading one more a."""
    layer = machine.layer
    x = torch.nn.functional.one_hot(torch.tensor([[machine.alphabet.index("a")]]), len(machine.alphabet)).float()
    for power in range(1, 64):
        count = torch.zeros(1, 1, layer.hidden_size)
        count[..., 0] = 2.0**power
        after = layer(x, (torch.zeros_like(count), count))[1][1]
        if after[0, 0, 0] <= count[0, 0, 0]:
            return 2**power
    raise AssertionError("a float32 counts no further than 2²⁴")


def is_anbn(text: str) -> bool:
    n = len(text) // 2
    return text == "a" * n + "b" * n


def count_classes(n: int) -> dict[str, int]:
    """Into how many classes the beginnings a⁰ … aⁿ fall, if those are together that no ending b⁰ … bⁿ tells apart."""
    rows = {tuple(is_anbn("a" * i + "b" * j) for j in range(n + 1)) for i in range(n + 1)}
    return {"n": n, "distinct": len(rows)}


def stack_accepts(text: str) -> bool:
    """The stack automaton of the notes, as its three sentences describe it.

    >>> [stack_accepts(text) for text in ("aabb", "aab", "abb", "abab")]
    [True, False, False, True]
    """
    stack: list[str] = []
    for symbol in text:
        if symbol == "a":
            stack.append(symbol)
        elif not stack or stack[-1] == "b":
            return False
        else:
            stack.pop()
    return not stack


def try_stack(longest: int) -> dict[str, Any]:
    """Which strings of a and b, up to `longest` symbols, the stack automaton accepts."""
    every = ["".join(text) for n in range(longest + 1) for text in itertools.product("ab", repeat=n)]
    accepted, balanced = (list(filter(test, every)) for test in (stack_accepts, is_balanced))
    others = [text for text in accepted if not is_anbn(text)]
    return {
        "longest": longest, "accepted": len(accepted), "equal": len(accepted) - len(others), "others": others[:2],
        "balanced": len(balanced), "brackets": len(set(balanced) & set(accepted)),
    }  # fmt: skip


def is_balanced(text: str) -> bool:
    """Whether every a is a bracket that a later b closes: no beginning has more b's, and the whole as many."""
    depths = list(itertools.accumulate(1 if symbol == "a" else -1 for symbol in text))
    return not depths or (min(depths) >= 0 and depths[-1] == 0)


def _try(pattern: str, shortest: int, longest: int, strings: int, draw: random.Random) -> Compiled:
    dfa: DFA = compile_pattern(pattern)
    network = compile_dfa(dfa)
    expression = re.compile(pattern)
    short = ["".join(text) for n in range(shortest + 1) for text in itertools.product(dfa.alphabet, repeat=n)]
    right = [expression.fullmatch(text) is not None for text in short]
    judged = zip(network.accepts(short), map(dfa.accepts, short), right, strict=True)
    wrong = sum(by_network != belongs or by_dfa != belongs for by_network, by_dfa, belongs in judged)
    long = ["".join(draw.choices(dfa.alphabet, k=draw.randint(longest // 2, longest))) for _ in range(strings)]
    wrong_long = sum(a != dfa.accepts(text) for a, text in zip(network.accepts(long), long, strict=True))
    return Compiled(
        pattern, dfa.states, network.layer.hidden_size, len(short), sum(right), wrong, len(long), longest, wrong_long
    )
