"""A cell as a program: named values, the operations between them, and their derivative.

A program is kept apart from what runs it: it can be printed, typeset, differentiated, evaluated with torch, and lowered
for the kernels (`lowering.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from ..cells.spec import Cell, ParameterSpec, Sizes, Weights
from .derivative import Derivative, derive
from .equations import Equations
from .tracing import Hoisted, NotAProgram, Reference, Traced, trace
from .values import OPS, Builder, Value, reachable


@dataclass(eq=False)
class Program:
    """One step of a cell in a layer of given sizes.

    * `gates`, `sides`, `states`: the names of what a step reads, and how many numbers each has for one sequence;
    * `hoisted`: the tensors that all steps share, computed before the loop;
    * `results`: the new states; `named`: what `let` named; values are :class:`~carousel.program.values.Value`.

    >>> print(carousel.cells.GRU().program())
    r = σ(W_r x + b_r + U_r h₋)
    z = σ(W_z x + b_z + U_z h₋)
    n = tanh(W_n x + b_n + r∘(U_n h₋))
    h = (1 − z)∘n + z∘h₋
    """

    cell: str
    gates: dict[str, int]
    sides: dict[str, int]
    states: dict[str, int]
    hoisted: list[Hoisted]
    results: dict[str, Value]
    named: dict[str, Value]
    builder: Builder
    projects: bool = False  # the step reads W x, and makes of it what the gates see

    @cached_property
    def recipe(self) -> tuple[Any, ...]:
        """How `hoisted` is computed."""
        return recipe(self.hoisted)

    def values(self) -> list[Value]:
        """Everything that the step computes, in an order in which it can be computed."""
        return reachable([*self.results.values(), *self.named.values()])

    def differentiate(self) -> Derivative:
        """The derivative as values; :meth:`derivative` shows it."""
        return derive(self.builder, self.results, self.named)

    def with_zoneout(self, rates: Mapping[str, float], drawn: bool) -> Program:
        """The program whose states keep their previous value: where a mask says so (`drawn`), or in expectation."""
        if not rates:
            return self
        own = self._rewritten(lambda v, args: args[0] if v.op == "let" and v.attribute in rates else None)
        b, results, named = self.builder, own.results, own.named  # a state gets its name when it is mixed
        for name, width in self.states.items():
            if name not in rates:
                continue
            new, rate = results[name], rates[name]
            named.pop(name, None)
            old = b.make("state", attribute=name, width=width)
            if drawn:
                mixed = b.apply("where", b.make("zone", attribute=name, width=width), old, new)
            else:
                mixed = b.apply("add", b.apply("mul", old, rate), b.apply("mul", new, 1 - rate))
            results[name] = named[name] = b.make("let", (mixed,), name, width)
        return own

    def with_clamps(self, names: Collection[str]) -> Program:
        """The program in which what `let` names so is another value wherever a mask says so."""
        b = self.builder

        def clamped(v: Value, args: tuple[Value, ...]) -> Value | None:
            if v.op != "let" or v.attribute not in names:
                return None
            mask, held = (b.make(op, attribute=v.attribute, width=v.width) for op in ("clamp", "held"))
            return b.make("let", (b.apply("where", mask, held, args[0]),), v.attribute, v.width)

        return self._rewritten(clamped)

    @cached_property
    def widths(self) -> dict[str, set[int]]:
        """How many numbers the values have that `let` names, by name; 0 stands for a constant, which has any number."""
        widths: dict[str, set[int]] = {}
        for v in self.values():
            if v.op == "let":
                widths.setdefault(v.attribute, set()).add(0 if v.args[0].op == "constant" else v.width)
        return widths

    def _rewritten(self, change: Callable[[Value, tuple[Value, ...]], Value | None]) -> Program:
        """The program with each value replaced by what `change` makes of it and its new arguments; None: as it was."""
        known: dict[int, Value] = {}
        for v in self.values():
            args = tuple(known[a.serial] for a in v.args)
            known[v.serial] = change(v, args) or self.builder.make(v.op, args, v.attribute, v.width)
        results, named = (
            {name: known[v.serial] for name, v in values.items()} for values in (self.results, self.named)
        )
        return replace(self, results=results, named=named)

    # ---- reading it ----

    def __str__(self) -> str:
        return Equations(self.hoisted).text(self.results, self.named)

    def latex(self) -> str:
        """The equations for LaTeX, in an `aligned` environment."""
        return Equations(self.hoisted, latex=True).text(self.results, self.named)

    def _repr_latex_(self) -> str:
        return f"$$\n{self.latex()}\n$$"

    def __repr__(self) -> str:
        return f"<program of {self.cell}: {len(self.values())} values>\n{self}"

    def derivative(self) -> Backward:
        """The backward step: from ∂h, which is ∂L/∂h as the output and later steps give it, to dh₋."""
        return Backward(self, self.differentiate())


@dataclass(eq=False)
class Backward:
    """The derivative of a program, to be read like it."""

    program: Program
    values: Derivative

    def _lines(self) -> tuple[dict[str, Value], dict[str, Value]]:
        d = self.values
        results = {f"d{name}₋": v for name, v in d.states.items()}
        for leaf, value in d.leaves.items():
            if leaf.op != "unit":
                results[f"d({leaf.attribute})"] = value
        return results, {f"d{name}": v for name, v in d.named.items()}

    def __str__(self) -> str:
        return Equations(self.program.hoisted, forward=self.program.named).text(*self._lines())

    def latex(self) -> str:
        return Equations(self.program.hoisted, latex=True, forward=self.program.named).text(*self._lines())

    def _repr_latex_(self) -> str:
        return f"$$\n{self.latex()}\n$$"

    def __repr__(self) -> str:
        return f"<derivative of {self.program.cell}>\n{self}"


def program_of(cell: Cell, sizes: Sizes, dtype: torch.dtype = torch.float32, masked: bool = False) -> Program:
    """Trace the step of `cell`; :class:`~carousel.program.tracing.NotAProgram` says why that cannot be."""
    traced = _trace(cell, sizes, dtype, masked)
    widths = {name: value.width if value.op != "constant" else 0 for name, value in traced.states.items()}
    for name in widths:
        shape = cell.states[name].shape
        own = sizes.projected if name == cell.output else sizes.hidden
        widths[name] = shape(sizes)[0] if shape else own
    sides = {name: (side.shape(sizes) or (1,))[0] for name, side in cell.side_inputs.items()}
    gates = dict.fromkeys(cell.gates, sizes.hidden)
    results, named = traced.states, traced.named
    return Program(
        repr(cell), gates, sides, widths, traced.hoisted, results, named, traced.builder, traced.projected is not None
    )


def _trace(cell: Cell, sizes: Sizes, dtype: torch.dtype, masked: bool) -> Traced:
    """With the cell's own `project_input` as a part of the step where possible; else torch computes it before."""
    if type(cell).project_input is not Cell.project_input and not cell.input_window:
        try:
            traced = trace(cell, sizes, dtype, masked, projects=True)
            if _projects_alike(cell, sizes, dtype, traced):
                return traced
        except NotAProgram:
            pass
    return trace(cell, sizes, dtype, masked, projects=False)


