"""A Turing machine, step by step, by a recurrent network with rational weights."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Annotated, Any

import torch

from ...errors import check_counts
from ...report import figure
from ..claim import Claim, Numbers, Verdict, fails, holds, undecided
from ..finding import Exercise, Step, Table
from ..machines import (
    CYCLE,
    Network,
    Turing,
    as_stacks,
    compile_machine,
    palindromes,
    run_exactly,
    run_rounded,
    run_tape,
    same,
    tape_start,
    unary_increment,
)
from ..measured import Clock, Measured
from ..options import Option, help_text
from ..words import listing

PRECISIONS = {"float32": torch.float32, "float64": torch.float64}
LONGEST = 40  # tapes on which rounded numbers are tried
EXACT_TAPE = 60  # a tape that is run exactly beyond what rounded numbers can do


def _simulate(numbers: Numbers, tolerance: float) -> Verdict:
    lines, wrong = [], 0
    for name, row in numbers["machines"].items():
        lines.append(f"{name}: {row['tapes']:,} tapes, {row['steps']:,} steps, {row['wrong']} of them wrong")
        wrong += row["wrong"] + row["answers"]
    text = (
        f"In exact arithmetic, state, head and every cell were compared after each step of the machine — "
        f"{'; '.join(lines)}. The weights were set, not learned from data; and a network of finite size does it only "
        "because its numbers have no limit of precision."
    )
    return holds(text) if wrong == 0 else fails(text)


def _resources(numbers: Numbers, tolerance: float) -> Verdict:
    lines, stopped = [], True
    for name, row in numbers["machines"].items():
        limits = listing(f"{row['limits'][precision]} symbols in {precision}" for precision in PRECISIONS)
        lines.append(f"{name}: {limits}")
        stopped = stopped and all(limit < numbers["longest"] for limit in row["limits"].values())
    text = (
        f"The longest tape up to which every step is right — {'; '.join(lines)}. Exactly, the increment of "
        f"{numbers['exact_tape']} ones is {'right' if numbers['long_right'] else 'wrong'}."
    )
    return fails(text) if stopped else undecided(f"{text} Longer tapes were not tried.")


class TuringMachine(Measured):
    """What :func:`run` gives."""

    name = "turing"
    title = "A Turing machine as a recurrent network"
    claims = (
        Claim(
            "simulate",
            "Recurrent neural networks are known to be Turing complete. Turing completeness means that a recurrent "
            "neural network can simulate any algorithm",
            "003 §8",
            "two Turing machines, compiled to rational weights, are simulated without a wrong cell on all tapes up to "
            "a length; the construction is the same for any other.",
            _simulate,
        ),
        Claim(
            "resources",
            "given enough data and computational resources",
            "003 §8",
            "data do not come in, and resources must include precision without bound: the statement falls, as it is "
            "printed, if float32 and float64 are wrong from some length of the tape on.",
            _resources,
        ),
    )
    derivation = (
        Step(
            "A tape is two stacks: what is left of the head, and its own cell with what is right of it. A step of the "
            "machine writes, and moves a symbol from one to the other. The run compares them with a tape, cell by "
            "cell.",
            r"(q_L, q_R) \mapsto (\text{push}_w(q_L), \text{pop}(q_R)) \quad \text{to the right}",
            "tape",
            0.0,
        ),
        Step(
            "Four layers are the four blocks of one matrix, so a step of the machine is four of the network. The run "
            "counts, outside of these blocks, the weights that are not zero.",
            r"h \leftarrow \sigma(U h + b), \quad U = \begin{bmatrix} 0 & 0 & 0 & U_{14} \\ U_{21} & 0 & 0 & 0 \\ "
            r"0 & U_{32} & 0 & 0 \\ 0 & 0 & U_{43} & 0 \end{bmatrix}",
            "blocks",
            0.0,
        ),
    )
    exercises = (
        Exercise(
            "How does a network of fixed size hold a tape of any length?",
            "In the digits of two numbers. Each symbol takes some bits more, so precision grows with the tape.",
        ),
        Exercise(
            "Does the construction say that a trained RNN computes any algorithm?",
            "No. It says that weights exist, for exact numbers. Whether training finds them is another question "
            "(`carousel lab languages`), and with 32 or 64 bits the network is a finite automaton.",
        ),
    )
    code = """
