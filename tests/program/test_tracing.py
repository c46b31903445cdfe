"""A step is recorded as a program, or what keeps it from being one is named with its line."""

import gc
import weakref

import pytest
import torch

import carousel
from carousel import Recurrent
from carousel.ops import backend

pytestmark = pytest.mark.skipif(not backend.available(), reason="no kernels")
T, B, I, H = 5, 6, 3, 6


def cell_of(step, **attributes):
    return type("Written", (carousel.Cell,), {"gates": ("a",), "states": ("h",), "step": step, **attributes})()


def branches(self, x, state, w, let):
    if x.a.sum() > 0:
        return (torch.tanh(x.a),)
    return (state[0] + x.a,)


def reads(self, x, state, w, let):
    scale = w.bias_ih.sum().item()
    return (scale * torch.tanh(x.a),)


def random(self, x, state, w, let):
    return (torch.tanh(x.a + torch.rand_like(x.a)),)


def in_place(self, x, state, w, let):
    h = 1 * x.a
    h += w.U(state[0]).a
    return (h,)


def mixes(self, x, state, w, let):
    return (torch.tanh(x.a - x.a.mean(0)),)


def without_opcode(self, x, state, w, let):
    return (torch.special.i0(x.a),)


outside = torch.ones(4)


def closes_over(self, x, state, w, let):
    return (torch.tanh(x.a) * outside,)


class Straight(torch.autograd.Function):
    @staticmethod
    def forward(ctx, v):
        return torch.sign(v)

    @staticmethod
    def backward(ctx, d):
        return d


def own_derivative(self, x, state, w, let):
    return (Straight.apply(x.a + w.U(state[0]).a),)


@pytest.mark.parametrize(
    ("step", "why"),
    [
        (branches, "an operation over the sequences of a batch has no opcode"),
        (reads, "a number is read out of a tensor"),
        (random, "rand_like draws random numbers"),
        (in_place, "add_ changes a tensor in place"),
        (mixes, "over the sequences of a batch"),
        (without_opcode, "i0 has no opcode"),
        (closes_over, "mul reads a tensor that is no parameter, buffer or input of the cell"),
        (own_derivative, "a derivative of its own"),
    ],
)
def test_what_is_no_program_says_why_and_runs(step, why):
    layer = Recurrent(cell_of(step), I, 4)
    path = layer.path(torch.randn(T, B, I))
    assert path == "reference" and why in path.why
    if step is not own_derivative:
        first = step.__code__.co_firstlineno
        line = int(path.why.rsplit("line ", 1)[1].rstrip(")"))
        assert "test_tracing.py" in path.why and first < line <= first + 3
    output, _ = layer(torch.randn(T, B, I))
    output.sum().backward()


def test_options_of_a_cell_are_read_again():
    class Leaky(carousel.Cell):
        gates, states, leak = ("a",), ("h",), 0.5

        def step(self, x, state, w, let):
            return (self.leak * state[0] + x.a,)

    layer, x = Recurrent(Leaky(), I, H), torch.randn(T, B, I)
    first = layer(x)[0]
    layer.cell.leak = 0.9
    assert not torch.equal(layer(x)[0], first)
    layer.cell.leak = 0.5
    assert torch.equal(layer(x)[0], first)


def test_a_trace_holds_on_to_nothing():
    class Held:
        pass

    held = Held()
    reference = weakref.ref(held)

    def step(self, x, state, w, let, held=held):
        return (torch.tanh(x.a) if held else x.a,)

    layer = Recurrent(cell_of(step), I, H)
    layer(torch.randn(T, B, I))
    del layer, step, held
    gc.collect()
    assert reference() is None


def test_parts_of_vectors_are_read_in_place():
    """A parameter that is cut into parts is read where it is; a part of a part, and from the end, too."""

    class Parts(carousel.Cell):
        gates = ("a",)

        def parameters(self, sizes):
            return super().parameters(sizes) | {"v": (3 * sizes.hidden,)}

        def step(self, x, state, w, let):
            (h,) = state
            first, size = w.v.chunk(3)[0], self.size
            return (torch.tanh(x.a + first * w.U(h).a + h * w.v[-size:] + x.a * w.v[:-size][size:]),)

    Parts.size = 4
    program = Parts().program(4, 3)
    read = {
        v.attribute for v in program.values() if v.op == "unit" and program.hoisted[v.attribute[0]].parameter == "v"
    }
    at = next(k for k, hoisted in enumerate(program.hoisted) if hoisted.parameter == "v")
    assert read == {(at, 0), (at, 8), (at, 4)}
