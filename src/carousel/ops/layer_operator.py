"""`carousel::layer` and `carousel::layer_backward`: a layer as torch operators, for those who watch torch's operators
(`torch.compile`, `make_fx`, fake tensors, tensor subclasses, the counter of floating-point operations)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils.flop_counter import register_flop_formula

from .kernels import KERNELS, Call, Grads, call_sizes, row_sizes, run_backward, run_forward

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


def layer_operator(call: Call, tensors: Sequence[Tensor | None], save: bool) -> list[Tensor]:
    """As `run_forward`, by the operator; it saves for a backward call too, if there can be one."""
    some, present = _there(tensors)
    noise, noise_present = _there(call.noise)
    save = save or (torch.is_grad_enabled() and any(t.requires_grad for t in some))
    rows = row_sizes(call.kernel, some[0].dtype, int(call_sizes(call.kernel, tensors)[3]))[1:]
    out: list[Tensor] = torch.ops.carousel.layer(
        some, present, noise, noise_present, call.kernel.name, call.directions, call.lengths, call.reset, call.zone,
        rows, save,
    )  # fmt: skip
    return out


def layer_backward_operator(
    call: Call, tensors: Sequence[Tensor | None], saved: Sequence[Tensor], grads: Sequence[Tensor | None]
) -> Grads:
    """The gradients of all `tensors`, by the operator; `saved` and `grads` as in `run_backward`."""
    some, present = _there(tensors)
    noise, noise_present = _there(call.noise)
    given, grads_present = _there(grads)
    found = torch.ops.carousel.layer_backward(
        some, present, noise, noise_present, call.kernel.name, call.directions, call.lengths, call.reset, call.zone,
        list(saved), given, grads_present,
    )  # fmt: skip
    return _gaps(found, present)


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
    steps, batch, _, hidden, size = call_sizes(call.kernel, full)
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
