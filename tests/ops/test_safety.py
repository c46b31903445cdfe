"""What must hold whatever the numbers: bits, threads, NaN, denormals, gradients, the torch operators around it."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from helpers.harness import CELLS, Case, layer
from torch import Tensor

import carousel
from carousel.cells.spec import Weights
from carousel.ops import backend
from carousel.ops.layer import fused_layer

names = pytest.mark.parametrize("name", CELLS)


@names
def test_same_bits_again(name: str) -> None:
    case = Case(CELLS[name], T=9, B=14, I=11, H=37, D=2, lengths=[b % 10 for b in range(14)], dtype=torch.float32)
    first = case.run(fused=True)
    for _ in range(3):
        assert all(torch.equal(v, first[n]) for n, v in case.run(fused=True).items())


@names
def test_one_thread_and_two_agree(name: str) -> None:
    for shape in ((20, 14, 11, 75), (3, 9, 4, 450)):
        case = Case(CELLS[name], *shape)
        torch.set_num_threads(1)
        one = case.run(fused=True)
        torch.set_num_threads(2)
        two = case.run(fused=True)
        for key, value in one.items():
            torch.testing.assert_close(two[key], value, rtol=1e-12, atol=1e-12)


@names
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
def test_nan_and_infinity_pass_as_in_the_reference(name: str, bad: float) -> None:
    w = layer(name)
    x = torch.randn(4, 3, 3, dtype=torch.float64)
    x[1, 1, 0] = bad
    case = Case(w.cell)
    zeros = tuple(torch.zeros(3, 5, dtype=torch.float64) for _ in w.cell.states)
    want, _ = case.reference([w], x, [zeros], [tuple(z[0] for z in zeros)], None, None, {}, [{}])
    got, _, _ = fused_layer(w.cell, [w], x, [None])
    torch.testing.assert_close(got, want, rtol=1e-10, atol=1e-12, equal_nan=True)
    assert torch.isfinite(got[:, 0]).all() and torch.isfinite(got[:, 2]).all()


@names
def test_padding_reaches_nothing(name: str) -> None:
    case = Case(CELLS[name], T=6, B=5, D=2, lengths=[6, 0, 3, 1, 4])
    made = case.make()
    clean = case.run(fused=True)
    for b, n in enumerate(case.lengths or []):
        made["x"][n:, b] = float("nan")
    case.make = lambda: made  # type: ignore[method-assign]
    dirty = case.run(fused=True)
    for key, value in clean.items():
        assert torch.equal(dirty[key], value), key
    for b, n in enumerate(case.lengths or []):
        assert not dirty["d_x"][n:, b].any() and not dirty["output"][n:, b].any()


def test_sigmoid_and_tanh_are_accurate() -> None:
    """Through an Elman cell with weight 1: relative accuracy where it is hard."""
    for dtype, tolerance in ((torch.float32, 1e-6), (torch.float64, 1e-14)):
        x = torch.cat((torch.linspace(-30, 30, 3001), torch.tensor([1e-30, -1e-12, 1e-7, 3e-4, -85.0, 85.0])))
        x = x.to(dtype).reshape(1, -1, 1)
        for name, exact in (("elman-sigmoid", torch.sigmoid), ("elman-tanh", torch.tanh)):
            ones = {"weight_ih": torch.ones(1, 1, dtype=dtype), "weight_hh": torch.zeros(1, 1, dtype=dtype)}
            y, _, _ = fused_layer(CELLS[name], [Weights(CELLS[name], ones)], x, [None])
            want = exact(x.double())
            assert ((y.double() - want).abs() <= tolerance * want.abs()).all(), (name, dtype)


@names
def test_finite_differences_of_the_kernel(name: str) -> None:
    """float64, through lengths, a reset, recurrent dropout and zoneout, with both directions."""
    case = Case(CELLS[name], T=4, B=3, I=2, H=3, D=2, lengths=[4, 0, 3], reset=True, learn_initial=True, mask=True,
                zoneout=(0.3, 0.2), training=False)  # fmt: skip
    made = case.make()
    keys = [list(p) for p in made["parameters"]]
    flat = [made["x"]] + [v for part in ("parameters", "state", "initial") for d in made[part] for v in d.values()]
    n = len(case.cell.states)

    def call(*tensors: Tensor) -> tuple[Tensor, ...]:
        rest = iter(tensors[1:])
        weights = [Weights(case.cell, {k: next(rest) for k in ks}, m) for ks, m in zip(keys, made["mask"], strict=True)]
        states = [tuple(next(rest) for _ in range(n)) for _ in range(2)]
        initials = [tuple(next(rest) for _ in range(n)) for _ in range(2)]
        output, final, _ = fused_layer(
            case.cell, weights, tensors[0], states, lengths=torch.tensor(case.lengths), reset=made["reset"],
            initial=initials, zoneout=dict(zip(case.cell.states, (0.3, 0.2), strict=False)),
        )  # fmt: skip
        return output, *(s for state in final for s in state)

    assert torch.autograd.gradcheck(
        call, [v.requires_grad_() for v in flat], eps=1e-6, atol=1e-7, fast_mode=name != "lstm"
    )


@names
def test_gradient_of_a_gradient_by_the_reference(name: str) -> None:
    case = Case(CELLS[name], T=3, B=2, I=2, H=2)
    w = layer(name, 2, 2)
    keys = [k for k in vars(w) if isinstance(vars(w)[k], Tensor)]
    x = torch.randn(3, 2, 2, dtype=torch.float64, requires_grad=True)
    zeros = [tuple(torch.zeros(2, 2, dtype=torch.float64) for _ in case.cell.states)]

    def reference(x, weights, states, initials):  # type: ignore[no-untyped-def]
        return case.reference(weights, x, zeros, zeros, None, None, {}, [{}])

    def call(x: Tensor, *values: Tensor) -> Tensor:
        own = Weights(case.cell, dict(zip(keys, values, strict=True)))
        return fused_layer(case.cell, [own], x, [None], reference=reference)[0]

    assert torch.autograd.gradgradcheck(call, [x, *(vars(w)[k].requires_grad_() for k in keys)], fast_mode=True)


def test_denormals_leave_the_callers_mode_alone() -> None:
    tiny = torch.tensor(1e-40)
    assert (tiny * 0.5).item() != 0  # this machine and this process do denormals
    w = layer("lstm", dtype=torch.float32)
    for threads in (1, 2):
        torch.set_num_threads(threads)
        out, _, _ = fused_layer(w.cell, [w], torch.full((50, 4, 3), 1e-41), [None])
        assert torch.isfinite(out).all()
        assert (tiny * 0.5).item() != 0
        spread = torch.full((1 << 16,), 1e-40) * 0.5  # the worker threads too
        assert spread.ne(0).all()


def test_calls_from_several_python_threads() -> None:
    cases = [Case(CELLS[n], T=20, B=6, I=16, H=48, D=2, lengths=[20, 3, 0, 11, 7, 20]) for n in CELLS]
    alone = [case.run(fused=True) for case in cases]
    wrong: list[str] = []

    def work(k: int) -> None:
        torch.set_num_threads(2)
        for _ in range(5):
            for j, case in enumerate(cases):
                if (j + k) % 2 and any(not torch.equal(v, alone[j][n]) for n, v in case.run(fused=True).items()):
                    wrong.append(f"thread {k}, case {j}")

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_backward_twice_through_a_kept_graph() -> None:
    w = layer("lstm")
    x = torch.randn(4, 2, 3, dtype=torch.float64, requires_grad=True)
    y, _, _ = fused_layer(w.cell, [w], x, [None])
    (first,) = torch.autograd.grad(y.sum(), x, retain_graph=True)
    (second,) = torch.autograd.grad(y.sum(), x)
    assert torch.equal(first, second)


@names
def test_trace_is_what_was_saved_and_satisfies_the_equations(name: str) -> None:
    w = layer(name)
    x = torch.randn(6, 3, 3, dtype=torch.float64)
    _, _, trace = fused_layer(w.cell, [w], x, [None], want_trace=True)
    assert trace is not None
    seen: dict[str, list[Tensor]] = {}

    def let(name: str, value: Tensor) -> Tensor:
        seen.setdefault(name, []).append(value)
        return value

    state = tuple(torch.zeros(3, 5, dtype=torch.float64) for _ in w.cell.states)
    drive = w.cell.project_input(x, w)
    for t in range(6):
        state = w.cell.step(w.cell.inputs(drive[t]), state, w, let)
    assert trace[0].keys() == seen.keys()
    for key, values in seen.items():
        torch.testing.assert_close(trace[0][key], torch.stack(values), rtol=1e-12, atol=1e-12)
    gates = [trace[0][g] for g in w.cell.gates if g not in w.cell.states]
    assert len({g.untyped_storage().data_ptr() for g in gates}) <= 1  # views, not copies


@names
def test_what_is_saved_past_an_end_is_zero_in_a_trace_and_never_read(name: str) -> None:
    w = layer(name, H=40)
    parameters = [v.requires_grad_() for v in vars(w).values() if isinstance(v, Tensor)]
    lengths = torch.arange(48) % 21
    x = torch.randn(20, 48, 3, dtype=torch.float64, requires_grad=True)
    past = torch.arange(20).unsqueeze(1) >= lengths

    def run(traced: bool) -> list[Tensor]:
        # memory that the next call gets is full of NaN
        fused_layer(w.cell, [w], torch.full_like(x, torch.nan), [None])
        y, [state], trace = fused_layer(w.cell, [w], x, [None], lengths=lengths, want_trace=traced)
        assert y.grad_fn is not None
        saved = y.grad_fn.saved_tensors[-2]  # type: ignore[attr-defined]
        if traced:
            assert not saved[0][past].isnan().any()
            assert all(not values[past].any() for values in trace[0].values())
        return [y, *state, *torch.autograd.grad(y.square().sum() + state[0].sum(), [x, *parameters])]

    for a, b in zip(run(False), run(True), strict=True):
        assert torch.equal(a, b)


@names
def test_total_gradients_of_every_gate_and_state(name: str) -> None:
    """What backward saw at each step, through the cell's own derivative, is the derivative of every named value."""
    w = layer(name)
    x = torch.randn(6, 3, 3, dtype=torch.float64, requires_grad=True)
    seed = torch.randn(6, 3, 5, dtype=torch.float64)
    totals: list[dict[str, Tensor]] = []
    y, _, trace = fused_layer(w.cell, [w], x, [None], want_trace=True, totals=totals)
    torch.autograd.grad(y, x, seed)
    assert trace is not None
    zero = torch.zeros(1, 3, 5, dtype=torch.float64)
    previous = tuple(torch.cat((zero, trace[0][s][:-1])) for s in w.cell.states)
    d = tuple(totals[0][s] for s in w.cell.states)
    found = w.cell.backward(d, SimpleNamespace(**trace[0]), previous, w).values

    named: dict[str, list[Tensor]] = {}

    def let(name: str, value: Tensor) -> Tensor:
        named.setdefault(name, []).append(value)
        return value

    state = tuple(zero[0] for _ in w.cell.states)
    drive = w.cell.project_input(x, w)
    for t in range(6):
        state = w.cell.step(w.cell.inputs(drive[t]), state, w, let)
    loss = (torch.stack(named["h"]) * seed).sum()
    for key, values in named.items():
        want = torch.stack(torch.autograd.grad(loss, values, retain_graph=True, materialize_grads=True))
        torch.testing.assert_close(found[key], want, rtol=1e-11, atol=1e-12)


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], env=os.environ | environment, capture_output=True, text=True, check=False
    )