from carousel.lab.machines import as_stacks, compile_machine, run_exactly, tape_start, unary_increment

turing = unary_increment()
network = compile_machine(as_stacks(turing))
for configuration in run_exactly(network, tape_start(turing, [1, 1]), [None] * 8):
    print(configuration)
"""
    captions = {"tape": ("The tape, step by step", "A palindrome is recognised. Rows: steps of the machine. Columns: "
                         "cells of the tape. As the network's two stacks have it.")}  # fmt: skip

    @staticmethod
    def lead(numbers: Numbers) -> str:
        rows = numbers["machines"]
        first = rows["unary increment"]
        return (
            f"Two Turing machines run as recurrent networks of {listing(str(row['units']) for row in rows.values())} "
            f"units; in exact arithmetic {sum(row['wrong'] for row in rows.values())} of "
            f"{sum(row['steps'] for row in rows.values()):,} steps are wrong. "
            f"In float32 the increment of more than {first['limits']['float32']} ones goes wrong, in float64 of more "
            f"than {first['limits']['float64']}."
        )

    @staticmethod
    def table(numbers: Numbers) -> Table:
        rows = [
            [
                name, str(row["units"]), f"{row['tapes']:,}", f"{row['steps']:,}", str(row["wrong"]),
                *(str(row["limits"][precision]) for precision in PRECISIONS),
            ]
            for name, row in numbers["machines"].items()
        ]  # fmt: skip
        return [
            "machine",
            "units",
            "tapes",
            "steps",
            "wrong, exactly",
            *(f"right up to, {p}" for p in PRECISIONS),
        ], rows

    def setup(self) -> Sequence[str]:
        n = self.measured
        return (
            "Machines with a table of states and symbols are compiled to \\(h \\leftarrow \\sigma(U h + b)\\) with "
            "\\(\\sigma(z) = \\min(1, \\max(0, z))\\) and rational weights (Siegelmann and Sontag's construction: a "
            f"stack is a number whose digits are its symbols). {CYCLE} steps of the network are one of the machine.",
            f"*Unary increment* writes a 1 after some ones and returns; *palindromes* erases equal symbols from both "
            f"ends. All tapes of up to {n['length']} symbols are run exactly, beside a direct simulation on a "
            "dictionary of cells; and one of each length, in which all symbols are equal, by `carousel.RNN` with ReLUs "
            "in float32 and float64, until a step is wrong.",
        )

    def figures(self) -> dict[str, Any]:
        drawn = figure(420, hovermode="closest")
        drawn.add_heatmap(
            z=self.measured["example"], colorscale=[(0, "#ffffff"), (0.5, "#56b4e9"), (1, "#d55e00")], zmin=0, zmax=2,
            showscale=False,
        )  # fmt: skip
        drawn.update_yaxes(autorange="reversed", title_text="step").update_xaxes(title_text="cell")
        return {"tape": drawn}


HELP = help_text(__doc__, "turing", "--length 5 --out turing")
QUICK = {"length": 2}


def run(
    length: Annotated[int, Option("All tapes up to this length, exactly.", "N", minimum=1, maximum=6)] = 4,
    *,
    longest: Annotated[int, Option("The longest tape for rounded numbers.", "N", minimum=1)] = LONGEST,
) -> TuringMachine:
    """Compile both machines, and compare the networks with a direct simulation.

    >>> result = run(1, longest=12)
    >>> result.data["machines"]["unary increment"]["wrong"]
    0
    """
    check_counts(length=length, longest=longest)
    clock, machines = Clock(), {}
    for name, turing in (("unary increment", unary_increment()), ("palindromes", palindromes())):
        network = compile_machine(as_stacks(turing))
        row = compare(turing, network, length)
        row["limits"] = {precision: reach(turing, network, dtype, longest) for precision, dtype in PRECISIONS.items()}
        machines[name] = {**row, "units": len(network)}
    turing = unary_increment()
    network = compile_machine(as_stacks(turing))
    *_, last = run_exactly(network, tape_start(turing, [1] * EXACT_TAPE), [None] * (2 * EXACT_TAPE + 4))
    long_right = last is not None and last.state == "done" and last.stacks[1] == (1,) * (EXACT_TAPE + 1)
    data = {
        "machines": machines, "length": length, "longest": longest, "exact_tape": EXACT_TAPE, "long_right": long_right,
        "example": example([1, 2, 2, 1]), "derivation": {
            "tape": float(sum(row["wrong"] for row in machines.values())), "blocks": float(outside_blocks(network)),
        },
    }  # fmt: skip
    return TuringMachine(data, clock.seconds)


def steps_for(turing: Turing, size: int) -> int:
    """Enough steps for a tape of `size` symbols: a pass, or one pass for each pair of symbols."""
    return 2 * size + 4 if turing.symbols == 2 else (size + 2) * (size + 3) // 2 + 3


def compare(turing: Turing, network: Network, length: int) -> dict[str, Any]:
    """All tapes up to `length`, exactly: how many steps there are, how many end in another tape, and how many tapes in
    a wrong answer."""
    tapes = steps = wrong = answers = 0
    for size in range(length + 1):
        for tape in itertools.product(range(1, turing.symbols), repeat=size):
            count, last = steps_for(turing, size), ""
            found = run_exactly(network, tape_start(turing, tape), [None] * count)
            for (state, head, cells), configuration in zip(run_tape(turing, tape, count), found, strict=True):
                steps, wrong = steps + 1, wrong + (not same(configuration, state, head, cells))
                last = state
            tapes += 1
            answers += last != ("done" if turing.symbols == 2 else "yes" if tape == tape[::-1] else "no")
    return {"tapes": tapes, "steps": steps, "wrong": wrong, "answers": answers}


def reach(turing: Turing, network: Network, dtype: torch.dtype, longest: int) -> int:
    """The longest tape up to which every step is right with rounded numbers; of palindromes, that of equal symbols."""
    for size in range(1, longest + 1):
        tape = [turing.symbols - 1] * size
        count = steps_for(turing, size)
        found = run_rounded(network, tape_start(turing, tape), [None] * count, dtype)
        if not all(same(c, *direct) for direct, c in zip(run_tape(turing, tape, count), found, strict=True)):
            return size - 1
    return longest


def outside_blocks(network: Network) -> int:
    """Weights that connect blocks other than each with the one before it, by the order in which units were made."""
    names = network.names
    borders = [0, names.index(f"state2 {network.machine.states[0]}"),
               next(k for k, name in enumerate(names) if name.startswith("rule ")),
               names.index(f"state4 {network.machine.states[0]}"), len(names)]  # fmt: skip
    block = [sum(k >= border for border in borders[1:-1]) for k in range(len(names))]
    return sum((block[to] - block[of]) % CYCLE != 1 for to, row in enumerate(network.U) for of, w in row.items() if w)


def example(tape: Sequence[int]) -> list[list[int]]:
    """The tape after each step of the palindrome machine, from the network's stacks; a row for each step."""
    turing = palindromes()
    network = compile_machine(as_stacks(turing))
    rows, count = [], 22
    heads = [head for _, head, _ in run_tape(turing, tape, count)]
    for head, configuration in zip(heads, run_exactly(network, tape_start(turing, tape), [None] * count), strict=True):
        assert configuration is not None
        left, right = configuration.stacks
        cells = {head - len(left) + k: symbol for k, symbol in enumerate((*left, *reversed(right)))}
        rows.append([cells.get(k, 0) for k in range(-1, len(tape) + 1)])
    return rows
