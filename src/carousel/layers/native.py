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
from ..ops.kernels import KERNELS, Kernel
from ..ops.layer import by_tensors, fused_layer, infer_stack, train_stack
from ..ops.stream import Stream
from .batch import Batch
from .unroll import Run, unroll

_address, _unsupported_reason = Tensor.data_ptr, backend.unsupported_reason
ISA = backend.isa()  # the instruction set in use
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
    names: tuple[tuple[str | None, ...], ...]  # of each layer's parameters by slot, one direction after the other
    count: int  # of all parameters
    sizes: tuple[int, ...]  # of the states


# Beside the layers, not in them: a layer is copied and pickled.
_plans: WeakKeyDictionary[Any, Plan] = WeakKeyDictionary()


def _plan(layer: Any) -> Plan | None:
    """The plan of `layer`; None if no call on it is plain."""
    kernel = KERNELS.get(layer.cell.kernel() or "")
    if kernel is None or layer.learn_initial_state or layer._modules:
        return None
    if layer.bidirectional and layer.merge != "concat":
        return None
    own = set(layer._names)
    names = tuple(
        tuple(
            name + (f"_l{at}_reverse" if direction else f"_l{at}") if name in own else None
            for direction in range(layer.num_directions)
            for name in kernel.parameters
        )
        for at in range(layer.num_layers)
    )
    sizes = tuple(layer.state_shape(name)[0] for name in layer.cell.states)
    plan = Plan(layer.cell, kernel, names, sum(name is not None for each in names for name in each), sizes)
    _plans[layer] = plan
    return plan


def call_plainly(layer: Any, x: Any, hx: Any) -> tuple[Tensor, Any] | None:
    """A call on a batch of whole sequences without noise, with little between the layer and its kernel.

    Hot path: returns None on any mismatch; the general path then runs the call, or raises.
    """
    plan = _plans.get(layer)
    if plan is None or plan.cell is not layer.cell or plan.kernel.name != layer.cell.kernel():
        plan = _plan(layer)
    own = layer._parameters
    if plan is None or layer.zoneout or layer._modules or len(own) != plan.count or _noisy(layer):
        return None
    if not isinstance(x, Tensor) or x.dim() != 3:
        return None
    try:  # a parameter that is computed from others is not among the layer's own
        stack = [[own[name] if name else None for name in names] for names in plan.names]
    except KeyError:
        return None
    parameters = own.values()
    given = () if hx is None else (hx,) if len(plan.sizes) == 1 else hx
    if type(given) is not tuple or _unsupported_reason("layer", x, *parameters, *given) is not None:
        return None
    dtype, shapes = x.dtype, layer._shapes
    for name, p in own.items():
        if p is None or p.dtype is not dtype or not p.is_contiguous() or p.shape != shapes[name]:
            return None
    batch_first = layer.batch_first
    if batch_first:
        x = x.transpose(0, 1)
    steps, size, features = x.shape
    if not steps or not size or features != layer.input_size:
        return None
    directions = 2 if layer.bidirectional else 1
    if given:
        if len(given) != len(plan.sizes):
            return None
        for s, n in zip(given, plan.sizes):  # noqa: B905  `strict` is slower
            if s is None or s.dtype is not dtype or s.shape != (layer.num_layers * directions, size, n):
                return None
        given = tuple(s.contiguous() for s in given)
    x = x.contiguous()
    if autograd_records() and any(t.requires_grad for t in (x, *parameters, *given)):
        reference = partial(_plain_reference, layer, plan.kernel)
        output, final = train_stack(plan.kernel, stack, directions, x, given or None, reference)
    else:
        output, final = infer_stack(plan.kernel, stack, directions, x, given or None)
    return output.transpose(0, 1) if batch_first else output, tuple(final) if len(final) > 1 else final[0]


