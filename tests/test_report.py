"""Pages: self-contained, well formed, escaped, and written whole or not at all."""

import gzip
import hashlib
import re
from html.parser import HTMLParser

import pytest
from helpers.pages import figures, plotly
from plotly.offline import get_plotlyjs_version

from carousel import report
from carousel.report import Page, duration, mark, mathml, prose, verbatim

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


def test_plotly_is_embedded_once_and_each_figure_has_its_data():
    html = page().html()
    assert len(html) < 1_000_000
    assert "plotly.js (cartesian - minified) v" in plotly(html)
    for k in (1, 2):
        assert html.count(f'id="figure-{k}"') == 1
    assert [figure["data"][0]["y"] for figure in figures(html)] == [[3, 4], [3, 4]]


def test_the_bundle_is_plotly_s_own_of_the_version_in_use():
    """And its licence is there."""
    readme = (report.BUNDLE.parent / "README.md").read_text("utf-8")
    source = gzip.decompress(report.BUNDLE.read_bytes())
    assert hashlib.sha256(source).hexdigest() in readme
    [version] = re.findall(r"minified\) v(\d+)\.", source.decode())
    assert version == get_plotlyjs_version().partition(".")[0]
    assert "MIT License" in (report.BUNDLE.parent / "plotly-LICENSE").read_text("utf-8")


def test_kinds_that_the_bundle_has_are_the_kinds_in_it():
    source = gzip.decompress(report.BUNDLE.read_bytes()).decode()
    for kind in report.BUNDLED:
        assert re.search(rf'moduleType:"trace",name:"{kind}"', source), kind


def test_a_figure_that_needs_more_than_the_bundle_brings_all_of_plotly():
    figure = report.figure()
    figure.add_trace({"type": "scatter3d", "x": [1], "y": [2], "z": [3]})
    source = plotly(Page("T").figure(figure, "In space").html())
    assert 'name:"scatter3d"' in source


def test_nothing_in_a_figure_can_end_its_script():
    figure = report.figure()
    evil = "</script><script>alert(1)</script><!--"
    figure.add_scatter(x=[1], y=[2], name=evil)
    html = Page("T").figure(figure, "A figure").html()
    assert "alert(1)</script>" not in html
    assert figures(html)[0]["data"][0]["name"] == evil
    Reader(html)


def test_a_figure_of_a_given_width_is_drawn_smaller_where_there_is_less_room():
    figure = report.figure(width=700)
    html = Page("T").figure(figure, "Wide").html()
    assert "width" not in figures(html)[0]["layout"]
    assert "max-width:700px;min-width:420px" in html


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


def test_stars_in_code_are_no_emphasis():
    assert prose("*Holds for `b*(ab*)*` and `a*`.* `b*`: all") == (
        "<em>Holds for <code>b*(ab*)*</code> and <code>a*</code>.</em> <code>b*</code>: all"
    )
    assert prose("`*a*` *b*") == "<code>*a*</code> <em>b</em>"
    assert prose("*a `b` *c*") == "*a <code>b</code> <em>c</em>"  # a star that opens nothing
    assert prose("a ` b *c*") == "a ` b <em>c</em>"


def test_a_bold_number_is_bold_without_mathvariant():
    assert "<mn>\N{MATHEMATICAL BOLD DIGIT ONE}</mn>" in mathml(r"\mathbf{1} * 0.5")
    assert "<mn>0.5</mn>" in mathml(r"\mathbf{1} * 0.5")


def test_text_of_data_is_shown_as_it_stands():
    evil = "*great* `x` <script>alert(1)</script> & 99 %"
    html = Page("T").table(["text"], [[verbatim(evil)]]).samples(evil).text(verbatim(evil)).html()
    shown = "*great* `x` &lt;script&gt;alert(1)&lt;/script&gt; &amp; 99 %"
    assert html.count(shown) == 3
    assert mark("<i>", "<b>") == "<mark>&lt;i&gt;<sub>&lt;b&gt;</sub></mark>"


def test_numbers_stand_right_and_text_left():
    long = "a sentence that is long enough to wrap"
    columns = ["name", "number", "share", "text", "label", "mixed"]
    page = Page("T").table(
        columns, [["1", "-2.5", "3 %", long, verbatim("0"), "7"], ["2", "7", "–", "b", verbatim("1"), "never"]]
    )
    kinds = {name: kind for kind, name in re.findall(r'<th scope="col"(?: class="(\w+)")?>(\w+)</th>', page.html())}
    assert kinds == {"name": "", "number": "number", "share": "number", "text": "text", "label": "", "mixed": "number"}


def test_short_times_are_in_seconds():
    assert [duration(minutes) for minutes in (0.02, 0.4, 3)] == ["1.2 seconds", "24 seconds", "3.0 minutes"]


def test_a_ragged_table_is_refused():
    with pytest.raises(ValueError, match="1 entries for 2 columns"):
        Page("T").table(["a", "b"], [[1]])


def test_it_writes_and_replaces(tmp_path):
    path = tmp_path / "deep" / "er" / "page.html"
    assert Page("One").write(path) == path
    Page("Two").write(path)
    assert "<h1>Two</h1>" in path.read_text("utf-8")
    assert [p.name for p in path.parent.iterdir()] == ["page.html"]


def test_a_prime_is_no_small_exponent():
    """Equation 64 of the notes has σ′ where σ should stand: the two must look different."""
    assert '<mi>&#x003C3;</mi><mo lspace="0" rspace="0">&#x02032;</mo>' in mathml(r"\sigma'(x)")
    assert "<msup>" not in mathml(r"\sigma'(x)")
    assert "<msup>" in mathml("x^2")
