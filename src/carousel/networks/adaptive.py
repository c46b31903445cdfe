"""Adaptive softmax (Grave et al., 2017): an output layer for large vocabularies, with exact probabilities.

Tokens are in order of frequency. The head predicts the frequent ones and, for the others, their cluster; a rare token's
probability is that of its cluster times that within the cluster, whose rows see a smaller vector. A step costs the head
for every token, and a cluster only for the tokens that are in it.

    log p(w) = log softmax(W h + b)[w]                                              w < cutoffs[0]
    log p(w) = log softmax(W h + b)[cluster of w] + log softmax(V_k P_k h)[w − low_k]       otherwise
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import ArgumentError
from ..layers import RecurrentStepper
from ..ops.cross_entropy import linear_cross_entropy
from ..ops.prediction import Predictor

FEWEST = 200  # tokens below which there is nothing to gain
SHRINK = 4  # each cluster's vectors are smaller than those before by this factor


def default_cutoffs(size: int) -> list[int]:
    """Where the head and the first cluster end, for a vocabulary of `size` tokens: after 1/25 and 1/5 of it.

    >>> default_cutoffs(50_000)
    [2000, 10000]
    """
    return [size // 25, size // 5]


def cluster_features(features: int, number: int) -> int:
    """The size of the vectors of a cluster, counted from 1."""
    return max(1, features // SHRINK**number)


def describe(features: int, size: int, cutoffs: Sequence[int]) -> str:
    """The parts of an adaptive softmax, for a report.

    >>> describe(256, 50_000, [2000, 10_000])
    'adaptive softmax: 2,000 tokens in the head, clusters of 8,000 (64 features) and 40,000 (16 features)'
    """
    bounds = enumerate(zip(cutoffs, [*cutoffs[1:], size], strict=True), 1)
    parts = [f"{high - low:,} ({cluster_features(features, k)} features)" for k, (low, high) in bounds]
    return f"adaptive softmax: {cutoffs[0]:,} tokens in the head, clusters of {' and '.join(parts)}"


class AdaptiveSoftmax(nn.Module):
    """Vectors of `features` to `size` tokens, of which those from each of `cutoffs` on are a cluster of their own.

    Parameters have the names and shapes of `torch.nn.AdaptiveLogSoftmaxWithLoss(features, size, cutoffs,
    head_bias=True)`, whose state dict fits. Every product runs in the fused output layer, `linear_cross_entropy`.

    >>> softmax = AdaptiveSoftmax(32, 1000, [40, 200])
    >>> softmax.loss(torch.randn(7, 32), torch.randint(1000, (7,)), reduction="none").shape
    torch.Size([7])
    """

    def __init__(self, features: int, size: int, cutoffs: Sequence[int]) -> None:
        super().__init__()
        bounds = [*cutoffs, size]
        if not cutoffs or any(low >= high for low, high in zip([0, *bounds], bounds, strict=False)):
            raise ArgumentError(f"cutoffs must rise from 1 to below {size}, got {list(cutoffs)}")
        self.size, self.cutoffs = size, bounds
        self.head = nn.Linear(features, bounds[0] + len(cutoffs))
        self.tail = nn.ModuleList()
        for k, (low, high) in enumerate(self.clusters, 1):
            inner = cluster_features(features, k)
            parts = nn.Linear(features, inner, bias=False), nn.Linear(inner, high - low, bias=False)
            self.tail.append(nn.Sequential(*parts))

    @property
    def clusters(self) -> list[tuple[int, int]]:
        """The first token of each cluster and the one after its last."""
        return list(zip(self.cutoffs, self.cutoffs[1:], strict=False))

    def loss(self, hidden: Tensor, targets: Tensor, *, ignore_index: int = -100, reduction: str = "mean") -> Tensor:
        """hidden (..., D), targets (...) → as `linear_cross_entropy` has it: minus the log-probability of each target,
        or their mean or sum over targets other than `ignore_index`."""
        flat, marks = hidden.reshape(-1, hidden.shape[-1]), targets.reshape(-1)
        counts = marks != ignore_index
        each = reduction == "none"
        inner = "none" if each else "sum"
        in_head = marks
        for k, (low, high) in enumerate(self.clusters):
            in_head = torch.where(counts & (marks >= low) & (marks < high), self.cutoffs[0] + k, in_head)
        total = linear_cross_entropy(
            flat, self.head.weight, in_head, self.head.bias, ignore_index=ignore_index, reduction=inner
        )
        for (low, high), (project, output) in zip(self.clusters, self._tails(), strict=True):
            rows = (counts & (marks >= low) & (marks < high)).nonzero().squeeze(1)
            own = linear_cross_entropy(project(flat[rows]), output.weight, marks[rows] - low, reduction=inner)
            total = total.index_add(0, rows, own) if each else total + own
        if each:
            return total.reshape(targets.shape)
        return total / counts.sum() if reduction == "mean" else total

    def _tails(self) -> list[tuple[nn.Linear, nn.Linear]]:
        return [(part[0], part[1]) for part in self.tail]  # type: ignore[index]


class AdaptivePredictor:
    """All log-probabilities of a few rows at a time, as `Predictor` has them; no gradient flows."""

    native: Any = None  # no call for the best tokens alone

    def __init__(self, softmax: AdaptiveSoftmax) -> None:
        self.frequent = softmax.cutoffs[0]
        self.head = Predictor(softmax.head.weight, softmax.head.bias)
        self.tails = [(project, Predictor(output.weight)) for project, output in softmax._tails()]

    def __call__(self, h: Tensor) -> Tensor:
        """h (N, D) → (N, V)."""
        head = self.head(h)
        parts = [head[:, : self.frequent]]
        for k, (project, predict) in enumerate(self.tails):
            parts.append(head[:, self.frequent + k, None] + predict(project(h)))
        return torch.cat(parts, 1)


class AdaptiveStepper(RecurrentStepper):
    """A language model with an adaptive softmax, as a search sees it."""

    def __init__(self, embedding: Tensor, layer: Any, softmax: AdaptiveSoftmax) -> None:
        super().__init__(embedding, layer, softmax.head.weight)
        self.softmax, self.vocab_size = softmax, softmax.size

    def predictor(self) -> Any:
        return AdaptivePredictor(self.softmax)
