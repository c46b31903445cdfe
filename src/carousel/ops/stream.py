"""A stack of layers one step at a time, in one native call: for streams, and for searches that branch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy

import torch
from torch import Tensor

from ..cells.spec import Cell, State, Weights
from .backend import load
from .layer import PARAMETERS, kernel_of


class Stream:
    """A stack of layers, one direction, that takes one step a call.

    `weights` has one entry a layer. Nothing is copied: the parameters may be trained in place between steps, but one
    that moves needs a new Stream. `keep()` gives a stream for as long as they stay as they are, which is faster.

    >>> cell = carousel.cells.LSTM()
    >>> w = Weights(cell, {"weight_ih": torch.randn(80, 10), "weight_hh": torch.randn(80, 20)})
    >>> stream = Stream(cell, [w])
    >>> h, c = stream.step(torch.randn(1, 10), None)
    """

    def __init__(self, cell: Cell, weights: Sequence[Weights], zoneout: Mapping[str, float] | None = None):
        kernel = kernel_of(cell)
        if kernel is None:
            raise ValueError(f"Stream: there is no kernel for {cell!r}")
        native = load()[0]
        assert native is not None
        self.first, self.kernel = weights[0], kernel
        first = self.first.weight_ih
        single = first.dtype == torch.float32
        self.cell = cell
        self.hidden = first.shape[0] // len(cell.gates)
        self.size = weights[0].weight_hh.shape[1]
        self.layers = len(weights)
        self.kept = [p for w in weights for n in PARAMETERS if (p := vars(w).get(n)) is not None]
        self.has_c = len(cell.states) == 2
        self.native = (native.Stream32 if single else native.Stream64)(kernel)
        self.step_native = self.native.step
        for w in weights:
            sizes = 1, 1, w.weight_ih.shape[1], self.hidden, self.size
            layer = (native.Layer32 if single else native.Layer64)(*sizes, 1, 1)
            layer.zone_h, layer.zone_c = ((zoneout or {}).get(s, 0.0) for s in ("h", "c"))
            for name in PARAMETERS:
                if (p := vars(w).get(name)) is not None:
                    if not p.is_contiguous():
                        raise ValueError(f"Stream: {name} must be contiguous")
                    setattr(layer.direction(0), name, p.data_ptr())
            self.native.add(layer)

    def keep(self) -> Stream:
        """The same, but its first step of more than a few rows packs the weights for it and all that follow."""
        kept = copy(self)
        kept.native = self.native.keep()
        kept.step_native = kept.native.step
        return kept

    def drives(self) -> tuple[Tensor, Tensor | None] | None:
        """Weight (G·H, I) and bias (G·H) of the first layer that make of x what `step` takes as `driven`; None if it
        does not."""
        weight = self.first.weight_ih
        native = load()[0]
        assert native is not None
        folds = (native.drive32 if weight.dtype == torch.float32 else native.drive64)(self.kernel, self.hidden)
        if not folds:
            return None
        bias, other = self.first.bias_ih, self.first.bias_hh
        if bias is not None and other is not None:
            bias = bias + other * torch.tensor(folds).repeat_interleave(self.hidden)
        return weight, bias

    def step(
        self,
        x: Tensor,
        state: State | None,
        inputs: Tensor | None = None,
        parents: Tensor | None = None,
        driven: bool = False,
    ) -> State:
        """x (B, I), contiguous; state (L, B, S) each, or None for zeros. Returns the new state; h[-1] is the output.

        Where sequences branch, `inputs` (B,) says which row of x each reads, and `parents` (B,) which row of the state
        it goes on from: any number of rows may then be there, and what several take is multiplied once. `driven`: x is
        W x + b of the first layer, (B, G·H), as `drives` makes it.
        """
        words = olds = batch = x.shape[0]
        reads = follows = h = c = 0
        if inputs is not None:
            batch, reads = inputs.shape[0], inputs.data_ptr()
        if parents is not None:
            batch, follows = parents.shape[0], parents.data_ptr()
        if state is not None:
            h, olds = state[0].data_ptr(), state[0].shape[1]
        h_n = x.new_empty(self.layers, batch, self.size)
        rest = reads, follows, words, olds, driven
        threads = torch.get_num_threads()
        if not self.has_c:
            self.step_native(batch, threads, x.data_ptr(), h, 0, h_n.data_ptr(), 0, *rest)
            return (h_n,)
        c_n = x.new_empty(self.layers, batch, self.hidden)
        c = 0 if state is None else state[1].data_ptr()
        self.step_native(batch, threads, x.data_ptr(), h, c, h_n.data_ptr(), c_n.data_ptr(), *rest)
        return h_n, c_n
