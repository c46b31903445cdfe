"""Samplers: the distribution that the next token is sampled from. Each transforms the result of the previous one.

Each processes the whole batch. The random numbers come from `rng`. On a CPU a chain of the samplers below and the draw
are one native call (`csrc/search/sample.hpp`), with the same result up to rounding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from ..errors import ArgumentError
from ..ops.prediction import Chooser
from .constraint import NEVER
from .topk import on_host, topk

_SEGMENT = 64
_LOWEST = np.float32(-1e38)


@dataclass(slots=True)
class Candidates:
    """The tokens that can be sampled, for each row, with weights exp(scale · value).

    `values` (N, C) are log-probabilities, -inf for an excluded token. `tokens` (N, C) are their tokens, best first;
    None: the whole vocabulary in its order. With `even`, all weights are equal.

    >>> c = Candidates.all(torch.tensor([[0.1, 0.6, 0.3]]).log()).narrow(2)
    >>> c.tokens
    array([[1, 2]])
    """

    values: np.ndarray | Tensor
    tokens: np.ndarray | None = None
    scale: float = 1.0
    even: bool = False

    @classmethod
    def all(cls, log_probs: Tensor) -> Candidates:
        """The whole vocabulary: log-probabilities (N, V), which stay on their device until they are narrowed."""
        return cls(log_probs)

    def narrow(self, k: int) -> Candidates:
        """The `k` best of these, best first."""
        if self.tokens is not None:
            return Candidates(self.values[:, :k], self.tokens[:, :k], self.scale, self.even)
        values = self.values if isinstance(self.values, Tensor) else torch.from_numpy(self.values)
        best, tokens = topk(values, min(k, values.shape[-1]))
        return Candidates(best, tokens, self.scale, self.even)

    def on_host(self) -> np.ndarray:
        """The values as an array."""
        return on_host(self.values) if isinstance(self.values, Tensor) else self.values

    def weights(self) -> np.ndarray:
        """Unnormalised probabilities, 1 for the best of each row, shaped like `values`."""
        values = self.on_host()
        return self.weigh(values, values.max(-1, keepdims=True) if self.tokens is None else values[:, :1])

    def weigh(self, values: np.ndarray, top: np.ndarray) -> np.ndarray:
        """The weights of `values` (N, C) if the best of each row is `top` (N, 1); all 0 if that is -inf."""
        if self.even:
            return np.where(np.isnan(values), values, values > NEVER)
        shifted = values - np.maximum(top, _LOWEST)
        if self.scale != 1.0:
            shifted *= self.scale
        return np.exp(shifted, out=shifted)


class Sampler(Protocol):
    """A transformation of the distribution that the next token is sampled from."""

    def check(self, vocab_size: int) -> None: ...

    def __call__(self, candidates: Candidates) -> Candidates: ...


class Temperature:
    """Softmax temperature t > 0: probabilities to the power 1/t; lower is more deterministic.

    >>> w = Temperature(0.5)(Candidates.all(torch.tensor([[0.8, 0.2]]).log())).weights()
    >>> (w / w.sum()).round(4)                             # 0.8² : 0.2²
    array([[0.9412, 0.0588]], dtype=float32)
    """

    def __init__(self, t: float):
        if not 0 < t < float("inf"):
            raise ArgumentError(f"temperature must be above 0 and finite, got {t}; 0 would be greedy search")
        self.t = t

    def check(self, vocab_size: int) -> None:
        pass

    def __call__(self, candidates: Candidates) -> Candidates:
        scale = min(max(candidates.scale / self.t, 1e-30), 1e30)  # what float32 can hold
        return Candidates(candidates.values, candidates.tokens, scale, candidates.even)

    def __repr__(self) -> str:
        return f"Temperature({self.t})"


class TopK:
    """Only the k most probable tokens.

    >>> TopK(2)(Candidates.all(torch.tensor([[0.1, 0.6, 0.3]]).log())).tokens
    array([[1, 2]])
    """

    def __init__(self, k: int):
        if isinstance(k, bool) or not isinstance(k, int):
            raise TypeError(f"k must be an int, got {type(k).__name__}")
        if k < 1:
            raise ArgumentError(f"k must be at least 1, got {k}")
        self.k = k

    def check(self, vocab_size: int) -> None:
        if self.k > vocab_size:
            raise ArgumentError(
                f"{self!r}: k is larger than the vocabulary, which has {vocab_size} tokens; take a smaller one"
            )

    def __call__(self, candidates: Candidates) -> Candidates:
        return candidates.narrow(self.k)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.k})"


class RandomK(TopK):
    """The k most probable tokens, with equal probabilities.

    >>> c = RandomK(2)(Candidates.all(torch.tensor([[0.1, 0.6, 0.3]]).log()))
    >>> c.tokens, c.weights()
    (array([[1, 2]]), array([[1., 1.]], dtype=float32))
    """

    def __call__(self, candidates: Candidates) -> Candidates:
        narrowed = candidates.narrow(self.k)
        narrowed.even = True
        return narrowed


class TopP:
    """The fewest most probable tokens that together have probability p or more, 0 < p ≤ 1 (nucleus sampling).

    >>> c = TopP(0.8)(Candidates.all(torch.tensor([[0.1, 0.6, 0.3]]).log()))
    >>> c.weights().round(2)
    array([[0. , 1. , 0.5]], dtype=float32)
    """

    def __init__(self, p: float):
        if not 0 < p <= 1:
            raise ArgumentError(f"p must be above 0 and at most 1, got {p}")
        self.p = p

    def check(self, vocab_size: int) -> None:
        pass

    def __call__(self, candidates: Candidates) -> Candidates:
        if self.p == 1:
            return candidates
        values, tokens = candidates.on_host(), candidates.tokens
        # Sorting values without indices is much faster, and the last value kept determines the rest.
        falling = values if tokens is not None else np.sort(values, axis=-1)[:, ::-1]
        last, _ = _locate(candidates.weigh(falling, falling[:, :1]), np.full(len(values), self.p), reach=True)
        bar = falling[np.arange(len(values)), last][:, None]
        out = values < bar
        surplus = (~out).sum(-1) - (last + 1)
        if surplus.any():  # ties at the bar: the lower tokens stay
            equal = values == bar
            out |= equal & (equal.cumsum(-1) > (equal.sum(-1) - surplus)[:, None])
        kept = values.copy()
        kept[out] = NEVER
        return Candidates(kept, tokens, candidates.scale, candidates.even)

    def __repr__(self) -> str:
        return f"TopP({self.p})"


_NATIVE: dict[type, tuple[str, str]] = {  # name in the kernels, attribute with its parameter
    Temperature: ("temperature", "t"),
    TopK: ("top_k", "k"),
    RandomK: ("random_k", "k"),
    TopP: ("top_p", "p"),
}


def native_chooser(samplers: Sequence[Sampler]) -> Chooser | None:
    """The chain as one native call; None if one of the samplers is not of this module.

    >>> native_chooser([Temperature(0.5), TopK(2)]) is None, native_chooser([lambda candidates: candidates]) is None
    (False, True)
    """
    chain: list[tuple[str, float]] = []
    for sampler in samplers:
        known = _NATIVE.get(type(sampler))  # the exact type: a derived class may behave differently
        if known is None:
            return None
        name, number = known
        chain.append((name, getattr(sampler, number)))
    return Chooser(chain)


def draw(candidates: Candidates, u: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """One token for each row: where `u` (N,), uniform in [0, 1), falls among the cumulative weights.

    Returns, (N,) each, the tokens, their values, and whether there was a token to sample.

    >>> draw(Candidates.all(torch.tensor([[0.1, 0.6, 0.3]] * 3).log()), np.array([0.05, 0.5, 0.95]))[0]
    array([0, 1, 2])
    """
    places, chosen = _locate(candidates.weights(), u)
    values = candidates.on_host()
    flat = places + np.arange(0, values.size, values.shape[1])
    tokens = places if candidates.tokens is None else candidates.tokens.reshape(-1).take(flat)
    return tokens, values.reshape(-1).take(flat), chosen


def _locate(weights: np.ndarray, share: np.ndarray, reach: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """The first place of each row (N, C) by which more than `share` (N,) of its sum is reached; `reach`: that or more.

    Also whether there is one, (N,): not if all weights are 0 or one is NaN. Long rows are summed in segments first:
    that is quicker, and sums of few numbers keep rare tokens their chance.
    """
    n, size = weights.shape
    if size <= 4 * _SEGMENT:
        return _first(weights.cumsum(-1, dtype=np.float64), share, reach)
    rows = np.arange(n)
    starts = np.arange(0, size, _SEGMENT)
    sums = np.add.reduceat(weights, starts, axis=-1).astype(np.float64)
    ends = sums.cumsum(-1)
    segment, hit = _first(ends, share, reach)
    with np.errstate(invalid="ignore"):  # a row without weights
        rest = 1 - (ends[rows, segment] - share * ends[:, -1]) / sums[rows, segment]
    places = starts[segment, None] + np.arange(_SEGMENT)
    inside = np.where(places < size, weights[rows[:, None], np.minimum(places, size - 1)], 0)
    rest = rest.clip(0, 1 if reach else 1 - 2.0**-32)  # rounding must not push it past the segment
    return starts[segment] + _first(inside.cumsum(-1, dtype=np.float64), rest, reach)[0], hit


def _first(ends: np.ndarray, share: np.ndarray, reach: bool) -> tuple[np.ndarray, np.ndarray]:
    """The first place of each row of rising sums `ends` (N, C) beyond, or at, `share` (N,) of the last, if there is."""
    bar = (share * ends[:, -1])[:, None]
    passed = ends >= bar if reach else ends > bar
    return passed.argmax(-1), passed[:, -1]
