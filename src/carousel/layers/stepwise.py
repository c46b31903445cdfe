"""Layers a step at a time, with gradients: for a decoder that reads what it has found itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from ..cells.spec import Weights
from ..ops import backend
from ..ops.dropout import dropout
from ..ops.stepwise import Stepwise
from .recurrent import Recurrent


class StepwiseLayer:
    """A layer, one way, a step at a time in training. Sequences end one after the other, the last ones first.

    `batch_sizes` says how many have each step, of B at first; `state` is as the layer has it, (layers, B, H) each.

    >>> lstm = carousel.LSTM(8, 16)
    >>> stepwise = StepwiseLayer(lstm, [3, 3, 1], None)
    >>> [stepwise.step(torch.randn(n, 8)).shape[0] for n in (3, 3, 1)]
    [3, 3, 1]
    """

    def __init__(self, layer: Recurrent, batch_sizes: Sequence[int], state: Any) -> None:
        self.layer = layer
        self.state = state
        self.layers: list[Stepwise] | None = None
        noisy = layer.zoneout or (
            layer.training and (layer.recurrent_dropout or layer.weight_drop or layer.variational)
        )
        weight: Any = layer.weight_ih_l0
        if not batch_sizes or noisy or layer.bidirectional or layer.cell.kernel() is None:
            return
        given = () if state is None else (state,) if isinstance(state, Tensor) else state
        if backend.unsupported_reason("layer", *layer.parameters(), *given) is not None:
            return
        if state is None:
            if layer.learn_initial_state:
                return
            sizes = [layer.state_shape(name)[0] for name in layer.cell.states]
            state = [weight.new_zeros(layer.num_layers, batch_sizes[0], size) for size in sizes]
        parts = [state] if isinstance(state, Tensor) else state
        self.layers = [
            Stepwise(
                layer.cell, Weights(layer.cell, layer._parameters_of(k, 0)), batch_sizes, [part[k] for part in parts]
            )
            for k in range(layer.num_layers)
        ]

    def step(self, x: Tensor) -> Tensor:
        """x (n, I) of the active rows → output (n, P)."""
        if self.layers is None:
            if self.state is not None:
                whole = isinstance(self.state, Tensor)
                parts = [part[:, : len(x)].contiguous() for part in ((self.state,) if whole else self.state)]
                self.state = parts[0] if whole else tuple(parts)
            y, self.state = self.layer.step(x, self.state)
            return y
        for k, stepwise in enumerate(self.layers):
            if k and self.layer.training:
                x = dropout(x, self.layer.dropout)
            x = stepwise.step(x)
        return x
