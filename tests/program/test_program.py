"""Interventions, gradients of named values and single steps of programs: the numbers of the reference path."""

import copy
import pickle
from dataclasses import replace

import pytest
import torch
from helpers.own_cells import OWN
from helpers.program_cells import CELLS, Leaky
from helpers.references import close, draw, randomise
from torch.nn.utils.rnn import pack_padded_sequence

import carousel
from carousel import Clamp, Recurrent
from carousel.layers import native, programs
from carousel.ops import backend

pytestmark = pytest.mark.skipif(not backend.available(), reason="no kernels")
T, B, I, H = 5, 4, 3, 6
LENGTHS = torch.tensor([5, 0, 2, 3])
RESET = torch.rand(T, B, generator=torch.Generator().manual_seed(0)) < 0.3


CASES = [
    ("mgu", {"bidirectional": True, "num_layers": 2}, {"lengths": LENGTHS, "reset": RESET}),
    ("mgu", {"zoneout": 0.3}, {"lengths": LENGTHS}),
    ("leaky", {"recurrent_dropout": 0.4, "zoneout": {"c": 0.2}, "learn_initial_state": True}, {"reset": RESET}),
    ("exponential", {"bidirectional": True}, {"reset": RESET}),
    ("convolved", {"bidirectional": True}, {"lengths": LENGTHS}),
    ("lstm", {"num_layers": 2, "proj_size": 4, "dropout": 0.3}, {"lengths": LENGTHS}),
    ("layernorm", {"bidirectional": True, "merge": "sum"}, {"reset": RESET}),
]


def clamps_of(layer):
    """All ways to choose, on the first gate, the last state and the output."""
    gate = next(g for g in layer.cell.gates if g not in layer.cell.states)
    last = [s for s in layer.cell.states if s != "past_inputs"][-1]
    value = draw(2, 1, 3).requires_grad_()
    return value, [
        Clamp(gate, 0.25),
        Clamp(gate, value, steps=[3, 1], units=[2, 0, 1]),
        Clamp(last, 0.5, steps=slice(4, 0, -2), sequences=[3, 0], layer=0),
        Clamp(layer.cell.output, -0.5, steps=2, units=(1, 3), sequences=torch.tensor([True, False, True, True]),
              direction=layer.num_directions - 1),
    ]  # fmt: skip


def loss_of(output, state):
    parts = (output, *(state if isinstance(state, tuple) else (state,)))
    return sum((p * torch.linspace(-1, 1.5, p.numel(), dtype=p.dtype).reshape(p.shape)).sum() for p in parts)


def both_ways(monkeypatch, run):
    ours = run()
    with monkeypatch.context() as patched:
        patched.setattr(programs, "watch_plainly", lambda *given, **how: None)
        patched.setattr(native, "trace_plainly", lambda *given: None)
        patched.setattr(programs, "unsupported_reason", lambda *given: "a test asks for the reference path")
        return ours, run()


@pytest.mark.parametrize("name, options, call", CASES)
def test_interventions_and_gradients(monkeypatch, name, options, call):
    """Values, outputs, gradients of named values, and gradients of what was given, as by the reference path."""
    layer = randomise(Recurrent(CELLS[name](), I, H, dtype=torch.float64, **options)).train()
    x, (value, clamps) = draw(T, B, I).requires_grad_(), clamps_of(layer)
    side = {n: torch.rand(T, B, *layer.side_shape(n), dtype=x.dtype) for n in layer.cell.side_inputs}
    given = [x, value, *layer.parameters()]

    def run():
        traces = []
        for chosen, loss in ((clamps, loss_of), ((), loss_of), (clamps, None)):
            torch.manual_seed(3)
            traces.append(layer.intervene(x, *chosen, gradients_of=loss, **call, **side))
        held = traces[-1]
        found = torch.autograd.grad(loss_of(held.output, held.state), given, allow_unused=True, materialize_grads=True)
        return traces, found

    (ours, found), (theirs, wanted) = both_ways(monkeypatch, run)
    for one, other in zip(ours, theirs, strict=True):
        assert one.path == "fused" and "program" in one.path.why and other.path == "reference"
        close((one.output, one.state), (other.output, other.state))
        for kind in ("gates", "states", "gradients"):
            assert list(getattr(one, kind)) == list(getattr(other, kind))
            for what, values in getattr(one, kind).items():
                expected = getattr(other, kind)[what]
                torch.testing.assert_close(values, expected, rtol=1e-8, atol=1e-9, msg=f"{kind} {what}")
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-8, atol=1e-9)


