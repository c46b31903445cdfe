"""Missing values of a series, filled with what was known at the time.

A forecast that starts at some row, its origin, may use readings before that row and no others. So there is no one
filled series: a gap that a reading has closed before the origin may be bridged by a line, one still open may not.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

Filling = Literal["interpolate", "forward", "error"]


class Fill(NamedTuple):
    """Each value as it is filled once its gap has closed, and while it is open. A gap closes with the next reading of
    its variable; a reading is its own next one.
    """

    closed: np.ndarray  # (T, V)
    open: np.ndarray  # (T, V): the last reading; NaN before the first one
    closes: np.ndarray  # (T, V) int64: the row of the next reading; T if there is none

    def seen(self, rows: np.ndarray, origins: np.ndarray) -> np.ndarray:
        """The values of `rows`, (n, B), as known just before the rows `origins`, (B,): (n, B, V)."""
        return np.where(self.closes[rows] < origins[:, None], self.closed[rows], self.open[rows])


def fill_missing(values: np.ndarray, how: Filling) -> Fill:
    """values (T, V), NaN where missing → how each is filled.

    An open gap repeats the last reading. A closed one does so too (`forward`), or is the line between the readings at
    its ends (`interpolate`). At the start, where there is no earlier reading, a closed gap takes the first one.

    >>> found = fill_missing(np.array([[np.nan], [1.0], [np.nan], [3.0], [np.nan]]), "interpolate")
    >>> [found.seen(np.arange(origin)[:, None], np.array([origin])).ravel().tolist() for origin in (1, 3, 5)]
    [[nan], [1.0, 1.0, 1.0], [1.0, 1.0, 2.0, 3.0, 3.0]]
    """
    total = len(values)
    every = np.arange(total)[:, None]
    there = ~np.isnan(values)
    last = np.maximum.accumulate(np.where(there, every, -1), 0)
    closes = np.minimum.accumulate(np.where(there, every, total)[::-1], 0)[::-1]
    before = np.where(last < 0, np.nan, np.take_along_axis(values, np.maximum(last, 0), 0))
    after = np.where(closes == total, np.nan, np.take_along_axis(values, np.minimum(closes, total - 1), 0))
    closed = before
    if how == "interpolate":
        closed = before + (after - before) * ((every - last) / np.maximum(closes - last, 1))
    return Fill(np.where(last < 0, after, closed), before, closes)
