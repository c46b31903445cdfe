"""One layer, or a plain stack, in native calls, as a differentiable function.

In a plain run an autograd function calls the kernels directly (`kernels.py`); where torch has to see an operator, the
same code is reached through the registered one (`layer_operator.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from ..cells.spec import Cell, State, Weights
from .backend import autograd_records, gradients_by_reference, unsupported_reason, use_operator
from .kernels import KERNELS, Call, Grads, Kernel, row_sizes, run_backward, run_forward
from .layer_operator import layer_backward_operator, layer_operator
from .views import Views


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


def _is_direct(call: Call, tensors: Sequence[Tensor | None]) -> bool:
    """Whether a call may be native; raises if it may not be the registered operator either."""
    reason = unsupported_reason("layer", *tensors, call.lengths, call.reset)
    if reason is not None and not use_operator(*tensors, call.lengths, call.reset):
        raise RuntimeError(f"fused_layer: {reason}; the reference path is needed")
    return reason is None


def _traced(
    kernel: Kernel, weight_hh: Tensor, directions: int, output: Tensor, values: Tensor, held: Tensor
) -> list[Mapping[str, Tensor]]:
    """For each direction the gates and states by name, (T, B, S) views of what the kernel saved; `weight_hh` of any."""
    rows, size = weight_hh.shape
    hidden, states = rows // len(kernel.gates), kernel.states
    plane = row_sizes(kernel, output.dtype, hidden)[0]
    output = output.detach()
    seen: list[Mapping[str, Tensor]] = []
    for d in range(directions):
        own, others = values[d], held[d] if len(states) > 1 else held
        parts = {gate: (own, kernel.saved[gate] * plane, hidden) for gate in kernel.gates if gate not in states}
        parts |= {state: (others, k * plane, hidden) for k, state in enumerate(states[1:])}
        parts[states[0]] = output, d * size, size
        names = dict.fromkeys((*kernel.gates, *states))  # the gate of an Elman cell is its state
        seen.append(Views({name: parts[name] for name in names}))
    return seen


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
    kernel = KERNELS.get(cell.kernel() or "")
    if kernel is None:
        raise ValueError(f"fused_layer: there is no kernel for {cell!r}")
    tensors, noise = _gather(kernel, weights, x, state, initial, zone_masks)
    lengths, reset = (None if t is None else t.contiguous() for t in (lengths, reset))
    rates = [zoneout.get(s, 0.0) for s in kernel.states] if zoneout and zone_masks is None else []
    call = Call(kernel, len(weights), lengths, reset, rates, noise, want_trace)
    if not (_is_direct(call, tensors) if direct is None else direct):
        output, *state_n, values, held = layer_operator(call, tensors, want_trace)
    elif autograd_records() and any(t is not None and t.requires_grad for t in tensors):
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
    return output, final, _traced(kernel, weights[0].weight_hh, len(weights), output, values, held)


def train_stack(
    kernel: Kernel,
    stack: Sequence[Sequence[Tensor | None]],
    directions: int,
    x: Tensor,
    state: Sequence[Tensor] | None,
    reference: Callable[..., tuple[Tensor, ...]],
    seen: list[Mapping[str, Tensor]] | None = None,
) -> tuple[Tensor, Sequence[Tensor]]:
    """A stack of layers, with gradients where they are recorded, without lengths, restarts or noise.

    `stack` has the parameters of each layer by slot, one direction after the other; x (T, B, I); `state` (L·D, B, S)
    for each of the kernel's states, None for zeros. All are contiguous, and `unsupported_reason` has let them pass.
    Returns the output (T, B, D·P) and the final states, (L·D, B, S) each; `seen` receives for each layer and direction
    the gates and states by name, (T, B, S) views. `reference(tensors)` computes a layer's output and final states
    (D, B, S) from the list that its node takes, with torch operations.
    """
    slots, count = len(kernel.parameters), len(kernel.states)
    final: list[Sequence[Tensor]] = []
    for layer, parameters in enumerate(stack):
        tensors: list[Tensor | None] = [x]
        for d in range(directions):
            tensors += parameters[d * slots : (d + 1) * slots]
            tensors += [None] * count if state is None else [s[layer * directions + d] for s in state]
            tensors += [None] * count
        call = Call(kernel, directions, None, None, [], [], seen is not None, reference)
        if autograd_records() and any(t is not None and t.requires_grad for t in tensors):
            x, *state_n = Fused.apply(call, *tensors)
        else:  # no gradients, or frozen layers at the bottom
            x, *state_n = run_forward(call, tensors, seen is not None)
            state_n = state_n if seen is not None else state_n[:-2]
        if seen is not None:
            *state_n, values, held = state_n
            weight = parameters[kernel.parameters.index("weight_hh")]
            assert weight is not None
            seen += _traced(kernel, weight, directions, x, values, held)
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


_NOTHING = torch.empty(0, device="cpu")  # also where this module is first imported under another default device


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
            return None, *_watched_backward(ctx.call, tensors, (output, values, held), grads, wanted, reason)
        totals = ctx.call.totals
        found, summed = run_backward(ctx.call, tensors, (output, values, held), grads, wanted, totals is not None)
        if totals is not None:
            totals[:] = summed
        return None, *found


def _watched_backward(
    call: Call,
    tensors: Sequence[Tensor | None],
    saved: Sequence[Tensor],
    grads: Sequence[Tensor | None],
    wanted: Sequence[bool],
    reason: str,
) -> Grads:
    """The gradients where a native call may not be made: by the registered operator, or else by the reference path."""
    if use_operator(*tensors, *grads):
        found = layer_backward_operator(call, tensors, saved, grads)
        return [g if w else None for g, w in zip(found, wanted, strict=True)]
    if call.reference is None:
        raise RuntimeError(f"fused_layer: {reason}; that needs `reference`, which was not given")
    return gradients_by_reference(call.reference, tensors, grads, wanted)
