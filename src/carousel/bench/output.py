"""The fused output layer against what a PyTorch user has: `carousel bench output`.

Forward and backward, with the gradients of hidden, weight and bias. Both sides run in one process, taking turns; a time
is the best of several. Ratios are theirs / ours: above 1 we are faster. *Theirs* is the fastest that torch offers.
The adaptive softmax is compared with the full one, both ours.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from ..errors import CarouselError
from ..files import replace_text_file
from ..networks.adaptive import AdaptiveSoftmax, default_cutoffs
from ..ops import backend
from ..ops.cross_entropy import linear_cross_entropy
from ..threads import threads
from .claims import print_tables
from .layers import race, verdicts

Shape = tuple[int, int, int]
SHAPES: list[tuple[Shape, torch.dtype, float | None]] = [  # tokens, features, classes; the least ratio
    ((6272, 128, 2844), torch.float32, 2.0),
    ((700, 200, 10_000), torch.float32, 1.25),
    ((700, 650, 10_000), torch.float32, None),
    ((6272, 256, 2844), torch.float32, None),
    ((6272, 128, 2844), torch.float64, None),
]

SIZES = (50_000, 200_000)  # vocabularies for the adaptive softmax


def contenders(hidden: Tensor, weight: Tensor, bias: Tensor, targets: Tensor) -> dict[str, Callable[[], Tensor]]:
    """The loss, as we compute it and in each way that this torch knows, but for torch's own in chunks: it saves memory
    too, at many times the time."""
    ways: dict[str, Callable[[], Tensor]] = {
        "carousel": lambda: linear_cross_entropy(hidden, weight, targets, bias),
        "cross_entropy": lambda: functional.cross_entropy(functional.linear(hidden, weight, bias), targets),
    }
    theirs = getattr(functional, "linear_cross_entropy", None)  # torch 2.13 and newer
    if theirs is not None:
        ways["linear_cross_entropy"] = lambda: theirs(hidden, weight, targets, linear_bias=bias)
    return ways


def compare(shape: Shape, dtype: torch.dtype, seconds: float) -> dict[str, Any]:
    """One shape: times in seconds by contender, forward alone and with backward."""
    tokens, features, classes = shape
    torch.manual_seed(0)
    hidden = torch.randn(tokens, features, dtype=dtype, requires_grad=True)
    weight = (torch.randn(classes, features, dtype=dtype) / features**0.5).requires_grad_()
    bias = torch.zeros(classes, dtype=dtype, requires_grad=True)
    leaves, targets = [hidden, weight, bias], torch.randint(classes, (tokens,))
    ways = contenders(hidden, weight, bias, targets)

    def train(call: Callable[[], Tensor]) -> Callable[[], Any]:
        return lambda: torch.autograd.grad(call(), leaves)

    def forward(call: Callable[[], Tensor]) -> Callable[[], Any]:
        def run() -> None:
            with torch.no_grad():
                call()

        return run

    row: dict[str, Any] = {"shape": shape, "dtype": str(dtype)[6:]}
    for kind, way in (("train", train), ("forward", forward)):
        times = race({name: way(call) for name, call in ways.items()}, seconds)
        theirs = min(t for name, t in times.items() if name != "carousel")
        row[kind] = {**times, "torch": theirs, "ratio": theirs / times["carousel"]}
    row["gflops"] = 6 * tokens * features * classes / row["train"]["carousel"] * 1e-9
    return row


def compare_adaptive(size: int, seconds: float, tokens: int = 700, features: int = 256) -> dict[str, Any]:
    """Forward and backward of the adaptive softmax beside the full one, both fused; the targets follow Zipf's law."""
    torch.manual_seed(0)
    hidden = torch.randn(tokens, features, requires_grad=True)
    full, adaptive = nn.Linear(features, size), AdaptiveSoftmax(features, size, default_cutoffs(size))
    targets = torch.multinomial(1 / torch.arange(1.0, size + 1), tokens, replacement=True)

    def train(call: Callable[[], Tensor], module: nn.Module) -> Callable[[], Any]:
        return lambda: torch.autograd.grad(call(), [hidden, *module.parameters()])

    times = race(
        {
            "full": train(lambda: linear_cross_entropy(hidden, full.weight, targets, full.bias), full),
            "adaptive": train(lambda: adaptive.loss(hidden, targets), adaptive),
        },
        seconds,
    )
    rates = {name: tokens / time for name, time in times.items()}
    shares = [float((targets >= low).float().mean()) for low, _ in adaptive.clusters]
    return {"classes": size, "tokens": tokens, "features": features, "cutoffs": adaptive.cutoffs[:-1],
            "beyond": shares, "tokens per second": rates, "ratio": times["full"] / times["adaptive"]}  # fmt: skip


