"""Classification metrics: accuracy, precision, recall and F1 of each class, and the confusion matrix."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


class Confusion:
    """A confusion matrix: `counts[g, p]` examples of class g were predicted as class p.

    >>> found = Confusion(["cat", "dog"])
    >>> found.add(torch.tensor([0, 0, 0, 1]), torch.tensor([0, 0, 1, 1]))
    >>> found.counts.tolist(), found.accuracy
    ([[2, 1], [0, 1]], 0.75)
    >>> found.classes()["dog"]
    {'precision': 0.5, 'recall': 1.0, 'f1': 0.6666666666666666, 'count': 1}
    """

    def __init__(self, labels: Sequence[str]) -> None:
        self.labels = list(labels)
        self.counts = torch.zeros(len(self.labels), len(self.labels), dtype=torch.int64)

    def add(self, gold: Tensor, predicted: Tensor) -> None:
        """Count examples: true and predicted classes, both (N,), as numbers from 0."""
        size = len(self.labels)
        self.counts += torch.bincount(gold * size + predicted, minlength=size * size).view(size, size)

    def merge(self, other: Confusion) -> None:
        """Add what another, of the same classes, has counted."""
        self.counts += other.counts

    def merged(self, names: Sequence[str]) -> Confusion:
        """The same with class k called `names[k]`; those of one name are one class.

        >>> found = Confusion(["cat", "dog", "oak"])
        >>> found.add(torch.tensor([0, 1, 2]), torch.tensor([1, 1, 0]))
        >>> found.merged(["animal", "animal", "plant"]).table()
        {'animal': {'animal': 2, 'plant': 0}, 'plant': {'animal': 1, 'plant': 0}}
        """
        merged = Confusion(list(dict.fromkeys(names)))
        place = torch.tensor([merged.labels.index(name) for name in names])
        merged.counts.index_put_((place[:, None], place), self.counts, accumulate=True)
        return merged

    @property
    def total(self) -> int:
        return int(self.counts.sum())

    @property
    def accuracy(self) -> float:
        """The share that was said rightly; 0 if nothing was counted."""
        return int(self.counts.diagonal().sum()) / max(1, self.total)

    def classes(self) -> dict[str, dict[str, float]]:
        """Of each class: precision (0 if it was never said), recall (0 if it never came), F1, and how often it came."""
        scores = {}
        for k, label in enumerate(self.labels):
            right, predicted, there = (
                int(n) for n in (self.counts[k, k], self.counts[:, k].sum(), self.counts[k].sum())
            )
            scores[label] = {
                "precision": right / max(1, predicted),
                "recall": right / max(1, there),
                "f1": 2 * right / max(1, predicted + there),
                "count": there,
            }
        return scores

    @property
    def macro_f1(self) -> float:
        """The mean F1 of the classes that came or were said, each counting the same."""
        seen = (self.counts.sum(0) + self.counts.sum(1) > 0).tolist()
        scores = [one["f1"] for one, there in zip(self.classes().values(), seen, strict=True) if there]
        return sum(scores) / max(1, len(scores))

    def table(self) -> dict[str, dict[str, int]]:
        """The counts by name: `table()[gold][predicted]`."""
        rows = self.counts.tolist()
        return {gold: dict(zip(self.labels, row, strict=True)) for gold, row in zip(self.labels, rows, strict=True)}

    def __repr__(self) -> str:
        return f"Confusion({len(self.labels)} classes, {self.total:,} examples, accuracy {self.accuracy:.2%})"
