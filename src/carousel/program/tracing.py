"""From a cell's `step` to a program: the step runs once on tensors whose operations are recorded.

The operations that torch dispatches are the program. What depends on parameters alone is hoisted: torch computes it
once per call, before the loop, whatever it is. What the loop computes must have an opcode; a step that has something
else, or that looks at numbers to decide what to do, is not a program: :class:`NotAProgram` says why, with its line.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import BackwardCFunction
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map_only

from ..cells.spec import Cell, ParameterSpec, Sizes, Weights
from .torch_operations import HANDLERS
from .values import Builder, Product, Value, reachable

_HERE, _TORCH = str(Path(__file__).parent), str(Path(torch.__file__).parent)


class NotAProgram(Exception):
    """Why a step is no program."""


@dataclass
class Hoisted:
    """A tensor that is computed before the loop: a parameter or buffer by name, a constant, or a call of torch."""

    parameter: str = ""
    constant: Tensor | None = None
    call: tuple[Any, tuple[Any, ...], dict[str, Any], int | None, bool] | None = (
        None  # function, arguments, which result
    )
    shape: tuple[int, ...] = ()

    def __repr__(self) -> str:
        if self.call is None:
            return self.parameter or "constant"
        return self.call[0]._schema.name.removeprefix("aten::")


@dataclass(frozen=True)
class Reference:
    """In the arguments of a hoisted call: another hoisted tensor."""

    at: int


class Tracer(TorchDispatchMode):
    """Records the operations of a step on `batch` sequences."""

    def __init__(self, batch: int, dtype: torch.dtype):
        super().__init__()
        self.batch, self.dtype = batch, dtype
        self.builder = Builder()
        self.hoisted: list[Hoisted] = []
        self.named: dict[str, Value] = {}
        self.rows: dict[int, Value] = {}  # of tensors, by identity
        self.units: dict[int, int] = {}
        self.parts: dict[int, tuple[int, int]] = {}  # of parts of a vector: where it is hoisted, first number
        self.alive: list[Tensor] = []  # so that no identity is used twice
        self.projected: Value | None = None

    @classmethod
    def _should_skip_dynamo(cls) -> bool:  # it would import all of dynamo, for seconds, and no trace is compiled
        return False

    # ---- what is known of a tensor ----

    def enter_row(self, tensor: Tensor, value: Value) -> Tensor:
        self.alive.append(tensor)
        self.rows[id(tensor)] = value
        return tensor

    def enter_unit(self, tensor: Tensor, hoisted: Hoisted) -> Tensor:
        hoisted.shape = tuple(tensor.shape)
        self.alive.append(tensor)
        self.units[id(tensor)] = len(self.hoisted)
        self.hoisted.append(hoisted)
        return tensor

    def value(self, given: Any) -> Value:
        """The value of an argument of an operation."""
        if not isinstance(given, Tensor):
            return self.builder.constant(float(given))
        if id(given) in self.rows:
            return self.rows[id(given)]
        at = self.units[id(given)]
        if given.dim() > 2 or (given.dim() == 2 and given.shape[0] != 1) or given.is_complex():
            raise self.refused(f"a {given.dtype} tensor of shape {tuple(given.shape)} meets the sequences of a batch")
        return self.builder.make("unit", attribute=self.parts.get(id(given), (at, 0)), width=given.numel())

    def refused(self, why: str) -> NotAProgram:
        return NotAProgram(f"{why}{_line()}")

    # ---- operations ----

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = func._schema.name.removeprefix("aten::")
        tensors = [t for t in tree_flatten((args, kwargs))[0] if isinstance(t, Tensor)]
        if name == "lift_fresh":  # torch.tensor(…)
            return self.enter_unit(func(*args), Hoisted(constant=tensors[0].clone()))
        for t in tensors:
            if id(t) not in self.rows and id(t) not in self.units:
                raise self.refused(f"{name} reads a tensor that is no parameter, buffer or input of the cell")
        if name in ("_local_scalar_dense", "is_nonzero", "item"):
            raise self.refused("a number is read out of a tensor, so that what happens next may depend on it")
        if torch.Tag.nondeterministic_seeded in func.tags:
            raise self.refused(f"{name} draws random numbers")
        if func._schema.is_mutable:
            raise self.refused(f"{name} changes a tensor in place")
        out = func(*args, **kwargs)
        if not any(id(t) in self.rows for t in tensors):
            return self._hoist(func, args, kwargs, out)
        handler = HANDLERS.get(name)
        if handler is None:
            raise self.refused(f"{name} has no opcode")
        value = handler(self, out, *args, **kwargs)
        if isinstance(value, Value):
            return self._result(name, out, value)
        for each, own in zip(out, value, strict=True):
            if own is not None:
                self._result(name, each, own)
        return out

    def _result(self, name: str, out: Tensor, value: Value) -> Tensor:
        if out.dim() not in (1, 2) or out.shape[0] != self.batch:
            raise self.refused(
                f"{name} gives a tensor of shape {_shape(out, self.batch)}, not one row for each sequence"
            )
        if out.dtype not in (self.dtype, torch.bool):
            raise self.refused(f"{name} gives {out.dtype}, the layer has {self.dtype}")
        if not torch.is_grad_enabled() and value.op != "detach":
            value = self.builder.make("detach", (value,), width=value.width)
        return self.enter_row(out, value)

    def _hoist(self, func: Any, args: Any, kwargs: Any, out: Any) -> Any:
        for each in out if isinstance(out, (tuple, list)) else (out,):
            if isinstance(each, Tensor) and self.batch in each.shape:
                return self._repeated(func._schema.name.removeprefix("aten::"), args, out)
        graded = torch.is_grad_enabled()
        if graded:
            self._note_parts(func._schema.name.removeprefix("aten::"), args, out)
        args, kwargs = tree_map_only(Tensor, lambda t: Reference(self.units[id(t)]), (args, kwargs))
        if isinstance(out, Tensor):
            return self.enter_unit(out, Hoisted(call=(func, args, kwargs, None, graded)))
        for k, each in enumerate(out if isinstance(out, (tuple, list)) else ()):
            if isinstance(each, Tensor):
                self.enter_unit(each, Hoisted(call=(func, args, kwargs, k, graded)))
        return out

    def _note_parts(self, name: str, args: Any, out: Any) -> None:
        """Parts of a vector are read where they stand in it."""
        whole = args[0] if args and isinstance(args[0], Tensor) else None
        if (
            name not in ("split", "split_with_sizes", "slice")
            or whole is None
            or whole.dim() != 1
            or whole.is_complex()
        ):
            return
        at, start = self.parts.get(id(whole), (self.units[id(whole)], 0))
        parts = [out] if isinstance(out, Tensor) else out
        if name == "slice":
            first = args[2] if len(args) > 2 and args[2] is not None else 0
            if len(args) > 4 and args[4] != 1:
                return
            start += first + len(whole) if first < 0 else first
        for part in parts:
            self.parts[id(part)] = at, start
            start += len(part)

    def _repeated(self, name: str, args: Any, out: Tensor) -> Tensor:
        """What stands once for each sequence though all have the same: a vector that was expanded, or a fill."""
        if name == "expand" and isinstance(args[0], Tensor):
            return self._result(name, out, self.value(args[0]))
        if name in ("zeros", "ones", "full"):
            return self._result(name, out, self.builder.constant(float(out.flatten()[0])))
        raise self.refused(f"{name} gives a tensor whose shape depends on the number of sequences")

    def let(self, name: str, value: Any) -> Any:
        if not isinstance(value, Tensor) or (id(value) not in self.rows and id(value) not in self.units):
            raise self.refused(f"let({name!r}, …) names what is no value of the step")
        if id(value) in self.units:
            value = value.expand(self.batch, *value.shape[-1:])
        own = self.builder.make("let", (self.rows[id(value)],), name, self.rows[id(value)].width)
        self.named[name] = own
        return self.enter_row(value.view_as(value), own)

    # ---- products ----

    def transposed(self, matrix: Tensor) -> int:
        """The position of a hoisted matrix turned over."""
        at = self.units[id(matrix)]
        call = self.hoisted[at].call
        if call is not None and call[0] in (torch.ops.aten.t.default, torch.ops.aten.mT.default):
            return call[1][0].at
        if call is not None and call[0] is torch.ops.aten.transpose.int and matrix.dim() == 2:
            return call[1][0].at
        turned = matrix.detach().t()
        self.enter_unit(turned, Hoisted(call=(torch.ops.aten.t.default, (Reference(at),), {}, None, True)))
        return self.units[id(turned)]

    def product(self, v: Tensor, matrix: int, row: int, rows: int, label: str, **how: Any) -> Tensor:
        """`rows` rows of a hoisted matrix times v, as a tensor of the trace that autograd sees."""
        argument = self.value(v)
        width = v.shape[-1]
        argument = self.builder.widen(argument, width)
        if argument.op == "constant":
            argument = self.builder.make("splat", (argument,), width=width)
        attribute = Product(matrix, row, rows, label, **how)
        out = v.sum(-1, keepdim=True).expand(-1, rows)
        return self.enter_row(out, self.builder.make("product", (argument,), attribute, rows))


def _shape(t: Tensor, batch: int) -> str:
    return "(" + ", ".join("B" if n == batch else str(n) for n in t.shape) + ")"


def _line() -> str:
    """Where the step is, in the user's file: the innermost line that is neither torch's nor the tracer's."""
    frame: Any = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        if not name.startswith((_HERE, _TORCH, "<")):
            return f" ({Path(name).name}, line {frame.f_lineno})"
        frame = frame.f_back
    return ""