def measure(quick: bool = False, seconds: float | None = None, say: Callable[[str], None] = print) -> dict[str, Any]:
    """All measurements as one dictionary of plain values."""
    if not backend.available():
        raise CarouselError(f"bench output: {backend.why_not()}")
    seconds = seconds if seconds is not None else 0.5 if quick else 5.0
    native = backend.load()[0]
    assert native is not None
    result: dict[str, Any] = {"isa": backend.isa(), "threads": 2, "torch": torch.__version__, "seconds": seconds}
    with threads(2):
        result["peak gflops"] = native.peak(2)
        result["output"] = []
        for shape, dtype, _ in SHAPES[:2] if quick else SHAPES:
            say(f"measuring: {_words(shape)}, {str(dtype)[6:]}")
            result["output"].append(compare(shape, dtype, seconds))
        result["adaptive"] = []
        for size in SIZES[:1] if quick else SIZES:
            say(f"measuring: adaptive softmax, {size:,} classes")
            result["adaptive"].append(compare_adaptive(size, seconds))
        result["peak gflops"] = max(result["peak gflops"], native.peak(2))
    result["claims"] = claims(result)
    return result


def claims(result: dict[str, Any]) -> list[dict[str, Any]]:
    """What must be reached and what was, one line each."""
    bounds = {(shape, str(dtype)[6:]): least for shape, dtype, least in SHAPES}
    lines = []
    for row in result["output"]:
        least = bounds[row["shape"], row["dtype"]]
        if least is not None:
            ratio = row["train"]["ratio"]
            lines.append({"claim": f"the best of torch, forward+backward, {_words(row['shape'])}", "found": ratio,
                          "bound": least, "least": True, "holds": ratio >= least})  # fmt: skip
    return lines


def times(result: dict[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Columns and rows: milliseconds of forward+backward, then the ratios."""
    rows = []
    for row in result["output"]:
        ours, theirs = (row["train"][side] * 1e3 for side in ("carousel", "torch"))
        rows.append([
            _words(row["shape"]),
            row["dtype"],
            f"{theirs:.1f}",
            f"{ours:.1f}",
            f"{row['train']['ratio']:.2f} ({row['forward']['ratio']:.2f})",
            f"{row['gflops']:.0f}",
        ])  # fmt: skip
    return ["tokens features classes", "dtype", "torch, ms", "carousel, ms", "ratio (forward)", "GF/s"], rows


def adaptive_rates(result: dict[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Columns and rows: tokens per second of forward+backward, full and adaptive softmax."""
    rows = []
    for row in result["adaptive"]:
        rates = row["tokens per second"]
        cutoffs = " ".join(f"{cutoff:,}" for cutoff in row["cutoffs"])
        rows.append([f"{row['classes']:,}", cutoffs, f"{rates['full']:,.0f}", f"{rates['adaptive']:,.0f}",
                     f"{row['ratio']:.1f}"])  # fmt: skip
    return ["classes", "cutoffs", "full, tokens/s", "adaptive, tokens/s", "ratio"], rows


def main(out: Path, quick: bool = False, seconds: float | None = None) -> dict[str, Any]:
    """Measure, print the tables, and write `output.json` into `out`."""
    from rich.console import Console

    console = Console()
    out.mkdir(parents=True, exist_ok=True)
    with replace_text_file(out / "output.json") as numbers:
        result = measure(quick, seconds, say=lambda line: console.print(f"[dim]{line}[/dim]"))
        json.dump(result, numbers, indent=1)
    print_tables(console, times(result), adaptive_rates(result), verdicts(result))
    console.print(f"multiply-add peak {result['peak gflops']:.0f} GF/s; wrote {out / 'output.json'}")
    return result


def _words(shape: Shape) -> str:
    return " ".join(map(str, shape))
