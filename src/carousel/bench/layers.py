"""The recurrent layers against what a PyTorch user has: `carousel bench layers`, `make bench`.

Both sides run in one process, taking turns; a time is the best of several. Ratios are theirs / ours: above 1 we are
faster. The figures that must be reached stand beside those that were.
"""

from __future__ import annotations

import importlib.util
import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from .. import layers
from ..cells.spec import Weights, unnamed
from ..errors import CarouselError
from ..files import replace_text_file
from ..layers import Recurrent
from ..ops import backend
from ..report import Page, figure
from ..threads import threads
from .claims import print_tables

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
    (28, 48, 300, 300),
]
SMALL: list[Shape] = [(1, 1, 128, 128), (10, 1, 64, 64), (20, 8, 16, 32), (50, 1, 512, 512)]  # beside onnxruntime
STANDARD: dict[str, tuple[Any, Any, float, float]] = {  # layer, torch's, least ratio, least geometric mean
    "LSTM": (layers.LSTM, nn.LSTM, 1.03, 1.45),
    "GRU": (layers.GRU, nn.GRU, 1.25, 2.7),
    "RNN": (layers.RNN, nn.RNN, 1.3, 2.5),
}
VARIANTS: dict[str, tuple[Any, Any, float]] = {  # layer, what it is compared with, at most this many times its time
    "peephole": (layers.PeepholeLSTM, layers.LSTM, 1.15),
    "coupled": (layers.CoupledLSTM, layers.LSTM, 1.15),
    "reset-before GRU": (layers.ResetBeforeGRU, layers.GRU, 1.15),
    "layer-norm": (layers.LayerNormLSTM, layers.LSTM, 1.6),
}


def race(
    contenders: Mapping[str, Callable[[], Any]],
    seconds: float,
    least: int = 5,
    clock: Callable[[], float] = time.perf_counter,
    turn: float = 0.0,
    pause: float = 0.0,
) -> dict[str, float]:
    """Best time of each contender, in seconds of `clock`: they take turns until the time is up.

    A turn is two runs, or as many as fit into `turn` seconds. Threads that wait for work keep a core busy for some
    milliseconds: where contenders have threads of their own, a pause before each turn keeps one from slowing the other.
    """
    best = dict.fromkeys(contenders, math.inf)
    for run in contenders.values():  # warm caches and allocators
        run()
        run()
    end = time.perf_counter() + seconds
    turns = 0
    while time.perf_counter() < end or turns < least:
        turns += 1
        for name, run in contenders.items():
            time.sleep(pause)
            until, runs = time.perf_counter() + turn, 0
            while runs < 2 or time.perf_counter() < until:
                start = clock()
                run()
                best[name] = min(best[name], clock() - start)
                runs += 1
    return best


def mean(ratios: list[float]) -> float:
    """The geometric mean."""
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def loop_of(layer: Recurrent) -> Callable[[Tensor], Tensor]:
    """The plain loop over steps that a user writes for a cell PyTorch does not have."""

    def loop(x: Tensor) -> Tensor:
        w = Weights(layer.cell, layer._parameters_of(0, 0))
        drive = layer.cell.project_input(x, w)
        state = tuple(x.new_zeros(x.shape[1], layer.hidden_size) for _ in layer.cell.states)
        out = []
        for t in range(x.shape[0]):
            state = layer.cell.step(layer.cell.inputs(drive[t]), state, w, unnamed)
            out.append(state[0])
        return torch.stack(out)

    return loop


def both(call: Callable[[Tensor], Tensor], x: Tensor, leaves: Sequence[Tensor]) -> dict[str, Callable[[], Any]]:
    """Forward, and forward+backward with the gradient of the input."""
    with torch.no_grad():
        seed = torch.randn_like(call(x))

    def forward() -> None:
        with torch.no_grad():
            call(x)

    def train() -> None:
        torch.autograd.grad(call(x), [x, *leaves], seed)

    return {"forward": forward, "train": train}


