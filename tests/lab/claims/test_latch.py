"""The latch task: its sequences, its training, what it measures, and that its page says what the numbers say."""

import itertools
import math
import re
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


@pytest.fixture(scope="module")
def result():
    compare = [("rnn", replace(TINY, irrelevant=5)), ("lstm", replace(TINY, gates="layer"))]
    return latch.run(TINY, compare=compare, seeds=1)


@pytest.fixture(scope="module")
def figures(result):
    return result.figures()


# ---- the task ----


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


# ---- one cell ----


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


# ---- all of them ----


def test_every_cell_takes_part_with_the_same_setting(result):
    assert [o.cell for o in result.compared] == list(CELLS)
    assert {type(o.layer) for o in result.compared} == {
        carousel.RNN,
        carousel.LSTM,
        carousel.PeepholeLSTM,
        carousel.CoupledLSTM,
        carousel.LayerNormLSTM,
        carousel.GRU,
        carousel.ResetBeforeGRU,
    }
    labels = [result.label(o) for o in result.others]
    assert labels == ["RNN (tanh), trained with T = 5", "LSTM, forget bias 1"]
    for o in result.outcomes:
        assert len(o.curve) == 2
        assert len(o.accuracy) == 21
        assert all(len(flow) == o.setting.steps for flow in o.gradient.values())


def test_it_prints_as_a_table(result):
    lines = str(result).splitlines()
    assert len(lines) == 10
    assert lines[1].startswith("RNN (tanh)")


def test_the_number_of_threads_is_restored(monkeypatch):
    threads = []
    monkeypatch.setattr(torch, "get_num_threads", lambda: 6)
    monkeypatch.setattr(torch, "set_num_threads", threads.append)
    monkeypatch.setattr(latch, "train", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        latch.run(TINY)
    assert threads == [1, 6]


# ---- figures and words ----


def test_the_accuracy_figure_has_a_panel_for_each_cell_and_chance_in_each(result, figures):
    figure = figures["accuracy"]
    assert result.plot() == figure
    lines = [trace for trace in figure.data if trace.name]
    assert [line.name for line in lines] == [result.label(o) for o in result.outcomes]
    assert len({line.xaxis for line in lines}) == 9
    assert all(line.y[-1] == o.accuracy[20] for line, o in zip(lines, result.outcomes, strict=True))
    chance = [trace for trace in figure.data if not trace.name]
    assert {line.xaxis for line in chance} == {line.xaxis for line in lines}
    assert all(set(line.y) == {0.5} for line in chance)


def test_a_cell_has_one_colour_in_all_figures(figures):
    colours = {}
    for name in ("accuracy", "gradient"):
        for trace in figures[name].data:
            if trace.name:
                colours.setdefault(trace.name, set()).add(trace.line.color)
    assert all(len(found) == 1 for found in colours.values())


def test_the_gradient_figure_shows_h_and_c_on_a_log_scale(figures):
    figure = figures["gradient"]
    assert figure.layout.yaxis.type == figure.layout.yaxis2.type == "log"
    above = [trace.name for trace in figure.data if trace.yaxis == "y"]
    below = [trace.name for trace in figure.data if trace.yaxis == "y2"]
    assert len(above) == 8  # all but the one whose sequences are shorter
    assert below == ["LSTM", "Peephole LSTM", "Coupled LSTM", "Layer-norm LSTM", "LSTM, forget bias 1"]


def test_the_gate_figure_is_the_trace_of_the_trained_layer(result, figures):
    x, trace = result.lstm.trace()
    forget, *cells = (heat for heat in figures["gate"].data if heat.type == "heatmap")
    shown = torch.tensor(forget.customdata)  # (H, T)
    expected = trace.gates["f"][0, :, 1].T
    torch.testing.assert_close(shown.sort(0).values, expected.sort(0).values)
    for k, heat in enumerate(cells):
        torch.testing.assert_close(
            torch.tensor(heat.z).sort(0).values, trace.c[0, :, k].T.tanh().sort(0).values, rtol=1e-4, atol=1e-5
        )
    assert x[: TINY.relevant, 0].mean() < 0 < x[: TINY.relevant, 1].mean()


def test_without_an_lstm_there_is_a_page_without_its_gate():
    small = latch.run(replace(TINY, updates=1), cells=["rnn", "gru"], compare=[], seeds=1)
    assert set(small.figures()) == {"accuracy", "gradient", "unit"}
    assert "the forget gate over time" not in small.page().html().split("<main>")[1]


def with_accuracies(result, accuracies, longest=None, seeds=1):
    """The finding if the cells had these accuracies, at every length up to training's and at the longest."""
    outcomes = []
    for outcome, seed in itertools.product(result.first, range(seeds)):
        at = accuracies.get(result.label(outcome), accuracies.get(outcome.cell, 0.5))
        last = (longest or {}).get(outcome.cell, at)
        setting = replace(outcome.setting, seed=seed)
        outcomes.append(replace(outcome, setting=setting, accuracy=[at] * 20 + [last]))
    return latch.Latch(result.setting, outcomes, result.unit)


def test_the_words_follow_the_numbers(result):
    usual = with_accuracies(result, dict.fromkeys(CELLS, 0.99) | {"rnn": 0.51}, {"layernorm": 0.6})
    assert "a plain RNN answers 51.0 % correctly" in usual.lead(usual.measured)
    texts = " ".join(latch.describe_accuracy(usual))
    assert "Below that: RNN (tanh) with 51.0 %." in texts
    assert "5 of these 6 still do. Not any more: Layer-norm LSTM with 60.0 %." in texts

    strange = with_accuracies(result, {"rnn": 0.99})
    texts = " ".join(latch.describe_accuracy(strange))
    assert "RNN (tanh) answers at least 95 % correctly." in texts
    assert "LSTM with 50.0 %, Peephole LSTM with 50.0 %" in texts
    assert "Those that learned" not in " ".join(latch.describe_gradient(strange))

    texts = " ".join(latch.describe_accuracy(with_accuracies(result, {})))
    assert "still do" not in texts
    assert "Below that: RNN (tanh) with 50.0 %" in texts
    everybody = with_accuracies(result, dict.fromkeys(CELLS, 1.0))
    assert "Below that" not in " ".join(latch.describe_accuracy(everybody))


def test_the_default_lstm_decides_about_the_default(result):
    """Not the one whose biases were drawn for the length of the task."""
    learned = dict.fromkeys(CELLS, 1.0) | {"rnn": 0.5}
    shorts = {}
    for name, default in (("forgets", 0.5), ("remembers", 1.0)):
        finding = with_accuracies(result, learned | {"LSTM, forget bias 1": default}, seeds=5)
        shorts[name] = finding.verdicts()["default"].short
        assert finding.verdicts()["long"].short == "holds"
    assert shorts == {"forgets": "holds for an LSTM whose biases suit the length", "remembers": "holds"}
    few = with_accuracies(result, learned, seeds=4)
    assert few.verdicts()["default"].short == "not decided by this run"


def test_the_page_has_the_figures_the_table_and_the_words(result):
    page = result.page()
    assert page.figures == 4
    text = re.sub("<td[^>]*>", "<td>", page.html().split("<main>")[1])
    for o in result.outcomes:
        assert f"<td>{result.label(o)}</td><td>{o.parameters}</td>" in text
    for title in ("Accuracy against length", "The gradient on its way back", "the forget gate over time"):
        assert title in text


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
