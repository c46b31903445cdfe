"""Noise, learned states, biases and paths. (`merge` is in test_recurrent: reverse equals forward on flipped input.)"""

import itertools
import pickle

import numpy as np
import pytest
import torch
from helpers.references import KINDS, build, close, draw, equations, parameters, states_of

import carousel
from carousel.layers import torch_operators
from carousel.layers.batch import read

T, B, I = 4, 3, 3


def numpy_weights(layer):
    return {name: p.detach().numpy() for name, p in parameters(layer).items()}


def loop(kind, w, x, state, mix=lambda name, old, new: new):
    """The equations over x (T, B, I) from `state`; `mix` says what is carried on. Every carried h: (T, B, P)."""
    output = []
    for x_t in x.numpy():
        new = equations(kind, w, x_t, state)
        state = [mix(name, old, new[name]) for name, old in zip(KINDS[kind].states, state, strict=True)]
        output.append(state[0])
    return np.stack(output)


def start(layer, size=B):
    """A non-zero state, (1, size, H) each: as hx, and as numpy (size, H)."""
    states = [draw(1, size, layer.hidden_size, seed=5 + k) for k, _ in enumerate(layer.cell.states)]
    return tuple(states) if len(states) > 1 else states[0], [s[0].numpy() for s in states]


def copier(size, **options):
    """A relu network that repeats: h = U h₋ with U = 1, whatever it is given."""
    layer = carousel.RNN(1, size, nonlinearity="relu", bias=False, dtype=torch.float64, **options)
    with torch.no_grad():
        layer.weight_ih_l0.zero_()
        layer.weight_hh_l0.copy_(torch.eye(size))
    return layer


# ---- recurrent dropout ----


@pytest.mark.parametrize("kind", KINDS)
def test_recurrent_dropout_hides_units_of_h_for_a_whole_sequence(kind):
    """Each sequence's output is that of one of the 2ᴴ masks on h₋, the same at all steps and for all gates."""
    layer, x, H, size = build(kind, I, 3, recurrent_dropout=0.25), draw(T, 12, I), 3, 12
    hx, state = start(layer, size)
    output, w = layer(x, hx)[0].detach().numpy(), numpy_weights(layer)
    seen = set()
    for b in range(size):
        one = [s[b : b + 1] for s in state]
        candidates = {}
        for mask in itertools.product((0, 1), repeat=H):
            hidden = w | {"weight_hh": w["weight_hh"] * np.array(mask) / 0.75}  # U (m∘h) = (U m) h
            candidates[mask] = loop(kind, hidden, x[:, b : b + 1], one)[:, 0]
        seen |= {mask for mask, y in candidates.items() if np.allclose(y, output[:, b], rtol=1e-9)}
        assert any(np.allclose(y, output[:, b], rtol=1e-9) for y in candidates.values())
    assert len(seen) > 1
    close(layer.eval()(x, hx)[0], loop(kind, w, x, state))


def test_recurrent_dropout_drops_with_its_probability():
    layer = copier(50, recurrent_dropout=0.2)
    y, _ = layer(torch.zeros(3, 40, 1).double(), torch.ones(1, 40, 50).double())
    assert set(y[0].unique().tolist()) == {0.0, 1.25}
    close(y[2], y[0] ** 3)  # one mask for all steps
    assert (y[0] == 0).double().mean().item() == pytest.approx(0.2, abs=0.03)  # 2000 draws: σ = 0.009
    assert not torch.equal(y[0, 0], y[0, 1])  # each sequence has its own


# ---- weight drop ----


@pytest.mark.parametrize("kind", KINDS)
def test_weight_drop_drops_recurrent_weights_once_a_call(kind):
    """With one unit U has one entry a gate: the call is that of one of the 2ᴳ masks, for all sequences and steps."""
    layer, x = build(kind, I, 1, weight_drop=0.25), draw(T, B, I)
    hx, state = start(layer)
    w, seen = numpy_weights(layer), set()
    masks = list(itertools.product((0, 1), repeat=len(KINDS[kind].gates)))
    dropped = [loop(kind, w | {"weight_hh": w["weight_hh"] * np.array([m]).T / 0.75}, x, state) for m in masks]
    for _ in range(30):
        output = layer(x, hx)[0].detach().numpy()
        found = {m for m, y in zip(masks, dropped, strict=True) if np.allclose(y, output, rtol=1e-9)}
        assert found
        seen |= found
    assert len(seen) > 1
    close(layer.eval()(x, hx)[0], loop(kind, w, x, state))


