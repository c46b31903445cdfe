"""A user's own cell, the minimal gated unit (Zhou et al., 2016), gets everything that the shipped ones have."""

import numpy as np
import pytest
import torch
from helpers.references import close, draw, parameters, randomise, single, σ

import carousel
from carousel import Clamp, Recurrent
from carousel.cells import Gate, SideInput, StateSpec, registry

T, B, I, H = 5, 3, 3, 4


class MGU(carousel.Cell):
    """f = σ(W_f x + U_f h₋ + b_f), n = tanh(W_n x + U_n (f∘h₋) + b_n), h = (1 − f)∘h₋ + f∘n."""

    gates = ("f", "n")

    def step(self, x, state, w, let):
        (h,) = state
        f = let("f", torch.sigmoid(x.f + w.U(h, "f")))
        n = let("n", torch.tanh(x.n + w.U(f * h, "n")))
        return (let("h", (1 - f) * h + f * n),)


def mgu(**options):
    return randomise(Recurrent(MGU(), I, H, dtype=torch.float64, **options))


def by_hand(layer, x, h, k=0, direction=0, keep=0.0):
    """x (T, B, I) through one layer and direction in numpy: every f, n and h, each (T, B, H)."""
    w = {name: p.detach().numpy() for name, p in parameters(layer, k, direction).items()}
    W, U, b = w["weight_ih"], w["weight_hh"], w["bias_ih"] + w["bias_hh"]
    named = {name: np.zeros((len(x), len(h), H)) for name in "fnh"}
    for t in reversed(range(len(x))) if direction else range(len(x)):
        f = σ(x[t] @ W[:H].T + h @ U[:H].T + b[:H])
        n = np.tanh(x[t] @ W[H:].T + (f * h) @ U[H:].T + b[H:])
        h = keep * h + (1 - keep) * ((1 - f) * h + f * n)
        named["f"][t], named["n"][t], named["h"][t] = f, n, h
    return named


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("zoneout", [0.0, 0.3])
def test_layers_directions_trace_and_zoneout(bidirectional, zoneout):
    layer = mgu(num_layers=2, bidirectional=bidirectional, zoneout=zoneout, learn_initial_state=True).eval()
    x, trace = draw(T, B, I), layer.trace(draw(T, B, I))
    inputs, D = x.numpy(), layer.num_directions
    for k in range(2):
        found = []
        for d in range(D):
            start = parameters(layer, k, d)["initial_h"].detach().numpy()
            found.append(by_hand(layer, inputs, np.tile(start, (B, 1)), k, d, keep=zoneout))
            close(trace.gates["f"][k * D + d], found[d]["f"])
            close(trace.gates["n"][k * D + d], found[d]["n"])
            close(trace.h[k * D + d], found[d]["h"])
        inputs = np.concatenate([each["h"] for each in found], -1)
    close(layer(x)[0], inputs)


def test_lengths_and_batch_first():
    layer, x, lengths = mgu(bidirectional=True, batch_first=True), draw(B, T, I), [2, 5, 0]
    y, h = layer(x, lengths=lengths)
    for b, n in enumerate(lengths):
        found = [by_hand(layer, x[b, :n, None].numpy(), np.zeros((1, H)), direction=d)["h"] for d in (0, 1)]
        close(y[b, :n], np.concatenate(found, -1)[:, 0])
        assert (y[b, n:] == 0).all()
        close(h[:, b], np.stack([found[0][-1, 0], found[1][0, 0]]) if n else np.zeros((2, H)))


def test_reset_merge_and_stream():
    x, reset = draw(T, B, I), torch.zeros(T, B, dtype=torch.bool)
    reset[2] = True
    layer = mgu(bidirectional=True, merge="sum")
    halves = [layer(x[:2])[0], layer(x[2:])[0]]
    close(layer(x, reset=reset)[0], torch.cat(halves))

    forward, h = single(layer), None
    expected = by_hand(layer, x.numpy(), np.zeros((B, H)))["h"]
    for t in range(T):
        y, h = forward.step(x[t], h)
        close(y, expected[t])


