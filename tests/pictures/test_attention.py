"""Attention and gates as pictures: every weight at its place, every unit in its row."""

import pytest
import torch

import carousel
from carousel.pictures import attention, gates, save
from carousel.report import Page

WEIGHTS = torch.tensor([[0.7, 0.2, 0.1], [0.0, 0.0, 1.0]])


def test_weights_stand_where_their_tokens_do():
    drawn = attention(WEIGHTS, ["a", " ", "<b>"], ["x", "[END]"])
    [panel] = drawn.data
    assert torch.equal(torch.tensor(panel.z), WEIGHTS)
    assert list(drawn.layout.xaxis.ticktext) == ["a", "␣", "&lt;b&gt;"]
    assert list(drawn.layout.yaxis.ticktext) == ["x", "[END]"]
    assert drawn.layout.yaxis.autorange == "reversed"  # what is written first is above
    assert (panel.zmin, panel.zmax) == (0, 1)


def test_a_token_that_is_markup_does_not_become_it(tmp_path):
    drawn = attention(WEIGHTS, ["a", "$x$", "<img>"], ["x", "&amp;"])
    svg = save(drawn, tmp_path / "a.svg").read_text("utf-8")
    assert "&lt;img&gt;" in svg and "&amp;amp;" in svg and "$x$" in svg
    assert "<img>" not in Page("t").figure(drawn, "one").html().split("</style>")[1].split("<script>")[0]


def test_weights_of_another_shape_are_refused():
    with pytest.raises(ValueError, match=r"weights must be \(1, 3\), for 1 tokens of the target .* got \(2, 3\)"):
        attention(WEIGHTS, ["a", "b", "c"], ["x"])


def test_every_unit_has_its_row_in_every_panel():
    layer = carousel.LSTM(3, 5, num_layers=2)
    trace = layer.trace(torch.randn(7, 2, 3), lengths=[7, 4])
    drawn = gates(trace, ["f", "c"], sequence=1, layer=1, steps="abcd")
    order = [row[0] for row in drawn.data[0].customdata]
    assert sorted(order) == list(range(5))
    for panel, values in zip(drawn.data, (trace.gates["f"], trace.states["c"]), strict=True):
        assert [row[0] for row in panel.customdata] == order
        assert torch.equal(torch.tensor(panel.z), values[1, :4, 1].T[order])
    assert list(drawn.layout.xaxis2.ticktext) == list("abcd")
    assert (drawn.data[0].zmin, drawn.data[0].zmax) == (0, 1)
    assert drawn.data[1].zmin == -drawn.data[1].zmax  # white is nothing


def test_units_that_are_high_early_come_first():
    trace = carousel.LSTM(2, 3).trace(torch.randn(4, 1, 2))
    trace.gates = {"f": torch.tensor([[0.0, 0, 0, 1], [1, 0, 0, 0], [0, 1, 0, 0]]).T.reshape(1, 4, 1, 3)}
    assert [row[0] for row in gates(trace, ["f"]).data[0].customdata] == [1, 2, 0]


def test_gates_that_are_not_there():
    trace = carousel.GRU(2, 3).trace(torch.randn(4, 1, 2))
    with pytest.raises(ValueError, match="names: this trace has no 'f'; it has r, z, n, h"):
        gates(trace, ["f"])
    with pytest.raises(ValueError, match="steps: 5 names for 4 steps"):
        gates(trace, ["z"], steps="abcde")
