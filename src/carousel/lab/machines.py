"""Stack machines and Turing machines as recurrent networks, after Siegelmann and Sontag.

A stack is one number: symbol k of m is the digit 2k + 1 to the base B, a power of two of at least 2m, and the stack is
0.d₁d₂… with the top first. Between two stacks that differ in their top there is then a gap, so that top, pop and push
are linear functions and the saturated-linear function σ(x) = min(1, max(0, x)):

    top ≥ k       σ(B q − 2k)                 k = 1 … m − 1
    not empty     σ(B q)
    pop           σ(B q − d)                  d = 2 Σ_k [top ≥ k] + [not empty]
    push k        σ(q / B + (2k + 1) / B)

One step of a machine is four layers: the state and the stacks; their tops; which rule applies; what each rule that may
apply would make of each stack, 0 if it does not. The four are the blocks of one recurrent network,
h ← σ(U h + W x + b), which takes four steps for one step of the machine. Its weights are rational, kept as fractions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..layers import RNN

EMPTY = -1  # what is read of an empty stack
CYCLE = 4  # steps of the network for one of the machine


class Action(NamedTuple):
    """What a rule does to one stack: take the top away, then put symbols on it, the last one on top."""

    pop: bool = False
    push: tuple[int, ...] = ()


class Rule(NamedTuple):
    state: str  # the new one
    actions: tuple[Action, ...]  # one for each stack


class Condition(NamedTuple):
    state: str
    tops: tuple[int, ...]  # of each stack, EMPTY if there is none
    read: int | None = None  # the input symbol; None: the machine reads none


@dataclass(frozen=True)
class Machine:
    """States, stacks and rules. Where no rule applies it stays as it is, in a state that it calls halted."""

    states: tuple[str, ...]  # the first is where it starts
    symbols: int  # m
    stacks: int
    rules: Mapping[Condition, Rule]
    inputs: int = 0  # symbols that it may read, one for each step

    @property
    def base(self) -> int:
        base = 2
        while base < 2 * self.symbols:
            base *= 2
        return base


class Configuration(NamedTuple):
    state: str
    stacks: tuple[tuple[int, ...], ...]  # the top last


def simulate(machine: Machine, start: Configuration, read: Sequence[int | None]) -> Iterator[Configuration]:
    """The configuration after each step, straight from the rules."""
    state, stacks = start.state, [list(stack) for stack in start.stacks]
    for symbol in read:
        tops = tuple(stack[-1] if stack else EMPTY for stack in stacks)
        rule = machine.rules.get(Condition(state, tops, symbol))
        if rule is not None:
            state = rule.state
            for stack, action in zip(stacks, rule.actions, strict=True):
                if action.pop and stack:
                    stack.pop()
                stack.extend(action.push)
        yield Configuration(state, tuple(map(tuple, stacks)))


# ---------------------------------------------------------------- the network

Row = dict[int, Fraction]  # of a sparse matrix: column → weight


@dataclass
class Network:
    """h ← σ(U h + W x + b), with fractions; rows of U and W are sparse."""

    machine: Machine
    names: list[str] = field(default_factory=list)
    U: list[Row] = field(default_factory=list)
    W: list[Row] = field(default_factory=list)
    b: list[Fraction] = field(default_factory=list)

    def unit(self, name: str) -> int:
        self.names.append(name)
        self.U.append({})
        self.W.append({})
        self.b.append(Fraction(0))
        return len(self.names) - 1

    def connect(self, to: int, weights: Mapping[int, int | Fraction], bias: int | Fraction = 0) -> None:
        for source, weight in weights.items():
            self.U[to][source] = self.U[to].get(source, Fraction(0)) + weight
        self.b[to] += bias

    def __len__(self) -> int:
        return len(self.names)

    def start(self, configuration: Configuration) -> list[Fraction]:
        """The vector of a configuration."""
        h = [Fraction(0)] * len(self)
        h[self.names.index(f"state {configuration.state}")] = Fraction(1)
        for k, stack in enumerate(configuration.stacks):
            h[self.names.index(f"stack {k}")] = encode(stack, self.machine.base)
        return h

    def step(self, h: Sequence[Fraction], x: Sequence[int]) -> list[Fraction]:
        """One step of the network in exact arithmetic; x has the inputs that are 1."""
        after = []
        for row, inputs, bias in zip(self.U, self.W, self.b, strict=True):
            total = bias
            for source, weight in row.items():
                if h[source]:
                    total += weight * h[source]
            for symbol in x:
                total += inputs.get(symbol, 0)
            after.append(min(Fraction(1), max(Fraction(0), total)))
        return after

    def read(self, h: Sequence[Any]) -> Configuration | None:
        """The configuration that a vector encodes; None if it is none."""
        machine, values = self.machine, [Fraction(v) for v in h]
        on = [name for name in machine.states if values[self.names.index(f"state {name}")] == 1]
        stacks = [decode(values[self.names.index(f"stack {k}")], machine.base) for k in range(machine.stacks)]
        if len(on) != 1 or any(stack is None for stack in stacks):
            return None
        return Configuration(on[0], tuple(stack for stack in stacks if stack is not None))

    def layer(self, dtype: torch.dtype) -> RNN:
        """The same as a layer with ReLUs, two for each unit: σ(z) = relu(z) − relu(z − 1)."""
        size = len(self)
        U, W, b = (
            torch.zeros(*shape, dtype=torch.float64)
            for shape in ((size, size), (size, max(1, self.machine.inputs)), (size,))
        )
        for to in range(size):
            b[to] = float(self.b[to])
            for rows, matrix in ((self.U, U), (self.W, W)):
                for source, weight in rows[to].items():
                    matrix[to, source] = float(weight)
        layer = RNN(W.shape[1], 2 * size, nonlinearity="relu", dtype=torch.float64)
        with torch.no_grad():
            for name, value in {
                "weight_hh_l0": torch.cat((U, U)) @ torch.cat((torch.eye(size), -torch.eye(size)), 1).double(),
                "weight_ih_l0": torch.cat((W, W)), "bias_ih_l0": torch.cat((b, b - 1)),
                "bias_hh_l0": torch.zeros(2 * size, dtype=torch.float64),
            }.items():  # fmt: skip
                layer.get_parameter(name).copy_(value)
        return layer.to(dtype)


def encode(stack: Sequence[int], base: int) -> Fraction:
    """A stack as a number; the last symbol is on top.

    >>> encode([0, 1], 4)                           # 3/4 + 1/16
    Fraction(13, 16)
    """
    q = Fraction(0)
    for symbol in stack:
        q = (q + 2 * symbol + 1) / base
    return q


def decode(q: Fraction, base: int, most: int = 2000) -> tuple[int, ...] | None:
    """The stack of a number, None if it is that of none.

    >>> decode(Fraction(13, 16), 4)
    (0, 1)
    """
    symbols: list[int] = []
    while q and len(symbols) < most:
        digit = int(base * q)
        if digit % 2 == 0:
            return None
        symbols.append(digit // 2)
        q = base * q - digit
    return tuple(reversed(symbols)) if not q else None


def compile_machine(machine: Machine) -> Network:
    """The network of a machine."""
    net, B, m = Network(machine), machine.base, machine.symbols
    state = {name: net.unit(f"state {name}") for name in machine.states}
    stack = [net.unit(f"stack {k}") for k in range(machine.stacks)]
    # block 2: the tops, and copies
    state2 = {name: net.unit(f"state2 {name}") for name in machine.states}
    stack2 = [net.unit(f"stack2 {k}") for k in range(machine.stacks)]
    at_least = [[net.unit(f"top {k} ≥ {j}") for j in range(1, m)] for k in range(machine.stacks)]
    filled = [net.unit(f"not empty {k}") for k in range(machine.stacks)]
    for name in machine.states:
        net.connect(state2[name], {state[name]: 1})
    for k in range(machine.stacks):
        net.connect(stack2[k], {stack[k]: 1})
        net.connect(filled[k], {stack[k]: B})
        for j in range(1, m):
            net.connect(at_least[k][j - 1], {stack[k]: B}, -2 * j)
    # block 3: which rule applies, whether none does, and each stack with and without its top
    rules = _rules(net, machine, state2, at_least, filled)
    whole = [net.unit(f"stack3 {k}") for k in range(machine.stacks)]
    popped = [net.unit(f"popped {k}") for k in range(machine.stacks)]
    for k in range(machine.stacks):
        net.connect(whole[k], {stack2[k]: 1})
        net.connect(popped[k], {stack2[k]: B, filled[k]: -1, **dict.fromkeys(at_least[k], -2)})
    # block 4: the new state, and what each action makes of each stack, 0 where it is not taken
    for name in machine.states:
        net.connect(new := net.unit(f"state4 {name}"), {unit: 1 for unit, rule in rules.items() if rule.state == name})
        net.connect(state[name], {new: 1})
    for k in range(machine.stacks):
        for action in dict.fromkeys(rule.actions[k] for rule in rules.values()):
            taken = {unit: 1 for unit, rule in rules.items() if rule.actions[k] == action}
            n = len(action.push)
            source = {(popped if action.pop else whole)[k]: Fraction(1, B**n)}
            made = net.unit(f"stack {k} {action}")
            net.connect(made, {**source, **taken}, encode(action.push, B) - 1)
            net.connect(stack[k], {made: 1})
    return net


def _rules(
    net: Network, machine: Machine, state: Mapping[str, int], at_least: Sequence[Sequence[int]], filled: Sequence[int]
) -> dict[int, Rule]:
    """A unit for each rule, 1 where it applies: every condition, those without a rule of their own included."""
    units = {}
    tops = _products([EMPTY, *range(machine.symbols)], machine.stacks)
    for name in machine.states:
        for top in tops:
            for symbol in range(machine.inputs) if machine.inputs else (None,):
                condition = Condition(name, top, symbol)
                stay = Rule(name, (Action(),) * machine.stacks)
                unit = net.unit(f"rule {condition}")
                units[unit] = machine.rules.get(condition, stay)
                net.connect(unit, {state[name]: 1}, -machine.stacks - (symbol is not None))
                for k, seen in enumerate(top):  # [top = seen], a sum of the units of block 2
                    if seen == EMPTY:
                        net.connect(unit, {filled[k]: -1}, 1)
                        continue
                    net.connect(unit, {at_least[k][seen - 1] if seen else filled[k]: 1})
                    if seen + 1 < machine.symbols:
                        net.connect(unit, {at_least[k][seen]: -1})
                if symbol is not None:
                    net.W[unit][symbol] = Fraction(1)
    return units


def _products(values: Sequence[int], times: int) -> list[tuple[int, ...]]:
    found: list[tuple[int, ...]] = [()]
    for _ in range(times):
        found = [(*one, value) for one in found for value in values]
    return found


def run_exactly(net: Network, start: Configuration, read: Sequence[int | None]) -> Iterator[Configuration | None]:
    """The configuration after each step of the machine, by its network in exact arithmetic."""
    h = net.start(start)
    for symbol in read:
        for phase in range(CYCLE):  # rules are block 3: what they read must be there when the second step has been made
            h = net.step(h, [symbol] if symbol is not None and phase == 1 else [])
        yield net.read(h)


@torch.no_grad()
def run_rounded(
    net: Network, start: Configuration, read: Sequence[int | None], dtype: torch.dtype
) -> list[Configuration | None]:
    """The same by a recurrent layer with rounded numbers."""
    layer, size = net.layer(dtype), len(net)
    begin = torch.tensor([float(v) for v in net.start(start)], dtype=torch.float64).to(dtype)
    h = torch.cat((begin, torch.zeros_like(begin))).view(1, 1, -1)
    x = torch.zeros(CYCLE * len(read), 1, layer.input_size, dtype=dtype)
    for t, symbol in enumerate(read):
        if symbol is not None:
            x[CYCLE * t + 1, 0, symbol] = 1
    outputs: Tensor = layer(x, h)[0][CYCLE - 1 :: CYCLE, 0]
    return [net.read((row[:size] - row[size:]).tolist()) for row in outputs]


# ---------------------------------------------------------------- machines


def dyck(kinds: int = 2) -> Machine:
    """Brackets of so many kinds: input 2k opens, 2k + 1 closes kind k; a wrong one leads to `wrong` for good."""
    rules = {}
    push, pop = (lambda k: Action(push=(k,))), Action(pop=True)
    for top in (EMPTY, *range(kinds)):
        for k in range(kinds):
            rules[Condition("right", (top,), 2 * k)] = Rule("right", (push(k),))
            closes = Rule("right", (pop,)) if top == k else Rule("wrong", (Action(),))
            rules[Condition("right", (top,), 2 * k + 1)] = closes
    return Machine(("right", "wrong"), max(2, kinds), 1, rules, 2 * kinds)


class Turing(NamedTuple):
    """A Turing machine: (state, symbol) → (state, symbol, −1 | 0 | 1). Symbol 0 is the blank."""

    states: tuple[str, ...]
    symbols: int
    table: Mapping[tuple[str, int], tuple[str, int, int]]


def run_tape(turing: Turing, tape: Sequence[int], steps: int) -> Iterator[tuple[str, int, dict[int, int]]]:
    """State, head and cells after each step, on a tape that is a dictionary: nothing of stacks or networks."""
    state, head, cells = turing.states[0], 0, dict(enumerate(tape))
    for _ in range(steps):
        rule = turing.table.get((state, cells.get(head, 0)))
        if rule is not None:
            state, cells[head], move = rule
            head += move
        yield state, head, dict(cells)


def as_stacks(turing: Turing) -> Machine:
    """The same machine with two stacks: what is left of the head, and the head's cell with what is right of it."""
    rules = {}
    for (name, symbol), (after, written, move) in turing.table.items():
        for left in (EMPTY, *range(turing.symbols)):
            for top in (symbol, EMPTY) if symbol == 0 else (symbol,):
                pop = Action(pop=top != EMPTY)
                if move > 0:
                    actions = (Action(push=(written,)), pop)
                elif move < 0:
                    beside = 0 if left == EMPTY else left
                    actions = (Action(pop=left != EMPTY), Action(pop.pop, (written, beside)))
                else:
                    actions = (Action(), Action(pop.pop, (written,)))
                rules[Condition(name, (left, top))] = Rule(after, actions)
    return Machine(turing.states, turing.symbols, 2, rules)