def _projects_alike(cell: Cell, sizes: Sizes, dtype: torch.dtype, traced: Traced) -> bool:
    """Whether what was traced on one step is what `project_input` makes of x (T, B, I), whose rows it may mix."""
    assert traced.projected is not None
    random = torch.Generator().manual_seed(0)

    def draw(shape: Sequence[int], kind: torch.dtype) -> Tensor:
        return torch.rand(*shape, generator=random, dtype=torch.float64).to(kind)

    own = {}
    for name, given in cell.parameters(sizes).items():
        spec = given if isinstance(given, ParameterSpec) else ParameterSpec(tuple(given))
        own[name] = draw(spec.shape, dtype.to_complex() if spec.dtype == "complex" else dtype)
    own |= {name: b.to(dtype) if b.is_floating_point() else b for name, b in cell.buffers(sizes).items()}
    x = draw((2, 3, sizes.input), dtype)
    with torch.no_grad():
        try:
            expected = cell.project_input(x, Weights(cell, own))
        except Exception:  # the reference path meets it again
            return False
        leaves = {("input", None): torch.nn.functional.linear(x, own["weight_ih"]).flatten(0, 1)}
        found = evaluate({"": traced.projected}, leaves, hoist(recipe(traced.hoisted), own))[""]
    rows, relative = len(cell.gates) * sizes.hidden, 1e-4 if dtype is torch.float32 else 1e-9
    if expected.shape != (2, 3, rows):
        return False
    return torch.allclose(found.expand(6, rows), expected.flatten(0, 1), rtol=relative, atol=relative / 10)


