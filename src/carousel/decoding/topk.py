"""The k best of each row, best first; among equals the lower index.

On a CPU the rows are searched with numpy, whose argmax is several times faster than torch's, and `_screen` spares a
batch most of what `torch.topk` would sort.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from ..masks import row_positions
from .constraint import NEVER

_SCREEN_FROM = 20_000  # elements; below, one call of torch.topk is quicker than several of numpy


def on_host(values: Tensor) -> np.ndarray:
    """A tensor as a numpy array: the same memory if it is on the CPU.

    >>> on_host(torch.tensor([1.0, 2.0]))
    array([1., 2.], dtype=float32)
    """
    if values.is_cpu and not values.requires_grad:
        return values.numpy()
    return values.detach().cpu().numpy()


def pick(log_probs: Tensor, tokens: np.ndarray, rows: np.ndarray | None = None) -> np.ndarray:
    """The values (M,) of (N, V) at `tokens` (M,) in `rows` (M,), by default one a row.

    >>> pick(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), np.array([1, 0]))
    array([2., 3.], dtype=float32)
    """
    rows = np.arange(len(tokens)) if rows is None else rows
    if log_probs.is_cpu:
        return on_host(log_probs)[rows, tokens]
    return on_host(log_probs[torch.from_numpy(rows), torch.from_numpy(tokens)])


def top1(log_probs: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """The best value and its index in each row of (N, V): two (N,) arrays. A NaN counts as the best.

    >>> top1(torch.tensor([[0.1, 0.7, 0.7]]))
    (array([0.7], dtype=float32), array([1]))
    """
    if not log_probs.is_cpu:
        values, index = log_probs.max(-1)
        return on_host(values), on_host(index)
    rows = on_host(log_probs)
    index = rows.argmax(-1)
    return rows.reshape(-1).take(index + np.arange(0, rows.size, rows.shape[1])), index


def topk(log_probs: Tensor, k: int) -> tuple[np.ndarray, np.ndarray]:
    """The `k` best values and their indices in each row of (N, V): two (N, k) arrays, best first. NaN comes first.

    >>> values, index = topk(torch.tensor([[0.1, 0.3, 0.2, 0.3, 0.1]]), 3)
    >>> index
    array([[1, 3, 2]])
    """
    n, size = log_probs.shape
    if n > 1 and n * size >= _SCREEN_FROM and 8 * k <= size and log_probs.is_cpu:
        return _screen(on_host(log_probs), k)
    # One more than asked for shows whether the last place is shared; topk does not say which of equals it takes.
    top, places = log_probs.topk(min(k + 1, size), dim=-1)
    values, index = on_host(top), on_host(places)
    equal = values[:, 1:] == values[:, :-1]
    if equal.any() and (equal & (values[:, 1:] > NEVER)).any():
        shared = equal.any(-1)
        values, index = values.copy(), index.copy()
        rows = on_host(log_probs)[shared]
        order = _falling(rows, values.shape[1])
        values[shared], index[shared] = np.take_along_axis(rows, order, -1), order
    return values[:, :k], index[:, :k]


def take_columns(order: np.ndarray, *arrays: np.ndarray) -> list[np.ndarray]:
    """Of each array (n, W) the columns `order` (n, C), each row its own: np.take_along_axis for several arrays, faster.

    >>> take_columns(np.array([[1, 0], [2, 2]]), np.array([[5, 6, 7], [8, 9, 10]]))
    [array([[ 6,  5],
           [10, 10]])]
    """
    width = arrays[0].shape[1]
    places = order + np.arange(0, len(order) * width, width)[:, None]
    return [array.reshape(-1).take(places) for array in arrays]


def _falling(rows: np.ndarray, k: int) -> np.ndarray:
    """The places of the first `k` of each row (N, V), sorted: (N, k). NaN first, equals by their index."""
    return np.argsort(np.where(np.isnan(rows), NEVER, -rows), axis=-1, kind="stable")[:, :k]


def _screen(rows: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """`topk` for many rows: few elements of a row reach the k-th best of its blocks' maxima, and all the best do."""
    n, size = rows.shape
    blocks = max(4 * k, int((size * k) ** 0.5))
    width = size // blocks
    peaks = rows[:, : blocks * width].reshape(n, width, blocks).max(1)
    rest = rows[:, blocks * width :].max(1, initial=NEVER)
    if np.isnan(peaks).any() or np.isnan(rest).any():
        order = _falling(rows, k)
        return np.take_along_axis(rows, order, -1), order
    bar = np.partition(peaks, blocks - k, axis=-1)[:, blocks - k]
    reach = np.flatnonzero(rows >= np.maximum(bar, np.finfo(rows.dtype).min)[:, None])  # never what is forbidden
    row, column = np.divmod(reach, size)
    count = np.bincount(row, minlength=n)
    slot = row_positions(count)
    values = np.full((n, max(k, count.max())), NEVER, rows.dtype)
    index = np.zeros(values.shape, np.int64)
    values[row, slot], index[row, slot] = rows.reshape(-1)[reach], column
    order = np.argsort(-values, axis=-1, kind="stable")[:, :k]
    return np.take_along_axis(values, order, -1), np.take_along_axis(index, order, -1)
