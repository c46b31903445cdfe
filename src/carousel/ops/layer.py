"""One layer in one native call, as a differentiable function and as a torch operator.

The arithmetic is in the C++ headers beside this file; here tensors become pointers. In a plain run an autograd
function calls the native code directly; under `torch.compile` the same code is reached through the registered operators
`carousel::layer` and `carousel::layer_backward`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from ..cells.spec import Cell, State, Weights
from .backend import load

Grads = list[Tensor | None]

PARAMETERS = (
    "weight_ih",
    "weight_hh",
    "bias_ih",
    "bias_hh",
    "weight_hr",
    "weight_ch",
    "norm_ih_weight",
    "norm_ih_bias",
    "norm_hh_weight",
    "norm_hh_bias",
    "norm_c_weight",
    "norm_c_bias",
)
STATES = ("h_0", "c_0", "initial_h", "initial_c")
NOISE = ("mask", "zone_h", "zone_c")  # no gradient
SLOTS = PARAMETERS + STATES  # the differentiable tensors of one direction, in this order


def kernel_of(cell: Cell) -> str | None:
    """The name of the kernel that computes `cell`, None if there is none (a user's own cell, full peepholes)."""
    return cell.kernel()


@dataclass
class Call:
    """One layer's call but for the tensors that have gradients."""

    kernel: str
    directions: int
    has_c: bool
    lengths: Tensor | None  # (B) int64
    reset: Tensor | None  # (T, B) bool
    zone: tuple[float, float]  # rates of h and c in evaluation
    noise: list[Tensor | None]  # mask, zone_h, zone_c of each direction
    traced: bool = True  # someone looks at what is saved, so it is zero past a sequence's end
    reference: Callable[..., tuple[Tensor, ...]] | None = None
    totals: list[dict[str, Tensor]] | None = None


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
) -> tuple[Tensor, list[State], list[Mapping[str, Tensor]]]:
    """Run one layer, one or two directions, in one native call.

    x (T, B, I); `weights` and `state` have one entry a direction, states (B, S) in the cell's order, None for
    zeros. `lengths` (B) int64; `reset` (T, B) bool; `initial` are the vectors (S) a reset restarts from (None: zeros).
    `zoneout` gives rates by state name in evaluation, `zone_masks` (T, B, S) bool per direction in training.

    Returns the output (T, B, D·P), the final states, and with `want_trace` (else nothing) for each direction the gates
    and states by name, (T, B, S) views of what the kernel saved. `reference(x, weights, state, initial)` must compute
    the same output and final states with torch operations: it is called when a gradient is itself to be differentiated.
    A list given as `totals` receives, when the graph is differentiated, for each direction ∂L/∂h_t (T, B, P) with all
    that flows back in time, and ∂L/∂c_t (T, B, H) as it comes from later steps: the `d` that `cell.backward` takes,
    whose `values` are then the total derivatives of every gate and state.

    >>> cell = carousel.cells.LSTM()
    >>> w = Weights(cell, {"weight_ih": torch.randn(80, 10), "weight_hh": torch.randn(80, 20)})
    >>> y, [(h, c)], _ = fused_layer(cell, [w], torch.randn(5, 3, 10), [None])
    """
    kernel = kernel_of(cell)
    if kernel is None:
        raise ValueError(f"fused_layer: there is no kernel for {cell!r}")
    has_c = len(cell.states) == 2
    rates = zoneout or {}
    tensors: list[Tensor | None] = [x.contiguous()]
    noise: list[Tensor | None] = []
    for d, w in enumerate(weights):
        own = vars(w)
        for name in PARAMETERS:
            p = own.get(name)
            tensors.append(None if p is None else p.contiguous())
        for vectors in (state[d], None if initial is None else initial[d]):
            for k in range(2):
                s = vectors[k] if vectors is not None and k < len(vectors) else None
                tensors.append(None if s is None else s.contiguous())
        noise.append(None if w.mask is None else w.mask.to(x.dtype).contiguous())
        keep = zone_masks[d] if zone_masks is not None else {}
        for name in ("h", "c"):
            noise.append(keep[name].contiguous() if name in keep else None)
    zone = (0.0, 0.0) if zone_masks is not None else (rates.get("h", 0.0), rates.get("c", 0.0))
    call = Call(
        kernel,
        len(weights),
        has_c,
        None if lengths is None else lengths.contiguous(),
        None if reset is None else reset.contiguous(),
        zone,
        noise,
        want_trace,
    )
    if torch.compiler.is_compiling():
        output, h_n, c_n, values, held = _compiled(call, tensors, want_trace)
    elif torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in tensors):
        call.totals = totals
        if reference is not None:
            call.reference = _again(cell, weights, reference)
        output, h_n, c_n, values, held = Fused.apply(call, *tensors)
    else:
        output, h_n, c_n, values, held = run_forward(call, tensors, want_trace)
    final: list[State] = [(h_n[d], c_n[d]) if has_c else (h_n[d],) for d in range(len(weights))]
    if not want_trace:
        return output, final, []

    def view(d: int, name: str) -> Tensor:
        rows, size = weights[d].weight_hh.shape
        hidden = rows // len(cell.gates)
        if name == "h":
            return output.detach()[:, :, d * size : (d + 1) * size]
        if name == "c":
            return held[d, :, :, :hidden]
        at = list(cell.gates).index(name) * _rows(kernel, x.dtype, hidden)[0]
        return values[d, :, :, at : at + hidden]

    names = tuple(dict.fromkeys((*cell.gates, *cell.states)))  # the gate of an Elman cell is its state
    return output, final, [Views(names, partial(view, d)) for d in range(len(weights))]