def test_weight_drop_probability_and_gradient():
    """One unit set in each sequence: the first step reads the dropped matrix out, the second multiplies it again."""
    layer = copier(60, weight_drop=0.2)
    with torch.no_grad():
        layer.weight_hh_l0.fill_(1.0)
    y, _ = layer(torch.zeros(2, 60, 1).double(), torch.eye(60).double().unsqueeze(0))
    U = y[0].T
    assert set(U.unique().tolist()) == {0.0, 1.25}
    assert (U == 0).double().mean().item() == pytest.approx(0.2, abs=0.025)  # 3600 draws: σ = 0.007
    close(y[1], U.matmul(U).T)
    y[0].sum().backward()
    close(layer.weight_hh_l0.grad, U)  # 1.25 where kept, nothing where dropped
    assert (layer.weight_hh_l0 == 1).all()


def test_dropout_stands_between_the_layers_only():
    layer = carousel.RNN(I, 40, 2, "relu", dropout=0.25, dtype=torch.float64)
    with torch.no_grad():  # the second layer repeats what it is given
        layer.weight_ih_l1.copy_(torch.eye(40))
        for p in (layer.weight_hh_l1, layer.bias_ih_l1, layer.bias_hh_l1):
            p.zero_()
    x = draw(T, B, I)
    trace = layer.trace(x)
    dropped = (trace.h[1] == 0) & (trace.h[0] != 0)
    close(trace.h[1], torch.where(dropped, 0, trace.h[0] / 0.75))
    assert dropped.sum().item() == pytest.approx(0.25 * (trace.h[0] != 0).sum().item(), rel=0.4)
    assert not torch.equal(dropped[0], dropped[1])  # anew at every step
    plain = layer.eval().trace(x)
    close(plain.h[1], plain.h[0])
    close(plain.h[0], trace.h[0])  # the first layer's input is never dropped


# ---- zoneout (Krueger et al.): the proposed h̃ is made from the proposed c̃ ----


@pytest.mark.parametrize("kind", KINDS)
def test_zoneout_in_evaluation_is_its_expectation(kind):
    rate = {"h": 0.2, "c": 0.4}
    layer = build(kind, I, 4, zoneout={name: rate[name] for name in KINDS[kind].states}).eval()
    hx, state = start(layer)
    x = draw(T, B, I)
    mixed = loop(kind, numpy_weights(layer), x, state, lambda s, old, new: rate[s] * old + (1 - rate[s]) * new)
    close(layer(x, hx)[0], mixed)


@pytest.mark.parametrize("kind", KINDS)
def test_zoneout_in_training_keeps_units_at_random(kind):
    """Every unit of every state at every step is the old one or the proposed one, in the stated proportion."""
    rates = dict(zip(KINDS[kind].states, (0.2, 0.4), strict=False))
    layer = build(kind, I, 15, zoneout=rates)
    (hx, previous), x = start(layer, 20), draw(10, 20, I)
    trace, w, kept = layer.trace(x, hx), numpy_weights(layer), {name: [] for name in rates}
    for t in range(len(x)):
        proposed = equations(kind, w, x[t].numpy(), previous)
        for name, old in zip(rates, previous, strict=True):
            now = trace.states[name][0, t].numpy()
            keep = now == old
            np.testing.assert_allclose(now[~keep], proposed[name][~keep], rtol=1e-9, atol=1e-12)
            dead = np.isclose(old, proposed[name])  # a relu that is and stays zero tells nothing
            kept[name].append(np.where(dead, np.nan, keep))
        previous = [trace.states[name][0, t].numpy() for name in rates]
    for name, rate in rates.items():
        assert np.nanmean(kept[name]) == pytest.approx(rate, abs=0.04), name  # 3000 draws: σ < 0.009
        assert not np.array_equal(kept[name][0], kept[name][1]), name  # drawn anew at every step
    if len(rates) == 2:
        assert not np.array_equal(kept["h"], kept["c"])


# ---- initial state and forget bias ----


