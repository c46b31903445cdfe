"""A page that carries everything it shows: prose, tables and plotly figures in one HTML file, read offline.

    page = Page("Title", "What this page is about, in a sentence or two.")
    page.heading("A part").text("Prose with *emphasis* and `code`.").table(["cell", "accuracy"], [["LSTM", "99 %"]])
    page.figure(figure, "Figure title", "What is seen in it.")
    page.footer(command="carousel demo", seed=0, minutes=1.2)
    page.write("out/report.html")

plotly's JavaScript is embedded once, compressed: the part of it that draws on x and y axes (`vendor/`), or all of it if
a figure needs more. The page's own security policy forbids it to load anything.
"""

from __future__ import annotations

import base64
import gzip
import html
import json
import os
import platform
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from .files import write_text
from .version import __version__

INK, QUIET, RULE = "#1c2430", "#5b6675", "#dfe3e8"
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"

# How every figure looks; a lab that makes one starts from `figure()`.
LAYOUT: dict[str, Any] = {
    "template": "none",
    "font": {"family": FONT, "size": 13, "color": INK},
    "colorway": ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f6000"],
    "paper_bgcolor": "#ffffff",
    "plot_bgcolor": "#ffffff",
    "margin": {"l": 56, "r": 16, "t": 28, "b": 48},
    "legend": {"orientation": "h", "x": 0, "xanchor": "left", "y": 0, "yanchor": "bottom", "yref": "container"},
    "dragmode": False,  # so that a finger scrolls the page; zooming is a button
    "hoverlabel": {"font": {"family": FONT, "size": 12}, "namelength": -1},
}
AXIS: dict[str, Any] = {
    "gridcolor": "#eceff2",
    "linecolor": "#aeb6c0",
    "showline": True,
    "ticks": "outside",
    "tickcolor": "#aeb6c0",
    "zeroline": False,
    "automargin": True,
    "title": {"standoff": 10, "font": {"size": 13}},
    "tickfont": {"size": 12},
}

# The kinds of trace that the script in vendor/ can draw.
BUNDLE = Path(__file__).parent / "vendor" / "plotly-cartesian.min.js.gz"
BUNDLED = {
    "scatter", "bar", "box", "heatmap", "histogram", "histogram2d", "histogram2dcontour", "image", "pie", "contour",
    "scatterternary", "violin",
}  # fmt: skip

CONFIG = {
    "displaylogo": False,
    "responsive": True,
    "modeBarButtons": [["zoom2d", "resetScale2d", "toImage"]],
}

