"""Backpointers: every step of a search, from which sequences are read back from their ends."""

from __future__ import annotations

import numpy as np


class Backpointers:
    """Tokens and their log-probabilities by step and row, and the parent of each row: a row of the previous step.

    >>> backpointers = Backpointers()
    >>> backpointers.push(np.array([3, 4]), np.array([-1.0, -2.0]))
    >>> backpointers.push(np.array([5, 6]), np.array([-3.0, -4.0]), parents=np.array([1, 1]))
    >>> backpointers.read(steps=np.array([1, 0]), rows=np.array([0, 0]))
    ([[4, 5], [3]], [[-2.0, -3.0], [-1.0]])
    """

    def __init__(self) -> None:
        self._steps: list[tuple[np.ndarray, np.ndarray, np.ndarray | None]] = []

    def __len__(self) -> int:
        return len(self._steps)

    def push(self, tokens: np.ndarray, log_probs: np.ndarray, parents: np.ndarray | None = None) -> None:
        """Add a step: (N,) each. `parents` None: each row continues the same row."""
        self._steps.append((tokens, log_probs, parents))

    def read(self, steps: np.ndarray, rows: np.ndarray) -> tuple[list[list[int]], list[list[float]]]:
        """The tokens and log-probabilities up to row `rows[m]` (M,) of step `steps[m]`; step -1 is before the first."""
        last = int(steps.max(initial=-1))
        tokens = np.zeros((len(rows), last + 1), np.int64)
        log_probs = np.zeros((len(rows), last + 1))
        at = rows.copy()
        while last >= 0:
            first = last  # of a stretch of steps without parents
            while first > 0 and self._steps[first][2] is None:
                first -= 1
            stretch = self._steps[first : last + 1]
            on = np.flatnonzero(steps >= first)
            tokens[on, first : last + 1] = np.array([token for token, _, _ in stretch])[:, at[on]].T
            log_probs[on, first : last + 1] = np.array([log_prob for _, log_prob, _ in stretch])[:, at[on]].T
            parents = stretch[0][2]
            if parents is not None:
                at[on] = parents[at[on]]
            last = first - 1
        ends = (steps + 1).tolist()
        return (
            [line[:end] for line, end in zip(tokens.tolist(), ends, strict=True)],
            [line[:end] for line, end in zip(log_probs.tolist(), ends, strict=True)],
        )
