"""A stack of layers one step at a time, in one native call: for streams, and for searches that branch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy

import torch
from torch import Tensor

from ..cells.spec import Cell, State, Weights
from .backend import load
from .kernels import KERNELS, addresses


class Stream:
    """A stack of layers, one direction, that runs one step per call.

    `weights` has one entry per layer. Nothing is copied: the parameters may be trained in place between steps, but one
    that moves needs a new Stream. `keep()` gives a stream for as long as they stay as they are, which is faster.

    >>> cell = carousel.cells.LSTM()
    >>> w = Weights(cell, {"weight_ih": torch.randn(80, 10), "weight_hh": torch.randn(80, 20)})
    >>> stream = Stream(cell, [w])
    >>> h, c = stream.step(torch.randn(1, 10), None)
    """

    def __init__(self, cell: Cell, weights: Sequence[Weights], zoneout: Mapping[str, float] | None = None):
        kernel = KERNELS.get(cell.kernel() or "")
        if kernel is None:
            raise ValueError(f"Stream: there is no kernel for {cell!r}")
        native = load()[0]
        assert native is not None
        self.first, self.kernel = weights[0], kernel
        first = self.first.weight_ih
        single = first.dtype == torch.float32
        self.cell = cell
        self.hidden = first.shape[0] // len(self.kernel.gates)
        self.sizes = [self.hidden] * len(self.kernel.states)
        self.sizes[0] = weights[0].weight_hh.shape[1]
        self.layers = len(weights)
        self.kept: list[Tensor] = []
        self.native = (native.Stream32 if single else native.Stream64)(kernel.name)
        self.step_native = self.native.step
        rates = [zoneout.get(s, 0.0) for s in self.kernel.states] if zoneout else []
        for w in weights:
            parameters = [vars(w).get(p) for p in self.kernel.parameters]
            for p, name in zip(parameters, self.kernel.parameters, strict=True):
                if p is not None and not p.is_contiguous():
                    raise ValueError(f"Stream: {name} must be contiguous")
            self.kept += [p for p in parameters if p is not None]
            self.native.add((w.weight_ih.shape[1], self.hidden, self.sizes[0]), addresses(parameters), rates)

    def keep(self) -> Stream:
        """The same, but its first step of more than a few rows packs the weights for it and all that follow."""
        kept = copy(self)
        kept.native = self.native.keep()
        kept.step_native = kept.native.step
        return kept

    def input_projection(self) -> tuple[Tensor, Tensor | None] | None:
        """Weight (G·H, I) and bias (G·H) of the first layer that turn x into what `step` takes with `projected`; None
        if it does not take that."""
        weight = self.first.weight_ih
        native = load()[0]
        assert native is not None
        single = weight.dtype == torch.float32
        takes = native.takes_input_projection32 if single else native.takes_input_projection64
        if not takes(self.kernel.name, self.hidden):
            return None
        bias, other = self.first.bias_ih, self.first.bias_hh
        if bias is not None and other is not None:
            bias = bias + other * torch.tensor(self.kernel.folds_bias).repeat_interleave(self.hidden)
        return weight, bias

    def step(
        self,
        x: Tensor,
        state: State | None,
        inputs: Tensor | None = None,
        parents: Tensor | None = None,
        projected: bool = False,
    ) -> State:
        """x (B, I), contiguous; state (L, B, S) each, or None for zeros. Returns the new state; h[-1] is the output.

        Where sequences branch, `inputs` (B,) says which row of x each reads, and `parents` (B,) which row of the state
        it continues: any number of rows may then be there, and products that several share are computed once.
        `projected`: x is W x + b of the first layer, (B, G·H), by the parameters of `input_projection`.
        """
        words = batch = x.shape[0]
        reads = follows = 0
        before: list[int] = []
        if inputs is not None:
            batch, reads = inputs.shape[0], inputs.data_ptr()
        if parents is not None:
            batch, follows = parents.shape[0], parents.data_ptr()
        olds = batch
        if state is not None:
            before = [s.data_ptr() for s in state]
            if parents is not None:
                olds = state[0].shape[1]
        new, after = [], []
        for size in self.sizes:  # calls of microseconds: this is faster than comprehensions
            s = x.new_empty(self.layers, batch, size)
            new.append(s)
            after.append(s.data_ptr())
        threads = torch.get_num_threads()
        self.step_native(batch, threads, x.data_ptr(), before, after, reads, follows, words, olds, projected)
        return tuple(new)
