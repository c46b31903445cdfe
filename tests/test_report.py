"""Pages: self-contained, well formed, escaped, and written whole or not at all."""

from html.parser import HTMLParser

import pytest

from carousel import report
from carousel.report import Page, prose

VOID = {"meta", "link", "br", "img", "hr", "input"}


class Reader(HTMLParser):
    """Checks that tags close in order; keeps what a browser would load, and the text outside scripts and styles."""

    def __init__(self, html):
        super().__init__()
        self.open, self.loads, self.text, self.scripts = [], [], [], 0
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        if tag not in VOID:
            self.open.append(tag)
        self.scripts += tag == "script"
        self.loads += [v for k, v in attrs if k in ("src", "href", "srcset", "data", "action", "poster")]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] not in ("script", "style"):
            self.text.append(data)


def page():
    figure = report.figure(height=300, titles=["above", "below"])
    figure.add_scatter(x=[1, 2], y=[3, 4], row=1, col=1)
    page = Page("Title <1>", "Lead & more").heading("Part").text("One.", "Two.")
    page.table(["cell", "accuracy"], [["LSTM", "99 %"], ["RNN", 0.5]])
    page.figure(figure, "First figure", "Seen.").figure(figure, "Second figure", "Seen again.")
    return page.footer(command="carousel demo --seed 4", seed=4, minutes=1.25)


def test_nothing_is_loaded_from_anywhere():
    html = page().html()
    read = Reader(html)
    assert read.loads == ["data:,"]
    assert "default-src 'none'" in html.split("<script>")[0]  # in force before any script runs
    assert "url(" not in report.STYLE
    assert "@import" not in report.STYLE


def test_plotly_is_embedded_once_and_each_figure_is_drawn():
    html = page().html()
    assert html.count("plotly.js v") == 1
    assert len(html) < 6_000_000
    for k in (1, 2):
        assert html.count(f'id="figure-{k}"') == 1
    drawn = html.split("<main>")[1]
    assert drawn.count("Plotly.newPlot(") == 2


def test_a_page_without_figures_carries_no_script():
    html = Page("Words").text("Only words.").html()
    assert Reader(html).scripts == 0
    assert len(html) < 10_000


def test_what_it_says():
    words = " ".join(" ".join(Reader(page().html()).text).split())
    for part in ("Title <1>", "Lead & more", "One. Two.", "cell accuracy", "LSTM 99 % RNN 0.5", "First figure Seen."):
        assert part.replace(" ", "") in words.replace(" ", "").replace("\xa0", "")
    for fact in ("carousel demo --seed 4", "Seed 4", "1.2 minutes", "PyTorch", "Python"):
        assert fact in words


def test_prose_marks_up_and_escapes():
    assert prose("a < b & *so* `x*y*z`") == "a &lt; b &amp; <em>so</em> <code>x*y*z</code>"
    assert prose("<script>alert(1)</script>") == "&lt;script&gt;alert(1)&lt;/script&gt;"
    assert prose("2 * 3 * 4") == "2 * 3 * 4"
    assert prose("99.5 %") == "99.5&nbsp;%"


def test_a_ragged_table_is_refused():
    with pytest.raises(ValueError, match="1 entries for 2 columns"):
        Page("T").table(["a", "b"], [[1]])


def test_it_writes_and_replaces(tmp_path):
    path = tmp_path / "deep" / "er" / "page.html"
    assert Page("One").write(path) == path
    Page("Two").write(path)
    assert "<h1>Two</h1>" in path.read_text("utf-8")
    assert [p.name for p in path.parent.iterdir()] == ["page.html"]
