"""One layer in one native call, as a differentiable function and as a torch operator.

The arithmetic is in C++ (csrc/recurrent, csrc/cells); here tensors become addresses, in the order of the kernel's
slots. In a plain run an autograd function calls the native code directly; where torch has to see an operator
(`torch.compile`, `make_fx`, fake tensors, tensor subclasses) the same code is reached through the registered operators
`carousel::layer` and `carousel::layer_backward`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import torch
from torch import Tensor
from torch.utils.flop_counter import register_flop_formula

from ..cells.spec import Cell, State, Weights
from .backend import empty_from_pool, gradients_by_reference, load, unsupported_reason, use_operator

Grads = list[Tensor | None]


@dataclass(frozen=True, eq=False)
class Kernel:
    """What a kernel has, as its C++ header names it."""

    name: str
    gates: tuple[str, ...]
    states: tuple[str, ...]  # the first is h, of size P; the others have size H
    parameters: tuple[str, ...]  # by slot
    saved: Mapping[str, int]  # planes of a row of values, the gates among them
    own: Mapping[str, int]  # its parameters besides weights and biases: how many vectors (H) each has
    folds_bias: tuple[bool, ...]  # of each gate, whether bias_hh is a part of W x + b
    projects: bool  # whether weight_hr may be given

    @property
    def slots(self) -> int:
        """Differentiable tensors of one direction: parameters, first state, initial state."""
        return len(self.parameters) + 2 * len(self.states)


def _kernels() -> dict[str, Kernel]:
    native = load()[0]
    return {} if native is None else {name: Kernel(name, **native.describe(name)) for name in native.kernels()}


KERNELS = _kernels()  # read once: torch.compile does not trace calls into the native module


def kernel_of(cell: Cell) -> str | None:
    """The name of the kernel that computes `cell`, None if there is none (a user's own cell, full peepholes)."""
    return cell.kernel()


@dataclass
class Call:
    """The arguments of one layer's call, except the tensors that have gradients."""

    kernel: Kernel
    directions: int
    lengths: Tensor | None  # (B) int64
    reset: Tensor | None  # (T, B) bool
    zone: Sequence[float]  # rates by state, in evaluation; empty: none
    noise: list[Tensor | None]  # dropout mask and zoneout masks by state, of each direction; empty: none
    traced: bool = True  # the saved values are to be zero past a sequence's end, because a trace shows them
    reference: Callable[..., tuple[Tensor, ...]] | None = None
    totals: list[dict[str, Tensor]] | None = None


def _gather(
    kernel: Kernel,
    weights: Sequence[Weights],
    x: Tensor,
    state: Sequence[State | None],
    initial: Sequence[State | None] | None,
    zone_masks: Sequence[Mapping[str, Tensor]] | None,
) -> tuple[list[Tensor | None], list[Tensor | None]]:
    """The tensors of a call that can have gradients, and its noise, in the order of the kernel's slots."""
    count = len(kernel.states)
    tensors: list[Tensor | None] = [x.contiguous()]
    noise: list[Tensor | None] = []
    for d, w in enumerate(weights):
        own = vars(w)
        for parameter in kernel.parameters:
            p = own.get(parameter)
            tensors.append(None if p is None else p.contiguous())
        for vectors in (state[d], None if initial is None else initial[d]):
            if vectors is None:
                tensors += [None] * count
            else:
                tensors += [None if s is None else s.contiguous() for s in vectors]
        keep = zone_masks[d] if zone_masks is not None else {}
        noise.append(None if w.mask is None else w.mask.to(x.dtype).contiguous())
        noise += [keep[s].contiguous() if s in keep else None for s in kernel.states]
    return tensors, noise if any(t is not None for t in noise) else []


def _records() -> bool:
    """Whether autograd records: not in inference mode, even where gradients are enabled inside it."""
    return torch.is_grad_enabled() and not torch.is_inference_mode_enabled()


def _is_direct(call: Call, tensors: Sequence[Tensor | None]) -> bool:
    """Whether a call may be native; raises if it may not be the registered operator either."""
    reason = unsupported_reason("layer", *tensors, call.lengths, call.reset)
    if reason is not None and not use_operator(*tensors, call.lengths, call.reset):
        raise RuntimeError(f"fused_layer: {reason}; the reference path is needed")
    return reason is None


def _traced(
    kernel: Kernel, weights: Sequence[Weights], x: Tensor, output: Tensor, values: Tensor, held: Tensor
) -> list[Mapping[str, Tensor]]:
    """For each direction the gates and states by name, (T, B, S) views of what the kernel saved."""

    def view(d: int, name: str) -> Tensor:
        rows, size = weights[d].weight_hh.shape
        hidden = rows // len(kernel.gates)
        plane = row_sizes(kernel, x.dtype, hidden)[0]
        if name == kernel.states[0]:
            return output.detach()[:, :, d * size : (d + 1) * size]
        if name in kernel.states:
            at = (kernel.states.index(name) - 1) * plane
            return held[d, :, :, at : at + hidden]
        at = kernel.saved[name] * plane
        return values[d, :, :, at : at + hidden]

    names = tuple(dict.fromkeys((*kernel.gates, *kernel.states)))  # the gate of an Elman cell is its state
    return [Views(names, partial(view, d)) for d in range(len(weights))]


def fused_layer(
    cell: Cell,
    weights: Sequence[Weights],
    x: Tensor,
    state: Sequence[State | None],
    *,
    lengths: Tensor | None = None,
    reset: Tensor | None = None,
    initial: Sequence[State | None] | None = None,
    zoneout: Mapping[str, float] | None = None,
    zone_masks: Sequence[Mapping[str, Tensor]] | None = None,
    want_trace: bool = False,
    reference: Callable[..., tuple[Tensor, list[State]]] | None = None,
    totals: list[dict[str, Tensor]] | None = None,
    direct: bool | None = None,
) -> tuple[Tensor, list[State], list[Mapping[str, Tensor]]]:
    """Run one layer, one or two directions, in one native call.

    x (T, B, I); `weights` and `state` have one entry per direction, states (B, S) in the cell's order, None for
    zeros. `lengths` (B) int64; `reset` (T, B) bool; `initial` are the vectors (S) a reset restarts from (None: zeros).
    `zoneout` gives rates by state name in evaluation, `zone_masks` (T, B, S) bool per direction in training.

    Returns the output (T, B, D·P), the final states, and with `want_trace` (else nothing) for each direction the gates
    and states by name, (T, B, S) views of what the kernel saved. `reference(x, weights, state, initial)` must compute
    the same output and final states with torch operations: it is called when a gradient is itself to be differentiated.
    A list given as `totals` receives, when the graph is differentiated, for each direction ∂L/∂h_t (T, B, P) with all
    that flows back in time, and of every other state ∂L/∂c_t (T, B, H) as it comes from later steps: the `d` that
    `cell.backward` takes, whose `values` are then the total derivatives of every gate and state.

    `direct` says whether all this may be a native call (True) or has to be the registered operator (False), if the
    caller knows; None asks `unsupported_reason`.

    >>> cell = carousel.cells.LSTM()
    >>> w = Weights(cell, {"weight_ih": torch.randn(80, 10), "weight_hh": torch.randn(80, 20)})
    >>> y, [(h, c)], _ = fused_layer(cell, [w], torch.randn(5, 3, 10), [None])
    """
    kernel = KERNELS.get(kernel_of(cell) or "")
    if kernel is None:
        raise ValueError(f"fused_layer: there is no kernel for {cell!r}")
    tensors, noise = _gather(kernel, weights, x, state, initial, zone_masks)
    lengths, reset = (None if t is None else t.contiguous() for t in (lengths, reset))
    rates = [zoneout.get(s, 0.0) for s in kernel.states] if zoneout and zone_masks is None else []
    call = Call(kernel, len(weights), lengths, reset, rates, noise, want_trace)
    if not (_is_direct(call, tensors) if direct is None else direct):
        output, *state_n, values, held = _operator(call, tensors, want_trace)
    elif _records() and any(t is not None and t.requires_grad for t in tensors):
        call.totals = totals
        if reference is not None:
            call.reference = by_tensors(cell, kernel, [w.mask for w in weights], reference)
        output, *state_n = Fused.apply(call, *tensors)
        if want_trace:
            *state_n, values, held = state_n
    else:
        output, *state_n, values, held = run_forward(call, tensors, want_trace)
    final: list[State] = [tuple(s[d] for s in state_n) for d in range(len(weights))]
    if not want_trace:
        return output, final, []
    return output, final, _traced(kernel, weights, x, output, values, held)


class Views(Mapping[str, Tensor]):
    """Tensors by name, each a view that is created on access."""

    def __init__(self, names: tuple[str, ...], view: Callable[[str], Tensor]):
        self._names = names
        self._view = view

    def __getitem__(self, name: str) -> Tensor:
        if name not in self._names:
            raise KeyError(name)
        return self._view(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def infer_stack(
    kernel: Kernel, stack: Sequence[Sequence[Tensor | None]], directions: int, x: Tensor, state: Sequence[Tensor] | None
) -> tuple[Tensor, list[Tensor]]:
    """A stack of layers without gradients, lengths, restarts or noise: nothing but allocations and native calls.

    `stack` has the parameters of each layer by slot, one direction after the other; x (T, B, I); `state` (L·D, B, S)
    for each of the kernel's states, None for zeros. All are contiguous, and `unsupported_reason` has let them pass.
    Returns the output (T, B, D·P) and the final states, (L·D, B, S) each.
    """
    native: Any = load()[0]
    run = native.forward32 if x.dtype is torch.float32 else native.forward64
    (steps, batch, inputs), (rows, size) = x.shape, stack[0][1].shape  # type: ignore[union-attr]
    hidden, slots, threads = rows // len(kernel.gates), len(kernel.parameters), torch.get_num_threads()
    count = len(stack) * directions
    final = [x.new_empty(count, batch, size)]
    for _ in kernel.states[1:]:
        final.append(x.new_empty(count, batch, hidden))
    nothing = [0] * len(final)
    before = nothing if state is None else addresses(state)
    after = addresses(final)
    for parameters in stack:
        output = x.new_empty(steps, batch, directions * size)
        given, made = [x.data_ptr()], [output.data_ptr()]
        for d in range(directions):
            own = parameters if directions == 1 else parameters[d * slots : (d + 1) * slots]
            given += [*addresses(own), *before, *nothing]  # no initial states
            made += [*after, 0, 0]  # nothing is saved
            if count > 1:  # the next direction's states
                jumps = [s.nbytes // count for s in final]
                after = [a + jump for a, jump in zip(after, jumps, strict=True)]
                before = nothing if state is None else [a + jump for a, jump in zip(before, jumps, strict=True)]
        run(kernel.name, (steps, batch, inputs, hidden, size, directions, threads), given, [], [], 0, 0, False, made)
        x, inputs = output, directions * size
    return x, final


def train_stack(
    kernel: Kernel,
    stack: Sequence[Sequence[Tensor | None]],
    directions: int,
    x: Tensor,
    state: Sequence[Tensor] | None,
    reference: Callable[..., tuple[Tensor, ...]],
) -> tuple[Tensor, Sequence[Tensor]]:
    """The same with gradients; `reference(tensors)` computes a layer's output and final states (D, B, S) from the list
    that its node takes, with torch operations."""
    slots, count = len(kernel.parameters), len(kernel.states)
    final: list[Sequence[Tensor]] = []
    for layer, parameters in enumerate(stack):
        tensors: list[Tensor | None] = [x]
        for d in range(directions):
            tensors += parameters[d * slots : (d + 1) * slots]
            tensors += [None] * count if state is None else [s[layer * directions + d] for s in state]
            tensors += [None] * count
        call = Call(kernel, directions, None, None, [], [], False, reference)
        if any(t is not None and t.requires_grad for t in tensors):
            x, *state_n = Fused.apply(call, *tensors)
        else:  # frozen layers at the bottom
            x, *state_n = run_forward(call, tensors, False)[:-2]
        final.append(state_n)
    return x, final[0] if len(final) == 1 else [torch.cat(parts) for parts in zip(*final, strict=True)]


def by_tensors(
    cell: Cell, kernel: Kernel, masks: Sequence[Tensor | None], reference: Callable[..., tuple[Tensor, list[State]]]
) -> Callable[..., tuple[Tensor, ...]]:
    """`reference` as a function of the flat list of tensors, returning the output and the final states (D, B, S);
    `masks` has the recurrent dropout of each direction."""
    count, parameters = len(kernel.states), len(kernel.parameters)

    def run(tensors: Sequence[Tensor | None]) -> tuple[Tensor, ...]:
        remade, states, initials = [], [], []
        for d, mask in enumerate(masks):
            own = tensors[1 + d * kernel.slots : 1 + (d + 1) * kernel.slots]
            named = {name: t for name, t in zip(kernel.parameters, own, strict=False) if t is not None}
            remade.append(Weights(cell, named, mask))
            states.append(tuple(own[parameters : parameters + count]))
            initials.append(tuple(own[parameters + count :]))
        output, final = reference(tensors[0], remade, states, initials)
        return output, *(torch.stack(parts) for parts in zip(*final, strict=True))

    return run


# ------------------------------------------------------------------------------------------------ the native calls


@lru_cache(4096)
def _row_sizes(kernel: str, dtype: torch.dtype, hidden: int) -> tuple[int, int, int]:
    native: Any = load()[0]
    return (native.row_sizes32 if dtype is torch.float32 else native.row_sizes64)(kernel, hidden)


def row_sizes(kernel: Kernel, dtype: torch.dtype, hidden: int) -> tuple[int, int, int]:
    """Elements of a plane, of a row of saved values, and of a row of the states after the first: whole vectors of the
    instruction set in use."""
    return _row_sizes(kernel.name, dtype, hidden)


# torch.compiler.assume_constant_result, which would import all of dynamo (a second) for this one mark
row_sizes._dynamo_marked_constant = True  # type: ignore[attr-defined]


def _sizes(kernel: Kernel, tensors: Sequence[Tensor | None]) -> tuple[int, int, int, int, int]:
    """T, B, I, H, P."""
    x, weight_hh = tensors[0], tensors[2]
    assert x is not None and weight_hh is not None
    rows, size = weight_hh.shape
    return *x.shape, rows // len(kernel.gates), size


def addresses(tensors: Sequence[Tensor | None]) -> list[int]:
    """Where tensors are in memory, 0 for None: what native calls take."""
    return [0 if t is None else t.data_ptr() for t in tensors]


def _arguments(call: Call, tensors: Sequence[Tensor | None], sizes: tuple[int, ...]) -> tuple[Any, ...]:
    """What the native forward and backward take first."""
    return (
        call.kernel.name,
        (*sizes, call.directions, torch.get_num_threads()),
        addresses(tensors),
        addresses(call.noise),
        call.zone,
        0 if call.lengths is None else call.lengths.data_ptr(),
        0 if call.reset is None else call.reset.data_ptr(),
        call.traced,
    )


def _each(tensors: Sequence[Tensor | None], directions: int) -> list[int]:
    """The addresses of t[0] of all tensors t (D, ·), then of t[1]."""
    first = addresses(tensors)
    if directions == 1:
        return first
    return first + [a + t.nbytes // 2 if t is not None else 0 for a, t in zip(first, tensors, strict=True)]


def run_forward(call: Call, tensors: Sequence[Tensor | None], save: bool, zero: bool = False) -> list[Tensor]:
    """output (T, B, D·P), the final states (D, B, P or H), values (D, T, B, ·), states after the first (D, T, B, ·);
    the last two are empty unless `save`. With `zero`, what lies between their rows is 0, not whatever was in memory."""
    sizes = steps, batch, _, hidden, size = _sizes(call.kernel, tensors)
    x = tensors[0]
    assert x is not None
    native: Any = load()[0]
    _, value_row, state_row = row_sizes(call.kernel, x.dtype, hidden)
    count = call.directions
    output = x.new_empty(steps, batch, count * size)
    final = [x.new_empty(count, batch, hidden if k else size) for k in range(len(call.kernel.states))]
    values = empty_from_pool(x, count, steps if save else 0, batch, value_row)
    held = empty_from_pool(x, count, steps if save else 0, batch, state_row)
    if zero:
        values.zero_()
        held.zero_()
    run = native.forward32 if x.dtype is torch.float32 else native.forward64
    run(*_arguments(call, tensors, sizes), [output.data_ptr(), *_each((*final, values, held), count)])
    return [output, *final, values, held]


def run_backward(
    call: Call,
    tensors: Sequence[Tensor | None],
    saved: tuple[Tensor, Tensor, Tensor],
    grads: Sequence[Tensor | None],
    wanted: Sequence[bool],
    totals: bool = False,
) -> tuple[Grads, list[dict[str, Tensor]]]:
    """The gradients of `tensors` (those `wanted`) from those of output and final states; `saved` is output, values and
    the states after the first.

    With `totals`, also of each direction ∂L/∂h_t (T, B, P) and ∂L/∂c_t (T, B, H), with all that flows back in time.
    """
    sizes = steps, batch, _, hidden, size = _sizes(call.kernel, tensors)
    output, values, held = saved
    native: Any = load()[0]
    count, names = call.directions, call.kernel.states
    d_output, *d_final = (None if g is None else g.contiguous() for g in grads)
    found: Grads = [torch.empty_like(t) if t is not None and w else None for t, w in zip(tensors, wanted, strict=True)]
    summed = [
        {s: output.new_zeros(steps, batch, hidden if k else size) for k, s in enumerate(names)} for _ in range(count)
    ] if totals else []  # fmt: skip
    run = native.backward32 if output.dtype is torch.float32 else native.backward64
    run(
        *_arguments(call, tensors, sizes),
        [output.data_ptr(), *_each((values, held), count)],
        [0 if d_output is None else d_output.data_ptr(), *_each(d_final, count)],
        addresses(found),
        [t.data_ptr() for both in summed for t in both.values()],
    )
    return found, summed


_NOTHING = torch.empty(0)


class Fused(torch.autograd.Function):
    """The layer as one node of the graph; its saved tensors are the trace, which a traced call returns too."""

    @staticmethod
    def forward(ctx: Any, call: Call, *tensors: Tensor | None) -> tuple[Tensor, ...]:
        output, *final, values, held = run_forward(call, tensors, True)
        ctx.call = call
        # The output may be changed in place before the backward call. Saved as it is, that would be an error: so what
        # is saved has a version counter of its own, and beside it is a tensor without memory on the output's counter.
        ctx.save_for_backward(*tensors, output.data, values, held)
        ctx.counter = output.detach()
        ctx.counter.data = _NOTHING
        ctx.version = output._version
        ctx.set_materialize_grads(False)
        if not call.traced:
            return output, *final
        ctx.mark_non_differentiable(values, held)
        return output, *final, values, held

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        *tensors, output, values, held = ctx.saved_tensors
        wanted = ctx.needs_input_grad[1:]
        if ctx.call.traced:
            grads = grads[:-2]
        if torch.is_grad_enabled() and ctx.call.reference is not None:
            return None, *gradients_by_reference(ctx.call.reference, tensors, grads, wanted)
        if ctx.counter._version != ctx.version:  # changed since: computed again, to the same bits
            output = run_forward(ctx.call, tensors, False)[0]
        if torch.is_grad_enabled() and any(g is not None and g.requires_grad for g in grads):
            raise RuntimeError("fused_layer: a gradient of a gradient needs `reference`, which was not given")
        reason = unsupported_reason("layer_backward", *grads)
        if reason is not None:  # a transform of torch.func, a mode or a subclass came in after the forward call
            return None, *_seen_backward(ctx.call, tensors, (output, values, held), grads, wanted, reason)
        totals = ctx.call.totals
        found, summed = run_backward(ctx.call, tensors, (output, values, held), grads, wanted, totals is not None)
        if totals is not None:
            totals[:] = summed
        return None, *found


def _seen_backward(
    call: Call,
    tensors: Sequence[Tensor | None],
    saved: Sequence[Tensor],
    grads: Sequence[Tensor | None],
    wanted: Sequence[bool],
    reason: str,
) -> Grads:
    """The gradients where a native call may not be made: by the registered operator, or else by the reference path."""
    if use_operator(*tensors, *grads):
        some, present = _there(tensors)
        noise, noise_present = _there(call.noise)
        given, grads_present = _there(grads)
        found = torch.ops.carousel.layer_backward(
            some, present, noise, noise_present, call.kernel.name, call.directions, call.lengths, call.reset, call.zone,
            list(saved), given, grads_present,
        )  # fmt: skip
        return [g if w else None for g, w in zip(_gaps(found, present), wanted, strict=True)]
    if call.reference is None:
        raise RuntimeError(f"fused_layer: {reason}; that needs `reference`, which was not given")
    return gradients_by_reference(call.reference, tensors, grads, wanted)


# ------------------------------------------------------------------------------------------------ torch operators

# Lists of tensors in an operator's schema have no gaps, so `present` says which entries of the full list are there.
_ARGUMENTS = (
    "Tensor[] tensors, int[] present, Tensor[] noise, int[] noise_present, str kernel, int directions, "
    "Tensor? lengths, Tensor? reset, float[] zone"
)
# `rows` are the lengths of the rows that are saved. They differ between instruction sets, so they are written in the
# graph: torch caches compiled graphs on disk, and must not take that of another instruction set for this one's.
torch.library.define("carousel::layer", f"({_ARGUMENTS}, int[] rows, bool save) -> Tensor[]")
torch.library.define(
    "carousel::layer_backward", f"({_ARGUMENTS}, Tensor[] saved, Tensor[] grads, int[] grads_present) -> Tensor[]"
)


def _gaps(tensors: Sequence[Tensor], present: Sequence[int]) -> list[Tensor | None]:
    left = iter(tensors)
    return [next(left) if p else None for p in present]


def _there(tensors: Sequence[Tensor | None]) -> tuple[list[Tensor], list[int]]:
    return [t for t in tensors if t is not None], [int(t is not None) for t in tensors]


def _operator(call: Call, tensors: Sequence[Tensor | None], save: bool) -> list[Tensor]:
    some, present = _there(tensors)
    noise, noise_present = _there(call.noise)
    save = save or (torch.is_grad_enabled() and any(t.requires_grad for t in some))
    rows = row_sizes(call.kernel, some[0].dtype, int(_sizes(call.kernel, tensors)[3]))[1:]
    out: list[Tensor] = torch.ops.carousel.layer(
        some, present, noise, noise_present, call.kernel.name, call.directions, call.lengths, call.reset, call.zone,
        rows, save,
    )  # fmt: skip
    return out


def _call(
    noise: Sequence[Tensor], noise_present: Sequence[int], kernel: str, directions: int,
    lengths: Tensor | None, reset: Tensor | None, zone: Sequence[float],
) -> Call:  # fmt: skip
    return Call(KERNELS[kernel], directions, lengths, reset, zone, _gaps(noise, noise_present))


@torch.library.impl("carousel::layer", "CPU")
def _layer_cpu(tensors: list[Tensor], present: list[int], *rest: Any) -> list[Tensor]:
    *described, _, save = rest
    # an operator's outputs follow from its inputs, to the last bit
    return run_forward(_call(*described), _gaps([t.contiguous() for t in tensors], present), save, zero=True)


@torch.library.register_fake("carousel::layer")
def _layer_fake(tensors: list[Tensor], present: list[int], *rest: Any) -> list[Tensor]:
    *described, (value_row, state_row), save = rest
    call = _call(*described)
    full = _gaps(tensors, present)
    x = full[0]
    assert x is not None
    steps, batch, _, hidden, size = _sizes(call.kernel, full)
    count = call.directions
    kept = steps if save else 0
    return [
        x.new_empty(steps, batch, count * size),
        *(x.new_empty(count, batch, hidden if k else size) for k in range(len(call.kernel.states))),
        x.new_empty(count, kept, batch, value_row),
        x.new_empty(count, kept, batch, state_row),
    ]


@torch.library.impl("carousel::layer_backward", "CPU")
def _layer_backward_cpu(tensors: list[Tensor], present: list[int], *rest: Any) -> list[Tensor]:
    *described, saved, grads, grads_present = rest
    full = _gaps([t.contiguous() for t in tensors], present)
    found, _ = run_backward(_call(*described), full, tuple(saved), _gaps(grads, grads_present), [True] * len(full))
    return [g for g in found if g is not None]


@torch.library.register_fake("carousel::layer_backward")
def _layer_backward_fake(tensors: list[Tensor], present: list[int], *rest: Any) -> list[Tensor]:
    return [torch.empty_like(t, memory_format=torch.contiguous_format) for t in tensors]


def _keep(ctx: Any, inputs: tuple[Any, ...], output: list[Tensor]) -> None:
    tensors, present, noise, noise_present, kernel, directions, lengths, reset, zone, *_ = inputs
    ctx.described = (present, noise_present, kernel, directions, zone)
    ctx.counts = (len(tensors), len(noise), lengths is not None, reset is not None)
    extra = [t for t in (lengths, reset) if t is not None]
    ctx.save_for_backward(*tensors, *noise, *extra, output[0], output[-2], output[-1])


def _backward(ctx: Any, grads: list[Tensor | None]) -> tuple[Any, ...]:
    present, noise_present, kernel, directions, zone = ctx.described
    n, m, has_lengths, has_reset = ctx.counts
    kept = list(ctx.saved_tensors)
    tensors, noise, extra, saved = kept[:n], kept[n : n + m], kept[n + m : -3], kept[-3:]
    lengths = extra[0] if has_lengths else None
    reset = extra[-1] if has_reset else None
    some, grads_present = _there(grads[:-2])
    found = torch.ops.carousel.layer_backward(
        tensors, present, noise, noise_present, kernel, directions, lengths, reset, zone, saved, some, grads_present
    )
    # torch takes an empty list for a list of tensors and wants one back
    lists: tuple[Any, ...] = [None] * m, None if noise_present else []
    return found, None, *lists, None, None, None, None, None if zone else [], None, None


torch.library.register_autograd("carousel::layer", _backward, setup_context=_keep)


def _products(tensors: Sequence[Sequence[int]], present: Sequence[int], kernel: str) -> int:
    """Multiplications and additions of a forward call, on shapes: every weight with every step, padding included."""
    steps, batch, _ = tensors[0]
    names, shapes = KERNELS[kernel].parameters, iter(tensors[1:])
    given = [(at % KERNELS[kernel].slots, next(shapes)) for at, there in enumerate(present[1:]) if there]
    matrices = {names.index(name) for name in ("weight_ih", "weight_hh", "weight_hr") if name in names}
    return 2 * steps * batch * sum(math.prod(shape) for at, shape in given if at in matrices)


@register_flop_formula(torch.ops.carousel.layer)
def _flops(
    tensors: Sequence[Sequence[int]], present: Sequence[int], noise: Any, noise_present: Any, kernel: str, *_: Any,
    **__: Any,
) -> int:  # fmt: skip
    return _products(tensors, present, kernel)


@register_flop_formula(torch.ops.carousel.layer_backward)
def _backward_flops(
    tensors: Sequence[Sequence[int]], present: Sequence[int], noise: Any, noise_present: Any, kernel: str, *_: Any,
    **__: Any,
) -> int:  # fmt: skip
    return 2 * _products(tensors, present, kernel)  # by the weights, and by what they were multiplied with