BLOCKS = [
    [Clamp("h", 0.5)],
    [Clamp("h", -1, steps=slice(1, 3), units=(2, 4)), Clamp("h", 2.0, steps=2, units=3)],
    [Clamp("h", 0.1, steps=-1), Clamp("h", 0.2, units=-2, layer=0)],
]
OTHERS = [
    [Clamp("h", 0.5, sequences=[2, 0])],
    [Clamp("h", 0.5, units=[3, 1]), Clamp("h", 1.5, steps=[4, 0], sequences=1)],
    [Clamp("h", torch.linspace(0, 1, 3, dtype=torch.float64), units=(1, 4))],
    [Clamp("h", torch.arange(8.0, dtype=torch.float64).reshape(4, 2), units=(1, 3)), Clamp("h", 3.0, steps=0)],
]


@pytest.mark.parametrize("name, options", [
    ("lstm", {"num_layers": 2}), ("lstm", {"proj_size": 4, "bias": False}), ("mgu", {"batch_first": True}), ("mgu", {}),
    ("layernorm", {"num_layers": 2}), ("peephole", {"zoneout": 0.2}),
])  # fmt: skip
@pytest.mark.parametrize("clamps", BLOCKS + OTHERS)
@pytest.mark.parametrize("how", ["quiet", "recorded", "gradients", "state"])
def test_plain_interventions(monkeypatch, name, options, clamps, how):
    """Without lengths, restarts or noise: what is held and found is that of the reference path, in all four ways."""
    layer = randomise(Recurrent(CELLS[name](), I, H, dtype=torch.float64, **options)).eval()
    x = draw(B, T, I) if layer.batch_first else draw(T, B, I)
    sizes = [layer.state_shape(state)[0] for state in layer.cell.states]
    hx = tuple(draw(layer.num_layers, B, size) for size in sizes) if how == "state" else None
    hx = hx[0] if hx is not None and len(hx) == 1 else hx

    def run():
        with torch.set_grad_enabled(how != "quiet"):
            trace = layer.intervene(x, *clamps, hx=hx, gradients_of=loss_of if how == "gradients" else None)
        found = ()
        if how in ("recorded", "state"):
            found = torch.autograd.grad(loss_of(trace.output, trace.state), [*layer.parameters()])
        return trace, found

    (one, ours), (other, theirs) = both_ways(monkeypatch, run)
    assert "program" in one.path.why and other.path == "reference"
    close((one.output, one.state), (other.output, other.state))
    close(ours, theirs)
    for kind in ("gates", "states") + (("gradients",) if how == "gradients" else ()):
        assert list(getattr(one, kind)) == list(getattr(other, kind))
        for what, values in getattr(one, kind).items():
            torch.testing.assert_close(values, getattr(other, kind)[what], rtol=1e-8, atol=1e-9, msg=f"{kind} {what}")