class TracedWeights(Weights):
    """The parameters of a layer in a trace."""

    def __init__(self, cell: Cell, parameters: Mapping[str, Tensor], tracer: Tracer, mask: Tensor | None, sizes: Sizes):
        super().__init__(cell, parameters, mask)
        self.tracer, self.sizes = tracer, sizes

    @property
    def hidden_size(self) -> int:
        return self.sizes.hidden

    def U(self, v: Tensor, *gates: str) -> Any:
        if self.mask is not None:
            v = v * self.mask
        out = [self._gate(v, gate) for gate in gates or self.cell.Recurrent._fields]
        if gates:
            self.cell.recurrent_rows(gates)  # complains of gates that are not neighbours
        return self.cell.Recurrent(*out) if not gates else out[0] if len(out) == 1 else tuple(out)

    def _gate(self, v: Tensor, gate: str) -> Tensor:
        kind, rows, bias_rows = self.cell.recurrent_rows((gate,))
        hidden, tracer = self.sizes.hidden, self.tracer
        if kind == "diagonal":
            product = v * self.weight_hh_diagonal[rows.start * hidden : rows.stop * hidden]
            if self.bias_hh is None:
                return product
            return product + self.bias_hh[bias_rows.start * hidden : bias_rows.stop * hidden]
        matrix = self.weight_hh if kind == "dense" else self.weight_hh_blocks
        bias = None if self.bias_hh is None else (tracer.units[id(self.bias_hh)], bias_rows.start * hidden)
        blocks = self.cell.blocks if kind == "blocks" else 1
        at = tracer.units[id(matrix)]
        return tracer.product(v, at, rows.start * hidden, hidden, f"U_{gate}", blocks=blocks, bias=bias)

    def project(self, m: Tensor) -> Tensor:
        if self.weight_hr is None:
            return m
        tracer = self.tracer
        return tracer.product(m, tracer.units[id(self.weight_hr)], 0, self.weight_hr.shape[0], "W_hr")


