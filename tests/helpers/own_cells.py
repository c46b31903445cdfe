"""Cells that a user might write, outside the package, and the same equations in numpy.

Together they use everything a cell can declare: four states, block-diagonal, diagonal and no recurrence, side inputs,
complex and matrix states, past inputs, buffers, complex parameters, initial values other than zero.
"""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F

from carousel.cells import Cell, Gate, ParameterSpec, SideInput, StateSpec


def σ(a):
    return 1 / (1 + np.exp(-a))


class ExponentialLSTM(Cell):
    """An LSTM with stabilised exponential gates (as xLSTM's sLSTM), heads, and a decay with the time elapsed."""

    gates = {
        "z": Gate("tanh", "blocks", "candidate"),
        "i": Gate("exp", "blocks", "write"),
        "f": Gate("exp", "blocks", "keep"),
        "o": Gate("sigmoid", "blocks", "read"),
    }
    states = {"h": StateSpec(), "c": StateSpec(), "n": StateSpec(initial=1.0), "m": StateSpec()}
    side_inputs = {"elapsed": SideInput(default=1.0)}

    def __init__(self, heads=2):
        self.blocks = heads

    def parameters(self, sizes):
        return super().parameters(sizes) | {"rate": (sizes.hidden,)}

    def step(self, x, state, w, let):
        h, c, n, m = state
        u = w.U(h)
        z = let("z", torch.tanh(x.z + u.z))
        log_i = x.i + u.i
        log_f = F.logsigmoid(x.f + u.f) - F.softplus(w.rate) * x.elapsed.unsqueeze(-1)
        largest = torch.maximum(log_f + m, log_i)
        i = let("i", torch.exp(log_i - largest))
        f = let("f", torch.exp(log_f + m - largest))
        o = let("o", torch.sigmoid(x.o + u.o))
        m = let("m", largest)
        c = let("c", f * c + i * z)
        n = let("n", f * n + i)
        return let("h", o * c / (1 + n)), c, n, m


