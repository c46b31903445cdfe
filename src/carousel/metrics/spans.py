"""How well spans are found: a span counts if its type, its first and its last word are all right."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ..data.text.tags import spans
from ..errors import ArgumentError


class SpanScore:
    """Counts the spans that are there, that were found, and that are both, by type.

    >>> score = SpanScore()
    >>> score.add(["B-PER", "I-PER", "O", "B-LOC"], ["B-PER", "O", "O", "B-LOC"])
    >>> score.f1, score.types()["LOC"]
    (0.5, {'precision': 1.0, 'recall': 1.0, 'f1': 1.0, 'count': 1})
    """

    def __init__(self) -> None:
        self.there: Counter[str] = Counter()
        self.said: Counter[str] = Counter()
        self.right: Counter[str] = Counter()

    def add(self, gold: Sequence[str], predicted: Sequence[str]) -> None:
        """Count one sentence, by its tags in any scheme and those that were predicted."""
        if len(gold) != len(predicted):
            raise ArgumentError(f"gold and predicted must have the same length, got {len(gold)} and {len(predicted)}")
        there, guessed = set(spans(gold)), set(spans(predicted))
        for count, these in ((self.there, there), (self.said, guessed), (self.right, there & guessed)):
            count.update(span.type for span in these)

    def merge(self, other: SpanScore) -> None:
        """Add what another has counted."""
        for own, more in ((self.there, other.there), (self.said, other.said), (self.right, other.right)):
            own.update(more)

    def types(self) -> dict[str, dict[str, float]]:
        """Precision, recall and F1 for each type, and how many spans of it there are."""
        return {type: self._of([type]) for type in sorted(self.there.keys() | self.said.keys())}

    def overall(self) -> dict[str, float]:
        """The same for all spans together (micro average)."""
        return self._of(list(self.there.keys() | self.said.keys()))

    @property
    def f1(self) -> float:
        """F1 of all spans together; 0 if there are none."""
        return self.overall()["f1"]

    def _of(self, types: list[str]) -> dict[str, float]:
        right, guessed, there = (sum(count[t] for t in types) for count in (self.right, self.said, self.there))
        return {
            "precision": right / max(1, guessed),
            "recall": right / max(1, there),
            "f1": 2 * right / max(1, guessed + there),
            "count": there,
        }

    def __repr__(self) -> str:
        return f"SpanScore({self.there.total():,} spans, F1 {self.f1:.2%})"
