"""The latch task: its sequences, its training, what it measures."""

import math
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import carousel
from carousel.lab import latching
from carousel.lab.cells import CELLS
from carousel.lab.claims import latch
from carousel.lab.latching import Setting

TINY = Setting(relevant=3, irrelevant=10, longest=20, tests=20, hidden=4, batch=8, updates=2)


def test_without_noise_the_sequence_is_the_class_and_then_nothing():
    x, label = latching.make(batch=6, relevant=3, irrelevant=4, noise=0.0)
    assert x.shape == (7, 6, 1)
    assert sorted(label.tolist()) == [0, 0, 0, 1, 1, 1]
    for sequence, kind in zip(x[..., 0].T.tolist(), label.tolist(), strict=True):
        assert sequence == [1.0 if kind else -1.0] * 3 + [0.0] * 4


def test_only_the_relevant_part_tells_the_class():
    generator = torch.Generator().manual_seed(1)
    x, label = latching.make(batch=4000, relevant=10, irrelevant=100, noise=0.5, generator=generator)
    relevant, irrelevant = x[:10, :, 0], x[10:, :, 0]
    assert ((relevant.mean(0) > 0).long() == label).float().mean() > 0.999
    guesses = torch.stack([(irrelevant.mean(0) > 0), (irrelevant[0] > 0), (irrelevant.abs().mean(0) > 0.4)]).long()
    assert ((guesses == label).float().mean(-1) - 0.5).abs().max() < 0.03
    noise = relevant - (2 * label - 1)
    for part in (noise, irrelevant):
        assert abs(part.mean()) < 0.01
        assert part.std() == pytest.approx(0.5, rel=0.02)
    assert abs(torch.corrcoef(torch.stack([noise.mean(0), irrelevant.mean(0)]))[0, 1]) < 0.06


def test_the_same_generator_gives_the_same_sequences():
    draws = [TINY.draw(4, torch.Generator().manual_seed(7)) for _ in range(2)]
    assert torch.equal(draws[0][0], draws[1][0])
    assert torch.equal(draws[0][1], draws[1][1])


@pytest.mark.parametrize(
    "wrong",
    [{"relevant": 0}, {"updates": 1.5}, {"noise": -1.0}, {"noise": float("nan")}, {"longest": 5}, {"gates": "open"}],
    ids=str,
)
def test_a_setting_that_means_nothing_is_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        replace(TINY, **wrong)


@pytest.mark.parametrize("cell", CELLS)
def test_chrono_gates_keep_for_one_to_horizon_steps(cell):
    layer = CELLS[cell].layer(1, 200)
    untouched = {name: value.clone() for name, value in layer.state_dict().items()}
    latching.chrono(layer, horizon=40)
    gates = layer.trace(torch.zeros(1, 1, 1)).gates  # no input and no past: a gate is σ of its biases
    kept = next((gates[name] for name in ("f", "z") if name in gates), None)
    if kept is None:
        assert all(torch.equal(value, untouched[name]) for name, value in layer.state_dict().items())
        return
    steps = 1 / (1 - kept)
    assert steps.min() >= 2
    assert steps.max() <= 40
    assert steps.mean() == pytest.approx(21, abs=3)
    if "i" in gates:
        torch.testing.assert_close(gates["i"], 1 - kept)


@pytest.mark.parametrize("cell", ["rnn", "lstm", "gru"])
def test_gradient_flow_is_the_gradient_of_the_state_the_rest_starts_from(cell):
    layer, head = CELLS[cell].layer(1, 4).double(), nn.Linear(4, 2).double()
    x, label = latching.make(5, 2, 4, 0.5)
    x = x.double()
    flow, trace = latching.gradient_flow(layer, head, x, label), layer.trace(x)
    for t in range(5):
        cut = [trace.states[name][:, t].detach().requires_grad_() for name in layer.cell.states]  # (1, B, H)
        output, _ = layer(x[t + 1 :], tuple(cut) if len(cut) > 1 else cut[0])
        F.cross_entropy(head(output[-1]), label, reduction="sum").backward()
        found = {name: state.grad for name, state in zip(layer.cell.states, cut, strict=True)}
        if cell == "lstm":  # c also acts through h = o∘tanh(c) of its own step
            found["c"] = found["c"] + found["h"] * trace.gates["o"][:, t] * (1 - trace.c[:, t].tanh() ** 2)
        for name, gradient in found.items():
            assert flow[name][t] == pytest.approx(gradient[0].norm(dim=-1).mean().item())


def test_accuracy_at_every_length_is_that_of_each_length_alone():
    layer, head = carousel.GRU(1, 4), nn.Linear(4, 2)
    x, label = latching.make(9, 3, 130, 0.5)  # more than one piece
    found = latching.accuracy_at_every_length(layer, head, x, label)
    assert len(found) == 133
    for steps in (1, 3, 99, 100, 101, 133):
        scores = head(layer(x[:steps])[0][-1])
        assert found[steps - 1] == pytest.approx((scores.argmax(-1) == label).float().mean().item())


@pytest.mark.learning
def test_an_lstm_learns_a_short_task_and_stops_when_it_has(reached):
    outcome = latching.train("lstm", Setting(relevant=5, irrelevant=10, longest=15, updates=150, rate=0.02, solved=5))
    assert outcome.solved
    assert outcome.curve[-5:] == [1.0] * 5
    reached("updates", len(outcome.curve), below=150)
    reached("accuracy", outcome.where_trained, above=0.95)


def test_training_repeats_itself_and_leaves_the_random_numbers_alone():
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    first, second = (latching.train("coupled", TINY) for _ in range(2))
    assert torch.equal(torch.rand(1), expected)
    assert (first.curve, first.accuracy, first.gradient) == (second.curve, second.accuracy, second.gradient)
    assert latching.train("coupled", replace(TINY, seed=1)).gradient != first.gradient


def test_an_unknown_cell_is_named_with_its_neighbour():
    with pytest.raises(ValueError, match=r"'peephol'.*did you mean peephole\?.*gru-reset-before"):
        latching.train("peephol", TINY)


def test_each_update_is_reported():
    seen = []
    outcome = latching.train("rnn", TINY, seen.append)
    assert seen == outcome.curve


@pytest.mark.parametrize("w", [0.8, 1.2, 2.0, 5.0])
@pytest.mark.parametrize("x", [0.0, 0.02, 3.0])
def test_stable_states_are_where_a_unit_ends(w, x):
    found = latching.fixed_points(w, x)
    ends = set()
    for h in (-1.0, -0.5, -0.1, 0.1, 0.5, 1.0):
        for _ in range(2000):
            h = math.tanh(w * h + x)
        ends.add(round(h, 6))
    assert {round(h, 6) for h, stable in found if stable} == ends
    assert len(found) == 2 * len(ends) - 1  # between two stable ones there is one that is not


@pytest.mark.parametrize("w", [1.2, 2.0, 5.0])
def test_the_input_that_turns_a_unit(w):
    x = latching.turning_input(w)
    for given, sign in ((0.99 * x, -1), (1.01 * x, 1)):
        h = -1.0
        for _ in range(5000):
            h = math.tanh(w * h + given)
        assert math.copysign(1, h) == sign


def test_a_forget_bias_of_zero_where_there_is_a_forget_gate():
    zero = replace(TINY, gates="zero")
    found = latch.run(TINY, cells=["lstm"], compare=[("lstm", zero), ("gru", zero)], seeds=1)
    assert [o.layer.forget_bias for o in found.outcomes] == [1, 0, None]
    assert found.label(found.outcomes[1]) == "LSTM, forget bias 0"
