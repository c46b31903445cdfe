"""Layers whose cell has no kernel of its own: its step as a program, traced once and kept beside the layer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from ..cells.spec import Cell, Sizes, State, Weights
from ..ops import backend
from ..ops.program import Compiled, ProgramCall, run_program
from ..program import NotAProgram, Program, program_of
from ..program.lowering import plan
from .batch import Batch
from .trace import Clamp, Seen, clamp_planes
from .unroll import Run, Unrolled, project

WHY = f"the cell's program in native kernels ({backend.isa()})"


@dataclass
class Programs:
    """The programs of one layer, and the code made of them, as long as its cell is the same."""

    cell: Any
    options: Any  # what its cell's attributes were
    programs: dict[Any, Program | str] = field(default_factory=dict)  # or why there is none
    compiled: dict[Any, Compiled] = field(default_factory=dict)


# Beside the layers, not in them: a layer is copied and pickled.
_known: WeakKeyDictionary[Any, Programs] = WeakKeyDictionary()


def _options(value: Any) -> Any:
    """What can be seen of a cell's attributes: numbers and text by value, anything else by identity."""
    if isinstance(value, (int, float, str, bool, type(None))):
        return type(value), value
    if isinstance(value, (tuple, list)):
        return type(value), *map(_options, value)
    if isinstance(value, dict):
        return tuple((k, _options(v)) for k, v in value.items())
    return type(value), id(value)


def _programs(layer: Any) -> Programs:
    found, options = _known.get(layer), _options(vars(layer.cell))
    if found is None or found.cell is not layer.cell or found.options != options:
        found = _known[layer] = Programs(layer.cell, options)
    return found


def _program(layer: Any, sizes: Sizes, dtype: torch.dtype, masked: bool) -> Program | str:
    """The program of a layer of these sizes, or why there is none."""
    programs = _programs(layer).programs
    key = sizes, dtype, masked
    if key not in programs:
        try:
            programs[key] = program_of(layer.cell, sizes, dtype, masked)
            _check_projection(layer, sizes, dtype)
        except NotAProgram as error:
            programs[key] = str(error)
    return programs[key]


def _check_projection(layer: Any, sizes: Sizes, dtype: torch.dtype) -> None:
    """Refuse a `project_input` whose result the program could not read."""
    cell = layer.cell
    if type(cell).project_input is Cell.project_input:
        return
    window = (1 + cell.input_window,) if cell.input_window else ()
    at = 0 if sizes == layer._sizes(0) else 1
    weights = Weights(cell, layer._values_at(f"_l{at}"))
    with torch.no_grad():
        projected = cell.project_input(torch.zeros(1, 1, *window, sizes.input, dtype=dtype), weights)
    if projected.dtype is not dtype or projected.shape != (1, 1, len(cell.gates) * sizes.hidden):
        shape = tuple(projected.shape)
        raise NotAProgram(f"{cell!r}.project_input gives {projected.dtype} of shape {shape}, not W x + b of each gate")


def unsupported_reason(
    layer: Any, batch: Batch, state: Sequence[Tensor] | None = None, clamps: Sequence[Clamp] = ()
) -> str | None:
    """Why this call cannot run as a program, or None if it can."""
    tensors = (batch.x, *layer.parameters(), *(state or ()), *batch.side, batch.lengths, batch.reset)
    reason = backend.unsupported_reason("layer", *tensors)
    for clamp in clamps:
        if reason is None and isinstance(clamp.value, Tensor):
            reason = backend.unsupported_reason("layer", clamp.value)
    if reason is not None:
        return reason
    if batch.size == 0:
        return "the batch is empty"
    masked = bool(layer.training and layer.recurrent_dropout)
    for at in range(min(2, layer.num_layers)):
        program = _program(layer, layer._sizes(at), batch.x.dtype, masked)
        if isinstance(program, str):
            return program
        for name in dict.fromkeys(clamp.name for clamp in clamps):
            size = layer.state_shape(name)[0] if name in layer.cell.states else layer.hidden_size
            if name not in layer.zoneout and not program.widths_of(name) <= {size}:
                return f"what {layer.cell!r} names {name!r} does not have {size} units"
    return None