STYLE = f"""
:root {{ color-scheme: light }}
* {{ box-sizing: border-box }}
body {{ margin: 0; background: #f5f6f8; color: {INK}; font: 16px/1.6 {FONT} }}
main {{ max-width: 60rem; margin: 0 auto; padding: 2.5rem 1.25rem 3rem }}
h1 {{ font-size: clamp(1.6rem, 5vw, 2.3rem); line-height: 1.2; letter-spacing: -.02em; margin: 0 0 .6rem }}
h2 {{ font-size: 1.25rem; line-height: 1.3; letter-spacing: -.01em; margin: 0 0 .5rem }}
p {{ margin: 0 0 .8rem; max-width: 46rem; overflow-wrap: break-word }}
.lead {{ font-size: 1.1rem; color: {QUIET} }}
section {{ background: #fff; border: 1px solid {RULE}; border-radius: 12px; padding: 1.4rem 1.5rem; margin: 1.4rem 0 }}
.equation {{ display: flex; align-items: center; gap: 1rem; overflow: auto hidden; padding: .2rem 0;
  margin: 0 0 .8rem }}
math {{ font-family: "STIX Two Math", "Latin Modern Math", "Cambria Math", "STIX Math", "DejaVu Math TeX Gyre", math }}
.equation math {{ font-size: 1.12rem; flex: none; margin-left: 1.5rem; text-align: left }}
.label {{ color: {QUIET}; font-size: .85rem; margin-left: auto; flex: none }}
blockquote {{ margin: 0 0 .8rem; padding-left: 1rem; border-left: 3px solid {RULE}; max-width: 46rem }}
blockquote p {{ margin: 0 }}
cite {{ color: {QUIET}; font-size: .88rem; font-style: normal }}
details {{ margin: 0 0 1rem 1.2rem }}
summary {{ cursor: pointer; color: {QUIET} }}
section > :last-child {{ margin-bottom: 0 }}
figure {{ margin: .6rem 0 0; padding-top: 30px; overflow-x: auto }}
figure .modebar-container {{ top: -30px !important }}
.wide {{ overflow-x: auto; margin-top: .6rem }}
table {{ border-collapse: collapse; width: 100%; font-size: .92rem; font-variant-numeric: tabular-nums }}
th, td {{ padding: .45rem .6rem; text-align: left; border-bottom: 1px solid {RULE}; vertical-align: top }}
td {{ white-space: nowrap }}
.text {{ white-space: normal; overflow-wrap: anywhere; min-width: min(9.5rem, 28vw) }}
th {{ color: {QUIET}; font-weight: 600; vertical-align: bottom }}
.number {{ text-align: right }}
th:first-child, td:first-child {{ padding-left: 0 }}
th:last-child, td:last-child {{ padding-right: 0 }}
tbody tr:last-child td {{ border-bottom: 0 }}
mark {{ border-radius: 3px; padding: 0 .2em; background: #dcefe4; color: {INK} }}
mark.wrong {{ background: #fbdcd2 }}
mark sub {{ font-size: .72em; color: {QUIET}; margin-left: .2em; vertical-align: baseline }}
code {{ font: .92em ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; background: #eef1f4; border-radius: 4px;
  padding: .1em .3em }}
pre {{ font: .85rem/1.35 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; overflow-x: auto; margin: .6rem 0 }}
.sample {{ white-space: pre-wrap; overflow-wrap: anywhere; border-left: 3px solid {RULE}; padding-left: .8rem }}
footer {{ color: {QUIET}; font-size: .88rem }}
dl {{ display: grid; grid-template-columns: max-content 1fr; gap: .2rem 1rem; margin: 0 }}
dt {{ font-weight: 600 }}
dd {{ margin: 0; overflow-wrap: anywhere }}
@media (max-width: 40rem) {{
  main {{ padding: 1.5rem .75rem 2rem }}
  section {{ padding: 1rem .9rem; border-radius: 10px }}
  table {{ font-size: .88rem }}
  .equation {{ flex-direction: column-reverse; align-items: flex-start; gap: 0 }}
  .equation math {{ margin-left: .5rem; font-size: .95rem }}
  .label {{ margin-left: .5rem }}
  th, td {{ padding: .4rem .3rem }}
  .stack thead {{ display: none }}
  .stack td {{ display: block; white-space: normal; text-align: left; border: 0; padding: .1rem 0 }}
  .stack td:first-child {{ padding-top: .6rem }}
  .stack td:last-child {{ padding-bottom: .6rem; border-bottom: 1px solid {RULE} }}
  .stack td::before {{ content: attr(data-name) ": "; color: {QUIET} }}
}}
@media (max-width: 28rem) {{ table {{ font-size: .8rem }} th, td {{ padding: .35rem .2rem }} }}
@media print {{ body {{ background: #fff }} section {{ break-inside: avoid; border: 0; padding: 0 }} }}
"""

# Nothing may be fetched: what the page needs is in it.
POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"


# Unpacks plotly, then draws each figure from the JSON beside its place.
SCRIPT = """
<script id="plotly" type="application/gzip">%s</script>
<script>
(async () => {
  const packed = Uint8Array.from(atob(document.getElementById("plotly").textContent), c => c.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  const script = document.createElement("script");
  script.textContent = await new Response(stream).text();
  document.head.append(script);
  for (const place of document.querySelectorAll(".plot")) {
    const figure = JSON.parse(place.nextElementSibling.textContent);
    Plotly.newPlot(place, figure.data, figure.layout, %s);
  }
})().catch(error => document.querySelectorAll(".plot").forEach(
  place => place.textContent = "This figure cannot be drawn here: " + error));
</script>"""