class Views(Mapping[str, Tensor]):
    """Tensors by name, each made when it is asked for."""

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


def _again(
    cell: Cell, weights: Sequence[Weights], reference: Callable[..., tuple[Tensor, list[State]]]
) -> Callable[..., tuple[Tensor, ...]]:
    """`reference` as a function of the flat list of tensors, giving output, h_n and c_n."""

    def run(tensors: Sequence[Tensor | None]) -> tuple[Tensor, ...]:
        remade, states, initials = [], [], []
        for d, w in enumerate(weights):
            own = tensors[1 + d * len(SLOTS) : 1 + (d + 1) * len(SLOTS)]
            named = {name: t for name, t in zip(PARAMETERS, own, strict=False) if t is not None}
            remade.append(Weights(cell, named, w.mask))
            h_0, c_0, initial_h, initial_c = own[len(PARAMETERS) :]
            states.append((h_0, c_0)[: len(cell.states)])
            initials.append((initial_h, initial_c)[: len(cell.states)])
        output, final = reference(tensors[0], remade, states, initials)
        return output, *(torch.stack(parts) for parts in zip(*final, strict=True))

    return run


# ------------------------------------------------------------------------------------------------ the native calls


@torch.compiler.assume_constant_result
def _rows(kernel: str, dtype: torch.dtype, hidden: int) -> tuple[int, int, int]:
    """Lengths of a gate, of a row of `values` and of a row of `cells`: whole vectors of the instruction set in use."""
    native = load()[0]
    return (native.rows32 if dtype == torch.float32 else native.rows64)(kernel, hidden)  # type: ignore[union-attr]


def _sizes(call: Call, x: Tensor, weight_hh: Tensor, weight_hr: Tensor | None) -> tuple[int, int, int, int, int]:
    """T, B, I, H, P."""
    steps, batch, size = x.shape
    gates = {"lstm": 4, "peephole": 4, "layernorm": 4}.get(call.kernel, 1 if call.kernel.startswith("elman") else 3)
    return steps, batch, size, weight_hh.shape[0] // gates, weight_hh.shape[1]


def _layer(call: Call, tensors: Sequence[Tensor | None]) -> tuple[Any, tuple[int, int, int, int, int]]:
    """The native description of a call, inputs filled in."""
    native = load()[0]
    assert native is not None
    x = tensors[0]
    assert x is not None
    sizes = _sizes(call, x, tensors[2], tensors[5])  # type: ignore[arg-type]
    make = native.Layer32 if x.dtype == torch.float32 else native.Layer64
    layer = make(*sizes, call.directions, torch.get_num_threads())
    layer.x = x.data_ptr()
    if call.lengths is not None:
        layer.lengths = call.lengths.data_ptr()
    if call.reset is not None:
        layer.reset = call.reset.data_ptr()
    layer.zone_h, layer.zone_c = call.zone
    layer.traced = call.traced
    for d in range(call.directions):
        direction = layer.direction(d)
        for name, t in zip(SLOTS, tensors[1 + d * len(SLOTS) :], strict=False):
            if t is not None:
                setattr(direction, name, t.data_ptr())
        for name, t in zip(NOISE, call.noise[d * len(NOISE) :], strict=False):
            if t is not None:
                setattr(direction, name, t.data_ptr())
    return layer, sizes


def block(like: Tensor, *shape: int) -> Tensor:
    """An uninitialised tensor; a large one from the kernels' own pool, so that its pages are not new every time."""
    size = math.prod(shape)
    native = load()[0]
    if size < 1 << 16 or native is None:
        return like.new_empty(shape)
    make = native.block32 if like.dtype == torch.float32 else native.block64
    block: Tensor = make(size)
    return block.view(shape)