@pytest.mark.parametrize("kind", KINDS)
def test_a_learned_initial_state_starts_at_zero_and_yields_to_hx(kind):
    make, options = KINDS[kind].layer, KINDS[kind].options
    layer = make(I, 4, learn_initial_state=True, dtype=torch.float64, **options)
    learned = {name: p for name, p in layer.named_parameters() if name.startswith("initial_")}
    assert set(learned) == {f"initial_{state}_l0" for state in KINDS[kind].states}
    assert all((p == 0).all() for p in learned.values())
    x = draw(T, B, I)
    layer(x, start(layer)[0])[0].sum().backward()
    assert all(p.grad is None or (p.grad == 0).all() for p in learned.values())
    layer(x)[0].sum().backward()
    assert all((p.grad != 0).any() for p in learned.values())


@pytest.mark.parametrize("kind", [kind for kind in KINDS if "f" in KINDS[kind].gates])
@pytest.mark.parametrize("given, expected", [({}, 1.0), ({"forget_bias": 2.5}, 2.5), ({"forget_bias": 0}, 0.0)])
def test_forget_bias(kind, given, expected):
    """b_ih + b_hh of the forget gate is exactly that; all other parameters are drawn within ±1/√H."""
    H, gates = 16, KINDS[kind].gates
    layer = KINDS[kind].layer(I, H, 2, bidirectional=True, **KINDS[kind].options, **given)
    for k, direction in itertools.product((0, 1), (0, 1)):
        own = parameters(layer, k, direction)
        bias = dict(zip(gates, (own["bias_ih"] + own["bias_hh"]).chunk(len(gates)), strict=True))
        assert (bias.pop("f") == expected).all()
        for value in (*bias.values(), own["weight_ih"], own["weight_hh"]):
            assert 0 < value.abs().max() <= 2 * H**-0.5
    fresh = layer.weight_ih_l0.clone()
    layer.reset_parameters()
    assert not torch.equal(fresh, layer.weight_ih_l0)
    assert (layer.bias_ih_l0.chunk(len(gates))[gates.index("f")] == expected).all()


# ---- paths ----

STANDARD = ["lstm", "gru", "rnn-tanh", "rnn-relu"]


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize(
    "kind, options",
    [(kind, options) for kind in STANDARD for options in ({}, {"bias": False}, {"learn_initial_state": True})]
    + [("lstm", {"proj_size": 2})],
)
def test_the_cudnn_path_computes_the_same(kind, options, bidirectional):
    """The operator it calls is PyTorch's own, which also runs on a CPU."""
    layer, x = build(kind, I, 4, num_layers=2, bidirectional=bidirectional, **options), draw(T, B, I)
    hx = [
        draw(2 * layer.num_directions, B, *layer.state_shape(name), seed=k) for k, name in enumerate(layer.cell.states)
    ]
    output, state = layer(x, tuple(hx) if len(hx) > 1 else hx[0])
    found, final = torch_operators.run(layer, x, hx)
    close(found, output)
    close([torch.stack(s) for s in zip(*final, strict=True)], list(states_of(state)))


@pytest.mark.parametrize(
    "layer, call, obstacle",
    [
        *((build(kind), {}, None) for kind in STANDARD),
        *((build(kind), {}, "cell") for kind in KINDS if kind not in STANDARD),
        (build("lstm"), {"lengths": [1, 2, 3]}, "lengths"),
        (build("lstm"), {"reset": torch.zeros(T, B, dtype=torch.bool)}, "reset"),
        (build("lstm", bidirectional=True, merge="mean"), {}, "mean"),
        (build("lstm", zoneout=0.1).eval(), {}, "zoneout"),
        (build("gru", recurrent_dropout=0.1), {}, "recurrent dropout"),
        (build("gru", recurrent_dropout=0.1, weight_drop=0.1).eval(), {}, None),
    ],
)
def test_what_keeps_cudnn_away_is_said(layer, call, obstacle):
    found = torch_operators.unsupported_reason(
        layer, read(layer, draw(T, B, I), call.get("lengths"), call.get("reset"))
    )
    assert found is None if obstacle is None else obstacle in found


@pytest.mark.parametrize("kind", KINDS)
def test_path_says_what_runs_and_why(kind):
    path = build(kind).path(draw(T, B, I), lengths=[1, 2, 0])
    assert path in ("fused", "reference")  # no CUDA here
    assert len(path.why) > 10
    assert repr(path) == f"{path}: {path.why}"
    assert pickle.loads(pickle.dumps(path)).why == path.why
    with pytest.raises(RuntimeError, match="input_size"):
        build(kind).path(draw(T, B, I + 1))