def test_gradients_of_a_loss_reach_every_step():
    layer, x = mgu(), draw(T, B, I)
    trace = layer.trace(x, gradients_of=lambda y: y[-1].sum())
    ε = 1e-6
    for t in range(T):
        value = trace.gates["f"][0, t]
        up, down = (layer.intervene(x, Clamp("f", value + s, steps=t)).output[-1].sum().item() for s in (ε, -ε))
        assert trace.gradients["f"][0, t].sum().item() == pytest.approx((up - down) / (2 * ε), rel=1e-6)


def test_it_trains():
    """Autograd of the step: the gradients are those of finite differences."""
    layer, x = mgu(learn_initial_state=True), draw(T, B, I)
    names, own = zip(*layer.named_parameters(), strict=True)

    def run(*values):
        return torch.func.functional_call(layer, dict(zip(names, values, strict=True)), x)[0]

    assert torch.autograd.gradcheck(run, own)


def test_it_compiles_without_a_graph_break():
    layer, x, lengths = mgu(num_layers=2, bidirectional=True), draw(T, B, I), torch.tensor([2, 5, 0])
    compiled = torch.compile(layer, backend="eager", fullgraph=True)
    close(compiled(x, lengths=lengths), layer(x, lengths=lengths))


def test_state_dict_and_description():
    layer = mgu()
    assert {n: tuple(p.shape) for n, p in layer.state_dict().items()} == {
        **{"weight_ih_l0": (2 * H, I), "weight_hh_l0": (2 * H, H)},
        **{"bias_ih_l0": (2 * H,), "bias_hh_l0": (2 * H,)},
    }
    assert repr(layer) == "Recurrent(MGU, 3, 4)"


def test_own_states_parameters_and_initialisation():
    """A leaky integrator with a learned leak, an extra state, and its own start."""

    class Leaky(carousel.Cell):
        gates, states = ("a",), ("h", "m")

        def parameters(self, sizes):
            return super().parameters(sizes) | {"leak": (sizes.hidden,)}

        def initialise(self, parameters, sizes, forget_bias):
            super().initialise(parameters, sizes, forget_bias)
            torch.nn.init.constant_(parameters["leak"], 0.5)

        def step(self, x, state, w, let):
            h, m = state
            m = let("m", w.leak * m + let("a", x.a + w.U(h).a))
            return let("h", torch.tanh(m)), m

    layer = Recurrent(Leaky(), I, H, dtype=torch.float64)
    assert (layer.leak_l0 == 0.5).all()
    x = draw(T, B, I)
    trace = layer.trace(x)
    close(trace.m[0, 1:], 0.5 * trace.m[0, :-1] + trace.gates["a"][0, 1:])
    close(trace.state, (trace.m[:, -1].tanh(), trace.m[:, -1]))
    with pytest.raises(TypeError, match=r"tuple of 2 Tensors \(h, m\)"):
        layer(x, torch.zeros(1, B, H).double())


# ---- a cell written wrongly ----


def cell(**namespace):
    return type("Mine", (carousel.Cell,), namespace)


@pytest.mark.parametrize(
    "namespace, complaint",
    [
        ({}, r"Mine\.gates"),
        ({"gates": "fn"}, r"Mine\.gates.*tuple.*'fn'"),
        ({"gates": ["f", "n"]}, r"Mine\.gates.*tuple"),
        ({"gates": ("f", "f")}, r"Mine\.gates.*distinct"),
        ({"gates": ("f gate",)}, r"Mine\.gates.*'f gate'"),
        ({"gates": ("f",), "states": ()}, r"Mine\.states"),
        ({"gates": {"f": "sigmoid"}}, r"Mine\.gates: 'f' must have a Gate"),
        ({"gates": {"f": Gate(recurrent="sparse")}}, r"Mine\.gates: 'f' is 'sparse'; accepted: dense"),
        ({"gates": ("f",), "states": {"h": StateSpec(dtype="complex")}}, r"Mine\.states: 'h' is the output"),
        ({"gates": ("f",), "states": tuple("abcdefghi")}, r"Mine\.states: at most 8 states, got 9"),
        ({"gates": ("f",), "side_inputs": {"f": SideInput()}}, r"Mine\.side_inputs: 'f' is the name of a gate"),
        ({"gates": ("f",), "side_inputs": ("lengths",)}, r"Mine\.side_inputs: 'lengths'"),
        ({"gates": ("f",), "side_inputs": {"dt": ()}}, r"Mine\.side_inputs: 'dt' must have a SideInput"),
    ],
)
def test_names_are_checked_where_the_class_is_written(namespace, complaint):
    with pytest.raises(TypeError, match=complaint):
        cell(**namespace)