def run_forward(call: Call, tensors: Sequence[Tensor | None], save: bool) -> list[Tensor]:
    """output (T, B, D·P), h_n (D, B, P), c_n (D, B, H), values (D, T, B, ·), cells (D, T, B, ·); the last two are
    empty unless `save`."""
    layer, (steps, batch, _, hidden, size) = _layer(call, tensors)
    x = tensors[0]
    assert x is not None
    _, value_row, cell_row = _rows(call.kernel, x.dtype, hidden)
    count = call.directions
    output = x.new_empty(steps, batch, count * size)
    h_n = x.new_empty(count, batch, size)
    c_n = x.new_empty(count, batch, hidden if call.has_c else 0)
    values = block(x, count, steps if save else 0, batch, value_row)
    held = block(x, count, steps if save else 0, batch, cell_row)
    layer.output = output.data_ptr()
    for d in range(count):
        direction = layer.direction(d)
        direction.h_n = h_n[d].data_ptr()
        if call.has_c:
            direction.c_n = c_n[d].data_ptr()
        if save:
            direction.values = values[d].data_ptr()
            if call.has_c:
                direction.cells = held[d].data_ptr()
    layer.forward(call.kernel)
    return [output, h_n, c_n, values, held]


def run_backward(
    call: Call,
    tensors: Sequence[Tensor | None],
    saved: tuple[Tensor, Tensor, Tensor],
    grads: Sequence[Tensor | None],
    wanted: Sequence[bool],
    totals: bool = False,
) -> tuple[Grads, list[dict[str, Tensor]]]:
    """The gradients of `tensors` (those `wanted`) from those of output, h_n and c_n; `saved` is output, values, cells.

    With `totals`, also ∂L/∂h_t (T, B, P) and ∂L/∂c_t (T, B, H) of each direction, with all that flows back in time.
    """
    layer, (steps, batch, _, hidden, size) = _layer(call, tensors)
    output, values, held = saved
    d_output, d_h_n, d_c_n = (None if g is None else g.contiguous() for g in grads)
    layer.output = output.data_ptr()
    if d_output is not None:
        layer.d_output = d_output.data_ptr()
    found: Grads = [torch.empty_like(t) if t is not None and w else None for t, w in zip(tensors, wanted, strict=True)]
    if found[0] is not None:
        layer.d_x = found[0].data_ptr()
    summed = []
    for d in range(call.directions):
        direction = layer.direction(d)
        direction.values = values[d].data_ptr()
        if d_h_n is not None:
            direction.d_h_n = d_h_n[d].data_ptr()
        if call.has_c:
            direction.cells = held[d].data_ptr()
            if d_c_n is not None:
                direction.d_c_n = d_c_n[d].data_ptr()
        for name, g in zip(SLOTS, found[1 + d * len(SLOTS) :], strict=False):
            if g is not None:
                setattr(direction, "d_" + name, g.data_ptr())
        if totals:
            both = {"h": output.new_zeros(steps, batch, size)}
            direction.total_h = both["h"].data_ptr()
            if call.has_c:
                both["c"] = output.new_zeros(steps, batch, hidden)
                direction.total_c = both["c"].data_ptr()
            summed.append(both)
    layer.backward(call.kernel)
    return found, summed


class Fused(torch.autograd.Function):
    """The layer as one node of the graph; its saved tensors are the trace."""

    @staticmethod
    def forward(ctx: Any, call: Call, *tensors: Tensor | None) -> tuple[Tensor, ...]:
        output, h_n, c_n, values, held = run_forward(call, tensors, True)
        ctx.call = call
        ctx.save_for_backward(*tensors, output, values, held)
        ctx.mark_non_differentiable(values, held)
        ctx.set_materialize_grads(False)
        return output, h_n, c_n, values, held

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        *tensors, output, values, held = ctx.saved_tensors
        wanted = ctx.needs_input_grad[1:]
        if torch.is_grad_enabled() and ctx.call.reference is not None:
            return None, *_differentiable(ctx.call, tensors, grads[:3], wanted)
        if torch.is_grad_enabled() and any(g is not None and g.requires_grad for g in grads):
            raise RuntimeError("fused_layer: a gradient of a gradient needs `reference`, which was not given")
        totals = ctx.call.totals
        found, summed = run_backward(ctx.call, tensors, (output, values, held), grads[:3], wanted, totals is not None)
        if totals is not None:
            totals[:] = summed
        return None, *found


