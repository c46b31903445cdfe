"""Figures that a command writes, one for each of a few lines."""

import plotly.graph_objects as go
import pytest
import typer

from carousel.cli import figures
from carousel.errors import ArgumentError


def test_each_line_has_its_file_and_is_drawn_at_the_end(tmp_path):
    drawn = []
    own = figures.Figures("--picture", tmp_path / "a.svg")
    for number in (1, 2):
        own.add(number, lambda number=number: drawn.append(number) or go.Figure(go.Scatter(y=[number, 0])))
    assert not drawn
    own.write()
    assert drawn == [1, 2] and sorted(p.name for p in tmp_path.iterdir()) == ["a-2.svg", "a.svg"]


def test_without_a_file_nothing_is_drawn():
    own = figures.Figures("--picture", None)
    own.add(1, lambda: pytest.fail("drawn"))
    own.write()


def test_what_cannot_be(tmp_path, monkeypatch):
    with pytest.raises(typer.BadParameter, match="a picture's name must end in"):
        figures.Figures("--picture", tmp_path / "a.txt")
    monkeypatch.setattr(figures, "MOST", 1)
    own = figures.Figures("--picture", tmp_path / "a.png")
    own.add(1, go.Figure)
    with pytest.raises(ArgumentError, match="--picture is for at most 1 lines at a time"):
        own.add(2, go.Figure)
