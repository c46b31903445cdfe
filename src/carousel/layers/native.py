"""The native kernels, for the layers and calls they can run."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from ..cells.spec import State, Weights
from ..ops import backend
from ..ops.backend import autograd_records
from ..ops.cell_step import CellStep
from ..ops.kernels import KERNELS, Kernel
from ..ops.layer import by_tensors, fused_layer, train_stack
from ..ops.stream import Stream
from .batch import Batch
from .unroll import Run, unroll

_unsupported_reason, get_num_threads = backend.unsupported_reason, torch.get_num_threads
WHY = f"native kernels ({backend.isa()})"
if backend.MISSING:
    warnings.warn(f"carousel: {backend.MISSING}; until then layers run on the slower reference path", stacklevel=2)


def unsupported_reason(layer: Any, batch: Batch, state: Sequence[Tensor] | None = None) -> str | None:
    """Why the kernels cannot run this call, or None if they can; `batch.direct` then says in which way."""
    if layer.cell.kernel() is None:
        return f"there is no kernel for the cell {layer.cell!r}"
    if batch.size == 0:
        return "the batch is empty"
    parameters = layer.parameters() if layer._modules else layer._parameters.values()
    tensors = (batch.x, *parameters, *(state or ()), batch.lengths, batch.reset)
    reason = _unsupported_reason("layer", *tensors)
    batch.direct = reason is None
    return None if reason is None or backend.use_operator(*tensors) else reason


def run(
    layer: Any, weights: list[Weights], x: Tensor, batch: Batch, runs: list[Run], initial: list[State] | None, see: bool
) -> tuple[Tensor, list[State], list[Mapping[str, Tensor]]]:
    """One layer: output (T, B, D·P), final states, and with `see` each direction's gates and states (T, B, S)."""

    training = any(run.zoneout is not None and run.zoneout.keep for run in runs)
    output, final, seen = fused_layer(
        layer.cell,
        weights,
        x,
        [run.state for run in runs],
        lengths=batch.lengths,
        reset=batch.reset,
        initial=initial,
        zoneout=layer.zoneout,
        zone_masks=[run.zoneout.keep for run in runs if run.zoneout is not None] if training else None,
        want_trace=see,
        reference=partial(_unrolled, layer, batch, runs),
        direct=batch.direct,
    )
    return output, final, seen


def _unrolled(
    layer: Any, batch: Batch, runs: list[Run], x: Tensor, weights: list[Weights], state: list[State], initial: Any
) -> tuple[Tensor, list[State]]:
    """One layer by the reference path, for gradients that are differentiated again."""
    active = batch.active
    if active is not None:
        x = torch.where(active.unsqueeze(-1), x, 0)
    zeros = tuple(x.new_zeros(batch.size, layer.state_shape(name)[0]) for name in layer.cell.states)
    parts = []
    for run, w, s, restart in zip(runs, weights, state, initial, strict=True):
        start = zeros if s[0] is None else s
        fresh = zeros if restart[0] is None else tuple(r.expand_as(z) for r, z in zip(restart, zeros, strict=True))
        parts.append(unroll(layer.cell, w, x, replace(run, state=start, restart_state=fresh, active=active)))
    return torch.cat([p.output for p in parts], -1), [p.state for p in parts]


# ------------------------------------------------------------------------------------------------ plain calls


@dataclass(slots=True)
class Plan:
    """What a plain call needs to know of a layer, looked up once; it holds no tensors."""

    cell: Any
    kernel: Kernel
    zoneout: dict[str, float]
    names: list[list[str | None]]  # of each layer's parameters by slot, one direction after the other
    groups: bool  # some parameters are those of modules in the layer, such as the gains of norms
    learned: bool  # has a learned initial state
    directions: int
    alone: bool  # the state is one tensor, not a tuple
    native: Any


# Beside the layers, not in them: a layer is copied and pickled.
_plans: WeakKeyDictionary[Any, Plan] = WeakKeyDictionary()


def _plan(layer: Any) -> Plan | None:
    """The plan of `layer`, made again when what it was made from has changed; None if no call on it is plain."""
    plan, cell = _plans.get(layer), layer.cell
    name = cell.kernel()
    if plan is not None and plan.cell is cell and plan.kernel.name == name and plan.zoneout == layer.zoneout:
        return plan
    kernel = KERNELS.get(name or "")
    if kernel is None or (layer.bidirectional and layer.merge != "concat"):
        return None
    own = {name.replace(".", "_"): name for name in layer._names}  # as slots are named
    if not own.keys() >= {"weight_ih", "weight_hh", *kernel.own}:
        return None
    slots: list[tuple[str, tuple[int, ...]] | None] = []
    directions = 2 if layer.bidirectional else 1
    for k in range(layer.num_layers):
        for d in range(directions):
            at = layer.first_suffix and f"_l{k}" + ("_reverse" if d else "")
            for slot in kernel.parameters:
                group, dot, member = own.get(slot, "").partition(".")
                slots.append((group + at + dot + member, layer._shapes[own[slot] + at]) if group else None)
    sizes = tuple(layer.state_shape(state)[0] for state in cell.states)
    rates = [layer.zoneout.get(state, 0.0) for state in kernel.states] if layer.zoneout else []
    numbers = (layer.input_size, layer.hidden_size, sizes[0], layer.num_layers, directions)
    names, per_layer = [slot and slot[0] for slot in slots], directions * len(kernel.parameters)
    plan = _plans[layer] = Plan(
        cell,
        kernel,
        dict(layer.zoneout),
        [names[k : k + per_layer] for k in range(0, len(names), per_layer)],
        any("." in parameter for parameter in layer._names),
        layer.learn_initial_state,
        directions,
        len(sizes) == 1,
        backend.load()[0].Plan(kernel.name, numbers, slots, rates),  # type: ignore[union-attr]
    )
    return plan


