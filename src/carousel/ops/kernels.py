"""The kernels of recurrent layers: what each has, and calls into them. Tensors become addresses, in the order of slots.

The arithmetic is in C++ (csrc/recurrent, csrc/cells).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from .backend import empty_from_pool, load

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


def call_sizes(kernel: Kernel, tensors: Sequence[Tensor | None]) -> tuple[int, int, int, int, int]:
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
    sizes = steps, batch, _, hidden, size = call_sizes(call.kernel, tensors)
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
    sizes = steps, batch, _, hidden, size = call_sizes(call.kernel, tensors)
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
