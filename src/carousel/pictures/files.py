"""A figure of a page as a file: PNG, SVG or PDF.

Pages draw with plotly, in a browser; plotly itself needs one to make a file. So that each picture is drawn once, this
reads the plotly figure and draws it again with matplotlib. It knows the kinds of trace that this package uses (lines,
points, bars, heat maps, text) and refuses others.
"""

from __future__ import annotations

import io
import logging
import math
import re
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import ArgumentError
from ..files import write_bytes
from ..wording import either
from .fonts import families, spelled

FORMATS = (".png", ".svg", ".pdf")
WIDTH, HEIGHT = 900, 420  # pixels, where the figure does not say
DPI = 96  # a browser's pixel
DASHES = {"solid": "-", "dash": "--", "dot": ":", "dashdot": "-."}
MARKS = {"circle": "o", "square": "s", "diamond": "D", "x": "x", "cross": "+", "triangle-up": "^", "star": "*"}
MANY = 30  # entries of a category axis from which only some are named


def save(figure: Any, path: str | Path, *, scale: float = 2.0) -> Path:
    """Write a plotly figure to `path`, whole or not at all; its name says the format. `scale` is for PNG: 2 is sharp.

    >>> import tempfile
    >>> from carousel.report import figure
    >>> drawn = figure(300).add_scatter(x=[1, 2, 3], y=[1, 4, 9])
    >>> save(drawn, tempfile.mkdtemp() + "/squares.svg").read_text("utf-8")[:5]
    '<?xml'
    """
    path = Path(path)
    if path.suffix.lower() not in FORMATS:
        raise ArgumentError(f"{path}: a picture's name must end in {either(list(FORMATS))}")
    write_bytes(path, render(figure, path.suffix.lower().removeprefix("."), scale))
    return path


def render(figure: Any, kind: str, scale: float = 2.0) -> bytes:
    """The figure as the bytes of a file of `kind`: png, svg or pdf. The same figure gives the same bytes."""
    from matplotlib import rc_context

    words = " ".join(_words(figure.to_plotly_json()))
    settings: Any = {
        "font.family": families(words),
        "svg.fonttype": "none",  # text stays text: it can be searched, and the reader's own fonts draw it
        "svg.hashsalt": "carousel",
        "axes.unicode_minus": True,
    }
    # What no font here can draw is spelled out, where the file holds shapes; an SVG's reader may have the font.
    spell = (lambda text: text) if kind == "svg" else spelled
    # matplotlib says of each character and each font what is missing, on every call; what a picture lacks is seen in it
    logging.getLogger("matplotlib.font_manager").setLevel(logging.ERROR)
    with rc_context(settings), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        drawn = _Drawing(figure, spell).draw()
        file = io.BytesIO()
        undated = {"png": None, "svg": {"Date": None}, "pdf": {"CreationDate": None}}[kind]
        drawn.savefig(file, format=kind, dpi=DPI * scale, bbox_inches="tight", pad_inches=0.12, metadata=undated)
    return file.getvalue()


