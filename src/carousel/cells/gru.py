"""The gated recurrent unit, both kinds.

    r = σ(W_r x + U_r h₋ + b_r)                         reset gate
    z = σ(W_z x + U_z h₋ + b_z)                         update gate
    reset after:   n = tanh(W_n x + b_n + r∘(U_n h₋ + b_hn))     (torch, cuDNN, ONNX linear_before_reset=1)
    reset before:  n = tanh(W_n x + b_n + U_n (r∘h₋) + b_hn)     (Cho et al., ONNX linear_before_reset=0)
    h = (1 − z)∘n + z∘h₋

Textbooks often write h = (1 − z)∘h₋ + z∘n. It is the same network with z's weights and biases negated, because
1 − σ(a) = σ(−a); Carousel follows torch so that weights interchange.
"""

from __future__ import annotations

from typing import Any

from torch import sigmoid, tanh

from .spec import Cell, Gate, Let, State, StepGradient, Weights, add_gradients, d_sigmoid, d_tanh


class GRU(Cell, name="gru", layer="GRU", year=2014):
    """GRU that resets after the recurrent product: r gates U_n h₋ + b_hn."""

    gates = {
        "r": Gate(label="reset gate"),
        "z": Gate(role="keep", label="update gate"),
        "n": Gate("tanh", role="candidate", label="candidate"),
    }
    states = ("h",)

    def kernel(self) -> str:
        return "gru"

    def torch_mode(self) -> str:
        return "GRU"

    def step(self, x: Any, state: State, w: Weights, let: Let) -> State:
        (h,) = state
        u = w.U(h)
        r = let("r", sigmoid(x.r + u.r))
        z = let("z", sigmoid(x.z + u.z))
        n = let("n", tanh(x.n + r * u.n))
        h = let("h", (1 - z) * n + z * h)
        return (h,)

    def backward(self, d: State, at: Any, previous: State, w: Weights) -> StepGradient:
        (dh,) = d
        (h_,) = previous
        u_n = w.U(h_, "n")
        dz = dh * (h_ - at.n)
        dn = dh * (1 - at.z)
        δ_n = dn * d_tanh(at.n)
        dr = δ_n * u_n
        δ_r, δ_z = dr * d_sigmoid(at.r), dz * d_sigmoid(at.z)
        dh_, grads = w.U_backward((δ_r, δ_z, δ_n * at.r), h_)
        return StepGradient(
            values={"r": dr, "z": dz, "n": dn, "h": dh},
            x=(δ_r, δ_z, δ_n),
            state=(dh_ + dh * at.z,),
            weights=grads,
        )


class ResetBeforeGRU(Cell, name="gru-reset-before", layer="ResetBeforeGRU", year=2014):
    """GRU that resets before the recurrent product: r gates h₋ itself."""

    label = "Reset-before GRU"
    gates = GRU.gates
    states = ("h",)

    def kernel(self) -> str:
        return "gru-reset-before"

    def step(self, x: Any, state: State, w: Weights, let: Let) -> State:
        (h,) = state
        u_r, u_z = w.U(h, "r", "z")
        r = let("r", sigmoid(x.r + u_r))
        z = let("z", sigmoid(x.z + u_z))
        n = let("n", tanh(x.n + w.U(r * h, "n")))
        h = let("h", (1 - z) * n + z * h)
        return (h,)

    def backward(self, d: State, at: Any, previous: State, w: Weights) -> StepGradient:
        (dh,) = d
        (h_,) = previous
        dz = dh * (h_ - at.n)
        dn = dh * (1 - at.z)
        δ_n = dn * d_tanh(at.n)
        d_rh, grads_n = w.U_backward((δ_n,), at.r * h_, "n")
        dr = d_rh * h_
        δ_r, δ_z = dr * d_sigmoid(at.r), dz * d_sigmoid(at.z)
        dh_, grads_rz = w.U_backward((δ_r, δ_z), h_, "r", "z")
        return StepGradient(
            values={"r": dr, "z": dz, "n": dn, "h": dh},
            x=(δ_r, δ_z, δ_n),
            state=(dh_ + d_rh * at.r + dh * at.z,),
            weights=add_gradients(grads_n, grads_rz),
        )
