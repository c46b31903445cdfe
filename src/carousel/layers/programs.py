"""Layers whose cell has no kernel of its own: its step as a program, traced once and kept beside the layer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from ..cells.spec import Cell, Sizes, Weights
from ..ops import backend
from ..ops.program import Compiled, ProgramCall, run_program
from ..program import NotAProgram, Program, program_of
from ..program.lowering import plan
from .batch import Batch
from .unroll import Run, Steps, Unrolled, project


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


def unsupported_reason(layer: Any, batch: Batch, state: Sequence[Tensor] | None = None) -> str | None:
    """Why this call cannot run as a program, or None if it can."""
    tensors = (batch.x, *layer.parameters(), *(state or ()), *batch.side, batch.lengths, batch.reset)
    reason = backend.unsupported_reason("layer", *tensors)
    if reason is not None:
        return reason
    if batch.size == 0:
        return "the batch is empty"
    masked = bool(layer.training and layer.recurrent_dropout)
    for at in range(min(2, layer.num_layers)):
        program = _program(layer, layer._sizes(at), batch.x.dtype, masked)
        if isinstance(program, str):
            return program
    return None


def run(
    layer: Any, at: int, w: Weights, x: Tensor, batch: Batch, run: Run, see: bool
) -> tuple[Unrolled, Mapping[str, Steps]]:
    """One direction of layer `at`, as `unroll` gives it, and with `see` what `let` named."""
    assert run.state is not None and run.restart_state is not None
    plain = type(layer.cell).project_input is Cell.project_input and not layer.cell.input_window
    projected, past = (x, None) if plain else project(layer.cell, w, x, run)
    program = _program(layer, layer._sizes(at), x.dtype, w.mask is not None)
    assert isinstance(program, Program)
    values = vars(w)
    names = [hoisted.parameter for hoisted in program.hoisted if hoisted.parameter]
    hoisted = program.hoist({name: values[name.replace(".", "_")] for name in names})
    count = len(program.states)
    state, restart = run.state[:count], run.restart_state[:count]
    graded = backend.autograd_records() and any(t.requires_grad for t in (projected, *hoisted, *state, *run.side))
    compiled = _compiled(layer, program, x.dtype, run, graded, see)
    given: dict[tuple[str, Any], Any] = {("projected", None): projected, ("mask", None): w.mask}
    given |= {("hoisted", k): tensor for k, tensor in enumerate(hoisted)}
    given |= {("side", n): s.reshape(*x.shape[:2], -1) for n, s in zip(program.sides, run.side, strict=True)}
    if run.zoneout is not None:
        given |= {("zone", name): keep for name, keep in run.zoneout.keep.items()}
    call = ProgramCall(compiled, run.reverse, batch.lengths, batch.reset, see)
    tensors = [given[t.what].to(x.dtype) for t in compiled.plan.tensors]
    initial = [None if batch.reset is None else s[0] for s in restart]
    projection = (w.weight_ih, w.bias_ih) if plain else ()
    output, final, saved = run_program(call, tensors, state, initial, projection)
    named, states = ({}, {}) if saved is None else compiled.seen(output.detach(), saved)
    unrolled = Unrolled(output, tuple(final), states)
    return (unrolled if past is None else past.joined(unrolled)), named


def _compiled(layer: Any, program: Program, dtype: torch.dtype, run: Run, graded: bool, see: bool) -> Compiled:
    """The code that runs `program` in this call."""
    drawn = run.zoneout is not None and bool(run.zoneout.keep)
    rates = {} if run.zoneout is None else run.zoneout.rate
    known = _programs(layer).compiled
    key = id(program), tuple(rates.items()), drawn, graded, see
    if key not in known:
        known[key] = Compiled(plan(program.with_zoneout(rates, drawn), graded, see), dtype)
    return known[key]
