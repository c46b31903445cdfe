"""A program as code for the virtual machine of the kernels (csrc/program): places in memory, stages, instructions.

The step of a row is cut into stages. At the start of a stage are products and reductions, which need whole rows of what
earlier stages computed; then loops over the columns, one for each width. A value that stays within a loop lives in
a register, any other in a plane of memory.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from .program import Program
from .values import LEAVES, OPS, Product, Value, reachable

SPACES = (
    "register",
    "constant",
    "input",
    "old",
    "new",
    "saved",
    "temporary",
    "d_new",
    "d_old",
    "d_input",
    "sum",
    "kept",
)
WHOLE_VECTORS = 16  # a multiple of this many numbers is a number of whole vectors in every instruction set
# What takes up an operation before it, in one instruction.
FUSED = {"add": "mul", "sub": "mul", "sigmoid": "add", "tanh": "add", "d_sigmoid": "mul", "d_tanh": "mul"}
LINES = ("stage", "product", "reduce", "loop", "instruction", "gradient", "total")


class Slot(NamedTuple):
    """A place that instructions read or write: `width` columns of a plane, state or tensor in a space."""

    space: str
    plane: int
    offset: int
    width: int

    def part(self, start: int, width: int) -> Slot:
        return Slot(self.space, self.plane, self.offset + start, width)

    def joined(self, after: Slot) -> Slot | None:
        """Both as one, if the other follows this one in its plane."""
        follows = self[:2] == after[:2] and self.offset + self.width == after.offset
        return self._replace(width=self.width + after.width) if follows else None


@dataclass
class Code:
    """What the virtual machine runs for one step of a row."""

    slots: dict[Slot, int] = field(default_factory=dict)
    constants: dict[str, int] = field(default_factory=dict)
    registers: int = 0
    temporaries: list[int] = field(default_factory=list)  # widths
    lines: list[list[Any]] = field(default_factory=list)

    def slot(self, slot: Slot) -> int:
        return self.slots.setdefault(slot, len(self.slots))

    def encoded(self, opcodes: Mapping[str, int]) -> tuple[Any, ...]:
        """As the native module takes it: slots, constants, registers, temporaries, lines."""
        lines = []
        for kind, *rest in self.lines:
            if kind in ("reduce", "instruction"):
                rest[0] = opcodes[rest[0]]
            lines.append([LINES.index(kind), *(int(n) for n in rest)])
        slots = [[SPACES.index(s.space), s.plane, s.offset, s.width] for s in self.slots]
        return slots, [float(c) for c in self.constants], self.registers, self.temporaries, lines


def resolve(value: Value) -> Value:
    """What a value is where only its numbers count."""
    while value.op in ("let", "detach"):
        value = value.args[0]
    return value


def _takes_parts(value: Value) -> bool:
    """Whether an operation reads parts of the rows of its arguments."""
    if value.op == "back":
        return any(p.blocks > 1 for p in value.attribute)
    return value.op == "slice" or (value.op == "product" and value.attribute.blocks > 1)


class Lowering:
    """Turns `outputs`, values and where they are to be stored, into code; `leaf` knows what is in memory already."""

    def __init__(self, outputs: Sequence[tuple[Value, Slot]], leaf: Callable[[Value], Slot | None], first_of: Any):
        self.leaf, self.matrix = leaf, first_of
        self.code = Code()
        self.home: dict[int, Slot] = {}
        self.stage: dict[int, int] = {}
        self.copies: list[tuple[Value, Slot]] = []
        self.registers: dict[int, Slot] = {}
        outputs = [(resolve(v), slot) for v, slot in outputs]
        self.dots: dict[int, Value] = {}  # sums of products that nothing else needs: serial of the sum → product
        self.dots = self._dots(outputs)
        self.order = reachable((v for v, _ in outputs), self.args)
        parted = {a.serial for v in self.order if _takes_parts(v) for a in self.args(v)}
        for value, slot in outputs:
            computed = value.op not in ("constant", "slice") and leaf(value) is None
            if slot.space == "d_input" and value.serial in parted:  # a tensor's rows are not laid out in whole vectors
                computed = False
            if computed and slot.space != "sum" and value.serial not in self.home:
                self.home[value.serial] = slot
            else:
                self.copies.append((value, slot))
        self.uses = Counter(a.serial for v in self.order for a in self.args(v))
        self.uses.update(v.serial for v, _ in self.copies)
        self.scalars = self._scalars()
        for value in self.order:
            self.stage[value.serial] = self._stage(value)
        for value in self.order:
            self._settle(value)

    def args(self, value: Value) -> list[Value]:
        if self.leaf(value) is not None:
            return []
        return [resolve(a) for a in self.dots.get(value.serial, value).args]

    def _dots(self, outputs: Sequence[tuple[Value, Slot]]) -> dict[int, Value]:
        order = reachable((v for v, _ in outputs), self.args)
        uses = Counter(a.serial for v in order for a in self.args(v))
        uses.update(v.serial for v, _ in outputs)
        found = {}
        for value in order:
            if value.op != "sum" or self.leaf(value) is not None:
                continue
            (row,) = self.args(value)
            of_rows = row.op in ("mul", "square") and self.leaf(row) is None and uses[row.serial] == 1
            if of_rows and not any(a.op in ("constant", "splat") for a in self.args(row)):
                found[value.serial] = row
        return found

    def _scalars(self) -> set[int]:
        """Rows of one number that need not be filled: all that reads them has a form that reads the number itself."""
        rows = {v.serial for v in self.order if v.op == "splat" and self.args(v) and self.args(v)[0].op != "constant"}
        rows -= {v.serial for v, _ in self.copies} | self.home.keys()
        for value in self.order:
            of_rows = [a.serial for a in self.args(value) if a.op == "splat"]
            second = value.op == "sub" and [a.op == "splat" for a in self.args(value)] == [False, True]
            if len(of_rows) != 1 or not (second or value.op in ("add", "mul")) or len(self.args(value)) < 2:
                rows.difference_update(of_rows)
        return rows

    def _in_memory(self, value: Value) -> bool:
        return self.leaf(value) is not None

    def _stage(self, value: Value) -> int:
        """The stage in whose loops a value can be used."""
        if self._in_memory(value) or value.op == "constant":
            return 0
        ready = [0, *(self.stage[a.serial] for a in self.args(value))]
        if value.op == "cat":  # loops put it together
            return max(ready) + 1
        if value.op in ("product", "back", "sum", "amax", "slice"):
            ready += [self.stage[a.serial] + 1 for a in self.args(value) if not self._in_memory(a)]
        return max(ready)

    def _settle(self, value: Value) -> None:
        """Give a place in memory to the arguments that `value` does not find in registers."""
        whole = value.op in ("product", "back", "sum", "amax", "slice", "cat", "splat")
        if value.op == "cat" and not self._in_memory(value):
            self._put_together(value)
        for arg in self.args(value):
            if arg.op == "constant" or arg.serial in self.scalars or self._in_memory(arg):
                continue
            if (
                whole
                or arg.op in ("product", "back", "sum", "amax", "cat")
                or self.stage[arg.serial] < self.stage[value.serial]
            ):
                self._place(arg)
        if value.op in ("product", "back", "sum", "amax", "cat") and not self._in_memory(value):
            self._place(value)

    def _put_together(self, value: Value) -> None:
        """Let the parts of a row be computed where they are to stand, if each is made of whole vectors."""
        whole, at = self._place(value), 0
        for part in self.args(value):
            aligned = at % WHOLE_VECTORS == part.width % WHOLE_VECTORS == 0
            computed = part.op in OPS and not self._in_memory(part) and part.serial not in self.home
            if aligned and computed and whole.space != "d_input":
                self.home[part.serial] = whole.part(at, part.width)
            at += part.width

    def _place(self, value: Value) -> Slot:
        known = self._known(value)
        if known is not None:
            return known
        if value.op == "slice":
            (row,) = self.args(value)
            slot = self._place(row).part(value.attribute, value.width)
        else:
            slot = Slot("temporary", len(self.code.temporaries), 0, value.width)
            self.code.temporaries.append(value.width)
        self.home[value.serial] = slot
        return slot

    def _known(self, value: Value) -> Slot | None:
        return self.leaf(value) or self.home.get(value.serial)

    # ---- code ----

    def run(self) -> Code:
        stages = max((self.stage[v.serial] for v in self.order), default=0) + 1
        for stage in range(stages):
            here = [v for v in self.order if self.stage[v.serial] == stage and not self._in_memory(v)]
            self.code.lines.append(["stage"])
            for value in here:
                if value.op == "product":
                    self._product(value)
                elif value.op == "back":
                    self._back(value)
                elif value.op in ("sum", "amax"):
                    args = [self._place(a) for a in self.args(value)]
                    if value.serial in self.dots:
                        self._reduce("dot", args[0], self.home[value.serial], args[-1])
                    else:
                        self._reduce(value.op, args[0], self.home[value.serial])
                elif value.op == "cat":
                    at = 0
                    for part in self.args(value):
                        arg, out = self._place(part), self.home[value.serial].part(at, part.width)
                        at += part.width
                        if arg != out:
                            self._reduce("copy", arg, out)
            self._loops(stage, stages, here)
        return self.code

    def _reduce(self, op: str, arg: Slot, out: Slot, other: Slot | None = None) -> None:
        second = -1 if other is None else self.code.slot(other)
        self.code.lines.append(["reduce", op, self.code.slot(arg), self.code.slot(out), second])

    def _multiply(
        self, arg: Slot, out: Slot, p: Product, row: int, rows: int, turned: bool, add: bool, bias: int
    ) -> None:
        tensor, depth = self.matrix(p)
        line = ["product", self.code.slot(arg), self.code.slot(out), tensor, row, rows, depth, turned, add, bias]
        self.code.lines.append(line)

    def _product(self, value: Value) -> None:
        p: Product = value.attribute
        arg, out = self._place(self.args(value)[0]), self.home[value.serial]
        rows, depth = p.rows // p.blocks, arg.width // p.blocks
        for k in range(p.blocks):
            part = out.part(k * rows, rows)
            bias = -1
            if p.bias is not None:
                unit = Value("unit", attribute=(p.bias[0], p.bias[1] + k * rows), width=rows)
                place = self.leaf(unit)
                assert place is not None
                bias = self.code.slot(place)
            self._multiply(arg.part(k * depth, depth), part, p, p.row + k * rows, rows, True, False, bias)

    def _back(self, value: Value) -> None:
        out = self.home[value.serial]
        terms: dict[Slot, list[tuple[int, Slot, int, Product]]] = {}  # of each block of the result
        for delta, p in zip(self.args(value), value.attribute, strict=True):
            arg = self._place(delta)
            rows, depth = p.rows // p.blocks, out.width // p.blocks
            for k in range(p.blocks):
                term = p.matrix, arg.part(k * rows, rows), p.row + k * rows, p
                terms.setdefault(out.part(k * depth, depth), []).append(term)
        for part, own in terms.items():
            joined: list[tuple[int, Slot, int, Product]] = []  # neighbouring gates are one product
            for matrix, arg, row, p in sorted(own, key=lambda term: term[:3]):
                if joined and joined[-1][0] == matrix and joined[-1][2] + joined[-1][1].width == row:
                    whole = joined[-1][1].joined(arg)
                    if whole is not None:
                        joined[-1] = (matrix, whole, joined[-1][2], p)
                        continue
                joined.append((matrix, arg, row, p))
            for k, (_, arg, row, p) in enumerate(joined):
                self._multiply(arg, part, p, row, arg.width, False, k > 0, -1)

    def _loops(self, stage: int, stages: int, here: list[Value]) -> None:
        work: dict[int, list[tuple[str, Value, Slot | None]]] = {}
        for value in here:
            if value.op in OPS or (value.op == "splat" and value.serial not in self.scalars):
                work.setdefault(value.width, []).append(("compute", value, None))
        for value, slot in self.copies:
            if self.stage[value.serial] == stage:
                work.setdefault(slot.width, []).append(("copy", value, slot))
        for width in sorted(work):
            self.code.lines.append(["loop", width])
            self._loop(work[width])

    def _loop(self, work: list[tuple[str, Value, Slot | None]]) -> None:
        fused = self._fused([v for kind, v, _ in work if kind == "compute"])
        for kind, value, slot in work:  # a sum over rows takes up a product, too
            alone = value.op == "mul" and value.serial not in self.home and self.uses[value.serial] == 1
            if kind == "copy" and slot is not None and slot.space == "sum" and alone and self._plain(value, work):
                fused[~value.serial] = value.serial
        operands = [self._operands(kind, v, fused) for kind, v, _ in work]
        last = {a.serial: k for k, args in enumerate(operands) for a in args}
        free: list[int] = []
        for k, ((kind, value, slot), args) in enumerate(zip(work, operands, strict=True)):
            if value.serial in fused.values() and kind == "compute":
                continue
            places = [self._read(a) for a in args]
            for arg in dict.fromkeys(args):
                if last[arg.serial] == k and arg.serial in self.registers:
                    free.append(self.registers.pop(arg.serial).plane)
            if kind == "copy":
                assert slot is not None
                op, out = ("accumulate" if slot.space == "sum" else "copy"), slot
                if value.serial in fused.values():
                    op = "accumulate_mul"
                if value.width == 1 < slot.width and value.op != "constant":
                    op = "splat"
            else:
                op, out = self._opcode(value, fused), self._write(value, free)
                if any(a.serial in self.scalars for a in args):
                    op += "_scalar"
            self.code.lines.append(["instruction", op, self.code.slot(out), *places, *[-1] * (3 - len(places))])

    def _fused(self, values: list[Value]) -> dict[int, int]:
        """What takes up an operation that nothing else uses: serial of the one → serial of the other."""
        here = {v.serial for v in values}
        fused: dict[int, int] = {}
        for value in values:
            wanted = FUSED.get(value.op)
            if any(a.serial in self.scalars for a in self.args(value)):
                continue
            first_alone = value.op in ("d_sigmoid", "d_tanh")
            for arg in self.args(value)[:1] if first_alone else self.args(value):
                rows_alone = value.op not in ("add", "sub")  # their forms do not read numbers
                if rows_alone and any(a.serial in self.scalars for a in self.args(arg)):
                    continue
                alone = arg.serial in here and self.uses[arg.serial] == 1 and arg.serial not in self.home
                if arg.op == wanted and alone and value.serial not in fused and arg.serial not in fused:
                    fused[value.serial] = arg.serial
        return fused

    def _plain(self, value: Value, work: Sequence[tuple[str, Value, Slot | None]]) -> bool:
        """Whether a product of whole rows is computed in this loop."""
        rows = not any(a.serial in self.scalars for a in self.args(value))
        return rows and any(kind == "compute" and v is value for kind, v, _ in work)

    def _operands(self, kind: str, value: Value, fused: Mapping[int, int]) -> list[Value]:
        if kind == "copy":
            return self.args(value) if value.serial in fused.values() else [value]
        if value.serial in fused.values():
            return []
        args = self.args(value)
        if value.serial not in fused:
            return self._scalar_last(args)
        inner = next(a for a in args if a.serial == fused[value.serial])
        return [*self._scalar_last(self.args(inner)), *(a for a in args if a is not inner)]

    def _scalar_last(self, args: list[Value]) -> list[Value]:
        return sorted(args, key=lambda a: a.serial in self.scalars)

    def _opcode(self, value: Value, fused: Mapping[int, int]) -> str:
        if value.serial not in fused:
            return value.op
        if value.op in ("sigmoid", "tanh"):
            return f"{value.op}_sum"
        if value.op in ("d_sigmoid", "d_tanh"):
            return f"mul_{value.op}"
        first = self.args(value)[0].serial == fused[value.serial]
        return "muladd" if value.op == "add" else "mulsub" if first else "submul"

    def _read(self, value: Value) -> int:
        known = self._known(value)
        if known is not None:
            return self.code.slot(known)
        if value.op == "constant":
            at = self.code.constants.setdefault(repr(value.attribute), len(self.code.constants))
            return self.code.slot(Slot("constant", at, 0, 0))
        if value.op == "slice":
            return self.code.slot(self._place(value))
        if value.serial in self.scalars:
            return self.code.slot(self._place(self.args(value)[0]))
        return self.code.slot(self.registers[value.serial])

    def _write(self, value: Value, free: list[int]) -> Slot:
        known = self.home.get(value.serial)
        if known is not None:
            return known
        if not free:
            free.append(self.code.registers)
            self.code.registers += 1
        slot = self.registers[value.serial] = Slot("register", free.pop(), 0, 0)
        return slot


# ---- a whole layer ----


class Tensor(NamedTuple):
    """A tensor that a call is given: what it is, how it is laid out, and the numbers of one row of it."""

    # ("projected", None), ("side", name), ("mask", None), ("zone", state), ("clamp", name), ("held", name),
    # ("hoisted", position)
    what: tuple[str, Any]
    kind: str  # "unit": one for all; "sequence": (B, row); "step": (T, B, row); "time": (T, row), for all sequences
    row: int


@dataclass
class Plan:
    """Forward and backward code for a program, and what both need to be given."""

    program: Program
    tensors: list[Tensor]
    gate: int  # numbers of a gate in the first tensor
    states: list[int]
    saved: list[int]  # widths of planes that the forward step keeps besides the states
    names: dict[str, Slot]  # where what `let` named is kept: space "new" or "saved"
    forward: Code
    backward: Code | None = None
    kept: list[int] = field(default_factory=list)  # planes that the backward step keeps for the gradients of matrices
    sums: list[int] = field(default_factory=list)  # widths of what is summed over rows and steps
    targets: list[tuple[int, int, int]] = field(default_factory=list)  # sum; tensor and offset that it is a gradient of
    gradients: dict[str, Slot] = field(default_factory=dict)  # ∂L/∂(what `let` named), where it was asked for

    @cached_property
    def holds(self) -> dict[str, tuple[int, int]]:
        """Of each value that is held: which tensors say where, and at what."""
        at = {tensor.what: k for k, tensor in enumerate(self.tensors)}
        return {name: (k, at["held", name]) for (what, name), k in at.items() if what == "clamp"}


class Planner:
    """Lays out a program: what is saved for the derivative, where everything is, and the code."""

    def __init__(
        self, program: Program, train: bool, named: bool, gradients: bool = False, alike: Collection[str] = ()
    ):
        self.program, self.train, self.gradients, self.alike = program, train, gradients, alike
        self.tensors: dict[tuple[str, Any], int] = {}
        self.listed: list[Tensor] = []
        self._tensor(("projected", None), "step", sum(program.gates.values()))  # the first, whether or not it is read
        self.step = {v.serial for v in program.values()}
        self.new = {resolve(v).serial: k for k, v in reversed(list(enumerate(program.results.values())))}
        self.states = list(program.states)
        self.saved: dict[int, int] = {}  # serial → plane
        self.widths: list[int] = []
        self.keep: list[Value] = []
        self.names = {name: self._name(value) for name, value in program.named.items()} if named else {}
        backward = self._backward() if train else None
        results = [(v, Slot("new", k, 0, program.states[name])) for k, (name, v) in enumerate(program.results.items())]
        outputs = [
            *results,
            *((v, Slot("saved", self.saved[v.serial], 0, self.widths[self.saved[v.serial]])) for v in self.keep),
        ]
        forward = Lowering(outputs, self._input, self._matrix).run()
        gate, states = self._gate(), list(program.states.values())
        self.plan = Plan(program, self.listed, gate, states, self.widths, self.names, forward)
        if backward is not None:
            code = self.plan.backward = backward.run()
            self._sums_over_rows(code, gate)
            self.plan.kept, self.plan.sums, self.plan.targets = self.kept, self.sums, self.targets
            self.plan.gradients = self.d_names

    # ---- what is given ----

    def _gate(self) -> int:
        """Numbers of the first tensor that are one row: those of a gate, or of all gates as W x is."""
        widths = self.program.gates.values()
        return sum(widths) if self.program.projects else next(iter(widths))

    def _tensor(self, what: tuple[str, Any], kind: str, row: int) -> int:
        if what not in self.tensors:
            self.tensors[what] = len(self.listed)
            self.listed.append(Tensor(what, kind, row))
        return self.tensors[what]

    def _input(self, v: Value) -> Slot | None:
        """Where a leaf of the forward step is."""
        p, name = self.program, v.attribute
        if v.op == "input":
            row, at = sum(p.gates.values()), 0 if name is None else list(p.gates).index(name)
            return Slot("input", self._tensor(("projected", None), "step", row), at * v.width, v.width)
        if v.op in ("side", "zone", "clamp", "held"):
            kind = "time" if v.op in ("clamp", "held") and name in self.alike else "step"
            return Slot("input", self._tensor((v.op, name), kind, v.width), 0, v.width)
        if v.op == "mask":
            return Slot("input", self._tensor(("mask", None), "sequence", v.width), 0, v.width)
        if v.op == "unit":
            at, start = name
            size = 1
            for n in p.hoisted[at].shape:
                size *= n
            return Slot("input", self._tensor(("hoisted", at), "unit", size), start, v.width)
        if v.op == "state":
            return Slot("old", self.states.index(name), 0, v.width)
        return None

    def _matrix(self, p: Product) -> tuple[int, int]:
        rows, depth = self.program.hoisted[p.matrix].shape
        return self._tensor(("hoisted", p.matrix), "unit", rows * depth), depth

    def _name(self, value: Value) -> Slot:
        """Where a named value is kept."""
        value = resolve(value)
        if value.serial in self.new:
            return Slot("new", self.new[value.serial], 0, self.program.states[self.states[self.new[value.serial]]])
        width = self.program.gates[next(iter(self.program.gates))] if value.op == "constant" else value.width
        return Slot("saved", self._save(value, width), 0, width)

    def _save(self, value: Value, width: int) -> int:
        if value.serial not in self.saved:
            self.saved[value.serial] = len(self.widths)
            self.widths.append(width)
            self.keep.append(value)
        return self.saved[value.serial]

    # ---- the derivative ----

    def _known_backward(self, v: Value) -> Slot | None:
        """Where the backward step finds a value: given, a state, or saved by the forward step."""
        if v.op == "gradient":
            return Slot("d_new", self.states.index(v.attribute), 0, v.width)
        given = self._input(v)
        if given is not None:
            return given
        if v.serial in self.new and v.op != "constant":
            return Slot("new", self.new[v.serial], 0, v.width)
        if v.serial in self.saved:
            return Slot("saved", self.saved[v.serial], 0, self.widths[self.saved[v.serial]])
        if v.serial not in self.step or v.op in LEAVES:
            return None
        if (v.op in OPS and OPS[v.op].cheap) or v.op in ("splat", "slice"):
            return None  # computed again
        return Slot("saved", self._save(v, v.width), 0, v.width)

    def _backward(self) -> Lowering:
        program = self.program
        d = program.differentiate()
        self.kept: list[int] = []
        self.sums: list[int] = []
        self.targets: list[tuple[int, int, int]] = []
        summed: dict[tuple[int, int], int] = {}  # value and width → sum
        self.products: list[tuple[Product, Slot, Slot]] = []
        self.d_names: dict[str, Slot] = {}
        outputs: list[tuple[Value, Slot]] = []
        homes: dict[int, Slot] = {}

        def send(value: Value, slot: Slot) -> Slot:
            outputs.append((value, slot))
            homes.setdefault(resolve(value).serial, slot)
            return slot

        projected = self._tensor(("projected", None), "step", sum(program.gates.values()))
        at = 0
        by_leaf = {(leaf.op, leaf.attribute): value for leaf, value in d.leaves.items()}
        zero = program.builder.constant(0.0)
        parts = {None: sum(program.gates.values())} if program.projects else program.gates
        for gate, width in parts.items():
            send(by_leaf.get(("input", gate), zero), Slot("d_input", projected, at, width))
            at += width
        held = {v.attribute: v.width for v in program.values() if v.op == "held" and v.attribute not in self.alike}
        for what, widths in (("side", program.sides), ("held", held)):
            for name, width in widths.items():
                tensor = self._tensor((what, name), "step", width)
                send(by_leaf.get((what, name), zero), Slot("d_input", tensor, 0, width))
        if not self.gradients:
            for value, delta in d.products:
                self._keep_product(value, delta, homes, send)
            for leaf, value in d.leaves.items():
                if leaf.op == "unit":
                    place = self._input(leaf)
                    assert place is not None
                    at = summed.setdefault((resolve(value).serial, leaf.width), len(self.sums))
                    if at == len(self.sums):
                        self.sums.append(leaf.width)
                        outputs.append((value, Slot("sum", at, 0, leaf.width)))
                    self.targets.append((at, place.plane, place.offset))
        else:
            widths = {name: slot.width for name, slot in self.names.items()} | program.states
            for name, value in (d.named | d.results).items():  # of a name that is a state's, the state's
                self.d_names[name] = self._keep(value, widths[name], homes, send)
        for k, (name, width) in enumerate(program.states.items()):
            outputs.append((d.states.get(name, zero), Slot("d_old", k, 0, width)))
        return Lowering(outputs, self._known_backward, self._matrix)

    def _keep(self, value: Value, width: int, homes: dict[int, Slot], send: Any) -> Slot:
        """Where a value is kept for every step: in a place that it has anyway, or in a plane of its own."""
        known = homes.get(resolve(value).serial)
        if known is not None and value.op != "constant":
            return known
        self.kept.append(width)
        return send(value, Slot("kept", len(self.kept) - 1, 0, width))

    def _keep_product(self, value: Value, delta: Value, homes: dict[int, Slot], send: Any) -> None:
        p: Product = value.attribute
        own = self._keep(delta, p.rows, homes, send)
        arg = resolve(value.args[0])
        known = None if arg.op in ("constant", "unit") else self._known_backward(arg)
        if known is None:
            known = self._keep(arg, arg.width, homes, send)
        self.products.append((p, own, known))

    def _sums_over_rows(self, code: Code, gate: int) -> None:
        """The gradients of matrices and of the biases of products, from the products' δ and arguments."""
        matrices: list[tuple[int, Slot, int, Slot]] = []  # tensor, argument, row, δ
        vectors: list[tuple[int, int, Slot]] = []  # tensor, first number, δ
        for p, delta, arg in self.products:
            rows, depth = p.rows // p.blocks, arg.width // p.blocks
            matrix = self.tensors["hoisted", p.matrix]
            for k in range(p.blocks):
                matrices.append((matrix, arg.part(k * depth, depth), p.row + k * rows, delta.part(k * rows, rows)))
            if p.bias is not None:
                vectors.append((self.tensors["hoisted", p.bias[0]], p.bias[1], delta))

        def join(last: Slot, after: Slot) -> Slot | None:
            if last.space == "d_input" and (last.offset % gate or last.width % gate or after.width % gate):
                return None  # parts of gates
            return last.joined(after)

        joined: list[tuple[int, Slot, int, Slot]] = []  # neighbouring rows with one argument are one
        for tensor, arg, row, delta in sorted(matrices):
            if joined and joined[-1][:2] == (tensor, arg) and joined[-1][2] + joined[-1][3].width == row:
                whole = join(joined[-1][3], delta)
                if whole is not None:
                    joined[-1] = (tensor, arg, joined[-1][2], whole)
                    continue
            joined.append((tensor, arg, row, delta))
        for tensor, arg, row, delta in joined:
            code.lines.append(["gradient", code.slot(delta), code.slot(arg), tensor, row])
        for tensor, start, delta in vectors:
            code.lines.append(["total", code.slot(delta), tensor, start])


