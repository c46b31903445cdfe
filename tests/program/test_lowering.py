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
