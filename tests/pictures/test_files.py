"""Pictures as files: the colours, words and places of the plotly figure, and nothing half-written."""

import io
import re

import numpy as np
import pytest
from matplotlib import image

from carousel.pictures import fonts, save
from carousel.pictures.files import render
from carousel.report import figure


def pixels(drawn):
    """The picture as (height, width, 3) from 0 to 255."""
    return (image.imread(io.BytesIO(render(drawn, "png", scale=1)))[..., :3] * 255).round().astype(int)


def texts(drawn):
    """The words of the picture."""
    found = re.findall(r"<text[^>]*>([^<]*)</text>", render(drawn, "svg").decode())
    return [t.replace("&lt;", "<").replace("&amp;", "&").strip() for t in found]


def has_colour(picture, red, green, blue):
    return bool((abs(picture - np.array([red, green, blue])).max(-1) <= 2).any())


def test_a_heat_map_has_the_colours_of_its_scale_at_the_places_of_its_cells():
    drawn = figure(200, showlegend=False)
    scale = [[0, "rgb(0, 0, 255)"], [1, "rgb(255, 0, 0)"]]
    drawn.add_heatmap(z=[[0, 1], [0.5, None]], zmin=0, zmax=1, colorscale=scale, showscale=False)
    drawn.update_xaxes(visible=False).update_yaxes(visible=False, autorange="reversed")
    picture = pixels(drawn)
    height, width, _ = picture.shape
    at = lambda row, column: picture[int(height * row), int(width * column)]  # noqa: E731
    assert abs(at(0.25, 0.25) - [0, 0, 255]).max() <= 3  # reversed: the first row is above
    assert abs(at(0.25, 0.75) - [255, 0, 0]).max() <= 3
    assert abs(at(0.75, 0.25) - [128, 0, 128]).max() <= 3
    assert abs(at(0.75, 0.75) - [255, 255, 255]).max() <= 3  # None is nothing


def test_bars_stand_beside_one_another_or_on_one_another():
    def tops(mode):
        drawn = figure(300, barmode=mode, showlegend=False)
        for shade in ("#ff0000", "#0000ff"):
            drawn.add_bar(x=["a"], y=[1], marker={"color": shade})
        drawn.update_yaxes(range=[0, 2], visible=False).update_xaxes(visible=False)
        picture = pixels(drawn)
        found = []
        for shade in ([255, 0, 0], [0, 0, 255]):
            rows, columns = np.nonzero(abs(picture - np.array(shade)).max(-1) <= 2)
            found.append((rows.min() / picture.shape[0], columns.mean() / picture.shape[1]))
        return found

    (red, left), (blue, right) = tops("group")
    assert abs(red - blue) < 0.02 and left + 0.2 < right
    (red, left), (blue, right) = tops("stack")
    assert blue + 0.3 < red and abs(left - right) < 0.02


def test_lines_have_their_colour_and_an_axis_its_words():
    drawn = figure(240, ["panel <b>one</b>", "two"], hovermode="x")
    drawn.add_scatter(x=[1, 10, 100], y=[1, 2, 3], line={"color": "#00ff00"}, name="green & bold", row=1, col=1)
    drawn.add_scatter(x=[1, 100], y=[3, 1], mode="lines+markers", line={"color": "#ff00ff"}, name="other", row=2, col=1)
    drawn.update_xaxes(type="log", title_text="steps <sub>t</sub>", row=2, col=1)
    drawn.update_yaxes(tickvals=[1, 3], ticktext=["low", "high < 4"])
    picture = pixels(drawn)
    assert has_colour(picture, 0, 255, 0) and has_colour(picture, 255, 0, 255)
    found = texts(drawn)
    for word in ("panel one", "two", "low", "high < 4", "green & bold", "other"):
        assert word in found
    assert not any("<sub>" in word for word in found)


def test_words_at_points_and_shapes():
    drawn = figure(240)
    drawn.add_scatter(x=[0, 1], y=[0, 1], mode="markers+text", text=["anfang", "ende"], textposition="top left")
    drawn.add_vrect(0.2, 0.4, fillcolor="#ffff00", line_width=0, layer="below").add_vline(
        0.7, line={"color": "#ff0000"}
    )
    picture = pixels(drawn)
    assert has_colour(picture, 255, 255, 0) and has_colour(picture, 255, 0, 0)
    assert {"anfang", "ende"} <= set(texts(drawn))


def test_the_same_figure_gives_the_same_file():
    drawn = figure(200).add_scatter(x=[1, 2], y=[3, 4])
    for kind in ("png", "svg", "pdf"):
        assert render(drawn, kind) == render(drawn, kind)


def test_every_format_begins_as_it_should(tmp_path):
    drawn = figure(200).add_scatter(x=[1, 2], y=[3, 4])
    for name, start in (("a.png", b"\x89PNG"), ("a.SVG", b"<?xml"), ("a.pdf", b"%PDF")):
        assert save(drawn, tmp_path / "new" / name).read_bytes().startswith(start)


def test_what_cannot_be_saved_is_said_and_nothing_written(tmp_path):
    drawn = figure(200).add_scatter(x=[1, 2], y=[3, 4])
    with pytest.raises(ValueError, match=r"a\.gif: a picture's name must end in \.png, \.svg or \.pdf"):
        save(drawn, tmp_path / "a.gif")
    with pytest.raises(ValueError, match="a pie trace cannot be saved"):
        save(figure(200).add_pie(values=[1, 2]), tmp_path / "a.png")
    with pytest.raises(IsADirectoryError):
        (tmp_path / "b.png").mkdir()
        save(drawn, tmp_path / "b.png")
    assert [p.name for p in tmp_path.iterdir()] == ["b.png"]


def test_a_script_that_no_font_has_is_spelled_out_in_png_and_left_in_svg(monkeypatch, recwarn):
    monkeypatch.setattr(fonts, "_names", list)  # a machine with matplotlib's own font only
    fonts._drawable.cache_clear()
    drawn = figure(200).add_scatter(x=[1, 2], y=[3, 4]).update_xaxes(tickvals=[1], ticktext=["一月"])
    assert fonts.families("一月") == ["DejaVu Sans"]
    assert fonts.spelled("x 一") == "x ⟨4E00⟩"
    render(drawn, "png")
    assert not [w for w in recwarn if "Glyph" in str(w.message)]  # no empty boxes
    assert "一月" in texts(drawn)
    fonts._drawable.cache_clear()


def test_a_font_that_has_a_script_is_used(monkeypatch):
    monkeypatch.setattr(fonts, "_names", lambda: ["Latin only", "Has it all"])
    monkeypatch.setattr(fonts, "has", lambda family, c: ord(c) < 256 or family == "Has it all")
    assert fonts.families("plain") == ["DejaVu Sans"]
    assert fonts.families("一月 and more") == ["DejaVu Sans", "Has it all"]
