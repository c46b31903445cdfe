"""Pairs of texts with a class or a score as examples, and batches of them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from ...data.batches.base import TensorBatch, int_tensor
from ...data.batches.bucketed import Bucketed
from ...data.sources.lines import chunks
from ...data.sources.tables import Layout, PairTable, Row
from ...data.stores.examples import Column, ExampleBatch, ExampleSource, ExampleStore, collate, rows_of
from ...data.text.encoder import TextEncoder
from ...errors import DataError
from ...parsing import parse_number
from ...wording import setting

if TYPE_CHECKING:  # data is read without torch
    from torch import Tensor

SECOND = "second_"  # before the names of columns of a pair's second text
T = TypeVar("T")


@dataclass(frozen=True)
class Target:
    """What is predicted of a pair: one of `classes`, or, if there are none, a score from `least` to `most`.

    >>> Target([], 1.5, 4.5).levels, str(Target(["no", "yes"]))
    (range(1, 6), 'no, yes')
    """

    classes: list[str]
    least: float = 0.0
    most: float = 0.0

    @classmethod
    def learn(cls, table: PairTable, kind: str | None) -> Target:
        """That of the file to train on: `kind` is class or score; None: scores if there are numbers with points.

        Among those a few that are no numbers are mistakes, not a sign of classes.
        """
        labels: dict[str, int] = {}
        count: Counter[str] = Counter()
        for row in table:
            count[row.label] += 1
            labels.setdefault(row.label, row.line)
        rows = count.total()
        numbers = {label: _number(label) for label in labels}
        wrong = next((label for label, number in numbers.items() if number is None), None)
        if kind is None:
            odd = sum(count[label] for label, number in numbers.items() if number is None)
            points = any("." in label for label, number in numbers.items() if number is not None)
            kind = "score" if points and odd < 0.1 * rows else "class"
        if len(labels) == 1:
            problem = f"every pair has the label {next(iter(labels))!r}"
            raise DataError(table.path, None, problem, "give pairs with at least two different labels")
        if kind == "score":
            if wrong is not None:
                problem = f"the score {wrong[:40]!r} is not a number"
                raise DataError(table.path, labels[wrong], problem, f"fix it, or give {setting('target', 'class')}")
            values = [number for number in numbers.values() if number is not None]
            return cls([], min(values), max(values))
        if len(labels) > 20 and 2 * len(labels) > rows:
            problem = f"{len(labels):,} different labels in {rows:,} rows, so this is hardly the column of labels"
            raise DataError(table.path, None, problem, f"choose it with {setting('label_column')}")
        return cls(sorted(labels))

    @property
    def is_score(self) -> bool:
        return not self.classes

    @property
    def levels(self) -> range:
        """The whole numbers that scores lie between."""
        return range(math.floor(self.least), math.ceil(self.most) + 1)

    def __str__(self) -> str:
        return f"scores from {self.least:g} to {self.most:g}" if self.is_score else ", ".join(self.classes)

    def number(self, table: PairTable, line: int, label: str) -> float:
        """The number of a class, or the score; a DataError if it is neither, or out of range."""
        if self.is_score:
            score = _number(label)
            if score is None:
                raise DataError(table.path, line, f"the score {label[:40]!r} is not a number", "fix it")
            low, high = self.levels[0], self.levels[-1]
            if not low <= score <= high:
                problem = f"the score {label[:40]} is not from {low} to {high}, as those trained on are"
                raise DataError(table.path, line, problem, "fix or remove the row, or train with such scores")
            return score
        if label not in self.classes:
            known = ", ".join(self.classes[:20])
            problem = f"the label {label[:40]!r} is not in the training data, whose labels are {known}"
            raise DataError(table.path, line, problem, "fix or remove the row, or train with such rows")
        return self.classes.index(label)


class LabelledPairs(ExampleSource):
    """The pairs of a table as integers, for an `ExampleStore`: columns of the first texts, of the second (their names
    begin with `second_`), labels, lines."""

    texts = ("tokens", SECOND + "tokens")

    def __init__(self, table: PairTable, text_encoder: TextEncoder, target: Target) -> None:
        self.table, self.text_encoder, self.target = table, text_encoder, target
        dtypes = {**text_encoder.dtypes, **_second(text_encoder.dtypes), "labels": np.float64}
        super().__init__([table.path], dtypes)

    @property
    def made_by(self) -> dict[str, Any]:
        columns = list(self.table.wanted.values())
        target = {"classes": self.target.classes, "range": [self.target.least, self.target.most]}
        own = {"reader": "pairs", **target, "columns": columns}
        return {**own, **self.table.part_mark, **self.text_encoder.made_by}

    def chunks(self) -> Iterator[Mapping[str, Column]]:
        self.counts = {"cut": 0}
        for rows in chunks(self.table, lambda row: len(row.first) + len(row.second)):
            (first, cut), (second, cut_too) = (
                self.text_encoder([row.first for row in rows]),
                self.text_encoder([row.second for row in rows]),
            )
            self.counts["cut"] += int(cut.sum() + cut_too.sum())
            one = np.ones(len(rows), np.int64)
            labels = np.array([self.target.number(self.table, row.line, row.label) for row in rows])
            lines = np.array([row.line for row in rows])
            yield {**first, **_second(second), "labels": Column(labels, one), "lines": Column(lines, one)}


@dataclass(frozen=True)
class PairBatch(TensorBatch):
    """Some pairs of texts, and their labels."""

    first: ExampleBatch
    second: ExampleBatch
    labels: Tensor  # (B,) float64: the number of a class, or a score
    rows: Tensor  # (B,) int64

    def __repr__(self) -> str:
        return f"PairBatch({len(self.rows)} pairs)"


class PairBatches(Bucketed):
    """Each pair of a store once an epoch, pairs of similar length together; as in `Bucketed`."""

    store: ExampleStore

    def _sequence_lengths(self) -> np.ndarray:
        return np.maximum(self.store.lengths, np.diff(self.store["second_tokens"].offsets))

    def _of(self, chosen: np.ndarray) -> PairBatch:
        import torch

        columns = {name: rows_of(column, chosen) for name, column in self.store.columns.items()}
        labels = torch.from_numpy(columns.pop("labels").values.copy())
        second = {name.removeprefix(SECOND): column for name, column in columns.items() if name.startswith(SECOND)}
        return PairBatch(collate(columns, chosen), collate(second, chosen), labels, int_tensor(chosen))


def _second(parts: Mapping[str, T]) -> dict[str, T]:
    return {SECOND + name: part for name, part in parts.items()}


class JoinedPairs:
    """A table of pairs as one of texts, both of a pair in one, and scores to the nearest whole number: for a check."""

    def __init__(self, table: PairTable, target: Target) -> None:
        self.path = table.path
        self.table = table
        self.target = target

    def layout(self) -> Layout:
        return self.table.layout()

    def __iter__(self) -> Iterator[Row]:
        for row in self.table:
            score = _number(row.label) if self.target.is_score else None
            yield Row(row.line, f"{row.first} {row.second}", row.label if score is None else str(round(score)))


def _number(label: str) -> float | None:
    number = parse_number(label)
    return number if number is not None and math.isfinite(number) else None
