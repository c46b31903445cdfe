"""Gates and states as heat maps: the numbers of the trace, in an order of units that all panels share."""

import pytest
import torch

from carousel import GRU, LSTM
from carousel.errors import ArgumentError
from carousel.pictures import gates
from carousel.pictures.gates import opens, title


@pytest.fixture
def trace():
    return LSTM(2, 4).trace(torch.randn(5, 3, 2))


def test_panels_are_the_trace_in_one_order(trace):
    first, second = gates(trace, ["f", "c"], sequence=1).data
    order = [row[0] for row in first.customdata]
    assert sorted(order) == [0, 1, 2, 3] and [row[0] for row in second.customdata] == order
    for panel, values in ((first, trace.gates["f"]), (second, trace.states["c"])):
        torch.testing.assert_close(torch.tensor(panel.z), values[0, :, 1].T[order])


def test_units_that_are_high_late_come_last(trace):
    values = torch.zeros(1, 5, 1, 4)
    for unit, step in enumerate((3, 0, 4, 1)):
        values[0, step, 0, unit] = 1
    trace.gates["f"][:, :, :1] = values
    assert [row[0] for row in gates(trace, ["f"]).data[0].customdata] == [1, 3, 0, 2]


def test_gates_lie_between_0_and_1_and_states_about_0(trace):
    forget, cell = gates(trace, ["f", "c"]).data
    assert (forget.zmin, forget.zmax) == (0, 1)
    assert cell.zmin == -cell.zmax and cell.zmax >= 1
    lstm = trace.cell
    assert opens(lstm, "f") and not opens(lstm, "g") and not opens(lstm, "c") and not opens(None, "f")
    assert (title(lstm, "f"), title(lstm, "c"), title(None, "z")) == ("forget gate f", "cell c", "z")
    assert title(GRU(2, 3).cell, "z") == "update gate z"


def test_steps_are_named_and_counted(trace):
    drawn = gates(trace, ["f"], steps=["a", "b", "c"])
    assert list(drawn.layout.xaxis.ticktext) == ["a", "b", "c"] and len(drawn.data[0].z[0]) == 3
    with pytest.raises(ArgumentError, match="steps: 6 names for 5 steps"):
        gates(trace, ["f"], steps="abcdef")
    with pytest.raises(ArgumentError, match="this trace has no 'z'; it has i, f, g, o, h, c"):
        gates(trace, ["z"])