def plan_text(plan: Plan) -> str:
    """What runs a plan, as text that any process can read: not what its values are called."""

    def code(given: Code | None) -> Any:
        if given is None:
            return None
        return [list(given.slots), list(given.constants), given.registers, given.temporaries, given.lines]

    parts = plan.tensors, plan.gate, plan.states, plan.saved, code(plan.forward), code(plan.backward), plan.kept
    return json.dumps([*parts, plan.sums, plan.targets], separators=(",", ":"))


def plan_from_text(text: str) -> Plan:
    """The plan that :func:`plan_text` wrote, without its program."""
    tensors, gate, states, saved, forward, backward, kept, sums, targets = json.loads(text)

    def code(given: Any) -> Code:
        slots, constants, *rest = given
        return Code({Slot(*s): k for k, s in enumerate(slots)}, {c: k for k, c in enumerate(constants)}, *rest)

    none: Any = None
    return Plan(
        none,
        [Tensor(tuple(what), kind, row) for what, kind, row in tensors],
        gate,
        states,
        saved,
        {},
        code(forward),
        None if backward is None else code(backward),
        kept,
        sums,
        [tuple(each) for each in targets],
    )


def plan(program: Program, train: bool, named: bool, gradients: bool = False, alike: Collection[str] = ()) -> Plan:
    """The code of `program`: for a run that is differentiated (`train`), whose named values are seen (`named`), and
    whose derivative keeps ∂L/∂(each of them), in the place of those of matrices and vectors (`gradients`). What holds
    the values `alike` is the same for all sequences, and has no gradient."""
    return Planner(program, train, named, gradients, alike).plan
