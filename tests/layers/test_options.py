"""Noise, learned states, biases and paths. (`merge` is in test_recurrent: reverse equals forward on flipped input.)"""

import itertools

import numpy as np
import pytest
import torch
from helpers.reference_loops import loop, numpy_weights, start
from helpers.references import KINDS, build, close, draw

import carousel

T, B, I = 4, 3, 3


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