def first_of(layer: nn.Module, **options: Any) -> Callable[[Tensor], Tensor]:
    """A layer's output without its state."""

    def call(x: Tensor) -> Tensor:
        out: Tensor = layer(x, **options)[0]
        return out

    return call


def packed_by(layer: nn.Module, x: Tensor, lengths: Tensor) -> tuple[Callable[[Tensor], Tensor], Tensor]:
    """A torch.nn layer on a PackedSequence, as a function of its data; packing is not counted."""
    packed = pack_padded_sequence(x.detach(), lengths, enforce_sorted=False)

    def call(data: Tensor) -> Tensor:
        out: Tensor = layer(packed._replace(data=data))[0].data
        return out

    return call, packed.data.requires_grad_()


def through_packing(layer: nn.Module, lengths: Tensor) -> Callable[[Tensor], Tensor]:
    """A torch.nn layer from a padded batch to a padded batch, as a user of lengths must write it."""

    def call(x: Tensor) -> Tensor:
        packed = pack_padded_sequence(x, lengths, enforce_sorted=False)
        return pad_packed_sequence(layer(packed)[0], total_length=x.shape[0])[0]

    return call


def standard(
    seconds: float, shapes: list[Shape], dtype: torch.dtype = torch.float32, only: str = ""
) -> list[dict[str, Any]]:
    """Against torch.nn: one row a layer and shape."""
    rows = []
    for name, (ours, theirs, _, _) in STANDARD.items():
        if only and name != only:
            continue
        for T, B, I, H in shapes:
            torch.manual_seed(0)
            x = torch.randn(T, B, I, dtype=dtype, requires_grad=True)
            layer, mine = theirs(I, H, dtype=dtype), ours(I, H, dtype=dtype)
            a = both(first_of(layer), x, list(layer.parameters()))
            b = both(first_of(mine), x, list(mine.parameters()))
            row: dict[str, Any] = {"layer": name, "shape": (T, B, I, H), "dtype": str(dtype)[6:]}
            for kind in ("forward", "train"):
                found = race({"torch": a[kind], "carousel": b[kind]}, seconds)
                row[kind] = {**found, "ratio": found["torch"] / found["carousel"]}
            row["gflops"] = 3 * 2 * T * B * len(mine.cell.gates) * H * (I + H) / row["train"]["carousel"] * 1e-9
            rows.append(row)
    return rows


def matmul_gflops(seconds: float) -> float:
    """The best rate of torch's matrix product on this machine, in GF/s: what the products alone cannot exceed."""
    best = 0.0
    for M, K, N in ((1024, 1024, 1024), (2048, 512, 2048), (700, 650, 2600)):
        a, b = torch.randn(M, K), torch.randn(K, N)
        with torch.no_grad():
            took = race({"mm": lambda: a @ b}, seconds / 3)["mm"]  # noqa: B023
        best = max(best, 2 * M * K * N / took * 1e-9)
    return best