def run(
    layer: Any,
    at: int,
    w: Weights,
    x: Tensor,
    batch: Batch,
    run: Run,
    clamps: Sequence[Clamp] | None = None,
    gradients: dict[str, Tensor] | None = None,
) -> tuple[Unrolled, list[Seen]]:
    """One direction of layer `at`, as `unroll` gives it, and with `clamps` (there may be none) what was seen of it.

    `gradients` receives ∂L/∂(value) by name when the call is differentiated; the parameters then have no gradient.
    """
    assert run.state is not None and run.restart_state is not None
    if gradients is not None:  # nothing else is differentiated
        w = Weights(layer.cell, {n: v.detach() for n, v in vars(w).items() if isinstance(v, Tensor)}, w.mask)
    plain = type(layer.cell).project_input is Cell.project_input and not layer.cell.input_window
    projected, past = (x, None) if plain else project(layer.cell, w, x, run)
    program = _program(layer, layer._sizes(at), x.dtype, w.mask is not None)
    assert isinstance(program, Program)
    values = vars(w)
    names = [hoisted.parameter for hoisted in program.hoisted if hoisted.parameter]
    hoisted = program.hoist({name: values[name.replace(".", "_")] for name in names})
    count = len(program.states)
    state, restart = run.state[:count], run.restart_state[:count]
    if gradients is not None:
        state, restart = _detached(state), _detached(restart)
    given: dict[tuple[str, Any], Any] = {("projected", None): projected, ("mask", None): w.mask}
    given |= {("hoisted", k): tensor for k, tensor in enumerate(hoisted)}
    given |= {("side", n): s.reshape(*x.shape[:2], -1) for n, s in zip(program.sides, run.side, strict=True)}
    if run.zoneout is not None:
        given |= {("zone", name): keep for name, keep in run.zoneout.keep.items()}
    given |= _held(layer, program, clamps or (), x)
    graded = backend.autograd_records() and any(t is not None and t.requires_grad for t in (*given.values(), *state))
    compiled = _compiled(layer, program, x.dtype, run, graded, clamps, gradients is not None)
    call = ProgramCall(
        compiled, run.reverse, batch.lengths, batch.reset, traced=clamps is not None, gradients=gradients
    )
    tensors = [given[t.what].to(x.dtype) for t in compiled.plan.tensors]
    initial = [None if batch.reset is None else s[0] for s in restart]
    projection = (w.weight_ih, w.bias_ih) if plain else ()
    output, final, saved = run_program(call, tensors, state, initial, projection)
    named, states = ({}, {}) if saved is None else compiled.seen(output.detach(), saved)
    unrolled = Unrolled(output, tuple(final), states)
    unrolled = unrolled if past is None else past.joined(unrolled)
    return unrolled, [] if saved is None else [{**named, **unrolled.states}]


def _detached(state: State) -> State:
    return tuple(s.detach() for s in state)


def _held(layer: Any, program: Program, clamps: Sequence[Clamp], x: Tensor) -> dict[tuple[str, Any], Tensor]:
    """Where and at what each named value is held, (T, B, S) each."""
    found: dict[tuple[str, Any], Tensor] = {}
    for name in dict.fromkeys(clamp.name for clamp in clamps):
        if name not in program.named and name not in layer.zoneout:
            raise ValueError(f"Clamp: {layer.cell!r}.step never names {name!r} with let")
        size = layer.state_shape(name)[0] if name in layer.cell.states else layer.hidden_size
        own = [clamp for clamp in clamps if clamp.name == name]
        found["clamp", name], found["held", name] = clamp_planes(own, (*x.shape[:2], size), x)
    return found


def _compiled(
    layer: Any,
    program: Program,
    dtype: torch.dtype,
    run: Run,
    graded: bool,
    clamps: Sequence[Clamp] | None,
    gradients: bool,
) -> Compiled:
    """The code that runs `program` in this call."""
    drawn = run.zoneout is not None and bool(run.zoneout.keep)
    rates = {} if run.zoneout is None else run.zoneout.rate
    names, see = frozenset(clamp.name for clamp in clamps or ()), clamps is not None
    known = _programs(layer).compiled
    key = id(program), tuple(rates.items()), drawn, graded, see, names, gradients
    if key not in known:
        changed = program.with_zoneout(rates, drawn).with_clamps(names)
        known[key] = Compiled(plan(changed, graded, see, gradients), dtype)
    return known[key]
