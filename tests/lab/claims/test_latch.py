"""The latch task: its sequences, its training, what it measures, and that its page says what the numbers say."""

import itertools
import re
from dataclasses import replace

import pytest
import torch

import carousel
from carousel.lab.cells import CELLS
from carousel.lab.claims import latch
from carousel.lab.latching import Setting

TINY = Setting(relevant=3, irrelevant=10, longest=20, tests=20, hidden=4, batch=8, updates=2)


@pytest.fixture(scope="module")
def result():
    short = replace(TINY, irrelevant=5)
    compare = [("rnn", short), ("lstm", replace(short, gates="layer")), ("lstm", replace(TINY, gates="layer"))]
    return latch.run(TINY, compare=compare, seeds=1)


@pytest.fixture(scope="module")
def figures(result):
    return result.figures()


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
    assert labels == [
        "RNN (tanh), trained with T = 5",
        "LSTM, trained with T = 5, forget bias 1",
        "LSTM, forget bias 1",
    ]
    for o in result.outcomes:
        assert len(o.curve) == 2
        assert len(o.accuracy) == 21
        assert all(len(flow) == o.setting.steps for flow in o.gradient.values())


def test_it_prints_as_a_table(result):
    lines = str(result).splitlines()
    assert len(lines) == 11
    assert lines[1].startswith("RNN (tanh)")


def test_the_number_of_threads_is_restored(monkeypatch):
    threads = []
    monkeypatch.setattr(torch, "get_num_threads", lambda: 6)
    monkeypatch.setattr(torch, "set_num_threads", threads.append)
    monkeypatch.setattr(latch, "train", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        latch.run(TINY)
    assert threads == [1, 6]


def test_the_accuracy_figure_has_a_panel_for_each_cell_and_chance_in_each(result, figures):
    figure = figures["accuracy"]
    assert result.plot() == figure
    lines = [trace for trace in figure.data if trace.name]
    assert [line.name for line in lines] == [result.label(o) for o in result.outcomes]
    assert len({line.xaxis for line in lines}) == 10
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
    assert len(above) == 8  # all but those whose sequences are shorter
    assert below == ["LSTM", "Peephole LSTM", "Coupled LSTM", "Layer-norm LSTM", "LSTM, forget bias 1"]


def test_no_two_lines_of_the_gradient_figure_look_alike():
    others = [("lstm", replace(TINY, gates=gates)) for gates in ("layer", "zero")]
    lines = latch.plot_gradient(latch.run(TINY, compare=others, seeds=1)).data
    above = [(line.line.color, line.line.dash) for line in lines if line.yaxis == "y"]
    assert len(above) == len(set(above)) == 9


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


def test_easy_to_train_is_decided_by_the_default_lstm_at_both_lengths(result):
    short, own = "LSTM, trained with T = 5, forget bias 1", "LSTM, forget bias 1"
    shorts = {}
    for accuracies in itertools.product((0.5, 1.0), repeat=2):
        finding = with_accuracies(result, {"lstm": 1.0, **dict(zip((short, own), accuracies, strict=True))}, seeds=5)
        shorts[accuracies] = finding.verdicts()["easy"].short
    assert shorts == {
        (0.5, 0.5): "does not hold as printed",
        (0.5, 1.0): "holds for this task with T = 10",
        (1.0, 0.5): "holds for this task with T = 5",
        (1.0, 1.0): "holds",
    }
    assert (
        "with T = 5, 100.0 % after 2 updates and T = 10, 100.0 % after 2 updates" in finding.verdicts()["easy"].reason
    )
    alone = latch.Latch(result.setting, result.compared, result.unit)
    assert alone.verdicts()["easy"].short == "not decided by this run"


def test_the_page_has_the_figures_the_table_and_the_words(result):
    page = result.page()
    assert page.figures == 4
    text = re.sub("<td[^>]*>", "<td>", page.html().split("<main>")[1])
    for o in result.outcomes:
        assert f"<td>{result.label(o)}</td><td>{o.parameters}</td>" in text
    for title in ("Accuracy against length", "The gradient on its way back", "the forget gate over time"):
        assert title in text
