"""A layer one step per call, in training: for steps whose input depends, outside of the layer, on the step before.

Weights are packed once for all steps, and their gradients are computed at the end, by products over all steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ..cells.spec import Cell, Weights
from .backend import empty_from_pool, load
from .kernels import KERNELS, addresses, row_sizes


class Stepwise:
    """One layer and direction, and what it keeps of its steps for the gradients.

    `batch_sizes` says how many sequences have each step, as in a `PackedSequence`: the longest come first. `state` has
    the first state, (B, P) and (B, H) each. A gradient cannot be differentiated again.

    >>> cell = carousel.cells.LSTM()
    >>> w = Weights(cell, {"weight_ih": torch.randn(80, 10), "weight_hh": torch.randn(80, 20)})
    >>> layer = Stepwise(cell, w, [3, 2], [torch.zeros(3, 20), torch.zeros(3, 20)])
    >>> layer.step(torch.randn(3, 10)).shape, layer.step(torch.randn(2, 10)).shape
    (torch.Size([3, 20]), torch.Size([2, 20]))
    """

    def __init__(self, cell: Cell, weights: Weights, batch_sizes: Sequence[int], state: Sequence[Tensor]) -> None:
        self.memory = _Memory(cell, weights, batch_sizes, state)
        self.given = self.memory.tensors
        self.link: Tensor | None = None  # each step depends on the one before
        self.t = 0

    def step(self, x: Tensor) -> Tensor:
        """x (n, I) of the sequences that have this step → output (n, P)."""
        first = [self.link] if self.link is not None else self.given
        y, self.link = _Step.apply(self.memory, self.t, x, *first)
        self.t += 1
        return y


class _Memory:
    """The native steps, and the memory they work in."""

    def __init__(self, cell: Cell, weights: Weights, batch_sizes: Sequence[int], state: Sequence[Tensor]) -> None:
        native: Any = load()[0]
        kernel = KERNELS[cell.kernel() or ""]
        own = vars(weights)
        slots = [*(own.get(p) for p in kernel.parameters), *state]
        self.present, self.num_states = [t is not None for t in slots], len(kernel.states)
        self.tensors: list[Tensor] = [t.contiguous() for t in slots if t is not None]
        self.batch_sizes = list(batch_sizes)
        like = weights.weight_ih.detach()
        steps, batch, size = len(batch_sizes), batch_sizes[0], like.shape[1]
        hidden, projected = len(like) // len(kernel.gates), weights.weight_hh.shape[1]
        _, value_row, state_row = row_sizes(kernel, like.dtype, hidden)
        self.x = empty_from_pool(like, steps, batch, size)
        self.output = empty_from_pool(like, steps, batch, projected)
        self.values = empty_from_pool(like, steps, batch, value_row)
        self.states = empty_from_pool(like, steps, batch, state_row)
        self.lengths = torch.tensor([sum(n > b for n in batch_sizes) for b in range(batch)])
        self.native = (native.Stepwise32 if like.dtype == torch.float32 else native.Stepwise64)(
            kernel.name,
            (steps, batch, size, hidden, projected, 1, torch.get_num_threads()),
            self._slots(self.x, self.tensors),
            self.lengths.data_ptr(),
            addresses((self.output, self.values, self.states)),
        )
        self.at: int | None = None  # the step whose gradient came last
        self.d_output: Tensor | None = None
        self.d_x: Tensor | None = None
        self.found: list[Tensor] = []

    def _slots(self, x: Tensor, tensors: Sequence[Tensor]) -> list[int]:
        """x and `tensors`, those present, as the addresses of all slots; there are no states after a reset."""
        rest = iter(tensors)
        full = [next(rest) if there else None for there in self.present]
        return addresses([x, *full, *([None] * self.num_states)])

    def forward(self, t: int, x: Tensor) -> Tensor:
        n = self.batch_sizes[t]
        self.x[t, :n] = x
        self.native.forward(t)
        return self.output[t, :n]

    def backward(self, t: int, d_output: Tensor) -> Tensor:
        """The gradient of the step's input."""
        if self.at is None:
            self._begin()
        assert self.d_output is not None and self.d_x is not None and self.at is not None
        last, self.at = self.at, None  # a step that fails ends this backward; another begins from the last step
        for later in range(last - 1, t, -1):  # steps whose output has no gradient
            self.d_output[later].zero_()
            self.native.backward(later)
        n = self.batch_sizes[t]
        self.d_output[t, :n] = d_output
        self.native.backward(t)
        self.at = t
        return self.d_x[t, :n].clone()

    def _begin(self) -> None:
        self.d_output = empty_from_pool(self.output, *self.output.shape)
        self.d_x = empty_from_pool(self.x, *self.x.shape)
        self.found = [empty_from_pool(t.detach(), *t.shape) for t in self.tensors]
        self.native.set_gradients(self.d_output.data_ptr(), self._slots(self.d_x, self.found))
        self.at = len(self.batch_sizes)

    def finish(self) -> list[Tensor]:
        """The gradients of parameters and first state."""
        self.at = None
        self.native.finish()
        found, self.found = self.found, []
        self.d_output = self.d_x = None
        return found


class _Step(torch.autograd.Function):
    """A step as a node of the graph. The first one has the parameters; the others have the step before."""

    @staticmethod
    def forward(ctx: Any, memory: _Memory, t: int, x: Tensor, *before: Tensor) -> tuple[Tensor, Tensor]:
        ctx.memory, ctx.t = memory, t
        return memory.forward(t, x), x.new_zeros(())

    @staticmethod
    def backward(ctx: Any, d_output: Tensor, d_link: Tensor) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():
            raise RuntimeError(
                "stepwise: a gradient of these steps can not be differentiated again; use layer.step for that"
            )
        d_x = ctx.memory.backward(ctx.t, d_output)
        return None, None, d_x, *([d_link] if ctx.t else ctx.memory.finish())