def _plain_reference(layer: Any, kernel: Kernel, tensors: Sequence[Tensor | None]) -> tuple[Tensor, ...]:
    """Output and final states (D, B, S) of a plain call on one layer, by the reference path."""
    assert tensors[0] is not None
    batch = Batch(tensors[0], None, None, False, True)
    runs = [Run(None, None, reverse=d == 1) for d in range(layer.num_directions)]
    return by_tensors(layer.cell, kernel, [None] * len(runs), partial(_unrolled, layer, batch, runs))(tensors)


# ------------------------------------------------------------------------------------------------ steps


def step(layer: Any, x: Tensor, state: Any) -> tuple[Tensor, Any] | None:
    """One step of a stream in one native call, or None where the general way is needed (to complain, for one)."""
    taken = None if layer.training and _noisy(layer) else _stepper(layer)
    return None if taken is None else taken.step(x, state)


def _noisy(layer: Any) -> bool:
    """Whether a call would draw random numbers."""
    return layer.training and bool(layer.dropout or layer.zoneout or layer.recurrent_dropout or layer.weight_drop)


def keep(layer: Any) -> Stepper | None:
    """The layer's step for as long as its parameters stay as they are, if it can be a native call."""
    taken = None if _noisy(layer) else _stepper(layer)
    if taken is None:
        return None
    return replace(taken, stream=taken.stream.keep())


@dataclass(slots=True)
class Stepper:
    """What a step needs to know of a layer, looked up once."""

    kind: type  # of the layer: what it was made from, all but the numbers in the parameters
    cell: Any
    zoneout: dict[str, float]
    places: tuple[list[str], list[int]]  # of the parameters
    square: list[str]  # parameters whose transposed view would pass for them
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


# Beside the layers, not in them: a layer is copied and pickled.
_steppers: WeakKeyDictionary[Any, Stepper] = WeakKeyDictionary()


def _places(layer: Any) -> tuple[list[str], list[int]]:
    """Names and addresses of the parameters.

    Addresses alone would not do: a parametrization or pruning may leave the original parameter where it was, under
    another name.
    """
    own = layer._parameters
    # computed from others, or a subclass, perhaps without storage
    if type(own.get("weight_ih" + layer.first_suffix)) is not nn.Parameter:
        raise TypeError("weight_ih is no plain parameter")
    names, addresses = list(own), list(map(_address, own.values()))
    if layer._modules:  # gains and biases of norms
        for group in layer._modules.values():
            names += group._parameters
            addresses += map(_address, group._parameters.values())
    return names, addresses


def _contiguous(layer: Any, names: list[str]) -> bool:
    return all(layer._parameters[name].is_contiguous() for name in names)


def _stepper(layer: Any) -> Stepper | None:
    """The native stepper of `layer`, made again when what it was made from has changed; None if there can be none."""
    try:
        places = _places(layer)
    except (TypeError, RuntimeError):  # a parameter is None, or has no storage
        return None
    found = _steppers.get(layer)
    if (
        found is not None
        and found.places == places
        and found.cell is layer.cell
        and found.zoneout == layer.zoneout
        and (not found.square or _contiguous(layer, found.square))
        and found.kind is type(layer)  # parametrizations change it
    ):
        return found
    if layer.bidirectional or layer.cell.kernel() is None:
        return None
    weights = [Weights(layer.cell, layer._parameters_of(k, 0)) for k in range(layer.num_layers)]
    parameters = [p for k in range(layer.num_layers) for p in layer._parameters_of(k, 0).values()]
    if not all(isinstance(p, nn.Parameter) and p.is_contiguous() for p in parameters):
        return None  # a weight that is computed from others (weight norm, pruning) has no lasting place
    if backend.unsupported_reason("step", *parameters) is not None:
        return None
    found = _steppers[layer] = Stepper(
        type(layer),
        layer.cell,
        dict(layer.zoneout),
        places,
        [name for name, p in layer._parameters.items() if p.dim() == 2 and p.shape[0] == p.shape[1]],
        Stream(layer.cell, weights, layer.zoneout),
        layer.input_size,
        layer.num_layers,
        [layer.state_shape(name)[0] for name in layer.cell.states],
        parameters[0].dtype,
        layer.learn_initial_state,
        len(layer.cell.states) == 1,
    )
    return found