def figure(
    height: int = 420, titles: Sequence[str] = ("",), row_heights: Sequence[float] | None = None, **layout: Any
) -> Any:
    """An empty plotly figure in the look of the pages: one panel for each of `titles`, over one x axis.

    `height` is in pixels, `row_heights` are relative, `layout` is as in `go.Layout`.
    """
    from plotly.subplots import make_subplots

    plain = make_subplots(
        rows=len(titles),
        shared_xaxes=True,
        subplot_titles=titles,
        row_heights=row_heights,
        vertical_spacing=30 / height if len(titles) > 1 else 0,  # room for a title
    )
    plain.update_layout(LAYOUT).update_xaxes(AXIS).update_yaxes(AXIS, separatethousands=True)  # else 2,051.5 and 2051
    plain.update_annotations(x=0, xanchor="left", font={"size": 13})
    return plain.update_layout(height=height, **layout)


class Html(str):
    """Text that is HTML already: a page puts it in as it stands."""


def verbatim(text: str) -> Html:
    """Text of somebody's data, shown as it stands: nothing in it is markup.

    >>> verbatim("*not* <b>bold</b>")
    '*not* &lt;b&gt;bold&lt;/b&gt;'
    """
    return Html(html.escape(text))


def emphasis(text: str) -> Html:
    return Html(f"<em>{html.escape(text)}</em>")


def mark(text: str, label: str = "", wrong: bool = False) -> Html:
    """Text of somebody's data, highlighted, with a label below its end."""
    below = f"<sub>{html.escape(label)}</sub>" if label else ""
    kind = ' class="wrong"' if wrong else ""
    return Html(f"<mark{kind}>{html.escape(text)}{below}</mark>")


