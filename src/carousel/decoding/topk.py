"""The k largest values of each row, largest first; ties in the order of the index.

On a CPU the rows are searched with numpy, whose argmax is several times faster than torch's, and `_screen` avoids most
of the sorting of `torch.topk`.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from ..masks import row_positions
from .constraint import NEVER

_SCREEN_FROM = 20_000  # elements; below that, one call of torch.topk is faster than several of numpy


def on_host(values: Tensor) -> np.ndarray:
    """A tensor as a numpy array: the same memory if it is on the CPU.

    >>> on_host(torch.tensor([1.0, 2.0]))
    array([1., 2.], dtype=float32)
    """
    if values.is_cpu and not values.requires_grad:
        return values.numpy()
    return values.detach().cpu().numpy()


def pick(log_probs: Tensor, tokens: np.ndarray, rows: np.ndarray | None = None) -> np.ndarray:
    """The values (M,) of (N, V) at `tokens` (M,) in `rows` (M,); default: one token of each row.

    >>> pick(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), np.array([1, 0]))
    array([2., 3.], dtype=float32)
    """
    rows = np.arange(len(tokens)) if rows is None else rows
    if log_probs.is_cpu:
        return on_host(log_probs)[rows, tokens]
    return on_host(log_probs[torch.from_numpy(rows), torch.from_numpy(tokens)])


def top1(log_probs: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """The largest value and its index in each row of (N, V): two (N,) arrays. NaN counts as the largest.

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
    """The `k` largest values and their indices in each row of (N, V): two (N, k) arrays, largest first, NaN before all.

    >>> values, index = topk(torch.tensor([[0.1, 0.3, 0.2, 0.3, 0.1]]), 3)
    >>> index
    array([[1, 3, 2]])
    """
    n, size = log_probs.shape
    if n > 1 and n * size >= _SCREEN_FROM and 8 * k <= size and log_probs.is_cpu:
        return _screen(on_host(log_probs), k)
    # One more than k shows whether the last place is a tie; torch.topk does not specify the order of ties.
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
    """Columns `order` (n, C) of each array (n, W), row by row: np.take_along_axis for several arrays, but faster.

    >>> take_columns(np.array([[1, 0], [2, 2]]), np.array([[5, 6, 7], [8, 9, 10]]))
    [array([[ 6,  5],
           [10, 10]])]
    """
    width = arrays[0].shape[1]
    places = order + np.arange(0, len(order) * width, width)[:, None]
    return [array.reshape(-1).take(places) for array in arrays]


def _falling(rows: np.ndarray, k: int) -> np.ndarray:
    """The indices of the `k` largest of each row (N, V), sorted: (N, k). NaN first, ties by index."""
    return np.argsort(np.where(np.isnan(rows), NEVER, -rows), axis=-1, kind="stable")[:, :k]


def _screen(rows: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """`topk` for many rows: only few elements reach the k-th largest of their row's block maxima, and the top k do."""
    n, size = rows.shape
    blocks = max(4 * k, int((size * k) ** 0.5))
    width = size // blocks
    peaks = rows[:, : blocks * width].reshape(n, width, blocks).max(1)
    rest = rows[:, blocks * width :].max(1, initial=NEVER)
    if np.isnan(peaks).any() or np.isnan(rest).any():
        order = _falling(rows, k)
        return np.take_along_axis(rows, order, -1), order
    bar = np.partition(peaks, blocks - k, axis=-1)[:, blocks - k]
    reach = np.flatnonzero(rows >= np.maximum(bar, np.finfo(rows.dtype).min)[:, None])  # excludes forbidden tokens
    row, column = np.divmod(reach, size)
    count = np.bincount(row, minlength=n)
    slot = row_positions(count)
    values = np.full((n, max(k, count.max())), NEVER, rows.dtype)
    index = np.zeros(values.shape, np.int64)
    values[row, slot], index[row, slot] = rows.reshape(-1)[reach], column
    order = np.argsort(-values, axis=-1, kind="stable")[:, :k]
    return np.take_along_axis(values, order, -1), np.take_along_axis(index, order, -1)
