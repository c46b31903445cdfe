"""The peephole LSTM (Gers & Schmidhuber): gates that also look at the cell.

    i = σ(W_i x + U_i h₋ + b_i + p_i∘c₋)
    f = σ(W_f x + U_f h₋ + b_f + p_f∘c₋)
    g = tanh(W_g x + U_g h₋ + b_g)
    c = f∘c₋ + i∘g
    o = σ(W_o x + U_o h₋ + b_o + p_o∘c)     the output gate sees the new cell
    h = o∘tanh(c)

`weight_ch` holds p_i, p_f, p_o one after the other, (3·H). With `peephole="full"` (the cell `peephole-full`) each p is
an H×H matrix and ∘ a matrix product, so that a gate sees the whole cell: σ(W [c, h₋, x] + b); `weight_ch` is (3·H, H).
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, sigmoid, tanh

from .lstm import LSTM
from .spec import Cell, Let, Sizes, State, StepGradient, Weights, add_gradients, d_sigmoid, d_tanh, outer, total


def look(p: Tensor, c: Tensor) -> Tensor:
    """A peephole's view of the cell: p∘c for p (H), p c for p (H, H). `c` is (B, H)."""
    return p * c if p.dim() == 1 else F.linear(c, p)


def look_backward(δ: Tensor, p: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    """Derivative of :func:`look`: ∂L/∂c (B, H) and the gradient of p."""
    return (δ * p, total(δ * c)) if p.dim() == 1 else (δ @ p, outer(δ, c))


class Peephole(Cell, name="peephole", layer="PeepholeLSTM", year=2000):
    """LSTM whose gates see the cell state, through diagonal or full peepholes."""

    label = "Peephole LSTM"
    gates = LSTM.gates
    states = ("h", "c")
    forget_bias = 1.0
    projects = True
    extends = "lstm"

    def __init__(self, peephole: str = "diagonal"):
        if peephole not in ("diagonal", "full"):
            raise ValueError(f"peephole must be 'diagonal' or 'full', got {peephole!r}")
        self.peephole = peephole

    def parameters(self, sizes: Sizes) -> dict[str, Any]:
        width = () if self.peephole == "diagonal" else (sizes.hidden,)
        return super().parameters(sizes) | {"weight_ch": (3 * sizes.hidden, *width)}

    def kernel(self) -> str | None:
        return "peephole" if self.peephole == "diagonal" else None

    def step(self, x: Any, state: State, w: Weights, let: Let) -> State:
        h, c = state
        u = w.U(h)
        p_i, p_f, p_o = w.weight_ch.chunk(3)
        i = let("i", sigmoid(x.i + u.i + look(p_i, c)))
        f = let("f", sigmoid(x.f + u.f + look(p_f, c)))
        g = let("g", tanh(x.g + u.g))
        c = let("c", f * c + i * g)
        o = let("o", sigmoid(x.o + u.o + look(p_o, c)))
        h = let("h", w.project(o * tanh(c)))
        return h, c

    def backward(self, d: State, at: Any, previous: State, w: Weights) -> StepGradient:
        dh, dc = d
        h_, c_ = previous
        p_i, p_f, p_o = w.weight_ch.chunk(3)
        s = tanh(at.c)
        dm, projection = w.project_backward(dh, at.o * s)
        do = dm * s
        δ_o = do * d_sigmoid(at.o)
        from_o, dp_o = look_backward(δ_o, p_o, at.c)
        dc = dc + dm * at.o * d_tanh(s) + from_o
        di = dc * at.g
        df = dc * c_
        dg = dc * at.i
        δ_i, δ_f, δ_g = di * d_sigmoid(at.i), df * d_sigmoid(at.f), dg * d_tanh(at.g)
        from_i, dp_i = look_backward(δ_i, p_i, c_)
        from_f, dp_f = look_backward(δ_f, p_f, c_)
        δ = (δ_i, δ_f, δ_g, δ_o)
        dh_, grads = w.U_backward(δ, h_)
        return StepGradient(
            values={"i": di, "f": df, "g": dg, "o": do, "c": dc, "h": dh},
            x=δ,
            state=(dh_, dc * at.f + from_i + from_f),
            weights=add_gradients(grads, projection, {"weight_ch": torch.cat((dp_i, dp_f, dp_o))}),
        )


class FullPeephole(Peephole, name="peephole-full", layer="FullPeepholeLSTM", year=2000):
    """LSTM whose gates see the whole cell state, through a matrix for each gate."""

    label = "Peephole LSTM, full"

    def __init__(self) -> None:
        super().__init__("full")
