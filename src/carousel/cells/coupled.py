"""The coupled LSTM: what is forgotten is what is written.

    f = σ(W_f x + U_f h₋ + b_f [+ p_f∘c₋])
    g = tanh(W_g x + U_g h₋ + b_g)
    c = f∘c₋ + (1 − f)∘g
    o = σ(W_o x + U_o h₋ + b_o [+ p_o∘c])
    h = o∘tanh(c)

With `peephole=True`, `weight_ch` holds p_f, p_o one after the other, (2·H).

ONNX writes the same network with an input gate, c = (1 − i)∘c₋ + i∘g: since 1 − σ(a) = σ(−a), its weights for i are
the negated weights for f.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import sigmoid, tanh

from .peephole import look, look_backward
from .spec import Cell, Gate, Let, Sizes, State, StepGradient, Weights, add_gradients, d_sigmoid, d_tanh


class Coupled(Cell, name="coupled", layer="CoupledLSTM", year=2015):
    """LSTM with one gate for forgetting and writing, and optional diagonal peepholes."""

    label = "Coupled LSTM"
    gates = {
        "f": Gate(role="keep", label="forget gate"),
        "g": Gate("tanh", role="candidate", label="candidate"),
        "o": Gate(role="read", label="output gate"),
    }
    states = ("h", "c")
    forget_bias = 1.0
    projects = True

    def __init__(self, peephole: bool = False):
        if not isinstance(peephole, bool):
            raise ValueError(f"peephole must be True or False for a coupled LSTM, got {peephole!r}")
        self.peephole = peephole

    def parameters(self, sizes: Sizes) -> dict[str, Any]:
        own = {"weight_ch": (2 * sizes.hidden,)} if self.peephole else {}
        return super().parameters(sizes) | own

    def kernel(self) -> str:
        return "coupled-peephole" if self.peephole else "coupled"

    def step(self, x: Any, state: State, w: Weights, let: Let) -> State:
        h, c = state
        u = w.U(h)
        p_f, p_o = w.weight_ch.chunk(2) if self.peephole else (None, None)
        f = let("f", sigmoid(x.f + u.f if p_f is None else x.f + u.f + look(p_f, c)))
        g = let("g", tanh(x.g + u.g))
        c = let("c", f * c + (1 - f) * g)
        o = let("o", sigmoid(x.o + u.o if p_o is None else x.o + u.o + look(p_o, c)))
        h = let("h", w.project(o * tanh(c)))
        return h, c

    def backward(self, d: State, at: Any, previous: State, w: Weights) -> StepGradient:
        dh, dc = d
        h_, c_ = previous
        s = tanh(at.c)
        dm, projection = w.project_backward(dh, at.o * s)
        do = dm * s
        δ_o = do * d_sigmoid(at.o)
        dc = dc + dm * at.o * d_tanh(s)
        if self.peephole:
            p_f, p_o = w.weight_ch.chunk(2)
            from_o, dp_o = look_backward(δ_o, p_o, at.c)
            dc = dc + from_o
        df = dc * (c_ - at.g)
        dg = dc * (1 - at.f)
        δ_f, δ_g = df * d_sigmoid(at.f), dg * d_tanh(at.g)
        dc_ = dc * at.f
        peepholes = {}
        if self.peephole:
            from_f, dp_f = look_backward(δ_f, p_f, c_)
            dc_ = dc_ + from_f
            peepholes = {"weight_ch": torch.cat((dp_f, dp_o))}
        δ = (δ_f, δ_g, δ_o)
        dh_, grads = w.U_backward(δ, h_)
        return StepGradient(
            values={"f": df, "g": dg, "o": do, "c": dc, "h": dh},
            x=δ,
            state=(dh_, dc_),
            weights=add_gradients(grads, projection, peepholes),
        )