def exponential_lstm(w, x, past, side, state, let):
    h, c, n, m = state
    H = len(w["rate"])
    blocks = w["weight_hh_blocks"].reshape(4, 2, H // 2, -1)  # gate, head, row, column
    heads = h.reshape(len(h), 2, -1)
    u = np.stack([np.concatenate([heads[:, k] @ blocks[g, k].T for k in (0, 1)], -1) for g in range(4)])
    a = (x @ w["weight_ih"].T + w["bias_ih"] + w["bias_hh"]).reshape(len(x), 4, H).transpose(1, 0, 2) + u
    z = let("z", np.tanh(a[0]))
    log_f = -np.log1p(np.exp(-a[2])) - np.log1p(np.exp(w["rate"])) * side["elapsed"][:, None]
    largest = np.maximum(log_f + m, a[1])
    i, f, o = let("i", np.exp(a[1] - largest)), let("f", np.exp(log_f + m - largest)), let("o", σ(a[3]))
    m = let("m", largest)
    c = let("c", f * c + i * z)
    n = let("n", f * n + i)
    return let("h", o * c / (1 + n)), c, n, m


class LinearRecurrence(Cell):
    """A diagonal linear recurrence in complex numbers (as in the LRU of Orvieto et al.), read out by its real part."""

    gates = {"u": Gate("linear", "none", "write")}
    states = {"h": StateSpec(), "s": StateSpec(dtype="complex")}

    def parameters(self, sizes):
        return {
            "weight_ih": ParameterSpec((sizes.hidden, sizes.input), "complex"),
            "decay": (sizes.hidden,),
            "angle": (sizes.hidden,),
            "readout": ParameterSpec((sizes.hidden, sizes.hidden), "complex"),
        }

    def project_input(self, x, w):
        return F.linear(x.to(w.weight_ih.dtype), w.weight_ih)

    def step(self, x, state, w, let):
        _, s = state
        λ = torch.exp(torch.complex(-torch.exp(w.decay), w.angle))
        u = let("u", x.u * torch.sqrt(1 - λ.abs() ** 2))
        s = let("s", λ * s + u)
        return let("h", F.linear(s, w.readout).real), s


def linear_recurrence(w, x, past, side, state, let):
    _, s = state
    B, C = (w[name][..., 0] + 1j * w[name][..., 1] for name in ("weight_ih", "readout"))
    λ = np.exp(-np.exp(w["decay"]) + 1j * w["angle"])
    u = let("u", np.sqrt(1 - np.abs(λ) ** 2) * (x @ B.T))
    s = let("s", λ * s + u)
    return let("h", (s @ C.T).real), s


class ConvolvedGate(Cell):
    """A quasi-recurrent unit: candidate and forget gate read the last three inputs, and nothing reads h₋."""

    gates = {"n": Gate("tanh", "none", "candidate"), "f": Gate("sigmoid", "none", "keep")}
    input_window = 2
    forget_bias = 1.0

    def parameters(self, sizes):
        return super().parameters(sizes) | {"weight_past": (self.input_window, 2 * sizes.hidden, sizes.input)}

    def project_input(self, x, w):
        now = F.linear(x[..., 0, :], w.weight_ih, w.bias_ih)
        return now + torch.einsum("tbki,kgi->tbg", x[..., 1:, :], w.weight_past)

    def step(self, x, state, w, let):
        (h,) = state
        n, f = let("n", torch.tanh(x.n)), let("f", torch.sigmoid(x.f))
        return (let("h", f * h + (1 - f) * n),)


def convolved_gate(w, x, past, side, state, let):
    (h,) = state
    a = x @ w["weight_ih"].T + w["bias_ih"]
    for k in (0, 1):
        a = a + past[:, k] @ w["weight_past"][k].T
    n, f = np.split(a, 2, -1)
    n, f = let("n", np.tanh(n)), let("f", σ(f))
    return (let("h", f * h + (1 - f) * n),)


class MatrixMemory(Cell):
    """A matrix memory (as xLSTM's mLSTM, without its exponentials): keys store values, queries read them."""

    gates = {
        "k": Gate("linear", "none", "write"),
        "v": Gate("linear", "none", "candidate"),
        "q": Gate("linear", "none", "read"),
        "f": Gate("sigmoid", "dense", "keep"),
    }
    states = {"h": StateSpec(), "memory": StateSpec(lambda sizes: (sizes.hidden, sizes.hidden))}

    def step(self, x, state, w, let):
        h, memory = state
        k, v, q = let("k", x.k), let("v", x.v), let("q", x.q)
        f = let("f", torch.sigmoid(x.f + w.U(h, "f")))
        stored = v.unsqueeze(-1) * k.unsqueeze(-2)
        memory = let("memory", f.unsqueeze(-1) * memory + stored / k.shape[-1])
        return let("h", torch.tanh((memory @ q.unsqueeze(-1)).squeeze(-1))), memory


def matrix_memory(w, x, past, side, state, let):
    h, memory = state
    a = x @ w["weight_ih"].T + w["bias_ih"]
    k, v, q, f = np.split(a, 4, -1)
    k, v, q = let("k", k), let("v", v), let("q", q)
    f = let("f", σ(f + h @ w["weight_hh"].T + w["bias_hh"]))
    memory = let("memory", f[:, :, None] * memory + np.einsum("bi,bj->bij", v, k) / k.shape[-1])
    return let("h", np.tanh(np.einsum("bij,bj->bi", memory, q))), memory


class IndependentRNN(Cell):
    """Units that see only themselves (IndRNN), with a fixed leak for each and a mask over the inputs."""

    gates = {"h": Gate("tanh", "diagonal", "candidate")}
    side_inputs = {"seen": SideInput(lambda sizes: (sizes.input,), default=1.0)}

    def buffers(self, sizes):
        return {"leak": torch.linspace(0.1, 0.9, sizes.hidden)}

    def step(self, x, state, w, let):
        (h,) = state
        new = torch.tanh(x.h + w.U(h, "h")) * x.seen.mean(-1, keepdim=True)
        return (let("h", w.leak * h + (1 - w.leak) * new),)


def independent_rnn(w, x, past, side, state, let):
    (h,) = state
    a = x @ w["weight_ih"].T + w["bias_ih"] + w["weight_hh_diagonal"] * h + w["bias_hh"]
    leak = torch.linspace(0.1, 0.9, h.shape[-1]).double().numpy()
    return (let("h", leak * h + (1 - leak) * np.tanh(a) * side["seen"].mean(-1, keepdims=True)),)


OWN = {
    "own-exponential": (ExponentialLSTM, exponential_lstm),
    "own-linear": (LinearRecurrence, linear_recurrence),
    "own-convolved": (ConvolvedGate, convolved_gate),
    "own-matrix": (MatrixMemory, matrix_memory),
    "own-independent": (IndependentRNN, independent_rnn),
}