@pytest.mark.parametrize("clamps", BLOCKS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_blocks_are_held_by_one_native_call(monkeypatch, clamps, dtype):
    layer, x = carousel.LSTM(I, H, num_layers=2, dtype=dtype), draw(T, B, I).to(dtype)
    with torch.no_grad():
        expected = layer.intervene(x, *(replace(clamp, sequences=[0, 1, 2, 3]) for clamp in clamps))
        monkeypatch.setattr(programs, "run_program", None)
        held = layer.intervene(x, *clamps)
    assert torch.equal(held.output, expected.output) and torch.equal(held.h, expected.h)
    assert all(torch.equal(held.gates[gate], expected.gates[gate]) for gate in "ifgo")


def test_a_native_plan_refuses_what_does_not_fit():
    layer, x = carousel.LSTM(I, H), torch.randn(T, B, I)
    with torch.no_grad():
        layer.intervene(x, Clamp("f", 1.0))
        [plan] = programs._plain(layer, x).watched.values()
        [code] = [c for c in programs._programs(layer).compiled.values() if c.plan.holds]
        own, where = layer._parameters, code.plan.holds["f"]
        saved = [torch.empty(T, B, code.saved_row)]
        assert plan.watch(own, x, None, 1, saved, [(0, *where, 0, T, 0, H, 1.0)]) is not None
        assert plan.watch(own, x, None, 1, [], []) is None
        assert plan.watch(own, x, None, 1, [saved[0][:, :2]], []) is None
        assert plan.watch(own, x[..., :2], None, 1, saved, []) is None
        for wrong in [(1, *where, 0, 1, 0, 1), (0, where[0], 99, 0, 1, 0, 1), (0, 0, where[1], 0, 1, 0, 1),
                      (0, *where, 0, T + 1, 0, 1), (0, *where, 2, 1, 0, 1), (0, *where, 0, 1, -1, 1),
                      (0, *where, 0, 1, 0, H + 1)]:  # fmt: skip
            with pytest.raises(ValueError, match="cannot be held"):
                plan.watch(own, x, None, 1, saved, [(*wrong, 1.0)])


class Watched(carousel.Cell):
    """Named: a sum itself, and what nothing reads but a trace."""

    gates, states = ("a", "b"), ("h",)

    def parameters(self, sizes):
        return super().parameters(sizes) | {"p": (sizes.hidden,)}

    def step(self, x, state, w, let):
        a = let("a", x.a)
        b = let("b", torch.sigmoid(x.b + w.U(state[0], "b") + a))
        let("seen", torch.tanh(x.a) * torch.nn.functional.softplus(w.p))
        return (let("h", torch.tanh(a) * b + 0.5 * state[0]),)


@pytest.mark.parametrize("size", [3, H, 12])
@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("how", ["quiet", "recorded", "gradients"])
def test_what_is_only_named(monkeypatch, size, layers, how):
    layer, x = randomise(Recurrent(Watched(), size, H, num_layers=layers, dtype=torch.float64)), draw(T, B, size)

    def run():
        with torch.set_grad_enabled(how != "quiet"):
            loss = loss_of if how == "gradients" else None
            return layer.trace(x, gradients_of=loss), layer.intervene(x, Clamp("b", 0.5, units=2), gradients_of=loss)

    for one, other in zip(*both_ways(monkeypatch, run), strict=True):
        for kind in ("gates", "states") + (("gradients",) if how == "gradients" else ()):
            same(getattr(one, kind), getattr(other, kind))


def same(ours, theirs):
    assert list(ours) == list(theirs)
    for name, values in ours.items():
        torch.testing.assert_close(values, theirs[name], rtol=1e-8, atol=1e-9, msg=name)


def test_a_parameter_that_only_a_trace_reads_may_be_computed():
    layer, x = Recurrent(Watched(), I, H, dtype=torch.float64), draw(T, B, I)
    expected = layer.trace(x).gates["seen"].detach()
    with torch.no_grad():
        layer.p_l0 /= 2
    torch.nn.utils.parametrize.register_parametrization(layer, "p_l0", Twice())
    for recorded in (True, False):
        with torch.set_grad_enabled(recorded):
            torch.testing.assert_close(layer.trace(x).gates["seen"], expected)


class Twice(torch.nn.Module):
    def forward(self, p):
        return 2 * p


@pytest.mark.parametrize("name, held", [("own-matrix", "memory"), ("own-matrix", "h")])
def test_each_sequence_of_a_packed_batch_is_held_at_its_own_value(name, held):
    layer, x, lengths = Recurrent(OWN[name][0](), I, 4, dtype=torch.float64), draw(T, 3, I), torch.tensor([2, 5, 3])
    shape = (3, 1, 4) if len(layer.state_shape(held)) > 1 else (3, 4)
    clamp = Clamp(held, torch.arange(3.0, dtype=torch.float64).reshape(3, *[1] * (len(shape) - 1)).expand(shape))
    packed = pack_padded_sequence(x, lengths, enforce_sorted=False)
    expected, found = layer.intervene(x, clamp, lengths=lengths), layer.intervene(packed, clamp)
    torch.testing.assert_close(found.states[held], expected.states[held])


def test_gradients_are_those_of_the_loss_that_was_given(monkeypatch):
    layer, x = carousel.LSTM(I, H, dtype=torch.float64), draw(T, B, I)

    def loss(y):
        y.sum().backward(retain_graph=True)
        return (y**3).sum()

    one, other = both_ways(monkeypatch, lambda: layer.trace(x, gradients_of=loss))
    same(one.gradients, other.gradients)


@pytest.mark.parametrize("run", [
    lambda layer, x: layer.trace(x), lambda layer, x: layer.intervene(x, Clamp("f", 1.0)),
    lambda layer, x: layer.trace(x, gradients_of=torch.sum),
])  # fmt: skip
def test_traces_are_pickled_and_copied(run):
    with torch.no_grad():
        trace = replace(run(carousel.LSTM(I, H), torch.randn(T, B, I)), cell=None)
        expected = {name: value.clone() for name, value in trace.states.items()}
        again, copied = pickle.loads(pickle.dumps(trace)), copy.deepcopy(trace)
        trace.output.zero_()
        for other in (again, copied):
            same(other.states, expected)
            same(other.gates, trace.gates)


def test_a_trace_says_which_code_ran():
    class Scalar(carousel.Cell):
        gates, states = ("a",), ("h",)

        def step(self, x, state, w, let):
            a = let("a", torch.sigmoid(x.a).mean(-1, keepdim=True))
            return (let("h", torch.tanh(x.a + a * state[0])),)

    layer, x = Recurrent(Scalar(), I, H), torch.randn(T, B, I)
    assert "program" in layer.trace(x).path.why
    path = layer.intervene(x, Clamp("h", 0.0, steps=1)).path
    assert path == "fused" and "program" in path.why
    with pytest.raises(ValueError, match=r"out of range 0\.\.0"):  # what is named has one unit: the reference path runs
        layer.intervene(x, Clamp("a", 0.0, units=[3]))
    assert carousel.LSTM(I, H).trace(x).path.why == f"native kernels ({backend.isa()})"
    with pytest.raises(ValueError, match="never names 'b' with let"):
        Recurrent(type("Unnamed", (Leaky,), {"gates": ("a", "b"), "step": unnamed_step})(), I, H).intervene(
            x, Clamp("b", 0.0)
        )


def unnamed_step(self, x, state, w, let):
    return let("h", torch.tanh(x.a + x.b)), state[1]


@pytest.mark.parametrize("name, options", [
    ("mgu", {"num_layers": 2}), ("leaky", {"zoneout": 0.2, "num_layers": 2}), ("lstm", {"proj_size": 4}),
    ("peephole", {"bias": False}), ("mgu", {"learn_initial_state": True}),
])  # fmt: skip
@pytest.mark.parametrize("rows", [1, 3, 9])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_single_steps(monkeypatch, name, options, rows, dtype):
    """One native call a step, whose results are those of the sequence call."""
    own = type("Own", (CELLS[name],), {})
    layer = randomise(Recurrent(own(), I, H, dtype=dtype, **options)).eval()
    x = draw(T, rows, I).to(dtype)
    expected, final = layer(x)
    with torch.no_grad():
        y, state = layer.step(x[0])
        monkeypatch.setattr(Recurrent, "forward", None)
        for t in range(1, T):
            torch.testing.assert_close(y, expected[t - 1])
            y, state = layer.step(x[t], state)
    torch.testing.assert_close(y, expected[-1])
    torch.testing.assert_close(state, final)
    assert programs.step(layer, x[0, :, :2], state) is None and programs.step(layer, x[0], 3) is None


@pytest.mark.parametrize("name", ["mgu", "leaky", "lstm"])
@pytest.mark.parametrize("rows", [1, 2, 6])
def test_single_steps_on_several_threads(name, rows):
    """Each thread makes the columns that it reads; more rows than a few are multiplied by packed weights."""
    before = torch.get_num_threads()
    layer = randomise(Recurrent(type("Own", (CELLS[name],), {})(), 40, 128, num_layers=2)).eval()
    x = draw(3, rows, 40).float()
    try:
        for threads in (2, 3):
            torch.set_num_threads(threads)
            expected, state = layer(x)[0], None
            with torch.no_grad():
                for t in range(3):
                    y, state = layer.step(x[t], state)
                    torch.testing.assert_close(y, expected[t], rtol=1e-4, atol=1e-5)
    finally:
        torch.set_num_threads(before)
