"""Small networks trained on sequences that are drawn as needed: for labs that compare networks on one task."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from ..threads import threads
from .cells import LabCell


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Random numbers from `seed` on, one thread; what was there before returns afterwards."""
    with torch.random.fork_rng(devices=[]), threads(1):
        torch.manual_seed(seed)
        yield


def fit(
    network: nn.Module, loss: Callable[[], Tensor], updates: int, *, lr: float = 0.01, clip: float = 1.0,
    watch: Callable[[int, float], None] | None = None,
) -> list[float]:  # fmt: skip
    """Train with Adam on what `loss` draws; the loss of each update. `watch(update, loss)` is called after each."""
    optimizer, losses = torch.optim.Adam(network.parameters(), lr=lr), []
    for update in range(updates):
        optimizer.zero_grad()
        value = loss()
        value.backward()
        nn.utils.clip_grad_norm_(network.parameters(), clip)
        optimizer.step()
        losses.append(value.item())
        if watch is not None:
            watch(update + 1, losses[-1])
    return losses


def seed_by_seed(measured: Sequence[Mapping[tuple[Any, Any], float]]) -> dict[str, dict[str, list[float]]]:
    """What was measured under pairs of keys with each seed, as JSON can hold it: key → key → a number for each seed.

    >>> seed_by_seed([{("near", 1): 0.5, ("far", 1): 0.2}, {("near", 1): 0.7, ("far", 1): 0.4}])
    {'near': {'1': [0.5, 0.7]}, 'far': {'1': [0.2, 0.4]}}
    """
    table: dict[str, dict[str, list[float]]] = {}
    for one in measured:
        for (first, second), value in one.items():
            table.setdefault(str(first), {}).setdefault(str(second), []).append(value)
    return table


def by_cell(
    cells: Mapping[str, LabCell], measure: Callable[[Any, int], Mapping[tuple[Any, Any], float]], seeds: Sequence[int]
) -> dict[str, dict[str, dict[str, list[float]]]]:
    """What `measure(layer, seed)` gives under pairs of keys: cell → key → key → a number for each seed."""
    return {name: seed_by_seed([measure(kind.layer, seed) for seed in seeds]) for name, kind in cells.items()}


def mean_path(paths: Sequence[Sequence[float]]) -> list[float]:
    """The mean over seeds, place by place.

    >>> mean_path([[1.0, 2.0], [3.0, 4.0]])
    [2.0, 3.0]
    """
    means: list[float] = torch.tensor(paths).mean(0).tolist()
    return means


def record(every: int, measure: Callable[[], float]) -> tuple[list[float], Callable[[int, float], None]]:
    """A list that grows by what `measure` gives after each `every` updates, and the `watch` of `fit` that does so."""
    path: list[float] = []

    def watch(update: int, _: float) -> None:
        if update % every == 0:
            path.append(measure())

    return path, watch


def next_token_loss(network: nn.Module, tokens: Tensor, ignore: int = -100) -> Tensor:
    """The mean cross-entropy of a token of tokens (T, B), given those before it; tokens `ignore` are left out."""
    scores = network(tokens[:-1])
    return nn.functional.cross_entropy(scores.flatten(0, 1), tokens[1:].flatten(), ignore_index=ignore)


class Reader(nn.Module):
    """Tokens (T, B) → scores (T, B, classes): embedding, a recurrent layer, a linear layer.

    >>> import carousel
    >>> Reader(carousel.LSTM(8, 16), 10, 3)(torch.zeros(5, 2, dtype=torch.int64)).shape
    torch.Size([5, 2, 3])
    """

    def __init__(self, layer: nn.Module, tokens: int, classes: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(tokens, layer.input_size)  # type: ignore[arg-type]
        self.layer = layer
        self.output = nn.Linear(layer.output_size, classes)  # type: ignore[arg-type]

    def forward(self, tokens: Tensor, lengths: Tensor | None = None) -> Tensor:
        scores: Tensor = self.output(self.layer(self.embedding(tokens), lengths=lengths)[0])
        return scores
