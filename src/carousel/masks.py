"""Sequences of different lengths: which steps are real, and rows given end to end.

A batch is padded, (T, B, …), with lengths (B,); rows end to end are their values, (N,), with lengths (B,) that add up
to N.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, overload

import numpy as np

if TYPE_CHECKING:  # data is read without torch
    from torch import Tensor


@overload
def length_mask(lengths: Tensor, steps: int, *, batch_first: bool = False) -> Tensor: ...
@overload
def length_mask(lengths: np.ndarray, steps: int, *, batch_first: bool = False) -> np.ndarray: ...
def length_mask(lengths: Tensor | np.ndarray, steps: int, *, batch_first: bool = False) -> Tensor | np.ndarray:
    """Which of T = `steps` steps are real: lengths (B,) → (T, B) bool, (B, T) if `batch_first`.

    >>> import torch
    >>> length_mask(torch.tensor([2, 0, 1]), 2)
    tensor([[ True, False,  True],
            [ True, False, False]])
    """
    if isinstance(lengths, np.ndarray):
        step = np.arange(steps)
        return step < lengths[:, None] if batch_first else step[:, None] < lengths
    import torch

    place = torch.arange(steps, device=lengths.device)
    return place < lengths.unsqueeze(1) if batch_first else place.unsqueeze(1) < lengths


def flat_positions(lengths: Tensor, steps: int) -> Tensor:
    """Where the N real steps are in a padded batch (T, B) that is flattened, sequence by sequence: (N,) int64.

    >>> import torch
    >>> flat_positions(torch.tensor([2, 1]), 3)
    tensor([0, 2, 1])
    """
    sequence, step = length_mask(lengths, steps, batch_first=True).nonzero(as_tuple=True)
    return step * len(lengths) + sequence


def row_positions(lengths: np.ndarray) -> np.ndarray:
    """The place of each value within its row, for rows end to end: (N,) int64.

    >>> row_positions(np.array([3, 0, 2])).tolist()
    [0, 1, 2, 0, 1]
    """
    before = np.cumsum(lengths) - lengths
    return np.arange(int(lengths.sum())) - np.repeat(before, lengths)


def pad_rows(values: np.ndarray, lengths: np.ndarray, filling: int) -> np.ndarray:
    """Rows end to end, each as a column of the result, (longest, rows) int64, with `filling` past their ends.

    >>> pad_rows(np.array([7, 8, 9]), np.array([2, 0, 1]), 0).T.tolist()
    [[7, 8], [0, 0], [9, 0]]
    """
    longest = int(lengths.max(initial=0))
    padded = np.full((len(lengths), longest), filling, np.int64)
    padded[length_mask(lengths, longest, batch_first=True)] = values
    return np.ascontiguousarray(padded.T)
