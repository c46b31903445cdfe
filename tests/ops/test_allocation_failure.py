"""An allocation that fails inside a native call, in whichever thread, is a MemoryError: nothing leaks, and the next
call gives the same bits as before."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from helpers.harness import CELLS, Case
from torch import Tensor

from carousel.cells.spec import Weights
from carousel.ops import dropout
from carousel.ops.attention import AdditiveAttentionStep, Sequences, attend
from carousel.ops.backend import load
from carousel.ops.cross_entropy import linear_cross_entropy
from carousel.ops.norm import total_norm
from carousel.ops.prediction import Chooser, Predictor
from carousel.ops.stepwise import Stepwise
from carousel.ops.stream import Stream

pytestmark = pytest.mark.slow  # the whole file: every allocation of every call fails in turn


def layer(name: str, grad: bool, **shape: Any) -> Callable[[], list[Tensor]]:
    case = Case(CELLS[name], dtype=torch.float32, **{"T": 4, "I": 24, "H": 40} | shape)
    return lambda: list(case.run(fused=True, grad=grad).values())


def own_weights(inputs: int, hidden: int) -> Weights:
    case = Case(CELLS["lstm"], I=inputs, H=hidden)
    values = {name: p.float().requires_grad_() for name, p in case.make()["parameters"][0].items()}
    return Weights(case.cell, values)


def stepwise() -> list[Tensor]:
    w, x = own_weights(24, 40), torch.linspace(-1, 1, 3 * 8 * 24).view(3, 8, 24).requires_grad_()
    steps = Stepwise(w.cell, w, [8, 8, 5], [torch.zeros(8, 40), torch.zeros(8, 40)])
    ys = [steps.step(x[t, :n]) for t, n in enumerate((8, 8, 5))]
    return [*ys, *torch.autograd.grad(sum(y.square().sum() for y in ys), [x, w.weight_ih, w.weight_hh])]


def stream() -> list[Tensor]:
    w = own_weights(24, 40)
    steps = Stream(w.cell, [w]).keep()
    state = None
    for t in range(3):
        state = steps.step(torch.linspace(-1, 1, 20 * 24).view(20, 24) + t, state)
    assert state is not None
    return list(state)


def cross_entropy() -> list[Tensor]:
    hidden = torch.linspace(-1, 1, 70 * 24).view(70, 24).requires_grad_()
    weight = torch.linspace(-1, 1, 301 * 24).view(301, 24).sin().requires_grad_()
    loss = linear_cross_entropy(hidden, weight, torch.arange(70) % 301)
    return [loss, *torch.autograd.grad(loss, [hidden, weight])]


OF = Sequences(torch.tensor([9, 7]), torch.tensor([0, 11]), torch.tensor([11, 13]), 13)


def attention(additive: bool) -> Callable[[], list[Tensor]]:
    def call() -> list[Tensor]:
        tensors = [torch.linspace(-1, 1, n * 48).view(n, 48).cos().requires_grad_() for n in (16, 24, 24)]
        v = torch.linspace(0, 1, 48).requires_grad_() if additive else None
        context, weights = attend(*tensors, OF, v)
        return [context, weights, *torch.autograd.grad(context.square().sum(), tensors)]

    return call


def attention_step() -> list[Tensor]:
    weight = torch.linspace(-1, 1, 48 * 40).view(48, 40).sin()
    step = AdditiveAttentionStep(weight, torch.linspace(0, 1, 48), weight, torch.zeros(48))
    memory = torch.linspace(-1, 1, 24 * 48).view(24, 48)
    return [step(torch.linspace(-1, 1, 16 * 40).view(16, 40), memory, memory, OF)]


def prediction() -> list[Tensor]:
    weight = torch.linspace(-1, 1, 900 * 24).view(900, 24).sin()
    h = torch.linspace(-1, 1, 8 * 24).view(8, 24)
    log_probs = Predictor(weight)(h)
    values, tokens = Predictor(weight).best(h, 5)
    chosen = Chooser([("top_k", 50.0), ("top_p", 0.9)]).choose(log_probs.repeat(3, 1), np.linspace(0, 0.99, 24))
    return [log_probs, values, tokens, *(torch.from_numpy(c) for c in chosen)]


def training() -> list[Tensor]:
    x = torch.linspace(-1, 1, 1 << 17)
    return [dropout.Fused.apply(x, 1, 0.5, 1), torch.tensor(total_norm([x, x[:1000]]))]


CALLS: dict[str, Callable[[], list[Tensor]]] = {
    "forward": layer("lstm", False, B=9),
    "threads share units": layer("gru", True, B=3, H=100),
    "two directions": layer("layernorm", True, B=9, D=2, lengths=[4, 3, 0, 1, 2, 3, 4, 4, 1], reset=True, mask=True),
    "stepwise": stepwise,
    "stream": stream,
    "cross entropy": cross_entropy,
    "attention": attention(False),
    "additive attention": attention(True),
    "attention step": attention_step,
    "prediction": prediction,
    "training": training,
}


@pytest.fixture
def native() -> Iterator[Any]:
    module: Any = load()[0]
    yield module
    module.fail_allocation_after(-1)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", CALLS)
def test_every_allocation_that_fails_is_a_memory_error(name: str, threads: int, native: Any) -> None:
    torch.set_num_threads(threads)
    call = CALLS[name]
    want = call()
    in_use = native.blocks_in_use()
    for n in range(10_000):
        native.fail_allocation_after(n)
        failed = False
        try:
            call()
        except MemoryError:
            failed = True
        assert failed == (native.fail_allocation_after(-1) < 0), f"allocation {n} failed without an exception"
        assert native.blocks_in_use() == in_use, f"allocation {n}: blocks leaked"
        if not failed:
            break
        if n % 7 == 0:
            assert all(torch.equal(a, b) for a, b in zip(call(), want, strict=True))
    assert n > 1  # the call makes allocations that can fail
    assert all(torch.equal(a, b) for a, b in zip(call(), want, strict=True))
    assert native.blocks_in_use() == in_use


def test_a_backward_that_failed_can_be_repeated(native: Any) -> None:
    """Through a graph that is kept: the steps of a stepwise layer begin again from the last."""
    w, x = own_weights(24, 40), torch.randn(3, 8, 24, requires_grad=True)
    steps = Stepwise(w.cell, w, [8, 8, 8], [torch.zeros(8, 40), torch.zeros(8, 40)])
    loss = sum(steps.step(x[t]).square().sum() for t in range(3))
    assert isinstance(loss, Tensor)
    want = torch.autograd.grad(loss, [x, w.weight_hh], retain_graph=True)
    for n in range(10_000):
        native.fail_allocation_after(n)
        try:
            torch.autograd.grad(loss, [x, w.weight_hh], retain_graph=True)
            break
        except MemoryError:
            got = torch.autograd.grad(loss, [x, w.weight_hh], retain_graph=True)
            assert all(torch.equal(a, b) for a, b in zip(got, want, strict=True)), n
    assert n > 10
