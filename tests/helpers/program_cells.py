"""Cells that run as programs."""

import torch

import carousel
from carousel.cells import registry

from .own_cells import OWN


class MGU(carousel.Cell):
    gates, states = ("f", "n"), ("h",)

    def step(self, x, state, w, let):
        (h,) = state
        f = let("f", torch.sigmoid(x.f + w.U(h, "f")))
        n = let("n", torch.tanh(x.n + w.U(f * h, "n")))
        return (let("h", (1 - f) * h + f * n),)


class Leaky(carousel.Cell):
    """Parameters that something is computed from, a matrix of its own, and a name that is given twice in a step."""

    gates, states = ("a", "b"), ("h", "c")

    def parameters(self, sizes):
        return super().parameters(sizes) | {"leak": (sizes.hidden,), "mix": (sizes.hidden, sizes.hidden)}

    def step(self, x, state, w, let):
        h, c = state
        a = let("a", torch.sigmoid(x.a + w.U(h, "a")))
        a = let("a", a * torch.tanh(a @ w.mix))
        b = let("b", torch.tanh(x.b + w.U(h, "b")))
        c = let("c", torch.exp(-torch.nn.functional.softplus(w.leak)) * c + a * b)
        return let("h", torch.tanh(c) * a), c


CELLS = {
    "mgu": MGU,
    "leaky": Leaky,
    "exponential": OWN["own-exponential"][0],
    "convolved": OWN["own-convolved"][0],
    "lstm": registry()["lstm"],
    "layernorm": registry()["layernorm"],
    "peephole": registry()["peephole"],
}