class Page:
    """One page, put together from top to bottom. Every method returns the page, so calls can be chained.

    Prose is plain text in which `*emphasis*`, backquoted code and formulas, `\\(TeX\\)`, are marked up, and everything
    else is escaped. What comes from data goes through `verbatim`.
    """

    def __init__(self, title: str, lead: str = "") -> None:
        self.title = title
        self.lead = lead
        self.sections: list[list[str]] = []
        self.facts: dict[str, str] = {}
        self.figures = 0
        self.kinds: set[str] = set()  # of traces

    def heading(self, title: str) -> Self:
        """Start a new part of the page."""
        self.sections.append([f"<h2>{prose(title)}</h2>"])
        return self

    def text(self, *paragraphs: str) -> Self:
        self._part().extend(f"<p>{prose(paragraph)}</p>" for paragraph in paragraphs)
        return self

    def equation(self, *formulas: str, label: str = "") -> Self:
        """Formulas in TeX, each on a line of its own, with a label on the right."""
        beside = f'<span class="label">{html.escape(label)}</span>' if label else ""
        self._part().extend(f'<div class="equation">{mathml(tex, display=True)}{beside}</div>' for tex in formulas)
        return self

    def quote(self, text: str, source: str = "") -> Self:
        """The words of somebody else, and where they stand."""
        cite = f"<cite>{prose(source)}</cite>" if source else ""
        self._part().append(f"<blockquote><p>{prose(text)}</p>{cite}</blockquote>")
        return self

    def details(self, summary: str, *paragraphs: str) -> Self:
        """Paragraphs that are folded away until a reader opens them."""
        inside = "".join(f"<p>{prose(paragraph)}</p>" for paragraph in paragraphs)
        self._part().append(f"<details><summary>{prose(summary)}</summary>{inside}</details>")
        return self

    def samples(self, *texts: str) -> Self:
        """Texts of data or of a model, each as it stands, its lines too."""
        self._part().extend(f'<p class="sample">{html.escape(text)}</p>' for text in texts)
        return self

    def code(self, *lines: str) -> Self:
        """Text as it stands, in letters of one width."""
        self._part().append(f"<pre>{html.escape(chr(10).join(lines))}</pre>")
        return self

    def link(self, text: str, to: str) -> Self:
        """A link to another page, `to` being relative to this one."""
        self._part().append(f'<p><a href="{html.escape(to)}">{prose(text)}</a></p>')
        return self

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> Self:
        """A table; columns of numbers are set right, others left, and long text wraps. A row has one entry for each
        column."""
        for row in rows:
            if len(row) != len(columns):
                raise ValueError(f"table: a row has {len(row)} entries for {len(columns)} columns: {list(row)}")
        kinds = [_column_kind([row[k] for row in rows], first=k == 0) for k in range(len(columns))]
        head = "".join(f'<th scope="col"{kind}>{prose(name)}</th>' for kind, name in zip(kinds, columns, strict=True))
        head = f"<thead><tr>{head}</tr></thead>" if any(columns) else ""
        names = [f' data-name="{html.escape(name)}"' for name in columns]
        cells = [kind + name for kind, name in zip(kinds, names, strict=True)]
        body = "".join(
            f"<tr>{''.join(f'<td{cell}>{prose(entry)}</td>' for cell, entry in zip(cells, row, strict=True))}</tr>"
            for row in rows
        )
        # On a small screen the entries of a row with text are set below each other.
        stack = ' class="stack"' if len(columns) > 3 and any("text" in kind for kind in kinds) else ""
        self._part().append(f'<div class="wide"><table{stack}>{head}<tbody>{body}</tbody></table></div>')
        return self

    def figure(self, figure: Any, title: str, *paragraphs: str) -> Self:
        """A plotly figure in a part of its own, under its title and what there is to see in it."""
        self.heading(title).text(*paragraphs)
        self.figures += 1
        self.kinds |= {trace.type for trace in figure.data}
        drawn = json.loads(figure.to_json())
        width = drawn["layout"].pop("width", None)  # the most it takes; on a small screen it is drawn smaller
        size = f"min-height:{figure.layout.height or 450}px"  # 450: plotly's own. The page does not jump
        if width is not None:
            size += f";max-width:{width}px;min-width:{round(0.6 * width)}px"
        data = json.dumps(drawn, ensure_ascii=False, separators=(",", ":")).replace(
            "<", "\\u003c"
        )  # nothing in it can end the script
        self._part().append(
            f'<figure role="img" aria-label="{html.escape(title)}">'
            f'<div id="figure-{self.figures}" class="plot" style="{size}"></div>'
            f'<script type="application/json">{data}</script></figure>'
        )
        return self

    def footer(self, command: str, seed: int | None = None, minutes: float | None = None, **facts: str) -> Self:
        """Where the numbers come from: the command that gives them, its seed and minutes, and the machine."""
        self.facts["Command"] = Html(f"<code>{html.escape(command)}</code>")
        if seed is not None:
            self.facts["Seed"] = str(seed)
        if minutes is not None:
            self.facts["Time"] = duration(minutes)
        self.facts |= facts
        self.facts |= {"Machine": environment(), "Made": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"}
        return self

    def html(self) -> str:
        """The whole page as HTML."""
        parts = "\n".join(f"<section>\n{chr(10).join(section)}\n</section>" for section in self.sections)
        lead = f'<p class="lead">{prose(self.lead)}</p>' if self.lead else ""
        facts = "".join(f"<dt>{prose(name)}</dt><dd>{prose(value)}</dd>" for name, value in self.facts.items())
        footer = f"<footer><dl>{facts}</dl></footer>" if facts else ""
        script = noscript = ""
        if self.figures:
            script = SCRIPT % (base64.b64encode(self._plotly()).decode(), json.dumps(CONFIG))
            noscript = (
                "<noscript><p>The figures are drawn by JavaScript that this page carries; it is off.</p></noscript>"
            )
        return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<title>{html.escape(self.title)}</title>
<link rel="icon" href="data:,">
<style>{STYLE}</style>
</head>
<body>
<main>
<h1>{prose(self.title)}</h1>
{lead}{noscript}
{parts}
{footer}
</main>{script}
</body>
</html>
"""

    def write(self, path: str | Path) -> Path:
        """Write the page to `path`, all of it or nothing; returns the path."""
        write_text(path, self.html())
        return Path(path)

    def _plotly(self) -> bytes:
        """plotly's JavaScript for the figures of this page, compressed with gzip."""
        if self.kinds <= BUNDLED:
            return BUNDLE.read_bytes()
        from plotly.offline import get_plotlyjs

        return gzip.compress(get_plotlyjs().encode(), mtime=0)

    def _part(self) -> list[str]:
        """The part under construction."""
        if not self.sections:
            self.sections.append([])
        return self.sections[-1]


def prose(entry: Any) -> str:
    """Plain text as HTML, with `*emphasis*`, backquoted code and `\\(TeX\\)` marked up; `Html` as it stands."""
    if isinstance(entry, Html):
        return entry
    parts = re.split(r"\\\((.+?)\\\)", str(entry))  # every second one is a formula
    return "".join(mathml(part) if k % 2 else _marked_up(part) for k, part in enumerate(parts))


_PRIMED = re.compile(r"<msup>(<mi>[^<]*</mi>)<mi>&#x02032;</mi></msup>")
_BAR = '<mo stretchy="false">&#x0007C;</mo>'
_FUNCTION = re.compile(r"(?<!<msub>)(?<!<msup>)(<mi>(?:log|exp)</mi>)(?!<mo)")  # TeX leaves a thin space after it
_FUNCTION_OF = re.compile(r"<mo>(max|min)</mo>(?=<mo)")
_BOLD_NUMBER = re.compile(r'<mn mathvariant="bold">(\d+)</mn>')
_BOLD_DIGITS = {ord("0") + digit: chr(0x1D7CE + digit) for digit in range(10)}
# Code, in which a star is a star; or emphasis, which may have code in it.
_CODE_OR_EMPHASIS = re.compile(r"`([^`]+)`|(?<![\w*])\*(?=\S)((?:`[^`]+`|[^*`])+?)(?<=\S)\*(?![\w*])")


def mathml(tex: str, display: bool = False) -> Html:
    """A formula in TeX as MathML, which browsers set without a script or a font from elsewhere.

    >>> mathml("x^2").partition("<mrow>")[2]
    '<msup><mi>x</mi><mn>2</mn></msup></mrow></math>'
    """
    from latex2mathml.converter import convert

    converted = convert(tex, display="block" if display else "inline")
    if "\\" in converted:  # what the converter does not know, it copies
        raise ValueError(f"unknown command in the formula {tex!r}")
    # A prime is raised already: as an exponent it would be too small to see.
    converted = _PRIMED.sub(r'<mrow>\1<mo lspace="0" rspace="0">&#x02032;</mo></mrow>', converted)
    # As TeX spaces them: bars around a number, the names of functions, and := as one sign.
    converted = converted.replace(_BAR, '<mo stretchy="false" lspace="0" rspace="0">&#x0007C;</mo>')
    converted = _FUNCTION.sub(r'\1<mspace width="0.17em"/>', converted)
    converted = _FUNCTION_OF.sub(r"<mi>\1</mi>", converted).replace("<mi>:</mi><mo>&#x0003D;</mo>", "<mo>:=</mo>")
    # Browsers set no bold by mathvariant (MathML Core); bold letters are characters of their own already.
    return Html(_BOLD_NUMBER.sub(lambda found: f"<mn>{found[1].translate(_BOLD_DIGITS)}</mn>", converted))


def _marked_up(plain: str) -> str:
    text = re.sub(r"(?<=\d) (?=%)", "&nbsp;", html.escape(plain))
    return _CODE_OR_EMPHASIS.sub(_element, text)


def _element(found: re.Match[str]) -> str:
    code, emphasised = found.groups()
    if code is not None:
        return f"<code>{code}</code>"
    return "<em>" + re.sub(r"`([^`]+)`", r"<code>\1</code>", emphasised) + "</em>"


def duration(minutes: float) -> str:
    """A time in words.

    >>> duration(12.34), duration(1.0), duration(0.5), duration(0.001)
    ('12.3 minutes', '1.0 minutes', '30 seconds', '0.1 seconds')
    """
    if minutes >= 1:
        return f"{minutes:.1f} minutes"
    seconds = 60 * minutes
    return f"{seconds:.0f} seconds" if seconds >= 9.5 else f"{seconds:.1f} seconds"


def _column_kind(entries: Sequence[Any], first: bool) -> str:
    """The class of a table's column, as an attribute: numbers (perhaps with "never" among them), long text, neither."""
    if any(len(str(entry)) > 24 for entry in entries):
        return ' class="text"'
    numbers = sum(_is_number(str(entry)) for entry in entries if not isinstance(entry, Html))
    return ' class="number"' if not first and 2 * numbers >= max(1, len(entries)) else ""


def _is_number(entry: str) -> bool:
    """Whether an entry of a table is a number, perhaps with a unit or a spread, or nothing."""
    return re.match(r"[<>≈*`]*[-−+±]?(\d|\.\d|nan|inf)|[-–—]?$", entry) is not None


def environment() -> str:
    """The machine and the versions a number depends on, in one line."""
    import torch

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return (
        f"{platform.system()} {platform.machine()}, {cores} cores; "
        f"Carousel {__version__}, PyTorch {torch.__version__}, Python {platform.python_version()}"
    )