@pytest.mark.slow
def test_instruction_set_can_be_chosen() -> None:
    code = "from carousel.ops import backend; print(backend.isa())"
    for name in backend.supported():
        found = run(code, CAROUSEL_ISA=name)
        assert found.stdout.strip() in (name, "")
    wrong = run(code, CAROUSEL_ISA="avx3")
    assert wrong.returncode and "CAROUSEL_ISA=avx3" in wrong.stderr and "generic" in wrong.stderr


def test_forward_memory_does_not_grow_with_time() -> None:
    code = """
import resource, torch
from carousel import cells
from carousel.cells.spec import Weights
from carousel.ops.layer import fused_layer
w = Weights(cells.LSTM(), {"weight_ih": torch.zeros(256, 1), "weight_hh": torch.zeros(256, 64)})
def peak(T):
    y = fused_layer(w.cell, [w], torch.zeros(T, 8, 1), [None])[0]
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, y.nbytes
before, _ = peak(100)
after, output = peak(40_000)  # the gates of all steps would be four times the output
print((after - before) / output)
"""
    found = run(code)
    assert float(found.stdout) < 1.3, found.stderr


@pytest.mark.parametrize("steps", [60, 100, 104, 110, 125, 150, 210, 260])
def test_a_call_that_is_repeated_takes_no_new_memory(steps: int) -> None:
    """Blocks of one to five megabytes come back from the pool, whatever their size."""

    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()

    layer, x = carousel.LSTM(1, 16), torch.randn(steps, 64, 1)
    for _ in range(5):
        layer(x)[0].sum().backward()
    before = resident()
    for _ in range(20):
        layer(x)[0].sum().backward()
    assert resident() - before < 4 << 20
