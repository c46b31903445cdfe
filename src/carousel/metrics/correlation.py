"""How two lists of numbers go together."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def pearson(a: Sequence[float], b: Sequence[float]) -> float:
    """Pearson's correlation, from -1 to 1; 0 if one of the lists never changes.

    >>> pearson([1, 2, 3], [2, 4, 6]), pearson([1, 2, 3], [1, 1, 1])
    (1.0, 0.0)
    """
    if not len(a) or np.ptp(a) == 0 or np.ptp(b) == 0:  # the mean of equal numbers may differ from them by rounding
        return 0.0
    x, y = (np.asarray(values, np.float64) - np.mean(values) for values in (a, b))
    size = np.sqrt((x @ x) * (y @ y))
    return float(x @ y / size) if size > 0 else 0.0


def spearman(a: Sequence[float], b: Sequence[float]) -> float:
    """Spearman's correlation: Pearson's of the ranks, ties sharing theirs.

    >>> spearman([1, 2, 3], [10, 100, 1000])
    1.0
    """
    return pearson(_ranks(a), _ranks(b))


def _ranks(values: Sequence[float]) -> list[float]:
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    return (ends - (counts - 1) / 2)[places].tolist()
