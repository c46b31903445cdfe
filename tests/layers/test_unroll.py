"""The time loop of the reference path: zoneout, and what a step may return."""

import numpy as np
import pytest
import torch
from helpers.own_cells import OWN
from helpers.reference_loops import loop, numpy_weights, start
from helpers.references import KINDS, build, close, draw, equations, randomise

import carousel
from carousel import Recurrent

T, B, I, H = 4, 3, 3, 4


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


def test_the_reference_path_is_linear_in_time():
    """The number of operations autograd runs for a step does not grow with the number of steps."""
    layer = randomise(Recurrent(OWN["own-linear"][0](), I, H, dtype=torch.float64))

    def memory(steps):
        x = draw(steps, 2, I).requires_grad_()
        y = layer(x)[0].sum()
        sizes = []

        def count(grads):
            sizes.extend(g.numel() for g in grads if g is not None)

        seen, todo = set(), [y.grad_fn]
        while todo:
            node = todo.pop()
            if node is None or node in seen:
                continue
            seen.add(node)
            node.register_prehook(count)
            todo += [f for f, _ in node.next_functions]
        y.backward()
        return sum(sizes) / steps

    assert memory(40) < 1.5 * memory(10)


def cell(**namespace):
    return type("Mine", (carousel.Cell,), namespace)


@pytest.mark.parametrize(
    "step, complaint",
    [
        (lambda x, h, w, let: x.n, r"Mine\.step must return a tuple.*got Tensor"),
        (lambda x, h, w, let: (x.n, x.n), r"Mine\.step must return a tuple.*got a tuple of 2"),
        (lambda x, h, w, let: None, r"Mine\.step must return a tuple.*got NoneType"),
        (lambda x, h, w, let: (torch.cat(x, -1),), r"Mine\.step.* h .*\(3, 8\).*\(3, 4\)"),
        (lambda x, h, w, let: (x.q,), "there is no gate q; the gates are f, n"),
        (lambda x, h, w, let: (w.U(h, "q"),), r"U\(v, q\).*\('f', 'n'\)"),
        (lambda x, h, w, let: (w.U(h, "n", "f")[0],), r"U\(v, n, f\).*order"),
        (lambda x, h, w, let: (w.weight_ch * h,), "Mine has no parameter 'weight_ch'"),
    ],
)
def test_a_wrong_step_says_what_is_wrong(step, complaint):
    mine = cell(gates=("f", "n"), step=lambda self, x, state, w, let: step(x, state[0], w, let))
    with pytest.raises((TypeError, ValueError, AttributeError), match=complaint):
        Recurrent(mine(), I, H, dtype=torch.float64)(draw(T, B, I))
