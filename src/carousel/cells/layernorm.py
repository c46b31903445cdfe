"""The layer-norm LSTM (Ba, Kiros & Hinton): each sum is normalised before the gates see it.

    a = LN(W x) + b_ih + LN(U h₋) + b_hh     over all 4·H rows together, split into a_i, a_f, a_g, a_o
    i, f, o = σ(a_i), σ(a_f), σ(a_o)
    g = tanh(a_g)
    c = f∘c₋ + i∘g
    h = o∘tanh(LN(c))                        the carried c is not normalised

LN(v) = γ∘(v − mean v)/√(var v + ε) + β, with its own gain γ and bias β: `norm_ih`, `norm_hh` (4·H), `norm_c` (H).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn, sigmoid, tanh

from .lstm import LSTM
from .spec import Cell, Let, Sizes, State, StepGradient, Weights, add_gradients, d_sigmoid, d_tanh, outer, total

EPSILON = 1e-5


def layer_norm(v: Tensor, gain: Tensor, bias: Tensor) -> Tensor:
    """LN over the last dimension of `v`, in the wider of their precisions: they differ under autocast."""
    v = v.to(torch.promote_types(v.dtype, gain.dtype))
    return F.layer_norm(v, v.shape[-1:], gain.to(v.dtype), bias.to(v.dtype), EPSILON)


def layer_norm_backward(d: Tensor, v: Tensor, gain: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Derivative of :func:`layer_norm`: ∂L/∂v, and the gradients of gain and bias.

    With n the normalised v and d̂ = γ∘d:  ∂L/∂v = (d̂ − mean d̂ − n∘mean(d̂∘n)) / √(var + ε).
    """
    centred = v - v.mean(-1, keepdim=True)
    scale = torch.rsqrt(centred.square().mean(-1, keepdim=True) + EPSILON)
    n = centred * scale
    dn = d * gain
    dv = (dn - dn.mean(-1, keepdim=True) - n * (dn * n).mean(-1, keepdim=True)) * scale
    return dv, total(d * n), total(d)


class LayerNorm(Cell, name="layernorm", layer="LayerNormLSTM", year=2016):
    """LSTM with layer normalisation on the input sum, the recurrent sum and the cell."""

    label = "Layer-norm LSTM"
    gates = LSTM.gates
    states = ("h", "c")
    forget_bias = 1.0
    projects = True

    def parameters(self, sizes: Sizes) -> dict[str, Any]:
        norms = {"norm_ih": 4 * sizes.hidden, "norm_hh": 4 * sizes.hidden, "norm_c": sizes.hidden}
        own = {f"{norm}.{kind}": (size,) for norm, size in norms.items() for kind in ("weight", "bias")}
        return super().parameters(sizes) | own

    def initialise(self, parameters: Mapping[str, Tensor], sizes: Sizes, forget_bias: float | None) -> None:
        super().initialise({n: p for n, p in parameters.items() if not n.startswith("norm_")}, sizes, forget_bias)
        for name, value in parameters.items():
            if name.startswith("norm_"):
                nn.init.constant_(value, 1.0 if name.endswith("weight") else 0.0)

    def project_input(self, x: Tensor, w: Weights) -> Tensor:
        normed = layer_norm(F.linear(x, w.weight_ih), w.norm_ih_weight, w.norm_ih_bias)
        return normed if w.bias_ih is None else normed + w.bias_ih

    def project_input_backward(self, d: Tensor, x: Tensor, w: Weights) -> tuple[Tensor, dict[str, Tensor]]:
        dv, d_gain, d_bias = layer_norm_backward(d, F.linear(x, w.weight_ih), w.norm_ih_weight)
        grads = {"norm_ih.weight": d_gain, "norm_ih.bias": d_bias, "weight_ih": outer(dv, x)}
        if w.bias_ih is not None:
            grads["bias_ih"] = total(d)
        return dv @ w.weight_ih, grads

    def kernel(self) -> str:
        return "layernorm"

    def step(self, x: Any, state: State, w: Weights, let: Let) -> State:
        h, c = state
        u = self.Recurrent(*self._recurrent(h, w).chunk(4, -1))
        i = let("i", sigmoid(x.i + u.i))
        f = let("f", sigmoid(x.f + u.f))
        g = let("g", tanh(x.g + u.g))
        o = let("o", sigmoid(x.o + u.o))
        c = let("c", f * c + i * g)
        h = let("h", w.project(o * tanh(layer_norm(c, w.norm_c_weight, w.norm_c_bias))))
        return h, c

    def _recurrent(self, h: Tensor, w: Weights) -> Tensor:
        """LN(U h₋) + b_hh: (B, P) → (B, 4·H)."""
        normed = layer_norm(self._sum(h, w), w.norm_hh_weight, w.norm_hh_bias)
        return normed if w.bias_hh is None else normed + w.bias_hh

    def _sum(self, h: Tensor, w: Weights) -> Tensor:
        """U h₋, through the recurrent dropout mask."""
        return F.linear(h if w.mask is None else h * w.mask, w.weight_hh)

    def backward(self, d: State, at: Any, previous: State, w: Weights) -> StepGradient:
        dh, dc = d
        h_, c_ = previous
        s = tanh(layer_norm(at.c, w.norm_c_weight, w.norm_c_bias))
        dm, projection = w.project_backward(dh, at.o * s)
        do = dm * s
        dc_out, d_gain_c, d_bias_c = layer_norm_backward(dm * at.o * d_tanh(s), at.c, w.norm_c_weight)
        dc = dc + dc_out
        di = dc * at.g
        df = dc * c_
        dg = dc * at.i
        δ = (di * d_sigmoid(at.i), df * d_sigmoid(at.f), dg * d_tanh(at.g), do * d_sigmoid(at.o))
        d_all = torch.cat(δ, -1)
        dv, d_gain_h, d_bias_h = layer_norm_backward(d_all, self._sum(h_, w), w.norm_hh_weight)
        dh_, grads = w.U_backward((dv,), h_)
        if w.bias_hh is not None:
            grads["bias_hh"] = total(d_all)  # the bias stands outside the norm
        norms = {
            "norm_hh.weight": d_gain_h,
            "norm_hh.bias": d_bias_h,
            "norm_c.weight": d_gain_c,
            "norm_c.bias": d_bias_c,
        }
        return StepGradient(
            values={"i": di, "f": df, "g": dg, "o": do, "c": dc, "h": dh},
            x=δ,
            state=(dh_, dc * at.f),
            weights=add_gradients(grads, projection, norms),
        )
