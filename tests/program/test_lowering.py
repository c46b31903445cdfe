"""Programs against the reference path, which is autograd on the same step: forward, all gradients, every option.

Cells are drawn at random by hypothesis: one to four states, up to three products, every operation that has an opcode.
"""

import threading

import pytest
import torch
from helpers.drawn_cells import B, FourStates, H, I, OneState, T, TwoStates, by_reference, check, plans, results
from helpers.own_cells import OWN
from helpers.references import close, draw, randomise
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import carousel
from carousel import Recurrent
from carousel.cells import registry
from carousel.layers import programs
from carousel.ops import backend

pytestmark = pytest.mark.skipif(not backend.available(), reason="no kernels")


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(
    cell=st.sampled_from([OneState, TwoStates, FourStates]),
    plan=plans(),
    hidden=st.sampled_from([1, 4, 6, 16]),
    double=st.booleans(),
    options=st.fixed_dictionaries({}, optional={
        "zoneout": st.just(0.3), "recurrent_dropout": st.just(0.4), "weight_drop": st.just(0.3),
        "bidirectional": st.just(True), "learn_initial_state": st.just(True), "bias": st.just(False),
        "num_layers": st.just(2)}),
    lengths=st.booleans(),
    reset=st.booleans(),
)  # fmt: skip
def test_drawn_cells(cell, plan, hidden, double, options, lengths, reset):
    if hidden % 2:
        plan = [p for p in plan if p[1] not in ("halves", "part", "greatest", "norm")]
    dtype = torch.float64 if double else torch.float32
    layer = randomise(Recurrent(cell(plan), I, hidden, dtype=dtype, **options))
    with torch.no_grad():
        for p in layer.parameters():
            p *= 0.4
    x = draw(T, B, I).to(dtype).requires_grad_()
    call = {"elapsed": torch.rand(T, B, dtype=dtype, requires_grad=True)}
    leaves = list(call.values())
    if lengths:
        call["lengths"] = torch.tensor([5, 0, 2, 5, 1, 3])
    if reset:
        call["reset"] = torch.rand(T, B) < 0.3
    with pytest.MonkeyPatch.context() as patched:
        check(patched, layer, x, dtype, leaves, **call)


