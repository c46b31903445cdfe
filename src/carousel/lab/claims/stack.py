"""A stack automaton as the weights of a recurrent network: brackets of two kinds."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from fractions import Fraction
from typing import Annotated, Any

import torch
from torch import Tensor

from ...errors import ArgumentError, check_counts
from ...report import figure
from ..claim import Claim, Numbers, Verdict, fails, holds
from ..finding import Exercise, Step, Table
from ..machines import (
    CYCLE,
    Configuration,
    Machine,
    Network,
    compile_machine,
    dyck,
    encode,
    run_exactly,
    run_rounded,
)
from ..measured import Clock, Measured
from ..options import Option, help_text
from ..words import listing

BRACKETS = "()[]"
START = Configuration("right", ((),))
DEEPEST = 64
PRECISIONS = {"float32": torch.float32, "float64": torch.float64}


def balanced(word: Sequence[int]) -> bool:
    """Whether brackets (0 opens, 1 closes the first kind, 2 and 3 the second) are in pairs, by a list as the stack."""
    opened: list[int] = []
    for symbol in word:
        if symbol % 2 == 0:
            opened.append(symbol)
        elif not opened or opened.pop() != symbol - 1:
            return False
    return not opened


def _parentheses(numbers: Numbers, tolerance: float) -> Verdict:
    row = numbers["dyck"]
    text = (
        f"All {row['strings']:,} strings of 1 to {numbers['length']} brackets of two kinds were read by a recurrent "
        f"network of {numbers['units']} units with weights that were set: {row['wrong']} are judged wrongly. In exact "
        f"arithmetic, all {numbers['exact']['strings']:,} of 1 to {numbers['exact']['length']} go through the stacks "
        f"of the automaton, step by step, with {numbers['exact']['wrong']} exceptions."
    )
    return holds(text) if row["wrong"] == numbers["exact"]["wrong"] == 0 else fails(text)


def _unbounded(numbers: Numbers, tolerance: float) -> Verdict:
    limits = numbers["limits"]
    text = listing(f"{limits[name]} in {name}" for name in PRECISIONS)
    text = (
        f"The network's stack is one number, in which a symbol takes {numbers['bits']} bits. Nested brackets are read "
        f"rightly up to a depth of {text}; in exact arithmetic up to {numbers['deep']}, the most that was tried."
    )
    stopped = all(depth < DEEPEST for depth in limits.values())
    return holds(text) if numbers["deep"] == DEEPEST and stopped else fails(text)


class Stack(Measured):
    """What :func:`run` gives."""

    name = "stack"
    title = "A stack automaton as a recurrent network"
    claims = (
        Claim(
            "parentheses",
            "With additional memory, a recognizer is capable of specifying more complex languages.",
            "003 §8",
            "a recurrent network with weights set by construction judges every string of two kinds of brackets as a "
            "list in Python does.",
            _parentheses,
        ),
        Claim(
            "unbounded",
            "finite-state automata augmented with various kinds of data structures, which introduce different kinds of "
            "unbounded memory",
            "003 §8",
            f"in exact arithmetic the network reads nested brackets to a depth of {DEEPEST}, which is as far as it is "
            "tried; with rounded numbers it stops somewhere.",
            _unbounded,
        ),
    )
    derivation = (
        Step(
            "A symbol is an odd digit to the base 4. With \\(\\sigma\\) cut off at 0 and 1, the top, the stack without "
            "it and the stack with a symbol on it are one \\(\\sigma\\) each. The run takes all stacks of up to six "
            "symbols.",
            r"\text{top} = \sigma(4q - 2), \quad \text{pop} = \sigma(4q - 2\,\text{top} - 1), \quad "
            r"\text{push}_b = \sigma\left(\tfrac{q}{4} + \tfrac{2b+1}{4}\right)",
            "operations",
            0.0,
        ),
    )
    exercises = (
        Exercise(
            "Why odd digits to the base 4, and not plain binary digits?",
            "With binary digits 0.0111… and 0.1000… are next to each other: no continuous function could tell their "
            "tops. Between 1/4 … 1/2 and 3/4 … 1 there is a gap.",
        ),
        Exercise(
            "How many bits does a stack of depth n need in this code, and where does float32 end?",
            "Two for each symbol; float32 has 24, so 12 at most. The network adds numbers of different sizes on the "
            "way, which may cost it a symbol or two.",
        ),
    )
    code = """
