"""Where the time of a small call goes: `carousel bench overhead`.

Each part is measured by itself, in turn with the whole call; a time is the best of many. Without gradients one native
call checks its tensors, makes the results and runs the kernel; what it takes beside checks and kernel is allocation.
What is left of the whole is Python: attribute lookups, lists of addresses, the way from one function to the next.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from .. import layers
from ..cells.spec import Weights
from ..errors import CarouselError
from ..files import replace_text_file
from ..layers import Recurrent
from ..layers import native as native_layers
from ..ops import backend
from ..ops.layer import fused_layer
from ..threads import threads
from .layers import Shape, race

SHAPES: list[Shape] = [(1, 1, 128, 128), (10, 1, 64, 64), (20, 8, 16, 32)]  # T, B, I, H
LAYERS: dict[str, Any] = {"LSTM": layers.LSTM, "GRU": layers.GRU, "RNN": layers.RNN}
PARTS = ("native", "allocation", "checks", "module", "autograd")
BOUND = 40.0  # microseconds of an LSTM's call at T = B = 1, H = 128


class Nothing(torch.autograd.Function):
    """A node with the inputs and outputs of a layer's, which computes nothing: what autograd itself costs."""

    @staticmethod
    def forward(ctx: Any, outputs: Sequence[Tensor], *inputs: Tensor) -> tuple[Tensor, ...]:
        ctx.save_for_backward(*inputs)
        return tuple(t.detach() for t in outputs)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        return None, *ctx.saved_tensors


def recorded(names: Sequence[str], run: Callable[[], Any]) -> tuple[Any, Callable[[], None]]:
    """The result of `run`, and a function that makes its native calls again, with the same addresses.

    The caller holds on to all that the addresses belong to.
    """
    module: Any = backend.load()[0]
    calls: list[tuple[Any, tuple[Any, ...]]] = []
    originals = {name: getattr(module, name) for name in names}

    def recorder(original: Any) -> Callable[..., Any]:
        def record(*arguments: Any) -> Any:
            calls.append((original, arguments))
            return original(*arguments)

        return record

    try:
        for name, original in originals.items():
            setattr(module, name, recorder(original))
        result = run()
    finally:
        for name, original in originals.items():
            setattr(module, name, original)

    def again() -> None:
        for original, arguments in calls:
            original(*arguments)

    return result, again


def _allocation(tensors: Sequence[Tensor]) -> Callable[[], Any]:
    shapes, like = [t.shape for t in tensors], tensors[0]
    return lambda: [like.new_empty(*shape) for shape in shapes]


def _forward(layer: Recurrent, x: Tensor) -> dict[str, Callable[[], Any]]:
    """A call without gradients, and its parts."""
    plan, identity, count = native_layers._plan(layer), nn.Identity(), torch.get_num_threads()
    assert plan is not None
    own, run = native_layers.own_parameters(layer, plan), plan.native
    weights = Weights(layer.cell, layer._parameters_of(0, 0))
    kept, native = recorded(["forward32"], lambda: fused_layer(layer.cell, [weights], x, [None]))

    def run_native() -> None:
        native()
        assert kept  # the memory that it writes to

    return {
        "whole": lambda: layer(x),
        "native": run_native,
        "call": lambda: run.sequence(own, x, None, count),
        "checks": lambda: run.fits(own, x, None),
        "module": lambda: identity(x),
    }


def _step(layer: Recurrent, x: Tensor) -> dict[str, Callable[[], Any]]:
    """One step of a stream, (B, I), and its parts."""
    given = tuple(x.new_zeros(1, x.shape[0], layer.hidden_size) for _ in layer.cell.states)
    state, new = given if len(given) > 1 else given[0], [torch.empty_like(s) for s in given]
    before, after = [s.data_ptr() for s in given], [s.data_ptr() for s in new]
    stepper, plan = native_layers.keep(layer), native_layers._plan(layer)
    assert stepper is not None and plan is not None
    own, run = native_layers.own_parameters(layer, plan), plan.native
    kernel, rows, count = stepper.stream.step_native, x.shape[0], torch.get_num_threads()
    sequence = x.unsqueeze(0)

    def run_native() -> None:
        kernel(rows, count, x.data_ptr(), before, after, 0, 0, rows, rows, False)
        assert layer and given and new  # the memory that it reads and writes

    return {
        "whole": lambda: layer.step(x, state),
        "native": run_native,
        "call": lambda: run.step(own, x, state, count),
        "checks": lambda: run.fits(own, sequence, state),
    }


def _cell(kind: Any, x: Tensor, hidden: int) -> dict[str, Callable[[], Any]]:
    """One step of a cell, (B, I), and its parts: the kernel's and the checks' are those of a layer's step."""
    cell, layer = kind(x.shape[1], hidden), LAYERS[kind.__name__.removesuffix("Cell")](x.shape[1], hidden)
    state = tuple(x.new_zeros(x.shape[0], hidden) for _ in cell.cell.states)
    hx, parts, identity = state if len(state) > 1 else state[0], _step(layer, x), nn.Identity()
    plan, count = native_layers._plan(cell), torch.get_num_threads()
    assert plan is not None
    return {
        **parts,
        "whole": lambda: cell(x, hx),
        "call": lambda: plan.native.cell(cell._parameters, x, hx, count),
        "module": lambda: identity(x),
    }