def recipe(hoisted: Sequence[Hoisted]) -> tuple[Any, ...]:
    """How to compute the hoisted tensors, in names, numbers and tuples alone, which torch.compile can follow.

    Of each: a parameter's name; a constant as nested lists and its type; or operator, arguments, keyword arguments,
    which of its results, and whether autograd records. ("tensor", k) among the arguments is the hoisted tensor k.
    """

    def encoded(value: Any) -> Any:
        if isinstance(value, Reference):
            return "tensor", value.at
        if isinstance(value, (list, tuple)):
            return "list", tuple(map(encoded, value))
        return "value", value

    steps: list[Any] = []
    for each in hoisted:
        if each.constant is not None:
            steps.append((each.constant.tolist(), each.constant.dtype))
        elif each.call is None:
            steps.append(each.parameter)
        else:
            function, args, kwargs, which, graded = each.call
            namespace, _, name = function._schema.name.partition("::")
            named = tuple((key, encoded(value)) for key, value in kwargs.items())
            operator = namespace, name, function._overloadname
            steps.append((operator, tuple(map(encoded, args)), named, which, graded))
    return tuple(steps)


def hoist(steps: Sequence[Any], parameters: Mapping[str, Tensor]) -> list[Tensor]:
    """The hoisted tensors by their :func:`recipe`, from parameters and buffers by name; autograd records what is
    computed."""
    tensors: list[Tensor] = []

    def decoded(given: Any) -> Any:
        kind, value = given
        if kind == "list":
            return [decoded(each) for each in value]
        return tensors[value] if kind == "tensor" else value

    for step in steps:
        if isinstance(step, str):
            tensors.append(parameters[step])
        elif len(step) == 2:
            tensors.append(torch.tensor(step[0], dtype=step[1]))
        else:
            (namespace, name, overload), args, named, which, graded = step
            function = getattr(getattr(getattr(torch.ops, namespace), name), overload)
            with nullcontext() if graded else torch.no_grad():
                out = function(*[decoded(a) for a in args], **{key: decoded(value) for key, value in named})
            tensors.append(out if which is None else out[which])
    return tensors


def evaluate(
    values: Mapping[Any, Value], leaves: Mapping[tuple[str, Any], Tensor], hoisted: list[Tensor]
) -> dict[Any, Tensor]:
    """Values with torch, from what their leaves are by (operation, attribute): the program's slow twin."""
    known: dict[int, Tensor] = {}
    like = next(iter(leaves.values()))
    for value in reachable(list(values.values())):
        args = [known[a.serial] for a in value.args]
        known[value.serial] = _evaluate(value, args, leaves, hoisted, like)
    return {name: known[value.serial] for name, value in values.items()}


def _evaluate(v: Value, args: list[Tensor], leaves: Any, hoisted: list[Tensor], like: Tensor) -> Tensor:
    if v.op in OPS:
        return OPS[v.op].evaluate(*args)
    if v.op == "constant":
        return like.new_tensor(v.attribute)
    if v.op == "unit":
        at, start = v.attribute
        return hoisted[at].flatten()[start : start + v.width]
    if v.op in ("let", "detach"):
        return args[0].detach() if v.op == "detach" else args[0]
    if v.op == "product":
        return _product(args[0].expand(*args[0].shape[:-1], v.args[0].width), v, hoisted)
    if v.op == "back":
        return sum(_back(d, p, hoisted) for d, p in zip(args, v.attribute, strict=True))  # type: ignore[return-value]
    if v.op in ("sum", "amax"):
        return args[0].sum(-1, keepdim=True) if v.op == "sum" else args[0].amax(-1, keepdim=True)
    if v.op == "splat":
        return args[0].expand(*like.shape[:-1], v.width)
    if v.op == "slice":
        return args[0][..., v.attribute : v.attribute + v.width]
    if v.op == "cat":
        return torch.cat([a.expand(*like.shape[:-1], part.width) for a, part in zip(args, v.args, strict=True)], -1)
    return leaves[v.op, v.attribute]


def _blocks(p: Any, hoisted: list[Tensor]) -> Tensor:
    return hoisted[p.matrix][p.row : p.row + p.rows].unflatten(0, (p.blocks, -1))  # (blocks, rows, depth)


def _product(v: Tensor, value: Value, hoisted: list[Tensor]) -> Tensor:
    p = value.attribute
    out = torch.einsum("...nk,nmk->...nm", v.unflatten(-1, (p.blocks, -1)), _blocks(p, hoisted)).flatten(-2)
    if p.bias is not None:
        out = out + hoisted[p.bias[0]].flatten()[p.bias[1] : p.bias[1] + p.rows]
    return out


def _back(d: Tensor, p: Any, hoisted: list[Tensor]) -> Tensor:
    return torch.einsum("...nm,nmk->...nk", d.unflatten(-1, (p.blocks, -1)), _blocks(p, hoisted)).flatten(-2)
