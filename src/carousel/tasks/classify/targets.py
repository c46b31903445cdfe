"""What a text is given: one class, any number of labels, or a number. How each is read."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, Self

import numpy as np

from ...data.sources.tables import NONE
from ...data.stores.examples import Column
from ...errors import DataError
from ...parsing import parse_number
from ...wording import setting


class LabelledRow(Protocol):
    """A row of labelled texts, or of labelled sequences."""

    @property
    def line(self) -> int: ...

    @property
    def label(self) -> str: ...


class LabelledRows(Protocol):
    """The rows of a file, as often as they are asked for."""

    path: Path

    def __iter__(self) -> Iterator[Any]: ...


class LabelProbabilities:
    """A prediction that has the probability of each label; none if there is nothing to read."""

    probabilities: dict[str, float]

    @property
    def label(self) -> str | None:
        """The most probable one."""
        return max(self.probabilities, key=self.probabilities.__getitem__, default=None)

    @property
    def confidence(self) -> float | None:
        """Its probability."""
        return max(self.probabilities.values(), default=None)


@dataclass
class Target:
    """The labels in their order; of numbers their mean and standard deviation, by which they are scaled."""

    kind: Literal["class", "labels", "number"] = "class"
    labels: list[str] = field(default_factory=list)
    separator: str = ","
    mean: float = 0.0
    deviation: float = 1.0

    @classmethod
    def learn(cls, settings: Any, table: LabelledRows) -> tuple[Self, Counter[str]]:
        """The target of a table to train on, and how often each label occurs; a DataError if nothing can be learned."""
        target = cls(settings.target, separator=settings.label_separator)
        if target.kind == "number":
            numbers = [target.number(table, row) for row in table]
            target.mean, target.deviation = float(np.mean(numbers)), float(np.std(numbers))
            if target.deviation == 0:
                raise DataError(table.path, None, f"every row has the number {numbers[0]:g}", "give other numbers too")
            return target, Counter()
        rows = [target.split(row.label) for row in table]
        count = Counter(label for labels in rows for label in labels)
        target.labels = sorted(count)
        if target.kind == "class":
            check_classes(table, count)
        elif not count or all(labels == rows[0] for labels in rows):
            problem = f"every row has the labels {target.separator.join(rows[0]) or NONE!r}"
            raise DataError(table.path, None, problem, "give texts with other labels too")
        return target, count

    @property
    def outputs(self) -> int:
        """How many numbers the network gives for a text."""
        return 1 if self.kind == "number" else len(self.labels)

    def split(self, label: str) -> list[str]:
        """The labels in the cell of a table.

        >>> Target("labels", separator="|").split("warm| funny"), Target("labels").split("none")
        (['warm', 'funny'], [])
        """
        if self.kind == "class":
            return [label]
        parts = [part.strip() for part in label.split(self.separator)]
        return [] if parts == [NONE] else list(dict.fromkeys(part for part in parts if part))

    def cells(self, label: str) -> list[str]:
        """What is counted of the cell of a table: its labels; of numbers nothing."""
        return [] if self.kind == "number" else self.split(label)

    def number(self, table: LabelledRows, row: LabelledRow) -> float:
        value = parse_number(row.label)
        if value is None or not math.isfinite(value):
            problem = f"the label {row.label[:40]!r} is not a number"
            raise DataError(table.path, row.line, problem, f"fix the row, or leave out {setting('target', 'number')}")
        return value

    def columns(self, table: LabelledRows, rows: Sequence[LabelledRow]) -> dict[str, Column]:
        """The column that a network learns from: `labels` (one class each), or `targets` (a number, or 0 and 1)."""
        one = np.ones(len(rows), np.int64)
        if self.kind == "number":
            values = np.array([self.number(table, row) for row in rows], np.float64)
            return {"targets": Column(((values - self.mean) / self.deviation).astype(np.float32), one)}
        places = {label: k for k, label in enumerate(self.labels)}
        if self.kind == "class":
            return {"labels": Column(np.array([self._place(places, table, row, row.label) for row in rows]), one)}
        hot = np.zeros((len(rows), len(places)), np.float32)
        for k, row in enumerate(rows):
            for label in self.split(row.label):
                hot[k, self._place(places, table, row, label)] = 1
        return {"targets": Column(hot.reshape(-1), one * len(places))}

    @property
    def dtypes(self) -> dict[str, Any]:
        return {"labels": np.uint32} if self.kind == "class" else {"targets": np.float32}

    @property
    def made_by(self) -> dict[str, Any]:
        """What a cache must know of it, in JSON's terms."""
        own = {"labels": list(self.labels)}
        return (
            own if self.kind == "class" else {**own, "target": [self.kind, self.separator, self.mean, self.deviation]}
        )

    def _place(self, places: dict[str, int], table: LabelledRows, row: LabelledRow, label: str) -> int:
        if label not in places:
            known = ", ".join(self.labels[:20]) + (", …" if len(self.labels) > 20 else "")
            problem = f"the label {label[:40]!r} is not in the training data, whose labels are {known}"
            raise DataError(table.path, row.line, problem, "fix or remove the row, or train with such rows")
        return places[label]


def check_classes(table: LabelledRows, count: Counter[str]) -> None:
    """A DataError if nothing can be learned from how often each class occurs in a table."""
    total = count.total()
    if len(count) == 1:
        problem = f"every row has the label {next(iter(count))!r}"
        raise DataError(table.path, None, problem, "give examples of at least two classes")
    if len(count) > 20 and 2 * len(count) > total:
        problem = f"{len(count):,} different labels in {total:,} rows, so this is hardly the column of labels"
        remedy = (
            f"choose it with {setting('label_column')}, and the text with {setting('text_column')}; "
            f"for numbers, give {setting('target', 'number')}"
        )
        raise DataError(table.path, None, problem, remedy)