def _train(layer: Recurrent, x: Tensor) -> dict[str, Callable[[], Any]]:
    """Forward and backward, with the gradient of the input, and their parts."""
    x = x.clone().requires_grad_()
    leaves, identity = [x, *layer.parameters()], nn.Identity()
    output = layer(x)[0]
    seed = torch.randn_like(output)

    def both() -> Any:
        result = layer(x)
        return result, torch.autograd.grad(result[0], leaves, seed, retain_graph=True)

    kept, native = recorded(["forward32", "backward32"], both)
    (output, state), grads = kept
    outputs = [output, *(state if isinstance(state, tuple) else (state,))]
    saved = list(output.grad_fn.saved_tensors)[-2:]

    def run_native() -> None:
        native()
        assert kept  # the memory that it reads and writes

    return {
        "whole": lambda: torch.autograd.grad(layer(x)[0], leaves, seed),
        "native": run_native,
        "allocation": _allocation([*outputs, *saved, *grads]),
        "checks": lambda: (
            backend.unsupported_reason("layer", *leaves),
            backend.unsupported_reason("layer_backward", seed, *[None] * len(layer.cell.states)),
        ),
        "module": lambda: identity(x),
        "autograd": lambda: torch.autograd.grad(Nothing.apply(outputs, *leaves)[0], leaves, seed),
    }


def measure(seconds: float = 1.0, num_threads: int = 2) -> dict[str, Any]:
    """Microseconds of every case and of its parts, as plain values."""
    if not backend.available():
        raise CarouselError(f"bench overhead: {backend.why_not()}")
    rows = []
    with threads(num_threads):
        for name, kind in LAYERS.items():
            for T, B, I, H in SHAPES:
                torch.manual_seed(0)
                layer, x = kind(I, H), torch.randn(T, B, I)
                cases: dict[str, Any] = {"forward": lambda layer=layer, x=x: _forward(layer, x)}
                if T == 1:
                    cases["step"] = lambda layer=layer, x=x: _step(layer, x[0])
                    cases["cell"] = lambda name=name, x=x, H=H: _cell(getattr(layers, f"{name}Cell"), x[0], H)
                for case, prepare in cases.items():
                    with torch.no_grad():
                        rows.append(_row(name, case, (T, B, I, H), race(prepare(), seconds)))
                rows.append(_row(name, "train", (T, B, I, H), race(_train(layer, x), seconds)))
    call = next(r["whole"] for r in rows if (r["layer"], r["call"], r["shape"]) == ("LSTM", "forward", SHAPES[0]))
    return {
        "isa": backend.isa(),
        "threads": num_threads,
        "torch": torch.__version__,
        "seconds": seconds,
        "rows": rows,
        "claim": {"found": call, "bound": BOUND, "holds": call <= BOUND},
    }


def _row(layer: str, call: str, shape: Shape, times: dict[str, float]) -> dict[str, Any]:
    micro = {name: 1e6 * seconds for name, seconds in times.items()}
    if "call" in micro:
        micro["allocation"] = max(0.0, micro["call"] - micro["native"] - micro["checks"])
    parts = {name: micro[name] for name in PARTS if name in micro}
    return {
        "layer": layer,
        "call": call,
        "shape": shape,
        "whole": micro["whole"],
        **parts,
        "Python": max(0.0, micro["whole"] - sum(parts.values())),
    }


def table(result: dict[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Columns and rows, in microseconds."""
    columns = ["whole", *PARTS, "Python"]
    rows = []
    for row in result["rows"]:
        times = [f"{row[part]:.1f}" if part in row else "" for part in columns]
        rows.append([row["layer"], row["call"], " ".join(map(str, row["shape"])), *times])
    return ["layer", "call", "T B I H", *columns], rows


def main(out: Path, seconds: float = 1.0, num_threads: int = 2) -> dict[str, Any]:
    """Measure, print the table, and write `overhead.json` into `out`."""
    from rich.console import Console
    from rich.table import Table

    console = Console()
    out.mkdir(parents=True, exist_ok=True)
    with replace_text_file(out / "overhead.json") as numbers:
        result = measure(seconds, num_threads)
        json.dump(result, numbers, indent=1)
    columns, rows = table(result)
    console.print(f"microseconds, {result['isa']}, {result['threads']} threads")
    printed = Table(box=None, padding=(0, 1, 0, 0))
    for column in columns:
        printed.add_column(column, no_wrap=True)
    for row in rows:
        printed.add_row(*row)
    console.print(printed)
    claim = result["claim"]
    verdict = "holds" if claim["holds"] else "missed"
    console.print(
        f"an LSTM's call at T = B = 1, H = 128: {claim['found']:.1f} µs, must be ≤ {claim['bound']:g}: {verdict}"
    )
    console.print(f"wrote {out / 'overhead.json'}")
    return result
