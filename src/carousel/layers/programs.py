"""Layers whose cell has no kernel of its own: its step as a program, traced once and kept beside the layer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from ..cells.spec import Cell, Sizes, Weights
from ..errors import ArgumentError
from ..ops import backend
from ..ops.backend import empty_from_pool
from ..ops.program import Compiled, ProgramCall, differentiable, run_program
from ..ops.program_operator import program_operator
from ..ops.views import Views
from ..program import NotAProgram, Program, program_of
from ..program.lowering import plan, plan_text
from ..program.program import hoist
from . import native
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
    plain: dict[Any, Plain | None] = field(default_factory=dict)


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
    found, own = _known.get(layer), vars(layer.cell)
    options = _options(own) if own else ()
    if found is None or found.cell is not layer.cell or found.options != options:
        found = _known[layer] = Programs(layer.cell, options)
    return found


def _program(layer: Any, sizes: Sizes, dtype: torch.dtype, masked: bool) -> Program | str:
    """The program of a layer of these sizes, or why there is none."""
    programs = _programs(layer).programs
    key = sizes, dtype, masked
    if key not in programs:
        try:
            program = programs[key] = program_of(layer.cell, sizes, dtype, masked)
            if not program.projects:
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
    batch.direct = reason is None
    if torch.compiler.is_dynamo_compiling() and not clamps and backend.use_operator(*tensors):
        reason = None  # not under other modes: they would see the step while it is traced
        _see_options(layer)
    for clamp in clamps:
        if reason is None and isinstance(clamp.value, Tensor):
            reason = backend.unsupported_reason("layer", clamp.value)
    if reason is not None:
        return reason
    if batch.size == 0:
        return "the batch is empty"
    masked = bool(layer.training and layer.recurrent_dropout)
    for at in range(min(2, layer.num_layers)):
        reason = why_not(layer, at, batch.x.dtype, masked)
        if reason is not None:
            return reason
        for name in dict.fromkeys(clamp.name for clamp in clamps):
            program = _program(layer, layer._sizes(at), batch.x.dtype, masked)
            assert isinstance(program, Program)
            if not _can_hold(layer, program, name):
                return f"what {layer.cell!r} names {name!r} does not have {_units(layer, name)} units"
    return None


def run(
    layer: Any,
    at: int,
    w: Weights,
    x: Tensor,
    batch: Batch,
    run: Run,
    clamps: Sequence[Clamp] | None = None,
    gradients: list[Views] | None = None,
) -> tuple[Unrolled, list[Seen]]:
    """One direction of layer `at`, as `unroll` gives it, and with `clamps` (there may be none) what was seen of it.

    `gradients` receives ∂L/∂(value) when the call is differentiated; the parameters then have no gradient.
    """
    if gradients is not None:  # nothing else is differentiated
        w = Weights(layer.cell, {n: v.detach() for n, v in vars(w).items() if isinstance(v, Tensor)}, w.mask)
    inside, whole = projects(layer, at, x.dtype, w.mask is not None)
    projected, past = (x, None) if inside else project(layer.cell, w, x, run)
    count = len(layer.cell.own_states)
    nothing: tuple[Tensor | None, ...] = (None,) * count
    state, restart = (nothing if s is None else s[:count] for s in (run.state, run.restart_state))
    if gradients is not None:
        state, restart = _detached(state), _detached(restart)
    initial = [None if s is None or batch.reset is None else s[0] for s in restart]
    projection = (w.weight_ih, w.bias_ih if whole else None) if inside else ()
    given: dict[tuple[str, Any], Any] = {("projected", None): projected, ("mask", None): w.mask}
    given |= {("side", n): s.reshape(*x.shape[:2], -1) for n, s in zip(layer.cell.side_inputs, run.side, strict=True)}
    if run.zoneout is not None:
        given |= {("zone", name): keep for name, keep in run.zoneout.keep.items()}
    if not batch.direct:
        output, final = _by_operator(layer, at, w, batch, run, given, (*state, *initial, *projection))
        unrolled = Unrolled(output, tuple(final), {})
        return (unrolled if past is None else past.joined(unrolled)), []
    program = _program(layer, layer._sizes(at), x.dtype, w.mask is not None)
    assert isinstance(program, Program)
    given |= _hoisted(program.recipe, w)
    given |= _held(layer, program, clamps or (), x)
    graded = backend.autograd_records() and _any_requires_grad((*given.values(), *state, *projection))
    drawn = run.zoneout is not None and bool(run.zoneout.keep)
    rates = {} if run.zoneout is None else run.zoneout.rate
    compiled = _compiled(layer, program, x.dtype, rates, drawn, graded, clamps, gradients is not None)
    call = ProgramCall(
        compiled, run.reverse, batch.lengths, batch.reset, traced=clamps is not None, gradients=gradients
    )
    tensors = [given[t.what].to(x.dtype) for t in compiled.plan.tensors]
    output, final, saved = run_program(call, tensors, state, initial, projection)
    unrolled = Unrolled(output, tuple(final), {} if saved is None else compiled.seen(output.detach(), saved))
    unrolled = unrolled if past is None else past.joined(unrolled)
    return unrolled, [] if saved is None else [unrolled.states]


def _any_requires_grad(tensors: Iterable[Tensor | None]) -> bool:
    return any(t is not None and t.requires_grad for t in tensors)


def _hoisted(recipe: Sequence[Any], w: Weights) -> dict[tuple[str, Any], Tensor]:
    values = vars(w)
    parameters = {name: values[name.replace(".", "_")] for name in recipe if isinstance(name, str)}
    return {("hoisted", k): tensor for k, tensor in enumerate(hoist(recipe, parameters))}


# ------------------------------------------------------------------------------------------------ as an operator


def _by_operator(
    layer: Any, at: int, w: Weights, batch: Batch, run: Run, given: dict[Any, Any], rest: Sequence[Tensor | None]
) -> tuple[Tensor, list[Tensor]]:
    """Output and final states by the registered operator, for `torch.compile` and others that watch operators."""
    x, rates = given["projected", None], () if run.zoneout is None else tuple(run.zoneout.rate.items())
    key = (layer, at, x.dtype, w.mask is not None, rates, run.zoneout is not None and bool(run.zoneout.keep))
    given |= _hoisted(recipe_of(*key[:4]), w)
    graded = torch.is_grad_enabled() and _any_requires_grad((*given.values(), *rest))
    code, row, read = code_of(*key, graded)
    tensors = [given[what].to(x.dtype) for what in read]
    lengths, reset = batch.lengths, batch.reset
    states = len(layer.cell.own_states)
    projects = len(rest) > 2 * states
    return program_operator(code, row, run.reverse, lengths, reset, (*tensors, *rest), states, projects, graded)


def _see_options(layer: Any) -> None:
    """Read the numbers and texts of a cell one by one, so that torch.compile sees that the code follows from them."""
    for name, value in options_of(layer):
        if getattr(layer.cell, name) != value:
            raise AssertionError(f"{name} has changed")


def options_of(layer: Any) -> tuple[tuple[str, Any], ...]:
    return tuple((n, v) for n, v in vars(layer.cell).items() if isinstance(v, (int, float, str)))


def why_not(layer: Any, at: int, dtype: torch.dtype, masked: bool) -> str | None:
    """Why `layer` has no program, or None."""
    program = _program(layer, layer._sizes(at), dtype, masked)
    return program if isinstance(program, str) else None


def projects(layer: Any, at: int, dtype: torch.dtype, masked: bool) -> tuple[bool, bool]:
    """Whether the native call reads x itself, and if so whether W x + b is all that it makes of it."""
    if type(layer.cell).project_input is Cell.project_input and not layer.cell.input_window:
        return True, True
    program = _program(layer, layer._sizes(at), dtype, masked)
    return isinstance(program, Program) and program.projects, False


def recipe_of(layer: Any, at: int, dtype: torch.dtype, masked: bool) -> tuple[Any, ...]:
    program = _program(layer, layer._sizes(at), dtype, masked)
    assert isinstance(program, Program)
    return program.recipe


def code_of(
    layer: Any, at: int, dtype: torch.dtype, masked: bool, rates: Any, drawn: bool, graded: bool
) -> tuple[str, int, tuple[Any, ...]]:
    """The code of a program, the numbers of a row that it saves, and which tensors it reads."""
    program = _program(layer, layer._sizes(at), dtype, masked)
    assert isinstance(program, Program)
    found = plan(program.with_zoneout(dict(rates), drawn), graded, False)
    return plan_text(found), Compiled(found, dtype).saved_row, tuple(t.what for t in found.tensors)


# torch.compile calls these once, and keeps what they give: see kernels.py
for _constant in (options_of, why_not, projects, recipe_of, code_of):
    setattr(_constant, "_dynamo_marked_constant", True)  # noqa: B010


# ------------------------------------------------------------------------------------------------ code


def _detached(state: Sequence[Tensor | None]) -> tuple[Tensor | None, ...]:
    return tuple(None if s is None else s.detach() for s in state)


def _held(layer: Any, program: Program, clamps: Sequence[Clamp], x: Tensor) -> dict[tuple[str, Any], Tensor]:
    """Where and at what each named value is held: (T, B, S) each, or (T, 1, S) where all sequences are alike."""
    found: dict[tuple[str, Any], Tensor] = {}
    for name, alike in _alike(clamps).items():
        _check_named(layer, program, name)
        own = [clamp for clamp in clamps if clamp.name == name]
        shape = x.shape[0], 1 if alike else x.shape[1], _units(layer, name)
        found["clamp", name], found["held", name] = clamp_planes(own, shape, x)
    return found


def _check_named(layer: Any, program: Program, name: str) -> None:
    if name not in program.named and name not in layer.zoneout:
        raise ArgumentError(f"Clamp: {layer.cell!r}.step never names {name!r} with let")


def _units(layer: Any, name: str) -> int:
    """The numbers of what may be held, a state's or a gate's."""
    size: int = layer.state_shape(name)[0] if name in layer.cell.states else layer.hidden_size
    return size


def _can_hold(layer: Any, program: Program, name: str) -> bool:
    """Whether what the step names so has the units of a gate or state of that name."""
    return name in layer.zoneout or program.widths.get(name, set()) <= {_units(layer, name)}


def _alike(clamps: Iterable[Clamp]) -> dict[str, bool]:
    """The names that `clamps` hold, and whether each is held alike in all sequences."""
    names: dict[str, bool] = {}
    for clamp in clamps:
        names[clamp.name] = clamp.alike and names.get(clamp.name, True)
    return names


def _compiled(
    layer: Any,
    program: Program,
    dtype: torch.dtype,
    rates: Mapping[str, float],
    drawn: bool,
    graded: bool,
    clamps: Sequence[Clamp] | None,
    gradients: bool,
) -> Compiled:
    """The code that runs `program` in this call."""
    names, see = _alike(clamps or ()), clamps is not None
    known = _programs(layer).compiled
    key = id(program), tuple(rates.items()), drawn, graded, see, frozenset(names.items()), gradients
    if key not in known:
        changed = program.with_zoneout(rates, drawn).with_clamps(names)
        alike = [name for name, same in names.items() if same]
        known[key] = Compiled(plan(changed, graded, see, gradients, alike), dtype)
    return known[key]


# ------------------------------------------------------------------------------------------------ plain calls


@dataclass(slots=True)
class Plain:
    """What a call without lengths, restarts, side inputs or noise needs to know of a layer, looked up once."""

    native: Any
    programs: list[Program]
    parameters: bool  # all that the programs read are parameters as they are
    groups: bool  # some of them are those of modules in the layer, such as the gains of norms
    starts: bool  # the state before the first step is zero
    # of each layer, once it has been differentiated: its code; the names of weight_ih, bias_ih and of what the code
    # reads; "": absent
    graded: list[tuple[Compiled, list[str]]] | None = None
    watched: dict[Any, Any] = field(default_factory=dict)  # native plans that keep and hold values


def call_plainly(layer: Any, x: Any, hx: Any) -> tuple[Tensor, Any] | None:
    """A call on a batch of whole sequences: see native.call_plainly."""
    if not isinstance(x, Tensor) or native.is_noisy(layer):
        return None
    found = _plain(layer, x)
    if found is None or (hx is None and not found.starts):
        return None
    batch_first, run = layer.batch_first, found.native
    if not found.parameters and not run.is_plain():
        return None
    if batch_first or not x.is_contiguous():
        if x.dim() != 3 or not run.is_plain():
            return None
        x = (x.transpose(0, 1) if batch_first else x).contiguous()
    own = native.own_parameters(layer, found) if found.parameters else _computed(layer, found)
    if backend.autograd_records() and native.any_requires_grad(x, own, hx):
        result = _train(layer, found, own, x, hx) if run.fits(own, x, hx) else None
    else:
        result = run.sequence(own, x, hx, torch.get_num_threads())
    if result is None or not batch_first:
        return result
    return result[0].transpose(0, 1), result[1]


def _train(layer: Any, found: Plain, own: Mapping[str, Any], x: Tensor, hx: Any) -> tuple[Tensor, Any]:
    """The same with gradients, of what `fits`."""
    graded = found.graded
    if graded is None:
        graded = []
        for at, program in enumerate(found.programs):
            compiled = Compiled(plan(program.with_zoneout(layer.zoneout, False), True, False), x.dtype)
            names = [slot[0] if slot else "" for slot in _slots(layer, at, program, compiled)]
            graded.append((compiled, names))
        found.graded = graded  # whole: other threads may read it
    count, alone = len(layer.cell.states), len(layer.cell.states) == 1
    given = None if hx is None else (hx,) if alone else hx
    final: list[list[Tensor]] = []
    for at, (compiled, (weight, bias, *names)) in enumerate(graded):
        state = [None] * count if given is None else [s[at] for s in given]
        tensors = [x, *(own[name] for name in names), *state, *[None] * count]
        x, *new = differentiable(compiled, tensors, own[weight], own[bias] if bias else None)
        final.append(new)
    last = final[0] if len(final) == 1 else [torch.stack(parts) for parts in zip(*final, strict=True)]
    last = [s.unsqueeze(0) for s in last] if len(final) == 1 else last
    return x, last[0] if alone else tuple(last)


def watch_plainly(
    layer: Any,
    batch: Batch,
    state: Sequence[Tensor] | None,
    clamps: Sequence[Clamp],
    kept: Sequence[list[Views]] | None,
) -> tuple[Tensor, list[Tensor], list[Seen]] | None:
    """A plain call that is watched: see native.trace_plainly. What `clamps` name is held; with `kept`, which receives
    ∂L/∂(value) as in `run`, only the input is differentiated."""
    if batch.lengths is not None or batch.reset is not None or batch.side or torch.compiler.is_compiling():
        return None
    found = None if native.is_noisy(layer) else _plain(layer, batch.x)
    if found is None or (state is None and not found.starts) or any(isinstance(c.value, Tensor) for c in clamps):
        return None
    x, run = batch.x if batch.x.is_contiguous() else batch.x.contiguous(), found.native
    if not found.parameters and not run.is_plain():
        return None
    own = native.own_parameters(layer, found) if found.parameters else _computed(layer, found)
    count = len(layer.cell.states)
    given = None if state is None else state[0] if count == 1 else tuple(state)
    if not run.fits(own, x, given):
        return None
    holds = [[clamp for clamp in clamps if clamp.applies(layer, at, 0)] for at in range(layer.num_layers)]
    for program, name in ((p, clamp.name) for p, held in zip(found.programs, holds, strict=True) for clamp in held):
        _check_named(layer, program, name)
        if not _can_hold(layer, program, name):
            return None
    if kept is not None:  # nothing else is differentiated
        own = {name: p if p is None else p.detach() for name, p in own.items()}
        state = None if state is None else [s.detach() for s in state]
    graded = kept is not None or (backend.autograd_records() and native.any_requires_grad(x, own, state))
    if graded and backend.unsupported_reason("layer", x, *own.values()) is not None:
        return None
    how = x.dtype, layer.zoneout, False, graded
    pairs = zip(found.programs, holds, strict=True)
    codes = [_compiled(layer, program, *how, held, kept is not None) for program, held in pairs]
    if not graded and all(clamp.is_block for clamp in clamps):
        return _watch_natively(layer, found, codes, holds, own, x, given)
    final: list[list[Tensor]] = []
    seen: list[Seen] = []
    for at, (program, compiled) in enumerate(zip(found.programs, codes, strict=True)):
        tensors: dict[Any, Any] = {("projected", None): x, **_held(layer, program, holds[at], x)}
        for what in (tensor.what for tensor in compiled.plan.tensors[1:]):
            if what not in tensors:
                tensors[what] = own[_slot_name(program, what[1], at)]
        bias = None if program.projects else own.get(f"bias_ih_l{at}")
        call = ProgramCall(compiled, False, None, None, True, gradients=None if kept is None else kept[at])
        before = [None] * count if state is None else [s[at] for s in state]
        read = [tensors[tensor.what] for tensor in compiled.plan.tensors]
        x, new, saved = run_program(call, read, before, [None] * count, (own[f"weight_ih_l{at}"], bias))
        assert saved is not None
        final.append(new)
        seen.append(compiled.seen(x.detach(), saved))
    return x, [torch.stack(s) if len(s) > 1 else s[0].unsqueeze(0) for s in zip(*final, strict=True)], seen


def _watch_natively(
    layer: Any,
    found: Plain,
    codes: Sequence[Compiled],
    clamps: Sequence[Sequence[Clamp]],
    own: Mapping[str, Any],
    x: Tensor,
    state: Any,
) -> tuple[Tensor, list[Tensor], list[Seen]] | None:
    """The same without gradients, of blocks of values that are held at numbers."""
    key = tuple(id(compiled) for compiled in codes)
    if key not in found.watched:
        slots = [_slots(layer, at, p, c) for at, (p, c) in enumerate(zip(found.programs, codes, strict=True))]
        module: Any = backend.load()[0]
        given = [(compiled.native, each) for compiled, each in zip(codes, slots, strict=True)]
        found.watched[key] = module.ProgramPlan(32 if x.dtype is torch.float32 else 64, given)
    steps, size = x.shape[:2]
    saved = [empty_from_pool(x, steps, size, compiled.saved_row) for compiled in codes]
    holds = []
    for at, (compiled, held) in enumerate(zip(codes, clamps, strict=True)):
        for clamp in held:
            where, what = compiled.plan.holds[clamp.name]
            holds.append((at, where, what, *clamp.block(steps, compiled.plan.tensors[where].row), float(clamp.value)))
    result = found.watched[key].watch(own, x, state, torch.get_num_threads(), saved, holds)
    if result is None:
        return None
    outputs, final = result
    seen: list[Seen] = [c.seen(output, memory) for c, output, memory in zip(codes, outputs, saved, strict=True)]
    return outputs[-1], list(final) if isinstance(final, tuple) else [final], seen


def step(layer: Any, x: Tensor, state: Any) -> tuple[Tensor, Any] | None:
    """One step of a stream without gradients, or None where the general way is needed (to complain, for one)."""
    found = _plain(layer, x)
    if found is None or native.is_noisy(layer) or (state is None and not found.starts):
        return None
    own = native.own_parameters(layer, found) if found.parameters else _computed(layer, found)
    result: tuple[Tensor, Any] | None = found.native.step(own, x, state, torch.get_num_threads())
    return result


def _plain(layer: Any, x: Tensor) -> Plain | None:
    known, key = _programs(layer).plain, (x.dtype, *layer.zoneout.items())
    if key not in known:
        if backend.unsupported_reason("step", x) is not None:  # a mode would see the step while it is traced
            return None
        known[key] = _make_plain(layer, x.dtype)
    return known[key]


def _make_plain(layer: Any, dtype: torch.dtype) -> Plain | None:
    cell = layer.cell
    usual = not cell.input_window and not cell.side_inputs
    if layer.bidirectional or not usual or backend.MISSING or dtype not in (torch.float32, torch.float64):
        return None
    result = Plain(None, [], True, any("." in parameter for parameter in layer._names), False)
    layers = []
    for at in range(layer.num_layers):
        program = _program(layer, layer._sizes(at), dtype, False)
        if isinstance(program, str) or not projects(layer, at, dtype, False)[0]:
            return None
        compiled = Compiled(plan(program.with_zoneout(layer.zoneout, False), False, False), dtype)
        layers.append((compiled.native, _slots(layer, at, program, compiled)))
        result.programs.append(program)
    own = native.own_parameters(layer, result)
    names = [slot[0] for _, slots in layers for slot in slots if slot is not None]
    for at, program in enumerate(result.programs):  # what is only seen is read by traces
        names += [_slot_name(program, k, at) for k in range(len(program.hoisted))]
    result.parameters = all(name in own for name in names)
    result.starts = layer._starts_at_zero()
    module: Any = backend.load()[0]
    result.native = module.ProgramPlan(32 if dtype is torch.float32 else 64, layers)
    return result


def _slots(layer: Any, at: int, program: Program, compiled: Compiled) -> list[tuple[str, tuple[int, ...]] | None]:
    """The names and shapes of weight_ih, bias_ih (None: absent) and of what the code reads besides W x + b."""
    shapes = {name: layer._shapes.get(f"{name}_l{at}") for name in ("weight_ih", "bias_ih")}
    if program.projects:  # what is added to W x is a part of the program
        shapes["bias_ih"] = None
    slots = [shape and (f"{name}_l{at}", shape) for name, shape in shapes.items()]
    for kind, index in (tensor.what for tensor in compiled.plan.tensors[1:]):
        hoisted = kind == "hoisted"  # or else it says what is held
        slots.append((_slot_name(program, index, at), program.hoisted[index].shape) if hoisted else None)
    return slots


def _slot_name(program: Program, k: int, at: int) -> str:
    """The name of what the program has at k in layer `at`: that of a parameter, or a number."""
    group, dot, member = program.hoisted[k].parameter.partition(".")
    return f"{group or k}_l{at}{dot}{member}"


def _computed(layer: Any, found: Plain) -> dict[str, Tensor]:
    """What the programs read, by the names of the plan's slots, where some of it is computed."""
    own: dict[str, Tensor] = {}
    for at, program in enumerate(found.programs):
        values = layer._values_at(f"_l{at}")
        hoisted = hoist(program.recipe, values)
        own |= {f"{name}_l{at}": values[name] for name in ("weight_ih", "bias_ih") if name in values}
        own |= {_slot_name(program, k, at): tensor.contiguous() for k, tensor in enumerate(hoisted)}
    return own
