"""Random numbers that do not depend on the batch.

Each is a function of (seed, item, copy, position) only: the same on every machine and device, and for every division of
a file into batches. The function is SplitMix64 (Steele et al., 2014).
"""

from __future__ import annotations

import numpy as np
import torch

from ..errors import ArgumentError

_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_BLOCK = 64  # positions computed at once, so that a step costs one look-up


def mix(z: np.ndarray) -> np.ndarray:
    """SplitMix64's finaliser on uint64 of any shape: each bit of `z` changes half of the bits of the result.

    >>> mix(np.array([1234567], np.uint64) + _GAMMA)       # the generator's published first number for this seed
    array([6457827717110365317], dtype=uint64)
    """
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def uniforms(keys: np.ndarray, first: int, count: int) -> np.ndarray:
    """Numbers in [0, 1), (N, count) float64: those at positions `first` onwards of the stream of each key (N,) uint64.

    >>> uniforms(np.array([7, 8], np.uint64), 0, 3).round(3)
    array([[0.39 , 0.017, 0.901],
           [0.619, 0.612, 0.689]])
    """
    at = (np.arange(first + 1, first + 1 + count).astype(np.uint64) * _GAMMA)[None, :]
    return (mix(keys[:, None] + at) >> np.uint64(32)) * 2.0**-32


def read_seed(seed: int | torch.Generator | None) -> int:
    """A seed as a number: itself, or one drawn from a torch generator, by default the global one.

    >>> read_seed(3), read_seed(torch.Generator().manual_seed(0)) == read_seed(torch.Generator().manual_seed(0))
    (3, True)
    """
    if isinstance(seed, bool) or not (seed is None or isinstance(seed, int | torch.Generator)):
        raise TypeError(f"seed must be an int, a torch.Generator or None, got {type(seed).__name__}")
    if isinstance(seed, int):
        if not -(2**63) <= seed < 2**64:
            raise ArgumentError(f"seed must lie between -2**63 and 2**64 - 1, got {seed}")
        return seed
    device = "cpu" if seed is None else seed.device
    return int(torch.randint(2**62, (), generator=seed, device=device))


class Uniforms:
    """One number for each row and position: `rng.at(t)` is (N,). Rows can be selected like those of a state.

    >>> rng = Uniforms(0, items=np.array([5, 6]), copies=np.array([0, 0]))
    >>> alone = Uniforms(0, items=np.array([6]), copies=np.array([0]))
    >>> rng.at(3)[1] == alone.at(3)[0]
    np.True_
    """

    def __init__(self, seed: int, items: np.ndarray, copies: np.ndarray):
        key = mix(np.array([seed & 0xFFFFFFFFFFFFFFFF], np.uint64) + _GAMMA)
        for part in (items, copies):
            key = mix((key ^ part.astype(np.uint64)) + _GAMMA)
        self._keys = key
        self._first = -_BLOCK
        self._drawn = np.empty((len(items), 0))

    def at(self, position: int) -> np.ndarray:
        if not 0 <= position - self._first < _BLOCK:
            self._first = position
            self._drawn = uniforms(self._keys, position, _BLOCK)
        return self._drawn[:, position - self._first]

    def select(self, rows: np.ndarray) -> None:
        self._keys, self._drawn = self._keys[rows], self._drawn[rows]