@dataclass
class Traced:
    """What a trace found."""

    hoisted: list[Hoisted]
    states: dict[str, Value]  # the new states
    named: dict[str, Value]
    builder: Builder
    projected: Value | None = None  # what the cell's own `project_input` makes of W x, if that is a part of the step


def trace(cell: Cell, sizes: Sizes, dtype: torch.dtype, masked: bool, projects: bool) -> Traced:
    """The step of `cell` in a layer of these sizes; `masked`: with recurrent dropout; `projects`: with what its own
    `project_input` makes of W x."""
    if type(cell).inputs is not Cell.inputs:
        raise NotAProgram(f"{cell!r} has a method `inputs` of its own")
    for name, spec in cell.states.items():
        if name in cell.own_states and (spec.dtype != "real" or len(_state_shape(cell, name, sizes)) != 1):
            raise NotAProgram(f"the state {name!r} of {cell!r} is complex or has more than one dimension")
    for name, side in cell.side_inputs.items():
        if len(side.shape(sizes)) > 1:
            raise NotAProgram(f"the side input {name!r} of {cell!r} has more than one dimension at a step")
    taken = {*sizes, len(cell.gates), cell.blocks, len(cell.gates) * sizes.hidden, 1}
    batch = next(n for n in range(11, 1000) if n not in taken)  # to be told from every other size
    with torch.inference_mode(False), torch.enable_grad(), torch.device("cpu"):
        tracer = Tracer(batch, dtype)
        step = _prepare(cell, sizes, dtype, masked, tracer, projects)
        try:
            with tracer:
                new = step()
        except NotAProgram:
            raise
        except Exception as error:  # the reference path meets it again, and raises it where it belongs
            raise NotAProgram(f"the step of {cell!r} cannot be traced: {type(error).__name__}: {error}") from None
        traced = _finish(cell, sizes, tracer, new)
    if projects and any(v.op == "x" for v in reachable([*traced.states.values(), *traced.named.values()])):
        raise NotAProgram(f"{cell!r}.project_input reads x not only through weight_ih")
    return traced