@pytest.mark.parametrize("name", [name for name, cell in registry().items() if cell().kernel()])
def test_built_in_cells_as_a_user_would_write_them(name):
    """A subclass has no kernel, so its step runs as a program: the kernels' results, forward and backward."""
    cell = registry()[name]
    theirs = randomise(carousel.layers.named(name)(I, H, bidirectional=True, dtype=torch.float64))
    own = Recurrent(type("Own", (cell,), {})(), I, H, bidirectional=True, dtype=torch.float64)
    own.load_state_dict(theirs.state_dict())
    x, call = draw(T, B, I).requires_grad_(), {"lengths": torch.tensor([5, 0, 2, 5, 1, 3])}
    assert "program" in own.path(x, **call).why and "program" not in theirs.path(x, **call).why
    for one, other in zip(results(own, x, **call), results(theirs, x, **call), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", [name for name, cell in registry().items() if cell().kernel()])
@pytest.mark.parametrize("hidden", [16, 9])
@pytest.mark.parametrize("lengths", [None, [150, 3, 0, 149, 77, 76, 150]])
def test_several_chunks_of_steps(name, hidden, lengths):
    """512 rows are a chunk: 73 steps of these 7 sequences. Beside the kernels."""
    cell = registry()[name]
    theirs = randomise(carousel.layers.named(name)(I, hidden, bidirectional=True, dtype=torch.float64))
    own = Recurrent(type("Own", (cell,), {})(), I, hidden, bidirectional=True, dtype=torch.float64)
    own.load_state_dict(theirs.state_dict())
    reset = torch.rand(150, 7, generator=torch.Generator().manual_seed(0)) < 0.02
    x, call = draw(150, 7, I).requires_grad_(), {"lengths": lengths, "reset": reset}
    for one, other in zip(results(own, x, **call), results(theirs, x, **call), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("name", [name for name, cell in registry().items() if cell().kernel()])
@pytest.mark.parametrize("options", [{}, {"num_layers": 3}, {"batch_first": True}, {"bias": False}])
@pytest.mark.parametrize("given", [False, True])
def test_plain_calls(name, options, given):
    """Whole sequences, with gradients and without: the kernels' results."""
    cell = registry()[name]
    theirs = randomise(carousel.layers.named(name)(I, H, dtype=torch.float64, **options))
    own = Recurrent(type("Own", (cell,), {})(), I, H, dtype=torch.float64, **options)
    own.load_state_dict(theirs.state_dict())
    x, layers = draw(T, B, I).requires_grad_(), options.get("num_layers", 1)
    hx = [
        draw(layers, T if "batch_first" in options else B, H, seed=k).requires_grad_()
        for k in range(len(own.cell.states))
    ]
    state = None if not given else tuple(hx) if len(hx) > 1 else hx[0]
    leaves = hx if given else []
    assert programs.call_plainly(own, x, state) is not None
    for one, other in zip(results(own, x, leaves, state), results(theirs, x, leaves, state), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-8, atol=1e-8)
    with torch.no_grad():
        turned = x.detach().transpose(0, 1).contiguous().transpose(0, 1)
        for one, other in zip(own(turned, state), theirs(turned, state), strict=True):
            torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)
        assert (
            programs.call_plainly(own, x[..., :-1], state) is None and programs.call_plainly(own, x.float(), hx) is None
        )


def test_a_plain_call_sees_what_becomes_of_a_layer():
    """A parameter that is computed, pruned or replaced after the first call, and other options of the cell."""
    layer = randomise(Recurrent(type("Own", (registry()["lstm"],), {})(), I, H, dtype=torch.float64))
    x = draw(T, B, I)
    layer(x)
    torch.nn.utils.parametrizations.spectral_norm(layer, "weight_hh_l0")
    layer.eval()
    plain = carousel.LSTM(I, H, dtype=torch.float64)
    plain.load_state_dict({**plain.state_dict(), **{n: getattr(layer, n) for n in plain.state_dict()}})
    torch.testing.assert_close(layer(x), plain(x))
    layer.zoneout = {"c": 0.5}
    with torch.no_grad():
        assert not torch.equal(layer(x)[0], plain(x)[0])
        torch.testing.assert_close(layer(x), layer(x, reset=torch.zeros(T, B, dtype=torch.bool)))  # not a plain call


class Scaled(registry()["lstm"]):
    """Its inputs are W x, scaled by a norm: a part of the program. `beside` reads x in another way, too."""

    def __init__(self, beside):
        super().__init__()
        self.beside = beside

    def project_input(self, x, w):
        projected = torch.nn.functional.linear(x, w.weight_ih, w.bias_ih)
        scaled = projected / (1 + projected.square().mean(-1, keepdim=True)).sqrt()
        return scaled * x.sum(-1, keepdim=True) if self.beside else scaled


@pytest.mark.parametrize("beside", [False, True])
def test_a_projection_of_ones_own(monkeypatch, beside):
    layer = randomise(Recurrent(Scaled(beside), I, H, num_layers=2, dtype=torch.float64))
    assert layer.cell.program(H, I).projects is not beside
    check(monkeypatch, layer, draw(T, B, I).requires_grad_(), lengths=torch.tensor([5, 0, 2, 5, 1, 3]))
    check(monkeypatch, layer, draw(T, B, I).requires_grad_())
    with torch.no_grad():
        y, _ = layer.step(draw(T, B, I)[0])
        torch.testing.assert_close(y, by_reference(monkeypatch, lambda: layer(draw(T, B, I)[:1])[0][0]))


class Residual(registry()["lstm"]):
    """Adds x where it has as many features as the layer has units: above the first layer."""

    def project_input(self, x, w):
        projected = torch.nn.functional.linear(x, w.weight_ih, w.bias_ih)
        return projected + torch.cat([x] * 4, -1) if x.shape[-1] * 4 == projected.shape[-1] else projected


MIXED = {  # of all dimensions of x (T, B, I), or of their sizes
    "steps": lambda p: p - p.mean(0, keepdim=True),
    "sequences": lambda p: p - p.mean(1, keepdim=True),
    "softmax": lambda p: p.softmax(1),
    "size": lambda p: p / p.shape[1],
}


@pytest.mark.parametrize("kind", ["residual", *MIXED])
def test_a_projection_that_a_step_alone_cannot_see(monkeypatch, kind):
    class Mixed(registry()["lstm"]):
        def project_input(self, x, w):
            return MIXED[kind](torch.nn.functional.linear(x, w.weight_ih, w.bias_ih))

    cell = Residual() if kind == "residual" else Mixed()
    layer = randomise(Recurrent(cell, I, H, num_layers=2, dtype=torch.float64))
    check(monkeypatch, layer, draw(T, B, I).requires_grad_())
    if kind == "residual":
        with torch.no_grad():
            state = None
            for x, y in zip(draw(T, B, I), layer(draw(T, B, I))[0], strict=True):
                one, state = layer.step(x, state)
                torch.testing.assert_close(one, y)


class Number(carousel.Cell):
    """A product gives one number, which meets the whole row in the same stage."""

    gates = ("a",)

    def parameters(self, sizes):
        return super().parameters(sizes) | {"v": (1, sizes.hidden)}

    def step(self, x, state, w, let):
        t = torch.tanh(x.a + w.U(*state).a)
        return (t * torch.nn.functional.linear(state[0], w.v) + t,)


class Overlapping(carousel.Cell):
    """Products whose matrices share rows, with other arguments."""

    gates = ("f", "g")

    def step(self, x, state, w, let):
        (h,) = state
        f, g = torch.sigmoid(x.f + w.U(h, "f")), torch.tanh(x.g + w.U(h, "g"))
        return (f * h + (1 - f) * torch.tanh(g + w.U(f * h, "f")),)


@pytest.mark.parametrize("cell", [Number, Overlapping])
@pytest.mark.parametrize("hidden", [64, 512])
def test_what_threads_share(monkeypatch, cell, hidden):
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        layer = Recurrent(cell(), I, hidden, dtype=torch.float64)
        with torch.no_grad():
            for p in layer.parameters():
                p *= 0.3
        check(monkeypatch, layer, draw(30, 2, I).requires_grad_())
    finally:
        torch.set_num_threads(before)


def test_first_differentiated_calls_at_once():
    for _ in range(3):
        layer = randomise(Recurrent(type("Own", (registry()["lstm"],), {})(), I, H, num_layers=3, dtype=torch.float64))
        x, found, ready = draw(T, B, I), [None] * 4, threading.Barrier(4)

        def run(k, layer=layer, x=x, found=found, ready=ready):
            ready.wait()
            found[k] = layer(x)[0].detach()

        workers = [threading.Thread(target=run, args=(k,)) for k in range(4)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        expected = layer(x)[0].detach()
        assert all(one is not None and torch.equal(one, expected) for one in found)


@pytest.mark.parametrize("name", ["own-exponential", "own-convolved", "own-independent"])
@pytest.mark.parametrize("size", [(6, torch.float64), (34, torch.float32)])
def test_what_cells_declare(monkeypatch, name, size):
    """Block-diagonal, diagonal and no U, side inputs, past inputs, buffers, initial values other than 0."""
    hidden, dtype = size
    layer = randomise(Recurrent(OWN[name][0](), I, hidden, dtype=dtype, bidirectional=True))
    sides = {n: torch.rand(T, B, *layer.side_shape(n), dtype=dtype, requires_grad=True) for n in layer.cell.side_inputs}
    reset = torch.rand(T, B, generator=torch.Generator().manual_seed(0)) < 0.3
    hx = [torch.rand(2, B, *layer.state_shape(n), dtype=dtype, requires_grad=True) for n in layer.cell.states]
    state = tuple(hx) if len(hx) > 1 else hx[0]
    lengths = torch.tensor([5, 0, 2, 5, 1, 3])
    x = draw(T, B, I).to(dtype).requires_grad_()
    check(monkeypatch, layer, x, dtype, [*sides.values(), *hx], state, reset=reset, lengths=lengths, **sides)


def test_projection(monkeypatch):
    own = type("Own", (registry()["lstm"],), {})
    layer = randomise(Recurrent(own(), I, H, proj_size=4, num_layers=2, dtype=torch.float64))
    check(monkeypatch, layer, draw(T, B, I).requires_grad_(), lengths=torch.tensor([5, 0, 2, 5, 1, 3]))


@pytest.mark.parametrize("batch", [1, 2, 9])
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_threads_share_rows_or_columns(monkeypatch, batch, threads):
    """Few sequences: threads share the columns; many: the rows. Whole vectors and not."""
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(threads)
        for hidden in (64, 50):
            layer = randomise(Recurrent(TwoStates([("product", "a", 2, 0), ("product", "mix", -1, 0)]), I, hidden))
            layer = layer.double()
            reset = torch.zeros(9, batch, dtype=torch.bool)
            reset[4] = True
            check(monkeypatch, layer, draw(9, batch, I).requires_grad_(), reset=reset)
    finally:
        torch.set_num_threads(before)


def test_steps_trace_and_second_derivatives(monkeypatch):
    layer, x = randomise(Recurrent(OWN["own-exponential"][0](), I, H, dtype=torch.float64)), draw(T, B, I)
    trace = layer.trace(x, lengths=[5, 0, 2, 5, 1, 3])
    other = by_reference(monkeypatch, lambda: layer.trace(x, lengths=[5, 0, 2, 5, 1, 3]))
    assert list(trace.gates) == list(other.gates) and list(trace.states) == list(other.states)
    for kind in ("gates", "states"):
        for name, value in getattr(trace, kind).items():
            close(value, getattr(other, kind)[name])
    state = None
    for t in range(T):
        y, state = layer.step(x[t], state)
        close(y, layer(x)[0][t])
    small = randomise(Recurrent(OneState([("product", "a", 2, 0), ("unary", "tanh", -1, 0)]), 2, 3).double())
    assert torch.autograd.gradgradcheck(lambda x: small(x)[0], draw(3, 2, 2).requires_grad_())


def test_the_output_may_be_changed_in_place():
    layer, x = randomise(Recurrent(OneState([("product", "a", 2, 0)]), I, H).double()), draw(T, B, I).requires_grad_()
    (expected,) = torch.autograd.grad(layer(x)[0].mul(2).sum(), x)
    (changed,) = torch.autograd.grad(layer(x)[0].mul_(2).sum(), x)
    close(changed, expected)


# ---- what is no program ----


def test_concurrent_calls():
    layer, x = randomise(Recurrent(FourStates([("product", "a", 2, 0)] * 3), I, 16)), torch.randn(T, B, I)
    expected = layer(x)[0].detach()
    found, threads = [], []
    for _ in range(4):
        threads.append(threading.Thread(target=lambda: found.extend(layer(x)[0].detach() for _ in range(10))))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 40 and all(torch.equal(each, expected) for each in found)
