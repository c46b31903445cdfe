"""Dropout in one pass: the mask is never in memory, and all threads draw it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.utils._python_dispatch import _disable_current_modes

from .backend import empty_from_pool, load, unsupported_reason


def dropout(x: Tensor, rate: float, repeat: bool = False) -> Tensor:
    """x (T, ...) → the same, with a share `rate` of the places 0 and the others as much larger.

    With `repeat` a place is dropped at all T steps, or at none. Natively the places depend on torch's seed alone, not
    on the number of threads.

    >>> y = dropout(torch.ones(1000, 80), 0.5, repeat=True)
    >>> bool((y == y[0]).all()), y.unique()
    (True, tensor([0., 2.]))
    """
    if not rate:
        return x
    if rate == 1 or unsupported_reason("dropout", x) is not None:
        return _reference(x, rate, repeat)
    seed = int(torch.empty((), dtype=torch.int64, device="cpu").random_())
    return Fused.apply(x, seed, rate, len(x) if repeat else 1)


def _reference(x: Tensor, rate: float, repeat: bool) -> Tensor:
    return x * functional.dropout(x.new_ones(x.shape[1:]), rate) if repeat else functional.dropout(x, rate)


def _run(x: Tensor, seed: int, rate: float, times: int) -> Tensor:
    """The native call: `times` blocks of x with one mask."""
    x, y = x.contiguous(), empty_from_pool(x, *x.shape)
    native: Any = load()[0]
    run = native.dropout32 if x.dtype is torch.float32 else native.dropout64
    run(x.numel() // times, times, seed, rate, x.data_ptr(), y.data_ptr(), torch.get_num_threads())
    return y


class Fused(torch.autograd.Function):
    """The call as one node of the graph; its derivative is the same call."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, seed: int, rate: float, times: int) -> Tensor:
        ctx.drawn = seed, rate, times
        ctx.like = x.shape, x.dtype
        return _run(x, seed, rate, times)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:
        if unsupported_reason("dropout_backward", grad) is None:
            return Fused.apply(grad, *ctx.drawn), None, None, None
        shape, dtype = ctx.like
        with _disable_current_modes():  # drawn in the forward call: a constant to the modes active now
            mask = _run(torch.ones(shape, dtype=dtype, device="cpu"), *ctx.drawn)
        return grad * mask, None, None, None