def _state_shape(cell: Cell, name: str, sizes: Sizes) -> tuple[int, ...]:
    shape = cell.states[name].shape
    return shape(sizes) if shape else (sizes.projected if name == cell.output else sizes.hidden,)


def _prepare(
    cell: Cell, sizes: Sizes, dtype: torch.dtype, masked: bool, tracer: Tracer, projects: bool
) -> Callable[[], Any]:
    """The step as a function without arguments, on tensors of the trace; `projects`: from x itself."""

    def row(op: str, name: str | None, *shape: int) -> Tensor:
        width = shape[0] if shape else 1
        value = tracer.builder.make(op, attribute=name, width=width)
        return tracer.enter_row(torch.full((tracer.batch, *shape), 0.5, dtype=dtype, requires_grad=True), value)

    parameters = {}
    for name, given in cell.parameters(sizes).items():
        spec = given if isinstance(given, ParameterSpec) else ParameterSpec(tuple(given))
        kind = dtype.to_complex() if spec.dtype == "complex" else dtype
        value = torch.full(spec.shape, 0.5, dtype=kind, requires_grad=True)
        parameters[name] = tracer.enter_unit(value, Hoisted(parameter=name))
    for name, value in cell.buffers(sizes).items():
        value = value.to(dtype) if value.is_floating_point() else value
        parameters[name] = tracer.enter_unit(value.clone(), Hoisted(parameter=name))
    mask = row("mask", None, *_state_shape(cell, cell.output, sizes)) if masked else None
    weights = TracedWeights(cell, parameters, tracer, mask, sizes)
    gates = [] if projects else [row("input", gate, sizes.hidden) for gate in cell.gates]
    x = row("x", None, sizes.input) if projects else None
    sides = [row("side", name, *side.shape(sizes)) for name, side in cell.side_inputs.items()]
    states = tuple(row("state", name, *_state_shape(cell, name, sizes)) for name in cell.own_states)

    def step() -> Any:
        own = gates
        if x is not None:
            projected = cell.project_input(x, weights)
            if projected.shape != (tracer.batch, len(cell.gates) * sizes.hidden):
                raise NotAProgram(f"{cell!r}.project_input gives another shape than that of W x + b")
            tracer.projected = tracer.value(projected)
            own = list(projected.chunk(len(cell.gates), -1))
        return cell.step(cell.Inputs(*own, *sides), states, weights, tracer.let)

    return step


def _finish(cell: Cell, sizes: Sizes, tracer: Tracer, new: Any) -> Traced:
    if not isinstance(new, tuple) or len(new) != len(cell.own_states):
        raise NotAProgram(f"{cell!r}.step does not return a tuple with every state")
    states = {}
    for name, tensor in zip(cell.own_states, new, strict=True):
        width = _state_shape(cell, name, sizes)[0]
        if not isinstance(tensor, Tensor) or tensor.shape not in ((tracer.batch, width), (width,)):
            raise NotAProgram(f"{cell!r}.step returns {name} in another shape than it had")
        if id(tensor) not in tracer.rows and id(tensor) not in tracer.units:
            raise NotAProgram(f"{cell!r}.step returns as {name} a tensor that it did not compute")
        states[name] = tracer.builder.widen(tracer.value(tensor), width)
    _refuse_own_derivatives(cell, [t for t in new if t.grad_fn is not None])
    return Traced(tracer.hoisted, states, tracer.named, tracer.builder, tracer.projected)


def _refuse_own_derivatives(cell: Cell, results: list[Tensor]) -> None:
    """A torch.autograd.Function has a derivative that its operations do not show."""
    waiting: list[Any] = [t.grad_fn for t in results]
    seen: set[Any] = set()
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if isinstance(node, BackwardCFunction):
            raise NotAProgram(f"{cell!r}.step uses {type(node).__name__}, a derivative of its own")
        waiting += [each for each, _ in node.next_functions]