def onnx_lstm(layer: Recurrent, threads: int) -> Callable[[Tensor], Any]:
    """ONNX Runtime's LSTM operator with the weights of `layer`, one layer and one direction."""
    import onnxruntime  # type: ignore[import-untyped]
    from onnx import TensorProto, helper, numpy_helper

    H = layer.hidden_size

    def order(weight: Any) -> Tensor:  # i f g o → i o f c
        i, f, g, o = weight.detach().split(H)
        return torch.cat((i, o, f, g))

    own = {name: order(getattr(layer, f"{name}_l0")) for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")}
    bias = torch.cat((own["bias_ih"], own["bias_hh"]))
    weights = {"W": own["weight_ih"], "R": own["weight_hh"], "B": bias}
    graph = helper.make_graph(
        [helper.make_node("LSTM", ["x", *weights], ["y", "h", "c"], hidden_size=H)],
        "lstm",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [None, None, layer.input_size])],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("y", "h", "c")],
        [numpy_helper.from_array(value.unsqueeze(0).numpy(), name) for name, value in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return lambda x: session.run(None, {"x": x.numpy()})


def onnx(seconds: float, shapes: list[Shape]) -> list[dict[str, Any]]:
    """The forward call of our LSTM against ONNX Runtime's operator; nothing where it is not installed."""
    if any(importlib.util.find_spec(name) is None for name in ("onnx", "onnxruntime")):
        return []
    rows = []
    for T, B, I, H in shapes:
        torch.manual_seed(0)
        mine, x = layers.LSTM(I, H), torch.randn(T, B, I)
        theirs = onnx_lstm(mine, torch.get_num_threads())
        with torch.no_grad():
            difference = float((torch.from_numpy(theirs(x)[0][:, 0]) - mine(x)[0]).abs().max())
            if difference > 1e-4:
                raise RuntimeError(f"onnxruntime's LSTM differs by {difference:.1g} at {_words((T, B, I, H))}")
            runs = {"onnxruntime": lambda: theirs(x), "carousel": lambda: mine(x)}  # noqa: B023
            found = race(runs, seconds, turn=min(0.1, seconds / 10), pause=min(0.02, seconds / 10))
        rows.append({"shape": (T, B, I, H), **found, "ratio": found["onnxruntime"] / found["carousel"]})
    return rows


def variants(seconds: float, shapes: list[Shape]) -> list[dict[str, Any]]:
    """Our variants against our own standard layer, and against a plain loop."""
    rows = []
    for name, (variant, base, _) in VARIANTS.items():
        for T, B, I, H in shapes:
            torch.manual_seed(0)
            x = torch.randn(T, B, I, requires_grad=True)
            mine, other = variant(I, H), base(I, H)
            runs = {
                "variant": both(first_of(mine), x, list(mine.parameters()))["train"],
                "standard": both(first_of(other), x, list(other.parameters()))["train"],
            }
            found = race(runs, seconds)
            slow = both(loop_of(mine), x, list(mine.parameters()))["train"]
            again = race({"loop": slow, "variant": runs["variant"]}, 0.0, least=3)
            found["variant"], found["loop"] = min(found["variant"], again["variant"]), again["loop"]
            found["cost"] = found["variant"] / found["standard"]
            found["ratio"] = found["loop"] / found["variant"]
            rows.append({"layer": name, "shape": (T, B, I, H), **found})
    return rows


def lengths(seconds: float, shapes: list[Shape]) -> list[dict[str, Any]]:
    """Lengths uniform in 1…T, unsorted, against torch.nn.LSTM and our own padded call.

    Against `torch.nn.LSTM` twice: the same job, from a padded batch to a padded batch, and only its call on a
    PackedSequence that is there already.
    """
    rows = []
    for T, B, I, H in shapes:
        torch.manual_seed(0)
        x = torch.randn(T, B, I, requires_grad=True)
        n = torch.randint(1, T + 1, (B,))
        n[0] = T
        layer, mine = nn.LSTM(I, H), layers.LSTM(I, H)
        theirs, own = list(layer.parameters()), list(mine.parameters())
        found = race({
            "same job": both(through_packing(layer, n), x, theirs)["train"],
            "packed": both(*packed_by(layer, x, n), theirs)["train"],
            "carousel": both(first_of(mine, lengths=n), x, own)["train"],
            "padded": both(first_of(mine), x, own)["train"],
        }, seconds)  # fmt: skip
        ours = found["carousel"]
        rows.append({"shape": (T, B, I, H), **found, "job": found["same job"] / ours, "ratio": found["packed"] / ours,
                     "of padded": ours / found["padded"],
                     "gflops": 3 * 2 * int(n.sum()) * 4 * H * (I + H) / ours * 1e-9})  # fmt: skip
    return rows


def tracing(seconds: float, shapes: list[Shape]) -> list[dict[str, Any]]:
    """A training forward with and without a trace."""
    rows = []
    for T, B, I, H in shapes:
        x = torch.randn(T, B, I, requires_grad=True)
        mine = layers.LSTM(I, H)
        found = race({"plain": lambda: mine(x), "trace": lambda: mine.trace(x).gates}, seconds)  # noqa: B023
        rows.append({"shape": (T, B, I, H), **found, "cost": found["trace"] / found["plain"]})
    return rows


def _many(run: Callable[[], Any], times: int) -> Callable[[], None]:
    def many() -> None:
        for _ in range(times):
            run()

    return many


def streaming(seconds: float) -> list[dict[str, Any]]:
    """One step at B = 1 against torch.nn.LSTMCell."""
    rows = []
    for H in (128, 256):
        cell, mine = nn.LSTMCell(H, H), layers.LSTM(H, H)
        x, state = torch.randn(1, H), (torch.zeros(1, H), torch.zeros(1, H))
        own = tuple(s.unsqueeze(0) for s in state)
        with torch.no_grad():
            found = race({
                "torch": _many(lambda: cell(x, state), 50),  # noqa: B023
                "carousel": _many(lambda: mine.step(x, own), 50),  # noqa: B023
            }, seconds)  # fmt: skip
        rows.append({"hidden": H, **{k: v / 50 for k, v in found.items()}, "ratio": found["torch"] / found["carousel"]})
    return rows


def cells(seconds: float) -> list[dict[str, Any]]:
    """One step of a cell at B = 1 against torch's, without gradients and with them."""
    rows = []
    for name in ("LSTM", "GRU", "RNN"):
        for H in (64, 128, 256):
            theirs, mine = getattr(nn, f"{name}Cell")(H, H), getattr(layers, f"{name}Cell")(H, H)
            x, s = torch.randn(1, H), torch.zeros(1, H)
            hx = (s, s.clone()) if name == "LSTM" else s

            def forward(cell: nn.Module) -> Tensor:
                new = cell(x, hx)  # noqa: B023
                return new[0] if isinstance(new, tuple) else new

            def train(cell: nn.Module) -> None:
                loss = forward(cell).sum()
                torch.autograd.grad(loss, list(cell.parameters()))

            row: dict[str, Any] = {"cell": name, "hidden": H}
            for kind, run in (("forward", forward), ("train", train)):
                with torch.set_grad_enabled(kind == "train"):
                    found = race({
                        "torch": _many(lambda: run(theirs), 20),  # noqa: B023
                        "carousel": _many(lambda: run(mine), 20),  # noqa: B023
                    }, seconds)  # fmt: skip
                row[kind] = {**{k: v / 20 for k, v in found.items()}, "ratio": found["torch"] / found["carousel"]}
            rows.append(row)
    return rows


def growth(seconds: float) -> list[dict[str, Any]]:
    """Time a step as the number of steps grows."""
    mine = layers.LSTM(64, 64)
    rows = []
    for T in (100, 300, 1000, 3000, 10_000):
        x = torch.randn(T, 8, 64, requires_grad=True)
        run = both(first_of(mine), x, list(mine.parameters()))["train"]
        rows.append({"steps": T, "microseconds a step": race({"t": run}, seconds)["t"] / T * 1e6})
    return rows


def measure(quick: bool = False, seconds: float | None = None, say: Callable[[str], None] = print) -> dict[str, Any]:
    """All measurements as one dictionary of plain values."""
    if not backend.available():
        raise CarouselError(f"bench layers: {backend.why_not()}")
    seconds = seconds if seconds is not None else 0.3 if quick else 2.0
    shapes = SHAPES[:1] + SHAPES[5:6] if quick else SHAPES
    native = backend.load()[0]
    assert native is not None
    with threads(2):
        result: dict[str, Any] = {"isa": backend.isa(), "threads": 2, "torch": torch.__version__, "seconds": seconds}
        result["peak gflops"] = native.peak(2)
        result["matmul gflops"] = matmul_gflops(seconds)
        for name, part in (
            ("standard", lambda: standard(seconds, shapes)),
            ("onnx", lambda: onnx(seconds, [*shapes, *SMALL])),
            ("variants", lambda: variants(seconds, shapes)),
            ("lengths", lambda: lengths(seconds, shapes)),
            ("trace", lambda: tracing(seconds, shapes)),
            ("step", lambda: streaming(seconds)),
            ("cells", lambda: cells(seconds / 2)),
            ("float64", lambda: standard(seconds, shapes, torch.float64, only="LSTM")),
            ("growth", lambda: growth(seconds)),
        ):
            say(f"measuring: {name}")
            result[name] = part()
        result["peak gflops"] = max(result["peak gflops"], native.peak(2))
        result["matmul gflops"] = max(result["matmul gflops"], matmul_gflops(seconds))
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
        for kind, label, bound in (
            ("train", "forward+backward", geometric),
            ("forward", "forward", 1.4 if name == "LSTM" else geometric),
        ):
            ratios = [row[kind]["ratio"] for row in rows]
            claim(f"torch.nn.{name}, {label}, slowest shape", min(ratios), least)
            claim(f"torch.nn.{name}, {label}, geometric mean", mean(ratios), bound)
    if r["onnx"]:
        claim("LSTM of ONNX Runtime, forward, slowest shape", min(row["ratio"] for row in r["onnx"]), 1.0)
    of_matmul = [
        row["gflops"] / r["matmul gflops"] for row in r["standard"] if row["layer"] == "LSTM" and row["shape"][3] >= 200
    ]
    if of_matmul:
        claim("share of the matmul limit at H ≥ 200, LSTM, forward+backward, slowest shape", min(of_matmul), 0.88)
    for name, (_, _, most) in VARIANTS.items():
        rows = [row for row in r["variants"] if row["layer"] == name]
        claim(
            f"{name} relative to our own standard layer, slowest shape", max(row["cost"] for row in rows), most, False
        )
        claim(f"{name} against a plain loop, geometric mean", mean([row["ratio"] for row in rows]), 5.0)
    for kind, label in (("job", "packing counted"), ("ratio", "packing not counted")):
        found = [row[kind] for row in r["lengths"]]
        claim(f"lengths against PackedSequence, {label}, slowest shape", min(found), 3.0)
        claim(f"lengths against PackedSequence, {label}, geometric mean", mean(found), 3.0)
    claim(
        "lengths relative to our padded call, slowest shape", max(row["of padded"] for row in r["lengths"]), 1.0, False
    )
    claim("trace relative to a training forward, slowest shape", max(row["cost"] for row in r["trace"]), 1.05, False)
    claim("step against LSTMCell, slower size", min(row["ratio"] for row in r["step"]), 2.5)
    for kind, label in (("forward", "without gradients"), ("train", "forward+backward")):
        found = [row[kind]["ratio"] for row in r["cells"] if row["cell"] == "LSTM"]
        claim(f"LSTMCell against torch.nn.LSTMCell at B = 1, {label}, slowest size", min(found), 2.0)
    claim("float64 LSTM, forward+backward, geometric mean", mean([row["train"]["ratio"] for row in r["float64"]]), 2.0)
    large = [
        row["gflops"] / r["peak gflops"] for row in r["standard"] if row["layer"] == "LSTM" and row["shape"][3] >= 512
    ]
    if large:
        claim("share of the FMA peak at H ≥ 512, LSTM, forward+backward", min(large), 0.85)
    steps = [row["microseconds a step"] for row in r["growth"]]
    claim("time per step at T = 10,000 relative to T = 1000", steps[-1] / steps[2], 1.15, False)
    return lines


def main(out: Path, quick: bool = False, seconds: float | None = None) -> dict[str, Any]:
    """Measure, print the tables, and write `layers.json` and `layers.html` into `out`."""
    from rich.console import Console

    console = Console()
    out.mkdir(parents=True, exist_ok=True)
    with replace_text_file(out / "layers.json") as numbers, replace_text_file(out / "layers.html") as picture:
        start = time.perf_counter()
        result = measure(quick, seconds, say=lambda line: console.print(f"[dim]{line}[/dim]"))
        json.dump(result, numbers, indent=1)
        picture.write(page(result, (time.perf_counter() - start) / 60).html())
    print_tables(console, ratios(result), onnx_times(result), verdicts(result))
    console.print(f"wrote {out / 'layers.json'} and {out / 'layers.html'}")
    return result


def ratios(result: dict[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Columns and rows: forward+backward, in brackets forward, by shape and layer; then the share of the matmul limit
    that the LSTM's forward+backward reaches."""
    rows: dict[Shape, list[str]] = {}
    shares = {
        tuple(row["shape"]): row["gflops"] / result["matmul gflops"]
        for row in result["standard"]
        if row["layer"] == "LSTM"
    }
    for row in result["standard"]:
        entry = f"{row['train']['ratio']:.2f} ({row['forward']['ratio']:.2f})"
        rows.setdefault(tuple(row["shape"]), []).append(entry)
    columns = ["T B I H", *(f"nn.{name}" for name in STANDARD), "LSTM, of the matmul limit"]
    return columns, [[_words(s), *entries, f"{shares[s]:.2f}"] for s, entries in rows.items()]


def onnx_times(result: dict[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Columns and rows: microseconds of a forward call, ONNX Runtime's and ours."""
    rows = [
        [_words(r["shape"]), f"{1e6 * r['onnxruntime']:.0f}", f"{1e6 * r['carousel']:.0f}", f"{r['ratio']:.2f}"]
        for r in result["onnx"]
    ]
    return ["LSTM forward, T B I H", "onnxruntime, µs", "carousel, µs", "ratio"], rows


def verdicts(result: dict[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Columns and rows: what must be reached, and what was."""
    rows = [
        [
            c["claim"],
            f"{c['found']:.2f}",
            f"{'≥' if c['least'] else '≤'} {c['bound']}",
            "holds" if c["holds"] else "missed",
        ]
        for c in result["claims"]
    ]
    return ["claim", "found", "must be", "verdict"], rows


def page(result: dict[str, Any], minutes: float) -> Page:
    """The measurements as a page: a picture, and the tables."""
    chart = figure(
        yaxis={"type": "log", "title": "times as fast"}, xaxis={"type": "category", "title": "T B I H"}, barmode="group"
    )
    for name in STANDARD:
        rows = [row for row in result["standard"] if row["layer"] == name]
        chart.add_bar(name=f"nn.{name}", x=[_words(r["shape"]) for r in rows], y=[r["train"]["ratio"] for r in rows])
    chart.add_hline(y=1, line_dash="dash")
    says = (
        f"Two threads, {result['isa']}, multiply-add peak {result['peak gflops']:.0f} GF/s. Above 1 Carousel is faster."
    )
    return (
        Page("The recurrent layers against torch.nn", says)
        .figure(chart, "Forward and backward", "The dashed line is torch.nn's own speed, shape by shape.")
        .heading("By shape")
        .text("Forward and backward with the gradient of the input; in brackets forward alone.")
        .table(*ratios(result))
        .heading("The LSTM operator of ONNX Runtime")
        .text("Forward alone; without rows, onnx and onnxruntime are not installed.")
        .table(*onnx_times(result))
        .heading("Claims")
        .table(*verdicts(result))
        .footer(f"carousel bench layers --seconds {result['seconds']:g}", minutes=minutes)
    )


def _words(shape: Sequence[int]) -> str:
    return " ".join(map(str, shape))
