"""A layer's run, differentiated step by step and back through time: by the closed forms of its cell, or by autograd."""

from __future__ import annotations

from functools import cached_property
from types import SimpleNamespace

import torch
from torch import Tensor

from ..cells import Cell, Weights
from ..cells.spec import PAST_INPUTS, State, StepGradient, add_gradients, unnamed
from ..layers import Recurrent
from ..layers.recurrent import suffix
from ..layers.unroll import Run, windows


def has_derivative(cell: Cell) -> bool:
    """Whether the cell has a derivative by hand: of its own equations, not of those that it inherits and replaces."""

    def depth(name: str) -> int:
        return next(k for k, kind in enumerate(type(cell).__mro__) if name in vars(kind))

    own = type(cell).backward is not Cell.backward
    pairs = (("backward", "step"), ("project_input_backward", "project_input"))
    return own and all(depth(derivative) <= depth(equations) for derivative, equations in pairs)


class StepDerivatives:
    """One layer and direction of a network, forward over a sequence x (T, B, I).

    >>> derivatives = StepDerivatives(LSTM(2, 3, dtype=torch.float64), torch.randn(5, 1, 2, dtype=torch.float64))
    >>> derivatives.jacobian(4).shape                    # of (h, c) by (h₋, c₋)
    torch.Size([6, 6])
    """

    def __init__(self, layer: Recurrent, x: Tensor) -> None:
        self.layer, self.cell = layer, layer.cell
        self.own = {name: value.detach() for name, value in layer._parameters_of(0, 0).items()}
        buffers = {name: getattr(layer, name + suffix(0, 0)) for name in layer._buffer_names}
        complex_ = {name: torch.view_as_complex(self.own[name]) for name in layer._complex}
        self.w = Weights(self.cell, {**self.own, **complex_, **buffers})
        self.x = x.detach()
        with torch.no_grad():
            trace = layer.trace(self.x)
        self.named = {name: values[0] for name, values in {**trace.gates, **trace.states}.items()}  # (T, B, H) each
        self.sizes = [_real(self.before(0)[k]).numel() // x.shape[1] for k in range(len(self.cell.own_states))]

    def at(self, t: int) -> SimpleNamespace:
        """What the cell named at step t, (B, H) each."""
        return SimpleNamespace(**{name: values[t] for name, values in self.named.items()})

    def before(self, t: int) -> State:
        """The state that step t began with."""
        states = {name: self.named[name] for name in self.cell.own_states}
        return tuple(
            values[t - 1] if t else torch.full_like(values[0], self.cell.states[name].initial)
            for name, values in states.items()
        )

    def back(self, t: int, d: State) -> StepGradient:
        """The cell's own derivative of step t."""
        return self.cell.backward(d, self.at(t), self.before(t), self.w)

    def jacobian(self, t: int) -> Tensor:
        """∂(state after step t) / ∂(state before), all of its parts, for the first sequence: (S, S).

        A matrix is flattened, a complex number is two real ones, and past inputs, which depend on no state, are left
        out.
        """
        if not has_derivative(self.cell):
            return self._jacobian_by_autograd(t)
        total = sum(self.sizes)
        rows = torch.eye(total, dtype=self.x.dtype).split(self.sizes, 1)
        at = SimpleNamespace(**{name: values[t, :1].expand(total, -1) for name, values in self.named.items()})
        before = tuple(part[:1].expand(total, -1) for part in self.before(t))
        return torch.cat(self.cell.backward(tuple(rows), at, before, self.w).state, 1)

    def _jacobian_by_autograd(self, t: int) -> Tensor:
        """The same by autograd on the step: S copies of the sequence, of which copy k gives row k."""
        cell, total = self.cell, sum(self.sizes)
        leaves = [_real(part[:1]).expand(total, *[-1] * (_real(part).dim() - 1)) for part in self.before(t)]
        leaves = [leaf.clone().requires_grad_() for leaf in leaves]
        kinds = [cell.states[name].dtype for name in cell.own_states]
        state = tuple(
            torch.view_as_complex(leaf) if kind == "complex" else leaf for leaf, kind in zip(leaves, kinds, strict=True)
        )
        x = self.projected[t, :1].expand(total, -1)
        side = tuple(
            self.x.new_full((total, *self.layer.side_shape(name)), spec.default or 0.0)
            for name, spec in cell.side_inputs.items()
        )
        new = cell.step(cell.inputs(x, side), state, self.w, unnamed)
        flat = torch.cat([_real(part).flatten(1) for part in new], 1)
        rows = torch.autograd.grad(flat.diagonal().sum(), leaves, allow_unused=True, materialize_grads=True)
        return torch.cat([row.flatten(1) for row in rows], 1)

    @cached_property
    def projected(self) -> Tensor:
        """W x + b of every step: (T, B, G·H)."""
        x = self.x
        if self.cell.input_window:
            past = x.new_zeros(x.shape[1], *self.layer.state_shape(PAST_INPUTS))
            x = windows(x, past, past, Run(None, None))[0]
        return self.cell.project_input(x, self.w)

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


def _real(value: Tensor) -> Tensor:
    """A complex tensor as pairs of real numbers, (..., 2); a real one as it is."""
    return torch.view_as_real(value) if value.is_complex() else value


def apart(one: Tensor, other: Tensor) -> float:
    """The largest difference, relative to the largest entry of `other`."""
    return float((one - other).abs().max() / other.abs().max().clamp(min=1e-300))
