"""The Elman network.

h = φ(W x + U h₋ + b),    φ ∈ {tanh, relu, sigmoid}
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .spec import Cell, Gate, Let, State, StepGradient, Weights, d_sigmoid, d_tanh

# φ, and φ′ in terms of h = φ(a)
NONLINEARITIES: dict[str, tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]] = {
    "tanh": (torch.tanh, d_tanh),
    "relu": (torch.relu, lambda h: (h > 0).to(h.dtype)),
    "sigmoid": (torch.sigmoid, d_sigmoid),
}


class Elman(Cell, name="rnn", layer="RNN", year=1990):
    """A simple recurrent network: the new state is a squashed sum of input and old state."""

    gates = {"h": Gate("tanh", role="candidate", label="output")}
    states = ("h",)

    def __init__(self, nonlinearity: str = "tanh"):
        if nonlinearity not in NONLINEARITIES:
            *most, last = (repr(name) for name in NONLINEARITIES)
            raise ValueError(f"Unknown nonlinearity {nonlinearity!r}. Select from {', '.join(most)} or {last}.")
        self.nonlinearity = nonlinearity
        self.gates = {"h": self.gates["h"]._replace(activation=nonlinearity)}
        self.label = f"RNN ({nonlinearity})"

    def kernel(self) -> str:
        return f"elman-{self.nonlinearity}"

    def torch_mode(self) -> str | None:
        return None if self.nonlinearity == "sigmoid" else f"RNN_{self.nonlinearity.upper()}"

    def step(self, x: Any, state: State, w: Weights, let: Let) -> State:
        (h,) = state
        φ, _ = NONLINEARITIES[self.nonlinearity]
        h = let("h", φ(x.h + w.U(h).h))
        return (h,)

    def backward(self, d: State, at: Any, previous: State, w: Weights) -> StepGradient:
        (dh,) = d
        (h_,) = previous
        _, dφ = NONLINEARITIES[self.nonlinearity]
        δ = (dh * dφ(at.h),)
        dh_, grads = w.U_backward(δ, h_)
        return StepGradient(values={"h": dh}, x=δ, state=(dh_,), weights=grads)
