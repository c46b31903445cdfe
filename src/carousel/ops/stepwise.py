"""A layer a step a call, in training: where a step reads what came of the step before, outside of the layer.

Weights are packed once for all steps, and their gradients are made at the end, by products over all steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ..cells.spec import Cell, Weights
from .backend import load
from .layer import PARAMETERS, _rows, block, kernel_of


class Walk:
    """One layer and direction, and what it keeps of its steps for the gradients.

    `going` says how many sequences have each step; those that end first come last. `state` is h_0 (B, P) and, if the
    cell has it, c_0 (B, H). A gradient can not be differentiated again.

    >>> cell = carousel.cells.LSTM()
    >>> w = Weights(cell, {"weight_ih": torch.randn(80, 10), "weight_hh": torch.randn(80, 20)})
    >>> walk = Walk(cell, w, [3, 2], [torch.zeros(3, 20), torch.zeros(3, 20)])
    >>> walk.step(torch.randn(3, 10)).shape, walk.step(torch.randn(2, 10)).shape
    (torch.Size([3, 20]), torch.Size([2, 20]))
    """

    def __init__(self, cell: Cell, weights: Weights, going: Sequence[int], state: Sequence[Tensor]) -> None:
        self.memory = _Memory(cell, weights, going, state)
        self.given = self.memory.tensors
        self.link: Tensor | None = None  # each step hangs on the one before
        self.t = 0

    def step(self, x: Tensor) -> Tensor:
        """x (n, I) of the sequences that go on → output (n, P)."""
        first = [self.link] if self.link is not None else self.given
        y, self.link = _Step.apply(self.memory, self.t, x, *first)
        self.t += 1
        return y


class _Memory:
    """The native walk, and the memory it works in."""

    def __init__(self, cell: Cell, weights: Weights, going: Sequence[int], state: Sequence[Tensor]) -> None:
        native: Any = load()[0]
        kernel = kernel_of(cell)
        assert kernel is not None
        own = vars(weights)
        names = [name for name in PARAMETERS if own.get(name) is not None]
        self.names = [*names, *("h_0", "c_0")[: len(state)]]
        self.tensors: list[Tensor] = [*(own[name].contiguous() for name in names), *(s.contiguous() for s in state)]
        self.going = list(going)
        like = weights.weight_ih.detach()
        steps, batch, size = len(going), going[0], like.shape[1]
        hidden, projected = len(like) // len(cell.gates), weights.weight_hh.shape[1]
        _, value_row, cell_row = _rows(kernel, like.dtype, hidden)
        self.x = block(like, steps, batch, size)
        self.output = block(like, steps, batch, projected)
        self.values, self.cells = block(like, steps, batch, value_row), block(like, steps, batch, cell_row)
        self.lengths = torch.tensor([sum(n > b for n in going) for b in range(batch)])
        single = like.dtype == torch.float32
        layer = (native.Layer32 if single else native.Layer64)(
            steps, batch, size, hidden, projected, 1, torch.get_num_threads()
        )
        layer.x, layer.output, layer.lengths = (t.data_ptr() for t in (self.x, self.output, self.lengths))
        direction = layer.direction(0)
        direction.values = self.values.data_ptr()
        if len(cell.states) == 2:
            direction.cells = self.cells.data_ptr()
        for name, t in zip(self.names, self.tensors, strict=True):
            setattr(direction, name, t.data_ptr())
        self.native = (native.Walk32 if single else native.Walk64)(layer, kernel)
        self.at: int | None = None  # the step whose gradient came last
        self.d_output: Tensor | None = None
        self.d_x: Tensor | None = None
        self.found: list[Tensor] = []

    def forward(self, t: int, x: Tensor) -> Tensor:
        n = self.going[t]
        self.x[t, :n] = x
        self.native.forward(t)
        return self.output[t, :n]

    def backward(self, t: int, d_output: Tensor) -> Tensor:
        """The gradient of the step's input."""
        if self.at is None:
            self._begin()
        assert self.d_output is not None and self.d_x is not None and self.at is not None
        for later in range(self.at - 1, t, -1):  # steps that nothing came of
            self.d_output[later].zero_()
            self.native.backward(later)
        n = self.going[t]
        self.d_output[t, :n] = d_output
        self.native.backward(t)
        self.at = t
        return self.d_x[t, :n].clone()

    def _begin(self) -> None:
        self.at = len(self.going)
        self.d_output, self.d_x = block(self.output, *self.output.shape), block(self.x, *self.x.shape)
        self.found = [block(t.detach(), *t.shape) for t in self.tensors]
        layer = self.native.layer
        layer.d_output, layer.d_x = self.d_output.data_ptr(), self.d_x.data_ptr()
        for name, g in zip(self.names, self.found, strict=True):
            setattr(layer.direction(0), f"d_{name}", g.data_ptr())

    def finish(self) -> list[Tensor]:
        """The gradients of parameters and first state."""
        self.native.finish()
        found, self.found = self.found, []
        self.at = self.d_output = self.d_x = None
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
                "walk: a gradient of these steps can not be differentiated again; take layer.step for that"
            )
        d_x = ctx.memory.backward(ctx.t, d_output)
        return None, None, d_x, *([d_link] if ctx.t else ctx.memory.finish())