def tape_start(turing: Turing, tape: Sequence[int]) -> Configuration:
    return Configuration(turing.states[0], ((), tuple(reversed(tape))))


def same(configuration: Configuration | None, state: str, head: int, cells: Mapping[int, int]) -> bool:
    """Whether a configuration of two stacks is this state with this tape, blanks at both ends left out."""
    if configuration is None or configuration.state != state:
        return False
    left, right = configuration.stacks
    tape = {head - len(left) + k: symbol for k, symbol in enumerate((*left, *reversed(right)))}
    return {k: s for k, s in tape.items() if s} == {k: s for k, s in cells.items() if s}


def unary_increment() -> Turing:
    """Ones, then a blank: one more 1, and the head back at the first."""
    return Turing(
        ("go", "back", "done"), 2,
        {("go", 1): ("go", 1, 1), ("go", 0): ("back", 1, -1), ("back", 1): ("back", 1, -1),
         ("back", 0): ("done", 0, 1)},
    )  # fmt: skip


def palindromes() -> Turing:
    """Words of 1 and 2: the first symbol is erased and remembered, compared with the last, and so on inwards."""
    table: dict[tuple[str, int], tuple[str, int, int]] = {("first", 0): ("yes", 0, 0)}
    for a in (1, 2):
        table["first", a] = (f"to end {a}", 0, 1)
        for b in (1, 2):
            table[f"to end {a}", b] = (f"to end {a}", b, 1)
            table["to start", b] = ("to start", b, -1)
        table[f"to end {a}", 0] = (f"compare {a}", 0, -1)
        table[f"compare {a}", a] = ("to start", 0, -1)
        table[f"compare {a}", 3 - a] = ("no", 3 - a, 0)
        table[f"compare {a}", 0] = ("yes", 0, 0)  # a single symbol was left
    table["to start", 0] = ("first", 0, 1)
    states = ("first", "to end 1", "to end 2", "compare 1", "compare 2", "to start", "yes", "no")
    return Turing(states, 3, table)
