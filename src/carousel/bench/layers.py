"""The recurrent layers against what a PyTorch user has: `carousel bench layers`, `make bench`.

Both sides run in one process, taking turns; a time is the best of several. Ratios are theirs / ours: above 1 we are
faster. The figures that must be reached stand beside those that were.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence

from .. import cells, kernels
from ..cells.base import Cell, Weights, unnamed
from ..kernels.ops import Stream, fused_layer

Shape = tuple[int, int, int, int]
SHAPES: list[Shape] = [  # T, B, I, H
    (35, 20, 200, 200),
    (35, 20, 650, 650),
    (50, 32, 256, 256),
    (50, 128, 256, 128),
    (512, 16, 64, 128),
    (100, 1, 128, 128),
    (50, 64, 512, 512),
    (2000, 8, 32, 64),
]
STANDARD: dict[str, tuple[Cell, Any, float, float]] = {  # cell, torch's layer, least ratio, least geometric mean
    "LSTM": (cells.LSTM(), nn.LSTM, 1.0, 1.45),
    "GRU": (cells.GRU(), nn.GRU, 1.25, 2.7),
    "RNN": (cells.Elman(), nn.RNN, 1.3, 2.5),
}
VARIANTS: dict[str, tuple[Cell, Cell, float]] = {  # cell, what it is compared with, at most this many times its time
    "peephole": (cells.Peephole(), cells.LSTM(), 1.15),
    "coupled": (cells.Coupled(), cells.LSTM(), 1.15),
    "reset-before GRU": (cells.ResetBeforeGRU(), cells.GRU(), 1.15),
    "layer-norm": (cells.LayerNorm(), cells.LSTM(), 1.6),
}


def race(contenders: Mapping[str, Callable[[], Any]], seconds: float, least: int = 5) -> dict[str, float]:
    """Best time of each contender, in seconds: they take turns until the time is up."""
    best = dict.fromkeys(contenders, math.inf)
    for run in contenders.values():  # warm caches and allocators
        run()
        run()
    end = time.perf_counter() + seconds
    turns = 0
    while time.perf_counter() < end or turns < least:
        turns += 1
        for name, run in contenders.items():
            for _ in range(2):
                start = time.perf_counter()
                run()
                best[name] = min(best[name], time.perf_counter() - start)
    return best


def mean(ratios: list[float]) -> float:
    """The geometric mean."""
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


class Ours:
    """A layer with its parameters, run by the fused kernel."""

    def __init__(self, cell: Cell, input_size: int, hidden_size: int, dtype: torch.dtype = torch.float32):
        rows = len(cell.gates) * hidden_size
        shapes: dict[str, tuple[int, ...]] = {
            "weight_ih": (rows, input_size),
            "weight_hh": (rows, hidden_size),
            "bias_ih": (rows,),
            "bias_hh": (rows,),
        }
        shapes |= cell.extra_parameters(hidden_size)
        self.cell = cell
        self.parameters = {n: torch.empty(s, dtype=dtype) for n, s in shapes.items()}
        cell.initialise(self.parameters, hidden_size, cell.forget_bias)
        for p in self.parameters.values():
            p.requires_grad_()
        self.weights = Weights(cell, self.parameters)

    def __call__(self, x: Tensor, lengths: Tensor | None = None, trace: bool = False) -> Tensor:
        return fused_layer(self.cell, [self.weights], x, [None], lengths=lengths, want_trace=trace)[0]

    def loop(self, x: Tensor) -> Tensor:
        """The plain loop over steps that a user writes for a cell PyTorch does not have."""
        drive = self.cell.drive(x, self.weights)
        hidden = self.parameters["weight_hh"].shape[1]
        state = tuple(x.new_zeros(x.shape[1], hidden) for _ in self.cell.states)
        out = []
        for t in range(x.shape[0]):
            state = self.cell.step(self.cell.split(drive[t]), state, self.weights, unnamed)
            out.append(state[0])
        return torch.stack(out)


def both(call: Callable[[Tensor], Tensor], x: Tensor, leaves: list[Tensor]) -> dict[str, Callable[[], Any]]:
    """Forward, and forward+backward with the gradient of the input."""
    with torch.no_grad():
        seed = torch.randn_like(call(x))

    def forward() -> None:
        with torch.no_grad():
            call(x)

    def train() -> None:
        torch.autograd.grad(call(x), [x, *leaves], seed)

    return {"forward": forward, "train": train}


def standard(seconds: float, shapes: list[Shape], dtype: torch.dtype = torch.float32, only: str = "") -> list[dict[str, Any]]:
    """Against torch.nn: one row a layer and shape."""
    rows = []
    for name, (cell, theirs, _, _) in STANDARD.items():
        if only and name != only:
            continue
        for T, B, I, H in shapes:  # noqa: E741
            torch.manual_seed(0)
            x = torch.randn(T, B, I, dtype=dtype, requires_grad=True)
            layer, mine = theirs(I, H).to(dtype), Ours(cell, I, H, dtype)
            a = both(lambda x, layer=layer: layer(x)[0], x, list(layer.parameters()))
            b = both(mine, x, list(mine.parameters.values()))
            row: dict[str, Any] = {"layer": name, "shape": (T, B, I, H), "dtype": str(dtype)[6:]}
            for kind in ("forward", "train"):
                found = race({"torch": a[kind], "carousel": b[kind]}, seconds)
                row[kind] = {**found, "ratio": found["torch"] / found["carousel"]}
            row["gflops"] = 3 * 2 * T * B * len(cell.gates) * H * (I + H) / row["train"]["carousel"] * 1e-9
            rows.append(row)
    return rows


def variants(seconds: float, shapes: list[Shape]) -> list[dict[str, Any]]:
    """Our variants against our own standard layer, and against a plain loop."""
    rows = []
    for name, (cell, base, _) in VARIANTS.items():
        for T, B, I, H in shapes:  # noqa: E741
            torch.manual_seed(0)
            x = torch.randn(T, B, I, requires_grad=True)
            mine, other = Ours(cell, I, H), Ours(base, I, H)
            runs = {
                "variant": both(mine, x, list(mine.parameters.values()))["train"],
                "standard": both(other, x, list(other.parameters.values()))["train"],
            }
            found = race(runs, seconds)
            slow = both(mine.loop, x, list(mine.parameters.values()))["train"]
            found |= race({"loop": slow}, 0.0, least=1)
            rows.append({"layer": name, "shape": (T, B, I, H), **found,
                         "cost": found["variant"] / found["standard"], "ratio": found["loop"] / found["variant"]})  # fmt: skip
    return rows


def lengths(seconds: float, shapes: list[Shape]) -> list[dict[str, Any]]:
    """Lengths uniform in 1…T, unsorted, against torch.nn.LSTM on a PackedSequence and our own padded call."""
    rows = []
    for T, B, I, H in shapes:  # noqa: E741
        torch.manual_seed(0)
        x = torch.randn(T, B, I, requires_grad=True)
        n = torch.randint(1, T + 1, (B,))
        n[0] = T
        layer, mine = nn.LSTM(I, H), Ours(cells.LSTM(), I, H)
        packed = both(lambda x, n=n, layer=layer: layer(pack_padded_sequence(x, n, enforce_sorted=False))[0].data, x, list(layer.parameters()))
        own = list(mine.parameters.values())
        found = race({
            "packed": packed["train"],
            "carousel": both(lambda x, n=n, mine=mine: mine(x, n), x, own)["train"],
            "padded": both(mine, x, own)["train"],
        }, seconds)  # fmt: skip
        rows.append({"shape": (T, B, I, H), **found, "ratio": found["packed"] / found["carousel"],
                     "of padded": found["carousel"] / found["padded"]})  # fmt: skip
    return rows


def tracing(seconds: float, shapes: list[Shape]) -> list[dict[str, Any]]:
    """A training forward with and without a trace."""
    rows = []
    for T, B, I, H in shapes:  # noqa: E741
        x = torch.randn(T, B, I, requires_grad=True)
        mine = Ours(cells.LSTM(), I, H)
        found = race({"plain": lambda: mine(x), "trace": lambda: mine(x, trace=True)}, seconds)  # noqa: B023
        rows.append({"shape": (T, B, I, H), **found, "cost": found["trace"] / found["plain"]})
    return rows


def streaming(seconds: float) -> list[dict[str, Any]]:
    """One step at B = 1 against torch.nn.LSTMCell."""
    rows = []
    for H in (128, 256):
        cell, mine = nn.LSTMCell(H, H), Ours(cells.LSTM(), H, H)
        stream = Stream(mine.cell, [mine.weights])
        x, state = torch.randn(1, H), (torch.zeros(1, H), torch.zeros(1, H))
        own = tuple(s.unsqueeze(0) for s in state)

        def repeat(run: Callable[[], Any]) -> Callable[[], None]:
            def many() -> None:
                with torch.no_grad():
                    for _ in range(50):
                        run()

            return many

        found = race({
            "torch": repeat(lambda: cell(x, state)),  # noqa: B023
            "carousel": repeat(lambda: stream.current() and stream.step(x, own)),  # noqa: B023
        }, seconds)  # fmt: skip
        rows.append({"hidden": H, **{k: v / 50 for k, v in found.items()}, "ratio": found["torch"] / found["carousel"]})
    return rows


def growth(seconds: float) -> list[dict[str, Any]]:
    """Time a step as the number of steps grows."""
    mine = Ours(cells.LSTM(), 64, 64)
    rows = []
    for T in (100, 300, 1000, 3000, 10_000):
        x = torch.randn(T, 8, 64, requires_grad=True)
        run = both(mine, x, list(mine.parameters.values()))["train"]
        rows.append({"steps": T, "microseconds a step": race({"t": run}, seconds)["t"] / T * 1e6})
    return rows


def measure(quick: bool = False, seconds: float | None = None, say: Callable[[str], None] = print) -> dict[str, Any]:
    """All measurements as one dictionary of plain values."""
    if not kernels.available():
        raise ValueError(f"bench layers: {kernels.why_not()}")
    seconds = seconds if seconds is not None else 0.3 if quick else 2.0
    shapes = SHAPES[:1] + SHAPES[5:6] if quick else SHAPES
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    native = kernels.load()[0]
    assert native is not None
    try:
        result: dict[str, Any] = {"isa": kernels.isa(), "threads": 2, "torch": torch.__version__, "seconds": seconds}
        result["peak gflops"] = native.peak(2)
        for name, part in (
            ("standard", lambda: standard(seconds, shapes)),
            ("variants", lambda: variants(seconds, shapes)),
            ("lengths", lambda: lengths(seconds, shapes[: len(shapes) - 1 + quick])),
            ("trace", lambda: tracing(seconds, shapes)),
            ("step", lambda: streaming(seconds)),
            ("float64", lambda: standard(seconds, shapes, torch.float64, only="LSTM")),
            ("growth", lambda: growth(seconds)),
        ):
            say(f"measuring: {name}")
            result[name] = part()
        result["peak gflops"] = max(result["peak gflops"], native.peak(2))
    finally:
        torch.set_num_threads(before)
    result["claims"] = claims(result)
    return result


def claims(r: dict[str, Any]) -> list[dict[str, Any]]:
    """What must be reached and what was, one line each."""
    lines: list[dict[str, Any]] = []

    def claim(what: str, found: float, bound: float, least: bool = True) -> None:
        lines.append({"claim": what, "found": found, "bound": bound, "least": least,
                      "holds": found >= bound if least else found <= bound})  # fmt: skip

    for name, (_, _, least, geometric) in STANDARD.items():
        rows = [row for row in r["standard"] if row["layer"] == name]
        for kind, label, bound in (("train", "forward+backward", geometric), ("forward", "forward", 1.4 if name == "LSTM" else geometric)):
            ratios = [row[kind]["ratio"] for row in rows]
            claim(f"torch.nn.{name}, {label}, slowest shape", min(ratios), least)
            claim(f"torch.nn.{name}, {label}, geometric mean", mean(ratios), bound)
    for name, (_, _, most) in VARIANTS.items():
        rows = [row for row in r["variants"] if row["layer"] == name]
        claim(f"{name} beside our own standard layer, geometric mean", mean([row["cost"] for row in rows]), most, False)
        claim(f"{name} against a plain loop, geometric mean", mean([row["ratio"] for row in rows]), 5.0)
    claim("lengths against PackedSequence, slowest shape", min(row["ratio"] for row in r["lengths"]), 3.0)
    claim("lengths beside our padded call, slowest shape", max(row["of padded"] for row in r["lengths"]), 1.0, False)
    claim("trace beside a training forward, geometric mean", mean([row["cost"] for row in r["trace"]]), 1.05, False)
    claim("step against LSTMCell, slower size", min(row["ratio"] for row in r["step"]), 2.5)
    claim("float64 LSTM, forward+backward, geometric mean", mean([row["train"]["ratio"] for row in r["float64"]]), 2.0)
    large = [row["gflops"] / r["peak gflops"] for row in r["standard"] if row["layer"] == "LSTM" and row["shape"][3] >= 512]
    if large:
        claim("share of the FMA peak at H ≥ 512, LSTM, forward+backward", min(large), 0.85)
    steps = [row["microseconds a step"] for row in r["growth"]]
    claim("time a step at T = 10,000 beside T = 1000", steps[-1] / steps[2], 1.15, False)
    return lines


def main(out: Path | None = None, quick: bool = False, seconds: float | None = None) -> dict[str, Any]:
    """Measure, print the tables, and write `layers.json` and `layers.html` into `out`."""
    from rich.console import Console
    from rich.table import Table

    console = Console()
    result = measure(quick, seconds, say=lambda line: console.print(f"[dim]{line}[/dim]"))
    table = Table(title=f"times torch / carousel, 2 threads, {result['isa']}; peak {result['peak gflops']:.0f} GF/s")
    for column in ("T", "B", "I", "H"):
        table.add_column(column, justify="right")
    for name in STANDARD:
        table.add_column(f"{name} forward+backward (forward)", justify="right")
    by_shape: dict[Shape, list[str]] = {}
    for row in result["standard"]:
        by_shape.setdefault(row["shape"], []).append(f"{row['train']['ratio']:.2f} ({row['forward']['ratio']:.2f})")
    for shape, entries in by_shape.items():
        table.add_row(*map(str, shape), *entries)
    console.print(table)
    summary = Table("claim", "found", "must be")
    for line in result["claims"]:
        mark = "≥" if line["least"] else "≤"
        style = "" if line["holds"] else "red"
        summary.add_row(line["claim"], f"{line['found']:.2f}", f"{mark} {line['bound']}", style=style)
    console.print(summary)
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        (out / "layers.json").write_text(json.dumps(result, indent=1))
        picture(result).write_html(out / "layers.html", include_plotlyjs=True)
        console.print(f"wrote {out / 'layers.json'} and {out / 'layers.html'}")
    return result


def picture(result: dict[str, Any]) -> Any:
    """Speed-up by layer and shape, as a bar chart."""
    import plotly.graph_objects as go

    figure = go.Figure()
    for name in STANDARD:
        rows = [row for row in result["standard"] if row["layer"] == name]
        shapes = [" ".join(map(str, row["shape"])) for row in rows]
        figure.add_bar(name=name, x=shapes, y=[row["train"]["ratio"] for row in rows])
    figure.add_hline(y=1, line_dash="dash", annotation_text="torch.nn")
    figure.update_layout(
        title="Speed against torch.nn, forward+backward, 2 threads",
        xaxis_title="T B I H",
        yaxis_title="times as fast",
        yaxis_type="log",
    )
    return figure