def own_parameters(layer: Any, plan: Any) -> dict[str, Tensor | None]:
    """The parameters by name: a weight that is computed from others (weight norm, pruning) is not among them."""
    if not plan.groups:
        return layer._parameters
    members = {f"{g}.{m}": p for g, group in layer._modules.items() for m, p in group._parameters.items()}
    return layer._parameters | members


def is_noisy(layer: Any) -> bool:
    """Whether a call would draw random numbers."""
    return layer.training and bool(layer.dropout or layer.zoneout or layer.recurrent_dropout or layer.weight_drop)


def call_plainly(layer: Any, x: Any, hx: Any) -> tuple[Tensor, Any] | None:
    """A call on a batch of whole sequences without noise, with little between the layer and its kernel.

    Hot path: returns None on any mismatch; the general path then runs the call, or raises.
    """
    plan = _plan(layer)
    if plan is None or not isinstance(x, Tensor) or is_noisy(layer) or (plan.learned and hx is None):
        return None
    own, run, batch_first = own_parameters(layer, plan), plan.native, layer.batch_first
    if batch_first or not x.is_contiguous():
        if x.dim() != 3 or not run.is_plain():
            return None
        x = (x.transpose(0, 1) if batch_first else x).contiguous()
    if autograd_records() and any_requires_grad(x, own, hx):
        result = _train(layer, plan, own, x, hx) if run.fits(own, x, hx) and not plan.zoneout else None
    else:
        result = run.sequence(own, x, hx, get_num_threads())
    if result is None or not batch_first:
        return result
    return result[0].transpose(0, 1), result[1]


def any_requires_grad(x: Tensor, own: Mapping[str, Tensor | None], hx: Any) -> bool:
    if x.requires_grad:
        return True
    for p in own.values():
        if p is not None and p.requires_grad:
            return True
    given = hx if isinstance(hx, (tuple, list)) else (hx,)  # a union type is slower
    return any(isinstance(s, Tensor) and s.requires_grad for s in given)


def _train(layer: Any, plan: Plan, own: Mapping[str, Any], x: Tensor, hx: Any) -> tuple[Tensor, Any]:
    """The same with gradients, of what `fits`."""
    given = (hx,) if plan.alone and hx is not None else hx
    output, final = _stack(layer, plan, own, x, given)
    return output, final[0] if plan.alone else tuple(final)


def _stack(
    layer: Any,
    plan: Plan,
    own: Mapping[str, Any],
    x: Tensor,
    state: Any,
    seen: list[Mapping[str, Tensor]] | None = None,
) -> tuple[Tensor, Sequence[Tensor]]:
    stack = [[own[name] if name else None for name in names] for names in plan.names]
    reference = partial(_plain_reference, layer, plan.kernel)
    return train_stack(plan.kernel, stack, plan.directions, x, state, reference, seen)


def trace_plainly(
    layer: Any, batch: Batch, state: Sequence[Tensor] | None
) -> tuple[Tensor, Sequence[Tensor], list[Mapping[str, Tensor]]] | None:
    """A plain call that keeps gates and states: output (T, B, D·P), final states (L·D, B, S), and what was seen in each
    layer and direction; or None as above."""
    if batch.lengths is not None or batch.reset is not None or batch.side or torch.compiler.is_compiling():
        return None
    plan = _plan(layer)
    if plan is None or plan.zoneout or is_noisy(layer) or (plan.learned and state is None):
        return None
    own, x = own_parameters(layer, plan), batch.x
    given = None if state is None else state[0] if plan.alone else tuple(state)
    if not x.is_contiguous():
        if not plan.native.is_plain():
            return None
        x = x.contiguous()
    if not plan.native.fits(own, x, given):
        return None
    seen: list[Mapping[str, Tensor]] = []
    output, final = _stack(layer, plan, own, x, state, seen)
    return output, final, seen


def _plain_reference(layer: Any, kernel: Kernel, tensors: Sequence[Tensor | None]) -> tuple[Tensor, ...]:
    """Output and final states (D, B, S) of a plain call on one layer, by the reference path."""
    assert tensors[0] is not None
    batch = Batch(tensors[0], None, None, False, True)
    runs = [Run(None, None, reverse=d == 1) for d in range(layer.num_directions)]
    return by_tensors(layer.cell, kernel, [None] * len(runs), partial(_unrolled, layer, batch, runs))(tensors)