class _Drawing:
    """One plotly figure on its way to matplotlib: an Axes for each pair of plotly's axes, at the same place."""

    def __init__(self, figure: Any, spell: Any) -> None:
        from matplotlib.figure import Figure

        self.source, self.layout, self.spell = figure, figure.layout, spell
        self.width, self.height = self.layout.width or WIDTH, self.layout.height or HEIGHT
        self.paper: Any = Figure(figsize=(self.width / DPI, self.height / DPI), dpi=DPI, facecolor="white")
        self.ink = colour(self.layout.font.color or "#1c2430")
        self.size = 0.75 * (self.layout.font.size or 13)  # pixels to points
        self.axes: dict[tuple[str, str], Any] = {}
        self.names: dict[str, list[str]] = {}  # of a category axis: what stands at 0, 1, 2 …
        self.handles: dict[str, Any] = {}  # of the legend
        self.stacked: dict[tuple[str, str], np.ndarray] = {}
        self.before = np.empty(0)  # the y of the line before, for an area down to it
        self.used = 0  # colours of the figure's own row
        self.spelled: set[str] = set()  # words with a character that no font has

    def draw(self) -> Any:
        for trace in self.source.data:
            if trace.visible in (False, "legendonly"):
                continue
            method = getattr(self, f"_{trace.type}", None)
            if method is None:
                raise ArgumentError(f"a {trace.type} trace cannot be saved as a picture")
            method(trace, self._on(trace.xaxis or "x", trace.yaxis or "y"))
        for shape in self.layout.shapes:
            self._shape(shape)
        for (x, y), axes in self.axes.items():
            self._finish(axes, x, y)
        for note in self.layout.annotations:
            self._note(note)
        if self.layout.title.text:
            self.paper.suptitle(self._text(self.layout.title.text), fontsize=self.size * 1.2, color=self.ink)
        if len(self.handles) > 1 and self.layout.showlegend is not False:
            columns = max(1, min(len(self.handles), self.width // (60 + 8 * max(map(len, self.handles)))))
            place = {"loc": "upper left", "bbox_to_anchor": (self._across(0), -0.02), "borderaxespad": 0.0}
            self.paper.legend(
                self.handles.values(), self.handles, ncols=columns, frameon=False, fontsize=self.size * 0.9, **place
            )
        return self.paper

    # ---- places ----

    def _across(self, x: float) -> float:
        """Plotly's paper coordinate as a fraction of the figure's width."""
        left, right = (side if side is not None else 60 for side in (self.layout.margin.l, self.layout.margin.r))
        return (left + x * (self.width - left - right)) / self.width

    def _up(self, y: float) -> float:
        top, bottom = (side if side is not None else 60 for side in (self.layout.margin.t, self.layout.margin.b))
        return (bottom + y * (self.height - top - bottom)) / self.height

    def _axis(self, name: str) -> Any:
        """The layout of axis `x2`."""
        return self.layout[f"{name[0]}axis{name[1:]}"]

    def _on(self, x: str, y: str) -> Any:
        if (x, y) not in self.axes:
            (left, right), (low, high) = (self._axis(n).domain or (0, 1) for n in (x, y))
            place = (self._across(left), self._up(low))
            size = (self._across(right) - place[0], self._up(high) - place[1])
            shared = next((a for (other, _), a in self.axes.items() if self._same(other, x)), None)
            self.axes[x, y] = self.paper.add_axes((*place, *size), sharex=shared, label=f"{x}{y}")
        return self.axes[x, y]

    def _same(self, one: str, two: str) -> bool:
        """Whether two x axes go together."""
        return (self._axis(one).matches or one) == (self._axis(two).matches or two)

    def _values(self, axis: str, values: Any) -> np.ndarray:
        """Numbers, or the places of names on a category axis."""
        if values is None:
            return np.empty(0)
        values = list(values)
        if self._axis(axis).type != "category" and not any(isinstance(v, str) for v in values):
            return np.array([math.nan if v is None else v for v in values], float)
        names = self.names.setdefault(axis, [])
        names += [name for name in dict.fromkeys(map(str, values)) if name not in names]
        return np.array([names.index(str(v)) for v in values], float)

    def _text(self, html: str) -> str:
        text = plain(str(html))
        spelled = self.spell(text)
        if spelled != text:
            self.spelled.add(spelled)
        return spelled

    # ---- traces ----

    def _scatter(self, trace: Any, axes: Any) -> None:
        x_name, y_name = trace.xaxis or "x", trace.yaxis or "y"
        y = self._values(y_name, trace.y)
        x = self._values(x_name, trace.x) if trace.x is not None else np.arange(len(y), dtype=float)
        mode = trace.mode or "lines"
        shade = trace.line.color or trace.marker.color or self._next()
        line = axes.plot([], [])[0]
        if "lines" in mode:
            drawstyle = "steps-post" if trace.line.shape == "hv" else "default"
            line = axes.plot(
                x, y, color=colour(shade), linewidth=0.75 * (trace.line.width or 2), drawstyle=drawstyle,
                linestyle=DASHES.get(trace.line.dash or "solid", "-"), alpha=trace.opacity, solid_capstyle="round",
            )[0]  # fmt: skip
        if "markers" in mode:
            many = isinstance(trace.marker.color, Sequence | np.ndarray) and not isinstance(trace.marker.color, str)
            tints = [colour(c) for c in trace.marker.color] if many else colour(trace.marker.color or shade)
            sizes = trace.marker.size if trace.marker.size is not None else 6
            area = np.square(0.75 * np.array(sizes, float))
            mark = MARKS.get(trace.marker.symbol or "circle", "o")
            dots = axes.scatter(x, y, s=area, c=tints if many else None, color=None if many else tints, marker=mark)
            dots.set_zorder(3)
            line = line if "lines" in mode else dots
        if "text" in mode:
            self._labels(trace, axes, x, y)
        if trace.fill in ("tozeroy", "tonexty"):
            base = self.before if trace.fill == "tonexty" else np.zeros(len(y))
            axes.fill_between(x, y, base, color=colour(trace.fillcolor or shade, 0.2), linewidth=0)
        self.before = y
        self._name(trace, line)

    _scattergl = _scatter

    def _labels(self, trace: Any, axes: Any, x: np.ndarray, y: np.ndarray) -> None:
        """The words at points, where `textposition` has them."""
        each = [trace.text] * len(x) if isinstance(trace.text, str) else list(trace.text)
        vertical, _, horizontal = (trace.textposition or "middle center").partition(" ")
        side = {"left": ("right", -1), "right": ("left", 1), "center": ("center", 0)}[horizontal]
        level = {"top": ("bottom", 1), "bottom": ("top", -1), "middle": ("center", 0)}[vertical]
        gap = 0.5 * (trace.marker.size if isinstance(trace.marker.size, int | float) else 6) + 2
        shade = trace.textfont.color
        many = shade is not None and not isinstance(shade, str)
        for k, (text, across, up) in enumerate(zip(each, x, y, strict=True)):
            axes.annotate(
                self._text(text), (across, up), xytext=(side[1] * gap, level[1] * gap), textcoords="offset points",
                ha=side[0], va=level[0], fontsize=0.75 * (trace.textfont.size or 12),
                color=colour((shade[k] if many else shade) or self.ink), annotation_clip=False,
            )  # fmt: skip

    def _bar(self, trace: Any, axes: Any) -> None:
        x_name, y_name = trace.xaxis or "x", trace.yaxis or "y"
        lying = trace.orientation == "h"
        at_name, length_name = (y_name, x_name) if lying else (x_name, y_name)
        at = self._values(at_name, trace.y if lying else trace.x)
        length = self._values(length_name, trace.x if lying else trace.y)
        panel = (x_name, y_name)
        peers = [t for t in self.source.data if t.type == "bar" and (t.xaxis or "x", t.yaxis or "y") == panel]
        mode, room = self.layout.barmode or "group", 1 - (self.layout.bargap or 0.2)
        thick = room if trace.width is None else np.array(trace.width, float)
        base = np.zeros(len(at)) if trace.base is None else np.array(trace.base, float)
        if mode == "group":
            thick = room / len(peers)
            at = at - room / 2 + thick * (next(k for k, t in enumerate(peers) if t is trace) + 0.5)
        elif mode in ("stack", "relative"):
            below = self.stacked.setdefault(panel, np.zeros(0))
            if len(below) < len(at):
                below = np.pad(below, (0, len(at) - len(below)))
            base, self.stacked[panel] = below, below + length
        many = trace.marker.color is not None and not isinstance(trace.marker.color, str)
        shade = [colour(c) for c in trace.marker.color] if many else colour(trace.marker.color or self._next())
        draw = axes.barh if lying else axes.bar
        bars = draw(at, length, thick, base, color=shade, edgecolor="white", linewidth=0.6, alpha=trace.opacity)
        if trace.text is not None:
            each = [trace.text] * len(at) if isinstance(trace.text, str) else trace.text
            inside = trace.textposition in ("inside", "auto") or mode in ("stack", "relative")
            axes.bar_label(
                bars, [self._text(t) if t else "" for t in each], label_type="center" if inside else "edge",
                fontsize=self.size * 0.9, padding=0 if inside else 2, color=colour(trace.textfont.color or self.ink),
            )  # fmt: skip
        self._name(trace, bars)

    def _heatmap(self, trace: Any, axes: Any) -> None:
        from matplotlib.colors import LinearSegmentedColormap

        z = np.ma.masked_invalid(np.array([[math.nan if v is None else v for v in row] for row in trace.z], float))
        names = (trace.xaxis or "x", trace.yaxis or "y")
        given = (trace.x, trace.y)
        sides = [
            edges(np.arange(float(n)) if one is None else self._values(name, one))
            for name, one, n in zip(names, given, z.shape[::-1], strict=True)
        ]
        scale = trace.colorscale or [(0, "#ffffff"), (1, "#08306b")]
        shades = LinearSegmentedColormap.from_list("", [(at, colour(tint)) for at, tint in scale])
        if trace.reversescale:
            shades = shades.reversed()
        low = trace.zmin if trace.zmin is not None else z.min()
        high = trace.zmax if trace.zmax is not None else z.max()
        gap = 0.75 * max(trace.xgap or 0, trace.ygap or 0)
        mesh = axes.pcolormesh(
            *sides, z, cmap=shades, vmin=low, vmax=high, edgecolors="white" if gap else "none", linewidth=gap,
            rasterized=z.size > 20_000,
        )  # fmt: skip
        if trace.texttemplate and trace.text is not None:
            middle = [0.5 * (side[1:] + side[:-1]) for side in sides]
            for row, up in zip(range(z.shape[0]), middle[1], strict=True):
                for column, across in zip(range(z.shape[1]), middle[0], strict=True):
                    dark = np.dot(shades((z[row, column] - low) / ((high - low) or 1))[:3], (0.3, 0.59, 0.11)) < 0.5
                    axes.text(
                        across, up, self._text(trace.text[row][column]), ha="center", va="center",
                        fontsize=self.size * 0.85, color="white" if dark else self.ink,
                    )  # fmt: skip
        if trace.showscale is not False:
            bar = self.paper.colorbar(mesh, cax=axes.inset_axes((1.015, 0, 0.018, 1)))
            bar.outline.set_visible(False)
            bar.ax.tick_params(labelsize=self.size * 0.9, colors=self.ink, length=2)
            if trace.colorbar.tickvals is not None:
                marks = zip(trace.colorbar.tickvals, trace.colorbar.ticktext, strict=True)
                shown = [(at, self._text(text)) for at, text in marks if low <= at <= high]
                bar.set_ticks([at for at, _ in shown], labels=[text for _, text in shown])
            if trace.colorbar.title.text:
                bar.set_label(self._text(trace.colorbar.title.text), fontsize=self.size * 0.9, color=self.ink)

    def _name(self, trace: Any, handle: Any) -> None:
        if trace.name and trace.showlegend is not False:
            self.handles.setdefault(self._text(trace.name), handle)

    def _next(self) -> str:
        """The next colour of the figure's own row."""
        row = self.layout.colorway or ("#0072b2",)
        self.used += 1
        return row[(self.used - 1) % len(row)]

    # ---- what is around ----

    def _shape(self, shape: Any) -> None:
        """A line or a rectangle, over the data or over the whole of a panel."""
        from matplotlib.transforms import blended_transform_factory

        x, y = ((ref or "paper").removesuffix(" domain") for ref in (shape.xref, shape.yref))
        for (its_x, its_y), axes in self.axes.items():
            if x not in ("paper", its_x) or y not in ("paper", its_y):
                continue
            parts = [
                axes.transAxes if (ref or "paper").endswith(("domain", "paper")) else axes.transData
                for ref in (shape.xref, shape.yref)
            ]
            both = blended_transform_factory(*parts)
            below = 0.5 if shape.layer == "below" else 2.5
            if shape.type == "line":
                axes.plot(
                    [shape.x0, shape.x1], [shape.y0, shape.y1], transform=both,
                    color=colour(shape.line.color or "#000"), linewidth=0.75 * (shape.line.width or 2),
                    linestyle=DASHES.get(shape.line.dash or "solid", "-"), zorder=below, scalex=False, scaley=False,
                )  # fmt: skip
            elif shape.type == "rect":
                from matplotlib.patches import Rectangle

                axes.add_artist(
                    Rectangle(
                        (shape.x0, shape.y0), shape.x1 - shape.x0, shape.y1 - shape.y0, transform=both, linewidth=0,
                        facecolor=colour(shape.fillcolor or "#eeeeee", shape.opacity), zorder=below,
                    )
                )  # fmt: skip
            else:
                raise ArgumentError(f"a {shape.type} shape cannot be saved as a picture")

    def _note(self, note: Any) -> None:
        """A panel's title, or words at a place of the data."""
        size = 0.75 * (note.font.size or self.layout.font.size or 13)
        side = {"left": "left", "right": "right"}.get(note.xanchor, "center")
        level = {"top": "top", "bottom": "bottom"}.get(note.yanchor, "center")
        shift = (0.75 * (note.xshift or 0), 0.75 * (note.yshift or 0))
        x_ref, y_ref = note.xref or "paper", note.yref or "paper"
        if (x_ref, y_ref) == ("paper", "paper"):
            place: Any = (self._across(note.x), self._up(note.y))
            where, panel = "figure fraction", self.paper
        else:
            panel = self._on(*("x" if x_ref == "paper" else x_ref.split()[0], y_ref.split()[0]))
            place, where = (note.x, note.y), "data"
        shade = colour(note.font.color or self.ink)
        text = self._text(note.text)
        weight = "bold" if str(note.text).startswith("<b>") and str(note.text).endswith("</b>") else "normal"
        if panel is self.paper:
            panel.text(*place, text, ha=side, va=level, fontsize=size, color=shade, weight=weight)
        else:
            panel.annotate(
                text, place, xytext=shift, xycoords=where, textcoords="offset points", ha=side, va=level, fontsize=size,
                color=shade, weight=weight, annotation_clip=False,
            )  # fmt: skip

    def _finish(self, axes: Any, x: str, y: str) -> None:
        """Ranges, ticks, titles and lines of a pair of axes."""
        from matplotlib.ticker import FuncFormatter, NullFormatter, NullLocator

        for spine in axes.spines.values():
            spine.set_color("#aeb6c0")
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(colors=self.ink, labelsize=self.size * 0.9, color="#aeb6c0", length=3)
        axes.tick_params(which="minor", color="#d5dae0", length=2)
        axes.set_axisbelow(True)
        for name, part, set_scale, set_range, set_ticks in (
            (x, axes.xaxis, axes.set_xscale, axes.set_xlim, axes.set_xticks),
            (y, axes.yaxis, axes.set_yscale, axes.set_ylim, axes.set_yticks),
        ):
            axis = self._axis(name)
            if axis.type == "log":
                set_scale("log")
                part.set_minor_formatter(NullFormatter())
            if name in self.names:
                names = self.names[name]
                every = range(0, len(names), -(-len(names) // MANY))
                set_ticks(list(every), labels=[self._text(names[k]) for k in every])
                set_range(-0.5, len(names) - 0.5)
            if axis.tickvals is not None:
                texts = axis.ticktext if axis.ticktext is not None else axis.tickvals
                set_ticks(list(axis.tickvals), labels=list(map(self._text, texts)))
                part.set_minor_locator(NullLocator())
            if axis.tickformat and axis.tickformat.endswith("%"):
                digits = int(axis.tickformat[1:-1] or 0)
                part.set_major_formatter(FuncFormatter(lambda v, _, d=digits: f"{100 * v:.{d}f} %"))
            if axis.range is not None:
                ends = [10.0**end if axis.type == "log" else end for end in axis.range]
                set_range(*ends)
            if axis.autorange == "reversed":
                low, high = sorted(part.get_view_interval())
                set_range(high, low)
            if axis.tickangle:
                part.set_tick_params(labelrotation=-axis.tickangle)
            if axis.side in ("top", "right"):
                part.set_label_position(axis.side)
                part.set_ticks_position(axis.side)
            if axis.showticklabels is False:
                part.set_tick_params(labelleft=False, labelbottom=False)
            if axis.ticks == "":
                part.set_tick_params(length=0)
            if name == x and self.spelled & {label.get_text() for label in part.get_ticklabels()}:
                part.set_tick_params(labelrotation=90)  # code points are longer than the characters there was room for
            if axis.title.text:
                part.set_label_text(self._text(axis.title.text), fontsize=self.size, color=self.ink)
            if axis.showgrid is not False:
                part.grid(True, color=colour(axis.gridcolor or "#eceff2"), linewidth=0.8)
            if axis.visible is False:
                part.set_visible(False)
                for side in ("bottom", "top") if name == x else ("left", "right"):
                    axes.spines[side].set_visible(False)


# ---- small things ----


def colour(value: Any, alpha: float | None = None) -> Any:
    """A colour of plotly's for matplotlib.

    >>> colour("#0072b2"), colour("rgba(255, 0, 51, 0.5)")
    ('#0072b2', (1.0, 0.0, 0.2, 0.5))
    """
    if isinstance(value, str) and value.startswith("rgb"):
        red, green, blue, *rest = (float(n) for n in re.findall(r"[\d.]+", value))
        shade: Any = (red / 255, green / 255, blue / 255, *rest)
    else:
        shade = value
    if alpha is None or (isinstance(shade, tuple) and len(shade) == 4):
        return shade
    from matplotlib.colors import to_rgba

    return to_rgba(shade, alpha)


def plain(html: str) -> str:
    """A label of plotly's, which may have tags, as matplotlib's text.

    >>> plain("<b>‖∂L/∂h<sub>t</sub>‖</b><br>for $5 &lt; 6")
    '‖∂L/∂h$_{t}$‖\\nfor \\\\$5 < 6'
    """
    text = html.replace("\\", "\\\\") if "$" in html else html
    text = text.replace("$", r"\$").replace("<br>", "\n")
    text = re.sub(r"<sub>(.*?)</sub>", r"$_{\1}$", text)
    text = re.sub(r"<sup>(.*?)</sup>", r"$^{\1}$", text)
    text = re.sub(r"</?[a-z][^<>]*>", "", text)
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


def edges(centres: np.ndarray) -> np.ndarray:
    """Where the cells around `centres` begin and end.

    >>> edges(np.array([1.0, 2.0, 4.0])).tolist()
    [0.5, 1.5, 3.0, 5.0]
    """
    if len(centres) == 1:
        return np.array([centres[0] - 0.5, centres[0] + 0.5])
    middle = 0.5 * (centres[1:] + centres[:-1])
    return np.concatenate([[1.5 * centres[0] - 0.5 * centres[1]], middle, [1.5 * centres[-1] - 0.5 * centres[-2]]])


def _words(part: Any) -> Iterable[str]:
    """Every text in a figure."""
    if isinstance(part, str):
        yield part
    elif isinstance(part, dict):
        for value in part.values():
            yield from _words(value)
    elif isinstance(part, list | tuple) or (isinstance(part, np.ndarray) and part.dtype == object):
        for value in part:
            yield from _words(value)
