"""The norm of all gradients together, in one pass over them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from .backend import load, unsupported_reason


def total_norm(tensors: Sequence[Tensor]) -> float:
    """The square root of the sum of the squares of all numbers in `tensors`.

    >>> total_norm([torch.tensor([2.0, 3.0]), torch.tensor([[6.0]])])
    7.0
    """
    if not tensors:
        return 0.0
    if unsupported_reason("total_norm", *tensors) is not None or any(not t.is_contiguous() for t in tensors):
        return float(nn.utils.get_total_norm(tensors))
    native: Any = load()[0]
    run = native.squares32 if tensors[0].dtype is torch.float32 else native.squares64
    return math.sqrt(run([(t.data_ptr(), t.numel()) for t in tensors], torch.get_num_threads()))
