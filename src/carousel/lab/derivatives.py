"""A layer's run, differentiated with the closed forms of its cell: step by step, and back through time."""

from __future__ import annotations

from types import SimpleNamespace

import torch
from torch import Tensor

from ..cells import Weights
from ..cells.spec import State, StepGradient, add_gradients
from ..layers import Recurrent


class Walk:
    """One layer and direction of a network, forward over a sequence x (T, B, I).

    >>> walk = Walk(LSTM(2, 3, dtype=torch.float64), torch.randn(5, 1, 2, dtype=torch.float64))
    >>> walk.jacobian(4).shape                    # of (h, c) by (h₋, c₋)
    torch.Size([6, 6])
    """

    def __init__(self, layer: Recurrent, x: Tensor) -> None:
        self.layer, self.cell = layer, layer.cell
        self.own = {name: value.detach() for name, value in layer._parameters_of(0, 0).items()}
        self.w = Weights(self.cell, self.own)
        self.x = x.detach()
        with torch.no_grad():
            trace = layer.trace(self.x)
        self.named = {name: values[0] for name, values in {**trace.gates, **trace.states}.items()}  # (T, B, H) each
        self.sizes = [layer.state_shape(name)[0] for name in self.cell.states]

    def at(self, t: int) -> SimpleNamespace:
        """What the cell named at step t, (B, H) each."""
        return SimpleNamespace(**{name: values[t] for name, values in self.named.items()})

    def before(self, t: int) -> State:
        """The state that step t began with."""
        states = (self.named[name] for name in self.cell.states)
        return tuple(values[t - 1] if t else torch.zeros_like(values[0]) for values in states)

    def back(self, t: int, d: State) -> StepGradient:
        """The cell's own derivative of step t."""
        return self.cell.backward(d, self.at(t), self.before(t), self.w)

    def jacobian(self, t: int) -> Tensor:
        """∂(state after step t) / ∂(state before), all of its parts, for the first sequence: (S, S)."""
        total = sum(self.sizes)
        rows = torch.eye(total, dtype=self.x.dtype).split(self.sizes, 1)
        at = SimpleNamespace(**{name: values[t, :1].expand(total, -1) for name, values in self.named.items()})
        before = tuple(part[:1].expand(total, -1) for part in self.before(t))
        return torch.cat(self.cell.backward(tuple(rows), at, before, self.w).state, 1)

    def gradients(self, d_output: Tensor) -> dict[str, Tensor]:
        """Backpropagation through time: of every parameter and of x, given ∂L/∂h of every step (T, B, H)."""
        steps, batch = self.x.shape[:2]
        d_state: State = tuple(self.x.new_zeros(batch, size) for size in self.sizes)
        found: dict[str, Tensor] = {}
        driven: list[Tensor] = []
        for t in reversed(range(steps)):
            step = self.back(t, (d_state[0] + d_output[t], *d_state[1:]))
            found = add_gradients(found, step.weights)
            d_state = step.state
            driven.insert(0, torch.cat(step.x, -1))
        dx, own = self.cell.project_input_backward(torch.stack(driven), self.x, self.w)
        return {**add_gradients(found, own), "x": dx}


def apart(one: Tensor, other: Tensor) -> float:
    """The largest difference, relative to the largest entry of `other`."""
    return float((one - other).abs().max() / other.abs().max().clamp(min=1e-300))