def step(layer: Any, x: Tensor, state: Any) -> tuple[Tensor, Any] | None:
    """One step of a stream without gradients, or None where the general way is needed (to complain, for one)."""
    plan = _plan(layer)
    if plan is None or is_noisy(layer) or (plan.learned and state is None):
        return None
    return plan.native.step(own_parameters(layer, plan), x, state, get_num_threads())


def step_cell(cell: Any, x: Any, hx: Any) -> Any:
    """The state after one step of a single cell, x (B, I) or (I), without gradients; or None as in `step`."""
    plan = _plan(cell)
    return None if plan is None else plan.native.cell(own_parameters(cell, plan), x, hx, get_num_threads())


def train_cell(cell: Any, x: Any, hx: Any) -> Any:
    """The same with gradients, on the few rows x (B, I) for which a native call is faster than torch's operator."""
    plan = _plan(cell)
    if plan is None:
        return None
    own = own_parameters(cell, plan)
    new = plan.native.train_cell(own, x, hx, get_num_threads())
    if new is None:
        return None
    if autograd_records() and any_requires_grad(x, own, hx):
        states = [None] * len(plan.kernel.states) if hx is None else (hx,) if plan.alone else hx
        parameters = [own[name] if name else None for name in plan.names[0]]
        reference = partial(_cell_reference, cell, plan.kernel)
        new = CellStep.apply(plan.native, new, reference, x, *parameters, *states)
    return new[0] if plan.alone else new[: len(plan.kernel.states)]


def _cell_reference(cell: Any, kernel: Kernel, tensors: Sequence[Tensor | None]) -> State:
    """The states after one step of a single cell, by the reference path."""
    x, count = tensors[0], len(kernel.parameters)
    assert x is not None
    named = {name: t for name, t in zip(kernel.parameters, tensors[1:], strict=False) if t is not None}
    before = tuple(x.new_zeros(len(x), cell.hidden_size) if s is None else s for s in tensors[1 + count :])
    return unroll(cell.cell, Weights(cell.cell, named), x.unsqueeze(0), Run(before, before)).state


# ------------------------------------------------------------------------------------------------ steps of a search


def keep(layer: Any) -> Stepper | None:
    """The layer's step for as long as its parameters stay as they are, if it can be a native call."""
    if layer.bidirectional or layer.cell.kernel() is None or is_noisy(layer):
        return None
    sets = [layer._parameters_of(k, 0) for k in range(layer.num_layers)]
    parameters = [p for each in sets for p in each.values()]
    if _unsupported_reason("layer", *parameters) is not None:
        return None
    if not all(isinstance(p, nn.Parameter) and p.is_contiguous() for p in parameters):
        return None  # a weight that is computed from others (weight norm, pruning) has no lasting place
    return Stepper(
        Stream(layer.cell, [Weights(layer.cell, each) for each in sets], layer.zoneout).keep(),
        layer.input_size,
        layer.num_layers,
        [layer.state_shape(name)[0] for name in layer.cell.states],
        parameters[0].dtype,
        layer.learn_initial_state,
        len(layer.cell.states) == 1,
    )


@dataclass(slots=True)
class Stepper:
    """The steps of a search, with what they need to know of the layer."""

    stream: Stream
    input_size: int
    layers: int
    sizes: list[int]  # of the states
    dtype: torch.dtype
    learned: bool  # has a learned initial state
    alone: bool  # the state is one tensor, not a tuple

    def step(
        self,
        x: Tensor,
        state: Any,
        inputs: Tensor | None = None,
        parents: Tensor | None = None,
        projected: bool = False,
    ) -> tuple[Tensor, Any] | None:
        """This is a path of microseconds: it only asks whether everything is as it should be, and leaves saying what is
        not to the sequence call. The rest is as in `Stream.step`."""
        shape = x.shape
        if (
            len(shape) != 2
            or not shape[0]
            or (shape[1] != self.input_size and not projected)
            or x.dtype is not self.dtype
            or not x.is_contiguous()
        ):
            return None
        given = state
        if state is None:
            if self.learned or _unsupported_reason("step", x) is not None:
                return None
        else:
            if self.alone:
                given = (state,)
            if not isinstance(given, (tuple, list)) or len(given) != len(self.sizes):  # a union type is slower
                return None
            if _unsupported_reason("step", x, *given) is not None:
                return None
            rows = shape[0]
            if parents is not None:
                rows = given[0].shape[1] if given[0] is not None and given[0].dim() == 3 else 0
            elif inputs is not None:
                rows = inputs.shape[0]
            for s, size in zip(given, self.sizes):  # noqa: B905  so is `strict`
                if s is None or s.shape != (self.layers, rows, size) or not s.is_contiguous():
                    return None
        new = self.stream.step(x, given, inputs, parents, projected)
        h = new[0]
        return h[-1], h if self.alone else new
