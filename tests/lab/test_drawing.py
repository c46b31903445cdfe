"""Lines of a figure: where they stand, and how their axes are."""

from carousel.lab.drawing import POWERS, SHARE, Line, line_figure


def test_each_line_has_its_points_and_its_looks():
    curves = [Line("RNN", [0.5, 0.4], "#d55e00"), Line("LSTM", [1.0], "#0072b2", "dash")]
    drawn = line_figure(curves, (0, 10), titles=("distractors", "recalled"), height=300, **SHARE)
    rnn, lstm = drawn.data
    assert (rnn.x, rnn.y, rnn.line.color, rnn.line.dash) == ((0, 10), (0.5, 0.4), "#d55e00", "solid")
    assert (lstm.x, lstm.y, lstm.line.dash) == ((0,), (1.0,), "dash")  # a shorter one
    assert (drawn.layout.xaxis.title.text, drawn.layout.yaxis.title.text) == ("distractors", "recalled")
    assert drawn.layout.yaxis.tickformat == ".0%" and drawn.layout.height == 300


def test_without_places_points_are_numbered_from_one():
    drawn = line_figure([Line("loss", [3.0, 2.0, 1.0])], titles=("update", "loss"), **POWERS)
    assert drawn.data[0].x == (1, 2, 3)
    assert (drawn.layout.yaxis.type, drawn.layout.yaxis.exponentformat) == ("log", "power")