from carousel.lab.machines import Configuration, compile_machine, dyck, run_exactly

network = compile_machine(dyck(2))
word = ["()[]".index(bracket) for bracket in "([[]])"]
for configuration in run_exactly(network, Configuration("right", ((),)), word):
    print(configuration)
"""
    captions = {"stack": ("The stack as a number", "While ([[([])]]) is read. Exact values.")}

    @staticmethod
    def lead(numbers: Numbers) -> str:
        return (
            f"A recurrent network of {numbers['units']} units with weights set by construction judges "
            f"{numbers['dyck']['strings'] - numbers['dyck']['wrong']:,} of {numbers['dyck']['strings']:,} strings of "
            f"two kinds of brackets rightly; its stack is {numbers['limits']['float32']} deep in float32 and "
            f"{numbers['limits']['float64']} in float64."
        )

    @staticmethod
    def table(numbers: Numbers) -> Table:
        exact = numbers["exact"]
        rows = [
            [f"strings of 1 to {numbers['length']} brackets, float64", f"{numbers['dyck']['strings']:,}"],
            ["of them judged wrongly", str(numbers["dyck"]["wrong"])],
            [f"strings of 1 to {exact['length']}, exact, stack by stack", f"{exact['strings']:,}"],
            ["of them with a wrong stack", str(exact["wrong"])],
            *([f"deepest nesting, {name}", str(depth)] for name, depth in numbers["limits"].items()),
            ["deepest nesting, exact (as tried)", str(numbers["deep"])],
        ]
        return ["measured", "value"], rows

    def setup(self) -> Sequence[str]:
        n = self.measured
        return (
            f"Brackets of two kinds need a stack. The automaton is compiled to a network \\(h \\leftarrow \\sigma(U h "
            f"+ W x + b)\\) with \\(\\sigma(z) = \\min(1, \\max(0, z))\\), {n['units']} units and rational weights, "
            f"which takes {CYCLE} steps for a bracket. In float32 and float64 it runs as `carousel.RNN` with ReLUs, "
            "two for each unit; exactly, with Python's fractions. The reference is a list. How deep it reads "
            "is tried with one nest for each depth, of both kinds in turn.",
        )

    def figures(self) -> dict[str, Any]:
        n = self.measured["example"]
        drawn = figure(340, hovermode="x")
        drawn.add_scatter(
            x=list(range(len(n["values"]))), y=n["values"], mode="lines+markers+text", text=n["brackets"],
            textposition="top center", line={"color": "#0072b2", "shape": "hv"}, showlegend=False,
        )  # fmt: skip
        drawn.update_yaxes(range=[0, 1.15], title_text="stack").update_xaxes(title_text="brackets read")
        return {"stack": drawn}


HELP = help_text(__doc__, "stack", "--length 9 --out stack")
QUICK = {"length": 6, "exact": 3}


def run(
    length: Annotated[int, Option("All strings up to this length, in float64.", "N", minimum=1, maximum=10)] = 8,
    *,
    exact: Annotated[int, Option("All strings up to this length, exactly.", "N", minimum=1, maximum=6)] = 4,
) -> Stack:
    """Compile the automaton, and try the network on every string.

    >>> result = run(3, exact=2)
    >>> result.data["dyck"]["strings"], result.data["dyck"]["wrong"]     # 4 + 16 + 64
    (84, 0)
    """
    check_counts(length=length, exact=exact)
    if length > 10:
        raise ArgumentError(f"length must be at most 10, got {length}")
    clock, machine = Clock(), dyck(2)
    network = compile_machine(machine)
    wrong, strings = 0, 0
    for size in range(1, length + 1):
        words = torch.cartesian_prod(*[torch.arange(4)] * size).view(-1, size)
        judged = judge(network, words)
        expected = torch.tensor([balanced(word) for word in words.tolist()])
        wrong, strings = wrong + int((judged != expected).sum()), strings + len(words)
    limits = {name: deepest(network, dtype) for name, dtype in PRECISIONS.items()}
    data = {
        "dyck": {"strings": strings, "wrong": wrong}, "exact": walk(network, exact), "length": length,
        "units": len(network), "limits": limits,
        "bits": machine.base.bit_length() - 1, "deep": DEEPEST if nested_exactly(network, DEEPEST) else 0,
        "example": example(network, "([[([])]])"), "derivation": {"operations": float(operations())},
    }  # fmt: skip
    return Stack(data, clock.seconds)


@torch.no_grad()
def judge(network: Network, words: Tensor) -> Tensor:
    """Whether each of some words (N, T) is accepted, by the layer in float64: in `right`, with an empty stack."""
    layer, size = network.layer(torch.float64), len(network)
    judged = []
    for part in words.split(8192):
        x = torch.zeros(CYCLE * part.shape[1], len(part), layer.input_size, dtype=torch.float64)
        x[1::CYCLE] = torch.nn.functional.one_hot(part.T, layer.input_size).double()
        begin = torch.tensor([float(v) for v in network.start(START)], dtype=torch.float64)
        h = torch.cat((begin, torch.zeros_like(begin))).expand(1, len(part), -1).contiguous()
        last = layer(x, h)[1][0]
        values = last[:, :size] - last[:, size:]
        right, stack = (values[:, network.names.index(name)] for name in ("state right", "stack 0"))
        judged.append((right == 1) & (stack == 0))
    return torch.cat(judged)


def walk(network: Network, length: int) -> dict[str, int]:
    """All strings up to `length`, exactly: how many there are, and how many lead to another stack than a list has."""
    machine, count, wrong = network.machine, 0, 0
    nodes = [(network.start(START), START)]
    for _ in range(length):
        children = []
        for (h, before), symbol in itertools.product(nodes, range(machine.inputs)):
            after = h
            for phase in range(CYCLE):
                after = network.step(after, [symbol] if phase == 1 else [])
            expected = by_list(before, symbol)
            count, wrong = count + 1, wrong + (network.read(after) != expected)
            children.append((after, expected))
        nodes = children
    return {"strings": count, "wrong": wrong, "length": length}


def by_list(before: Configuration, symbol: int) -> Configuration:
    """What a bracket does to a list of open ones."""
    state, [opened] = before
    if state == "wrong":
        return before
    if symbol % 2 == 0:
        return Configuration("right", ((*opened, symbol // 2),))
    if opened and opened[-1] == symbol // 2:
        return Configuration("right", (opened[:-1],))
    return Configuration("wrong", (opened,))


def nested(depth: int) -> list[int]:
    """Brackets of both kinds in turn, opened to `depth` and closed."""
    opened = [2 * (k % 2) for k in range(depth)]
    return [*opened, *(symbol + 1 for symbol in reversed(opened))]


def deepest(network: Network, dtype: torch.dtype) -> int:
    """The greatest depth up to which nested brackets are accepted with rounded numbers."""
    for depth in range(1, DEEPEST + 1):
        if run_rounded(network, START, nested(depth), dtype)[-1] != START:
            return depth - 1
    return DEEPEST


def nested_exactly(network: Network, depth: int) -> bool:
    *_, last = run_exactly(network, START, nested(depth))
    return last == START


def operations(machine: Machine | None = None, length: int = 6) -> Fraction:
    """How far top, pop and push by the formulas are from those of lists, at most."""
    apart = Fraction(0)

    def cut(z: Fraction) -> Fraction:
        return min(Fraction(1), max(Fraction(0), z))

    for size in range(1, length + 1):
        for stack in itertools.product((0, 1), repeat=size):
            q = encode(stack, 4)
            top = cut(4 * q - 2)
            apart = max(apart, abs(top - stack[-1]), abs(cut(4 * q - 2 * top - 1) - encode(stack[:-1], 4)))
            apart = max(apart, *(abs(cut(q / 4 + Fraction(2 * b + 1, 4)) - encode((*stack, b), 4)) for b in (0, 1)))
    return apart


def example(network: Network, brackets: str) -> dict[str, Any]:
    """The stack's value after each bracket."""
    read = [BRACKETS.index(bracket) for bracket in brackets]
    values = [0.0]
    for configuration in run_exactly(network, START, read):
        assert configuration is not None
        values.append(float(encode(configuration.stacks[0], network.machine.base)))
    return {"values": values, "brackets": ["", *brackets]}
