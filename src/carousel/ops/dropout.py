"""Dropout in one pass: the mask is never in memory, and all threads draw it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from .backend import load, takes
from .layer import empty_from_pool


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
    if rate == 1 or not takes(x):
        return x * functional.dropout(x.new_ones(x.shape[1:]), rate) if repeat else functional.dropout(x, rate)
    seed = int(torch.empty((), dtype=torch.int64).random_())
    return Dropped.apply(x, seed, rate, len(x) if repeat else 1)


class Dropped(torch.autograd.Function):
    """The call as one node of the graph; its derivative is the same call."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, seed: int, rate: float, times: int) -> Tensor:
        ctx.drawn = seed, rate, times
        x, y = x.contiguous(), empty_from_pool(x, *x.shape)
        native: Any = load()[0]
        run = native.dropout32 if x.dtype is torch.float32 else native.dropout64
        run(x.numel() // times, times, seed, rate, x.data_ptr(), y.data_ptr(), torch.get_num_threads())
        return y

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:
        return Dropped.apply(grad, *ctx.drawn), None, None, None