def test_what_is_missing_is_named():
    bare = cell(gates=("f",))
    with pytest.raises(TypeError, match="Mine must define step"):
        Recurrent(bare(), I, H)(torch.zeros(T, B, I))
    with pytest.raises(TypeError, match="no hand-derived backward"):
        bare().backward((), None, (), None)
    with pytest.raises(TypeError, match=r"cell must be a carousel\.Cell instance"):
        Recurrent(bare, I, H)
    with pytest.raises(ValueError, match=r"proj_size.*Mine"):
        Recurrent(bare(), I, H, proj_size=2)


@pytest.mark.parametrize("name", ["f", "h"])
def test_a_clamp_on_what_step_never_names_is_refused(name):
    silent = cell(gates=("f",), step=lambda self, x, state, w, let: (torch.tanh(x.f),))
    with pytest.raises(ValueError, match=f"'{name}'"):
        Recurrent(silent(), I, H, dtype=torch.float64).intervene(draw(T, B, I), Clamp(name, 0.0))


# ---- the registry ----


@pytest.fixture
def unregistered(monkeypatch):
    """The registry as it was before, after the test."""
    monkeypatch.setattr("carousel.cells.spec._registry", dict(carousel.cells.spec._registry))


def test_a_registered_cell_has_a_layer_and_is_a_choice(unregistered):
    class Registered(MGU, name="mgu", layer="MGULayer"):
        def step(self, x, state, w, let):
            return MGU.step(self, x, state, w, let)

    assert list(registry())[-1] == "mgu"
    layer = carousel.layers.named("mgu")(I, H, dtype=torch.float64, num_layers=2)
    assert type(layer).__name__ == "MGULayer" and "MGULayer(3, 4, num_layers=2)" in repr(layer)
    assert carousel.layers.named("mgu") is type(layer)
    assert layer(draw(T, B, I))[0].shape == (T, B, H)


def test_a_name_is_taken_once(unregistered):
    with pytest.raises(TypeError, match=r"cell 'lstm' is already registered by carousel\.cells\.lstm\.LSTM"):
        type("Mine", (MGU,), {}, name="lstm")


def test_an_unknown_name_has_a_suggestion():
    with pytest.raises(ValueError, match="unknown cell 'pephole': did you mean peephole"):
        carousel.layers.named("pephole")


def test_a_subclass_of_a_shipped_cell_does_not_inherit_its_kernel():
    """Its equations may be others, so neither our kernel nor torch's operator may run in their place."""

    class Doubled(carousel.cells.LSTM):
        def step(self, x, state, w, let):
            h, c = super().step(x, state, w, let)
            return 2 * h, c

    assert Doubled().kernel() is None and Doubled().torch_mode() is None
    layer = Recurrent(Doubled(), I, H, dtype=torch.float64)
    plain = carousel.LSTM(I, H, dtype=torch.float64)
    plain.load_state_dict(layer.state_dict())
    x = draw(1, B, I)
    close(layer(x)[0], 2 * plain(x)[0])


@pytest.mark.parametrize("name", registry())
def test_every_registered_cell_states_what_its_gates_are(name):
    """Pictures and labs rely on it: each gate has a label; all but full peepholes have a kernel."""
    cell = registry()[name]()
    assert all(gate.label for gate in cell.gates.values())
    assert carousel.layers.named(name)(I, H).cell.kernel() == cell.kernel()
    assert (cell.kernel() is None) == (name == "peephole-full")
