"""Weighted automata, and how to find one from what a function says of strings: spectral learning.

A weighted automaton gives a string a number, f(x₁ … x_t) = α · A(x₁) … A(x_t) · β. The Hankel matrix of f has a row for
every beginning p and a column for every ending s, and H[p, s] = f(ps). Its rank is the number of states that the
smallest automaton for f needs; and from a factorisation H = P S that automaton can be read off:

    A(x) = P⁺ H_x S⁺,   H_x[p, s] = f(p x s),   α = f(s)ₛ S⁺,   β = P⁺ f(p)ₚ
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

Function = Callable[[Sequence[str]], np.ndarray]  # strings → their numbers


@dataclass(frozen=True)
class WeightedAutomaton:
    """`start` (n,), `steps` (symbols, n, n) and `end` (n,)."""

    alphabet: str
    start: np.ndarray
    steps: np.ndarray
    end: np.ndarray

    @property
    def states(self) -> int:
        return len(self.start)

    def __call__(self, strings: Sequence[str]) -> np.ndarray:
        """The number of each string."""
        found = []
        for text in strings:
            row = self.start
            for symbol in text:
                row = row @ self.steps[self.alphabet.index(symbol)]
            found.append(row @ self.end)
        return np.array(found)


def strings_up_to(alphabet: str, length: int) -> list[str]:
    """All strings, the shortest first.

    >>> strings_up_to("ab", 2)
    ['', 'a', 'b', 'aa', 'ab', 'ba', 'bb']
    """
    return ["".join(text) for n in range(length + 1) for text in itertools.product(alphabet, repeat=n)]


def hankel(f: Function, beginnings: Sequence[str], endings: Sequence[str]) -> np.ndarray:
    """H[p, s] = f(ps), (beginnings, endings)."""
    flat = f([p + s for p in beginnings for s in endings])
    return np.asarray(flat, np.float64).reshape(len(beginnings), len(endings))


def learn(f: Function, alphabet: str, basis: Sequence[str], rank: int) -> WeightedAutomaton:
    """The automaton with `rank` states that the Hankel matrix of f over `basis` gives; the basis begins with ''.

    >>> parity = lambda strings: np.array([float(text.count("a") % 2 == 0) for text in strings])
    >>> found = learn(parity, "ab", strings_up_to("ab", 2), 2)
    >>> [abs(round(float(value), 6)) for value in found(["", "a", "aba", "b" * 30 + "a"])]
    [1.0, 0.0, 1.0, 0.0]
    """
    H = hankel(f, basis, basis)
    u, d, v = np.linalg.svd(H)
    P, S = u[:, :rank] * d[:rank], v[:rank]
    back, forth = np.linalg.pinv(P), np.linalg.pinv(S)
    steps = [back @ hankel(f, [p + symbol for p in basis], basis) @ forth for symbol in alphabet]
    return WeightedAutomaton(alphabet, H[0] @ forth, np.stack(steps), back @ H[:, 0])