def _differentiable(
    call: Call, tensors: Sequence[Tensor | None], grads: Sequence[Tensor | None], wanted: Sequence[bool]
) -> Grads:
    """The gradients as functions that can be differentiated again: by the reference path."""
    assert call.reference is not None
    results = call.reference(tensors)
    pairs = [(r, g) for r, g in zip(results, grads, strict=False) if g is not None and r.requires_grad]
    inputs = [t for t, w in zip(tensors, wanted, strict=True) if w and t is not None]
    found = iter(
        torch.autograd.grad([r for r, _ in pairs], inputs, [g for _, g in pairs], create_graph=True, allow_unused=True)
    )
    return [next(found) if w and t is not None else None for t, w in zip(tensors, wanted, strict=True)]


# ------------------------------------------------------------------------------------------------ torch operators

# Lists of tensors in an operator's schema have no gaps, so `present` says which entries of the full list are there.
_ARGUMENTS = (
    "Tensor[] tensors, int[] present, Tensor[] noise, int[] noise_present, str kernel, int directions, bool has_c, "
    "Tensor? lengths, Tensor? reset, float zone_h, float zone_c"
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


def _compiled(call: Call, tensors: Sequence[Tensor | None], save: bool) -> list[Tensor]:
    some, present = _there(tensors)
    noise, noise_present = _there(call.noise)
    save = save or (torch.is_grad_enabled() and any(t.requires_grad for t in some))
    hidden = _sizes(call, tensors[0], tensors[2], tensors[5])[3]  # type: ignore[arg-type]
    rows = _rows(call.kernel, some[0].dtype, int(hidden))[1:]
    out: list[Tensor] = torch.ops.carousel.layer(
        some, present, noise, noise_present, call.kernel, call.directions, call.has_c, call.lengths, call.reset,
        *call.zone, rows, save,
    )  # fmt: skip
    return out


def _call(
    noise: Sequence[Tensor], noise_present: Sequence[int], kernel: str, directions: int, has_c: bool,
    lengths: Tensor | None, reset: Tensor | None, zone_h: float, zone_c: float,
) -> Call:  # fmt: skip
    return Call(kernel, directions, has_c, lengths, reset, (zone_h, zone_c), _gaps(noise, noise_present))


@torch.library.impl("carousel::layer", "CPU")
def _layer_cpu(tensors: list[Tensor], present: list[int], *rest: Any) -> list[Tensor]:
    *described, _, save = rest
    return run_forward(_call(*described), _gaps([t.contiguous() for t in tensors], present), save)


@torch.library.register_fake("carousel::layer")
def _layer_fake(tensors: list[Tensor], present: list[int], *rest: Any) -> list[Tensor]:
    *described, (value_row, cell_row), save = rest
    call = _call(*described)
    full = _gaps(tensors, present)
    x = full[0]
    assert x is not None
    steps, batch, _, hidden, size = _sizes(call, x, full[2], full[5])  # type: ignore[arg-type]
    count = call.directions
    kept = steps if save else 0
    return [
        x.new_empty(steps, batch, count * size),
        x.new_empty(count, batch, size),
        x.new_empty(count, batch, hidden if call.has_c else 0),
        x.new_empty(count, kept, batch, value_row),
        x.new_empty(count, kept, batch, cell_row),
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
    tensors, present, noise, noise_present, kernel, directions, has_c, lengths, reset, *rest = inputs
    ctx.described = (present, noise_present, kernel, directions, has_c, rest[:-2])
    ctx.counts = (len(tensors), len(noise), lengths is not None, reset is not None)
    extra = [t for t in (lengths, reset) if t is not None]
    ctx.save_for_backward(*tensors, *noise, *extra, output[0], output[3], output[4])


def _backward(ctx: Any, grads: list[Tensor | None]) -> tuple[Any, ...]:
    present, noise_present, kernel, directions, has_c, rest = ctx.described
    n, m, has_lengths, has_reset = ctx.counts
    kept = list(ctx.saved_tensors)
    tensors, noise, extra, saved = kept[:n], kept[n : n + m], kept[n + m : -3], kept[-3:]
    lengths = extra[0] if has_lengths else None
    reset = extra[-1] if has_reset else None
    some, grads_present = _there(grads[:3])
    found = torch.ops.carousel.layer_backward(
        tensors, present, noise, noise_present, kernel, directions, has_c, lengths, reset, *rest, saved, some,
        grads_present,
    )  # fmt: skip
    return (found, None, [None] * m, *(None for _ in range(10)))


torch.library.register_autograd("carousel::layer", _backward, setup_context=_keep)
