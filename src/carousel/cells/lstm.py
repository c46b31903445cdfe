"""The LSTM.

i = σ(W_i x + U_i h₋ + b_i)        input gate
f = σ(W_f x + U_f h₋ + b_f)        forget gate
g = tanh(W_g x + U_g h₋ + b_g)     candidate
o = σ(W_o x + U_o h₋ + b_o)        output gate
c = f∘c₋ + i∘g                     the constant error carousel
h = o∘tanh(c)                      with projection: h = W_hr (o∘tanh(c))
"""

from __future__ import annotations

from typing import Any

from torch import sigmoid, tanh

from .spec import Cell, Gate, Let, State, StepGradient, Weights, add_gradients, d_sigmoid, d_tanh


class LSTM(Cell, name="lstm", layer="LSTM", year=1997):
    """Long short-term memory with a forget gate."""

    gates = {
        "i": Gate(role="write", label="input gate"),
        "f": Gate(role="keep", label="forget gate"),
        "g": Gate("tanh", role="candidate", label="candidate"),
        "o": Gate(role="read", label="output gate"),
    }
    states = ("h", "c")
    forget_bias = 1.0
    projects = True

    def kernel(self) -> str:
        return "lstm"

    def torch_mode(self) -> str:
        return "LSTM"

    def step(self, x: Any, state: State, w: Weights, let: Let) -> State:
        h, c = state
        u = w.U(h)
        i = let("i", sigmoid(x.i + u.i))
        f = let("f", sigmoid(x.f + u.f))
        g = let("g", tanh(x.g + u.g))
        o = let("o", sigmoid(x.o + u.o))
        c = let("c", f * c + i * g)
        h = let("h", w.project(o * tanh(c)))
        return h, c

    def backward(self, d: State, at: Any, previous: State, w: Weights) -> StepGradient:
        dh, dc = d
        h_, c_ = previous
        s = tanh(at.c)
        dm, projection = w.project_backward(dh, at.o * s)
        do = dm * s
        dc = dc + dm * at.o * d_tanh(s)
        di = dc * at.g
        df = dc * c_
        dg = dc * at.i
        δ = (di * d_sigmoid(at.i), df * d_sigmoid(at.f), dg * d_tanh(at.g), do * d_sigmoid(at.o))
        dh_, grads = w.U_backward(δ, h_)
        return StepGradient(
            values={"i": di, "f": df, "g": dg, "o": do, "c": dc, "h": dh},
            x=δ,
            state=(dh_, dc * at.f),
            weights=add_gradients(grads, projection),
        )
