"""A user's own cell, run as a program, against the alternatives: `carousel bench cells`.

Forward and backward with the gradient of the input, in one process, taking turns; a time is the best of several. Each
built-in cell is also written as a user would write it, which shows what a program costs beside a kernel of its own.
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, cast

import torch
from rich.console import Console
from torch import Tensor, nn

from .. import layers
from ..cells import Gate, registry
from ..cells.spec import Cell, Let, State, Weights
from ..layers import Recurrent
from ..layers.trace import Clamp
from ..ops import backend
from ..threads import threads
from .claims import measured, print_claims
from .layers import SHAPES, Shape, both, first_of, loop_of, mean, race

Clock = Callable[[], float]
QUICK: list[Shape] = [(35, 20, 200, 200), (512, 16, 64, 128), (100, 1, 128, 128)]
BUILT_IN = {  # at most this many times the time of its kernel: slowest shape, geometric mean
    "lstm": (1.2, 1.1),
    "gru": (1.2, 1.1),
    "peephole": (1.2, 1.1),
    "coupled": (1.2, 1.1),
    "gru-reset-before": (1.2, 1.1),
    "layernorm": (1.4, 1.4),
}
AT_COMPILE: list[Shape] = [(35, 20, 200, 200), (50, 32, 256, 256)]
AT_JAX: list[Shape] = [(35, 20, 200, 200), (50, 32, 256, 256), (512, 16, 64, 128)]


class MGU(Cell):
    """The minimal gated unit (Zhou et al., 2016): a GRU with one gate."""

    gates = {"f": Gate(role="keep"), "n": Gate("tanh", role="candidate")}

    def step(self, x: Any, state: State, w: Weights, let: Let) -> State:
        (h,) = state
        f = let("f", torch.sigmoid(x.f + w.U(h, "f")))
        n = let("n", torch.tanh(x.n + w.U(f * h, "n")))
        return (let("h", (1 - f) * h + f * n),)


class MinGRU(Cell):
    """A GRU without recurrent weights (Feng et al., 2024): h = (1 − z)∘h₋ + z∘n."""

    gates = {"z": Gate(recurrent="none"), "n": Gate("linear", "none", "candidate")}

    def step(self, x: Any, state: State, w: Weights, let: Let) -> State:
        (h,) = state
        z = let("z", torch.sigmoid(x.z))
        return (let("h", (1 - z) * h + z * let("n", x.n)),)


def _train(call: Callable[[Tensor], Tensor], x: Tensor, layer: nn.Module) -> Callable[[], Any]:
    return both(call, x, list(layer.parameters()))["train"]


def _as_program(cell: type[Cell]) -> Cell:
    """The same equations without a kernel: a subclass has none."""
    own: Cell = type(f"Own{cell.__name__}", (cell,), {})()
    return own


def built_in(seconds: float, shapes: list[Shape], clock: Clock) -> list[dict[str, Any]]:
    """Each built-in cell as a program beside its kernel."""
    rows = []
    for name in BUILT_IN:
        for T, B, I, H in shapes:
            torch.manual_seed(0)
            x = torch.randn(T, B, I, requires_grad=True)
            kernel, program = layers.named(name)(I, H), Recurrent(_as_program(registry()[name]), I, H)
            runs = {which: _train(first_of(layer), x, layer) for which, layer in
                    (("kernel", kernel), ("program", program))}  # fmt: skip
            found = race(runs, seconds, clock=clock)
            rows.append({"cell": name, "shape": (T, B, I, H), **found, "cost": found["program"] / found["kernel"]})
    return rows


def scan(z: Tensor, n: Tensor) -> Tensor:
    """h = (1 − z)∘h₋ + z∘n for all steps in log₂ T rounds (Hillis & Steele), by torch's operations: (T, B, H)."""
    a, h = 1 - z, z * n
    reach = 1
    while reach < len(h):
        h = torch.cat((h[:reach], h[reach:] + a[reach:] * h[:-reach]))
        a = torch.cat((a[:reach], a[reach:] * a[:-reach]))
        reach *= 2
    return h


