"""Programs against the reference path, which is autograd on the same step: forward, all gradients, every option.

Cells are drawn at random by hypothesis: one to four states, up to three products, every operation that has an opcode.
"""

import gc
import threading
import weakref

import pytest
import torch
import torch.nn.functional as F
from helpers.own_cells import OWN
from helpers.references import close, draw, randomise
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import carousel
from carousel import Recurrent
from carousel.cells import Gate, registry
from carousel.layers import programs
from carousel.ops import backend

pytestmark = pytest.mark.skipif(not backend.available(), reason="no kernels")
T, B, I, H = 5, 6, 3, 6

UNARY = {
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "relu": torch.relu,
    "exp": lambda v: torch.exp(torch.tanh(v)),
    "log": lambda v: torch.log(1.5 + torch.tanh(v)),
    "log1p": lambda v: torch.log1p(v * v),
    "expm1": lambda v: torch.expm1(torch.tanh(v)),
    "softplus": F.softplus,
    "logsigmoid": F.logsigmoid,
    "sqrt": lambda v: torch.sqrt(1 + v.square()),
    "rsqrt": lambda v: torch.rsqrt(1 + v**2),
    "power": lambda v: (1.5 + torch.tanh(v)) ** 1.7,
    "abs": torch.abs,
    "sin": torch.sin,
    "cos": torch.cos,
    "gelu": F.gelu,
    "silu": F.silu,
    "elu": F.elu,
    "leaky_relu": F.leaky_relu,
    "hardtanh": F.hardtanh,
    "hardsigmoid": F.hardsigmoid,
    "clamp": lambda v: v.clamp(-0.5, 0.7),
    "negative": lambda v: -v,
    "detach": lambda v: v.detach() + v,
    "centred": lambda v: v - v.mean(-1, keepdim=True),
    "greatest": lambda v: v - v.amax(-1, keepdim=True),
    "total": lambda v: torch.tanh(v.sum(-1, keepdim=True)) * v,
    "softmax": lambda v: torch.softmax(v, -1),
    "log_softmax": lambda v: torch.log_softmax(v, -1) / 4,
    "norm": lambda v: F.layer_norm(v, v.shape[-1:]),
    "halves": lambda v: torch.cat(tuple(reversed(v.chunk(2, -1))), -1),
    "part": lambda v: v * v[:, 1:2],
}  # fmt: skip
BINARY = {
    "add": torch.add,
    "sub": torch.sub,
    "mul": torch.mul,
    "div": lambda a, b: a / (1.5 + torch.tanh(b)),
    "min": torch.minimum,
    "max": torch.maximum,
    "where": lambda a, b: torch.where(a > b, a, 0.5 * b),
    "either": lambda a, b: torch.where((a <= 0.1) | ~(b < 0.3), torch.tanh(a), b),
    "masked": lambda a, b: a.masked_fill(b >= 0.5, 0.25),
    "lerp": lambda a, b: torch.lerp(a, b, torch.sigmoid(a)),
    "addcmul": lambda a, b: torch.addcmul(a, a, b, value=0.5),
}


class Drawn(carousel.Cell):
    """A cell whose equations are a list of choices."""

    gates = {"a": Gate(), "b": Gate("tanh"), "d": Gate("linear", "diagonal"), "e": Gate("linear", "none")}
    side_inputs = {"elapsed": carousel.cells.SideInput(default=1.0)}

    def __init__(self, plan=()):
        self.plan = tuple(plan)

    def parameters(self, sizes):
        return super().parameters(sizes) | {"gain": (sizes.hidden,), "scale": (), "mix": (sizes.hidden, sizes.hidden)}

    def step(self, x, state, w, let):
        values = [x.a, x.e, *state, w.gain, x.b * w.scale, x.d * x.elapsed.unsqueeze(-1)]
        for kind, name, i, j in self.plan:
            first, second = values[i % len(values)], values[j % len(values)]
            if kind == "unary":
                value = UNARY[name](first.expand(x.a.shape))
            elif kind == "binary":
                value = BINARY[name](first.expand(x.a.shape), second.expand(x.a.shape))
            elif name == "mix":
                value = first.expand(x.a.shape) @ w.mix
            else:
                value = w.U(first.expand(x.a.shape), name)
            values.append(let(f"v{len(values)}", value))
        count = len(state)
        return tuple(let(n, torch.tanh(v + 0 * x.a)) for n, v in zip(self.states, values[-count:], strict=True))


class OneState(Drawn):
    states = ("h",)


class TwoStates(Drawn):
    states = ("h", "c")


class FourStates(Drawn):
    states = ("h", "c", "n", "m")


place = st.integers(0, 30)
steps = st.one_of(
    st.tuples(st.just("unary"), st.sampled_from(sorted(UNARY)), place, place),
    st.tuples(st.just("binary"), st.sampled_from(sorted(BINARY)), place, place),
)
products = st.lists(st.tuples(st.just("product"), st.sampled_from(["a", "b", "d", "mix"]), place, place), max_size=3)


@st.composite
def plans(draw_):
    body = draw_(st.lists(steps, min_size=1, max_size=8))
    for product in draw_(products):
        body.insert(draw_(st.integers(0, len(body))), product)
    return body


def results(layer, x, leaves=(), hx=None, **call):
    """Output, states and gradients of a call, from a fixed seed."""
    torch.manual_seed(3)
    output, state = layer(x, hx, **call)
    parts = (output, *(state if isinstance(state, tuple) else (state,)))
    weights = [torch.linspace(-1, 1.5, p.numel(), dtype=p.dtype).reshape(p.shape) for p in parts]
    loss = sum((p * w).sum() for p, w in zip(parts, weights, strict=True))
    given = [x, *layer.parameters(), *leaves]
    return [*parts, *torch.autograd.grad(loss, given, allow_unused=True, materialize_grads=True)]


def by_reference(monkeypatch, run):
    with monkeypatch.context() as patched:
        patched.setattr(programs, "unsupported_reason", lambda *given: "a test asks for the reference path")
        return run()


def check(monkeypatch, layer, x, dtype=torch.float64, leaves=(), hx=None, **call):
    """The program's results are those of the reference path."""
    path = layer.path(x, hx, **call)
    assert path == "fused" and "program" in path.why, path.why
    ours = results(layer, x, leaves, hx, **call)
    theirs = by_reference(monkeypatch, lambda: results(layer, x, leaves, hx, **call))
    tolerance = {"rtol": 1e-7, "atol": 1e-7} if dtype == torch.float64 else {"rtol": 1e-3, "atol": 1e-4}
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, **tolerance)
    with torch.no_grad():
        torch.manual_seed(3)
        torch.testing.assert_close(layer(x, hx, **call)[0], ours[0].detach(), **tolerance)


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


@pytest.mark.parametrize("name", [*UNARY, *BINARY])
def test_every_operation(monkeypatch, name):
    """One cell for each: forward, gradients, and those against finite differences."""
    kind = "unary" if name in UNARY else "binary"
    cell = TwoStates([("product", "a", 2, 0), (kind, name, -1, 1), ("binary", "add", -1, 3)])
    layer = randomise(Recurrent(cell, I, 4, dtype=torch.float64))
    x = draw(3, 2, I).requires_grad_()
    check(monkeypatch, layer, x)
    if name not in ("relu", "clamp", "detach", "greatest"):  # kinks, and what has no derivative on purpose
        assert torch.autograd.gradcheck(lambda x: layer(x)[0], x, rtol=1e-3, atol=1e-6)


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
        assert "test_programs.py" in path.why and first < line <= first + 3
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
