"""Small networks trained on sequences that are drawn as needed: for labs that compare networks on one task."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from ..threads import threads


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