def against_loops(seconds: float, shapes: list[Shape], clock: Clock) -> list[dict[str, Any]]:
    """MGU and minGRU against a plain loop; minGRU against a scan in log₂ T rounds too."""
    rows = []
    for cell in (MGU(), MinGRU()):
        for T, B, I, H in shapes:
            torch.manual_seed(0)
            x, layer = torch.randn(T, B, I, requires_grad=True), Recurrent(cell, I, H)
            runs = {"carousel": _train(first_of(layer), x, layer), "loop": _train(loop_of(layer), x, layer)}
            if isinstance(cell, MinGRU):

                def by_scan(x: Tensor, layer: Any = layer) -> Tensor:
                    z, n = nn.functional.linear(x, layer.weight_ih_l0, layer.bias_ih_l0).chunk(2, -1)
                    return scan(torch.sigmoid(z), n)

                runs["scan"] = _train(by_scan, x, layer)
            found = race(runs, seconds, least=2, clock=clock)
            row = {"cell": type(cell).__name__, "shape": (T, B, I, H), **found}
            rows.append({**row, **{f"of {k}": found[k] / found["carousel"] for k in ("loop", "scan") if k in found}})
    return rows


def watched(seconds: float, shapes: list[Shape], clock: Clock) -> list[dict[str, Any]]:
    """What it costs to hold a value, beside a trace; and the gradients of all values, beside a training step."""
    rows = []
    for cell in (registry()["lstm"](), registry()["gru"](), MGU()):
        for T, B, I, H in shapes:
            torch.manual_seed(0)
            x, layer = torch.randn(T, B, I, requires_grad=True), Recurrent(cell, I, H)
            seed = torch.randn(T, B, H)
            gate = next(iter(cell.gates))
            clamp = Clamp(gate, 0.5, steps=(T // 3, 2 * T // 3), units=(0, H // 2))

            def weighted(y: Tensor, seed: Tensor = seed) -> Tensor:
                return (y * seed).sum()

            runs: dict[str, Callable[[], Any]] = {
                "trace": torch.no_grad()(partial(layer.trace, x)),
                "intervene": torch.no_grad()(partial(layer.intervene, x, clamp)),
                "train": _train(first_of(layer), x, layer),
                "gradients": partial(layer.trace, x, gradients_of=weighted),
            }
            found = race(runs, seconds, clock=clock)
            ratios = {
                "of trace": found["intervene"] / found["trace"],
                "of training": found["gradients"] / found["train"],
            }
            rows.append({"cell": repr(cell), "shape": (T, B, I, H), **found, **ratios})
    return rows


def steps(seconds: float, clock: Clock, times: int = 50) -> list[dict[str, Any]]:
    """One step of a stream, of one sequence: a program beside the kernel, seconds for a step."""
    rows = []
    for name in ("lstm", "gru"):
        kernel, program = layers.named(name)(128, 128), Recurrent(_as_program(registry()[name]), 128, 128)
        pair, x = {"kernel": kernel.eval(), "program": program.eval()}, torch.randn(1, 128)

        @torch.no_grad()
        def run(layer: Any, x: Tensor = x) -> None:
            state = None
            for _ in range(times):
                _, state = layer.step(x, state)

        found = race({which: partial(run, layer) for which, layer in pair.items()}, seconds, clock=clock)
        found = {which: best / times for which, best in found.items()}
        rows.append({"cell": name, **found, "cost": found["program"] / found["kernel"]})
    return rows


# ---- other compilers ----


def _first_call(run: Callable[[], Any]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def _jax_step(jax: Any, cell: str) -> Callable[[Any, Any, Any], Any]:
    """A step in jax: the new state from U (G·H, H), the state and W x + b."""
    jnp, σ = jax.numpy, jax.nn.sigmoid

    def mgu(U: Any, state: Any, wx: Any) -> Any:
        (h,), (x_f, x_n), (U_f, U_n) = state, jnp.split(wx, 2, -1), jnp.split(U, 2)
        f = σ(x_f + h @ U_f.T)
        n = jnp.tanh(x_n + (f * h) @ U_n.T)
        return ((1 - f) * h + f * n,)

    def lstm(U: Any, state: Any, wx: Any) -> Any:
        h, c = state
        i, f, g, o = jnp.split(wx + h @ U.T, 4, -1)
        c = σ(f) * c + σ(i) * jnp.tanh(g)
        return σ(o) * jnp.tanh(c), c

    return mgu if cell == "MGU" else lstm


def _jax_gradient(jax: Any, cell: str, states: int) -> Callable[[Any, Any], Any]:
    """The sum of all outputs and its gradients by parameters and input, jitted."""
    step = _jax_step(jax, cell)

    def run(p: Any, x: Any) -> Any:
        def body(state: Any, wx: Any) -> Any:
            state = step(p["U"], state, wx)
            return state, state[0]

        zeros = jax.numpy.zeros((x.shape[1], p["U"].shape[1]))
        return jax.lax.scan(body, (zeros,) * states, x @ p["W"].T + p["b"])[1].sum()

    gradient: Callable[[Any, Any], Any] = jax.jit(jax.value_and_grad(run, argnums=(0, 1)))
    return gradient


def against_jax(seconds: float) -> list[dict[str, Any]]:
    """MGU and a user's LSTM against a jitted `lax.scan` of the same equations; nothing where jax is not installed."""
    if importlib.util.find_spec("jax") is None:
        return []
    import jax  # type: ignore[import-not-found, unused-ignore]

    rows = []
    for name, cell in (("MGU", MGU), ("LSTM", lambda: _as_program(registry()["lstm"]))):
        for T, B, I, H in AT_JAX:
            torch.manual_seed(0)
            x, layer = torch.randn(T, B, I, requires_grad=True), cast(Any, Recurrent(cell(), I, H))
            p = {"W": layer.weight_ih_l0, "U": layer.weight_hh_l0, "b": layer.bias_ih_l0 + layer.bias_hh_l0}
            p = {key: jax.numpy.asarray(value.detach().numpy()) for key, value in p.items()}
            given, gradient = jax.numpy.asarray(x.detach().numpy()), _jax_gradient(jax, name, len(layer.cell.states))
            ours, theirs = (
                lambda layer=layer, x=x: torch.autograd.grad(layer(x)[0].sum(), [x, *layer.parameters()]),
                lambda gradient=gradient, p=p, given=given: jax.block_until_ready(gradient(p, given)),
            )
            first = {"first call": _first_call(ours), "jax first call": _first_call(theirs)}
            found = race({"carousel": ours, "jax": theirs}, seconds)
            ratio = {"ratio": found["jax"] / found["carousel"]}
            rows.append({"cell": name, "shape": (T, B, I, H), **found, **first, **ratio})
    return rows


def against_compile(seconds: float) -> list[dict[str, Any]]:
    """MGU against torch.compile of a plain loop, which takes a minute or two to compile."""
    rows = []
    for T, B, I, H in AT_COMPILE:
        torch.manual_seed(0)
        x, layer = torch.randn(T, B, I, requires_grad=True), Recurrent(MGU(), I, H)
        compiled = torch.compile(loop_of(layer))

        def train(call: Callable[[Tensor], Tensor], x: Tensor = x, layer: Any = layer) -> None:
            torch.autograd.grad(call(x).sum(), [x, *layer.parameters()])

        runs = {"carousel": partial(train, first_of(layer)), "compile": partial(train, compiled)}
        first, compiling = (_first_call(run) for run in runs.values())
        found = race(runs, seconds)
        times = {"first call": first, "compile first call": compiling}
        ratio = {"ratio": found["compile"] / found["carousel"]}
        rows.append({"cell": "MGU", "shape": (T, B, I, H), **found, **times, **ratio})
    return rows


def first_calls() -> list[dict[str, Any]]:
    """Seconds that tracing, differentiating and lowering a cell take, in its first call."""
    rows = []
    for cell in (MGU(), MinGRU(), *(_as_program(registry()[name]) for name in BUILT_IN)):
        layer, x = Recurrent(cell, 4, 8), torch.randn(2, 2, 4, requires_grad=True)
        start = time.perf_counter()
        layer(x)[0].sum().backward()
        first = time.perf_counter() - start
        start = time.perf_counter()
        layer(x)[0].sum().backward()
        rows.append({"cell": repr(cell), "seconds": first - (time.perf_counter() - start)})
    return rows


def claims(result: dict[str, Any]) -> list[dict[str, Any]]:
    """What was to be reached, and what was."""
    rows = []

    def claim(what: str, found: float, bound: float, at_most: bool = False) -> None:
        holds, sign = (found <= bound, "≤") if at_most else (found >= bound, "≥")
        rows.append({"what": what, "found": found, "must": f"{sign} {bound:g}", "holds": holds})

    for name, (slowest, average) in BUILT_IN.items():
        costs = [row["cost"] for row in result["built-in"] if row["cell"] == name]
        claim(f"{name} as a program, times its kernel: slowest shape", max(costs), slowest, at_most=True)
        claim(f"{name} as a program, times its kernel: geometric mean", mean(costs), average, at_most=True)
    ratios = [row["of loop"] for row in result["loops"] if row["cell"] == "MGU"]
    claim("MGU against a plain loop: geometric mean", mean(ratios), 4.0)
    claim("MGU against a plain loop: slowest shape", min(ratios), 1.8)
    for row in result["loops"]:
        bounds = {(35, 20, 200, 200): (1.5, 1.8), (512, 16, 64, 128): (3.0, 4.0)}.get(row["shape"])
        if row["cell"] == "MinGRU" and bounds:
            where = " ".join(map(str, row["shape"]))
            claim(f"minGRU against a plain loop at {where}", row["of loop"], bounds[0])
            claim(f"minGRU against a scan at {where}", row["of scan"], bounds[1])
    for row in result["jax"]:
        where = f"{row['cell']} against jax's jitted scan at {' '.join(map(str, row['shape']))}"
        claim(where, row["ratio"], 1.3)
        claim(f"{where}: first call, times its own", row["first call"] / row["jax first call"], 1.0, at_most=True)
    for row in result["compile"]:
        where = f"MGU against torch.compile of the loop at {' '.join(map(str, row['shape']))}"
        claim(where, row["ratio"], 1.0)
        claim(f"{where}: seconds of our first call", row["first call"], 0.5, at_most=True)
    for row in result["watched"]:
        where = f"{row['cell']} at {' '.join(map(str, row['shape']))}"
        claim(f"intervene, times a trace: {where}", row["of trace"], 1.2, at_most=True)
        claim(f"gradients of all values, times a training step: {where}", row["of training"], 1.4, at_most=True)
    for row in result["steps"]:
        claim(f"{row['cell']}: a step as a program, times the kernel's", row["cost"], 1.3, at_most=True)
    claim("seconds to trace and lower a cell: slowest", max(r["seconds"] for r in result["first"]), 0.5, at_most=True)
    return rows


def measure(
    seconds: float, shapes: list[Shape], clock: Clock = time.perf_counter, compiles: bool = False
) -> dict[str, Any]:
    """All of it."""
    result: dict[str, Any] = {"isa": backend.isa(), "threads": torch.get_num_threads(), "first": first_calls()}
    result["clock"] = "wall clock" if clock is time.perf_counter else "processor time of one thread"
    result["built-in"] = built_in(seconds, shapes, clock)
    result["loops"] = against_loops(seconds, shapes, clock)
    result["watched"] = watched(seconds, [shape for shape in shapes if shape in QUICK] or shapes, clock)
    result["steps"] = steps(seconds, clock)
    result["jax"] = [] if clock is time.thread_time else against_jax(seconds)  # whose threads are its own
    result["compile"] = against_compile(seconds) if compiles else []
    return result


def lines(result: dict[str, Any]) -> list[str]:
    """The result as text."""
    text = [
        f"{result['isa']}, {result['clock']}, threads: {result['threads']}; T B I H; forward+backward, milliseconds"
    ]
    for row in result["built-in"]:
        where = " ".join(map(str, row["shape"]))
        kernel, program = row["kernel"] * 1e3, row["program"] * 1e3
        text.append(f"{row['cell']:<17} {where:<16} kernel {kernel:8.2f}  program {program:8.2f}  {row['cost']:5.2f}×")
    for row in result["loops"]:
        others = "  ".join(f"{k} {row[k] * 1e3:8.2f} ({row[f'of {k}']:.1f}×)" for k in ("loop", "scan") if k in row)
        where = " ".join(map(str, row["shape"]))
        text.append(f"{row['cell']:<17} {where:<16} ours   {row['carousel'] * 1e3:8.2f}  {others}")
    return text + _watched_lines(result) + _peer_lines(result)


def _watched_lines(result: dict[str, Any]) -> list[str]:
    text = []
    for row in result["watched"]:
        where = " ".join(map(str, row["shape"]))
        text.append(
            f"{row['cell']:<17} {where:<16} trace {row['trace'] * 1e3:8.2f}  intervene {row['intervene'] * 1e3:8.2f}  "
            f"{row['of trace']:5.2f}×  training step {row['train'] * 1e3:8.2f}  "
            f"gradients {row['gradients'] * 1e3:8.2f}  {row['of training']:5.2f}×"
        )
    for row in result["steps"]:
        kernel, program = row["kernel"] * 1e6, row["program"] * 1e6
        found = f"kernel {kernel:6.1f}  program {program:6.1f}  {row['cost']:.2f}×"
        text.append(f"{row['cell']:<17} a step, B 1 H 128, µs: {found}")
    return text


def _peer_lines(result: dict[str, Any]) -> list[str]:
    text = []
    for other in ("jax", "compile"):
        name = {"jax": "jax", "compile": "torch.compile"}[other]
        for row in result[other]:
            where = " ".join(map(str, row["shape"]))
            text.append(
                f"{row['cell']:<17} {where:<16} ours   {row['carousel'] * 1e3:8.2f}  {name} {row[other] * 1e3:8.2f} "
                f"({row['ratio']:.2f}×); first calls {row['first call']:.2f} s, {row[other + ' first call']:.2f} s"
            )
    if not result["jax"]:
        why = (
            "it has threads of its own"
            if "thread" in result["clock"]
            else "the extra `peers` has it, and is not installed"
        )
        text.append(f"no comparison with jax: {why}")
    if not result["compile"]:
        text.append("no comparison with torch.compile: it takes minutes; ask for it with --compile")
    return text


def main(
    out: Path,
    quick: bool = False,
    seconds: float | None = None,
    processor_time: bool = False,
    compiles: bool = False,
) -> dict[str, Any]:
    """Measure, print, and write cells.json into `out`; with `processor_time` that of one thread, with `compiles` beside
    torch.compile too."""
    shapes, each = (QUICK, 0.3) if quick else (SHAPES, 1.0)
    clock: Clock = time.thread_time if processor_time else time.perf_counter
    out.mkdir(parents=True, exist_ok=True)

    def run() -> dict[str, Any]:
        with threads(1 if processor_time else torch.get_num_threads()):
            return measure(seconds or each, shapes, clock, compiles)

    result = measured(out / "cells.json", run, claims)
    console = Console(highlight=False)
    for line in lines(result):
        console.print(line, markup=False)
    print_claims(console, result["claims"])
    return result
