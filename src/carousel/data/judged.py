"""Pairs of texts and what is said of them, a class or a score, as examples; and batches of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .bucketed import Bucketed
from .errors import DataError
from .examples import Column, ExampleStore, pad, rows_of
from .labelled import cut_off
from .lines import chunks
from .tables import PairTable, Row
from .vocabulary import Vocabulary


@dataclass(frozen=True)
class Judgement:
    """What is said of a pair: one of `classes`, or, if there are none, a score from `least` to `most`."""

    classes: list[str]
    least: float = 0.0
    most: float = 0.0

    @classmethod
    def of(cls, table: PairTable, kind: str | None) -> Judgement:
        """As the file to train on has it: `kind` is class or score; None: scores if there are numbers with points."""
        labels: dict[str, int] = {}
        rows = 0
        for row in table:
            rows += 1
            labels.setdefault(row.label, row.line)
        numbers = {label: _number(label) for label in labels}
        wrong = next((label for label, number in numbers.items() if number is None), None)
        if kind is None:
            kind = "score" if wrong is None and any("." in label for label in labels) else "class"
        if len(labels) == 1:
            problem = f"every pair has the label {next(iter(labels))!r}"
            raise DataError(table.path, None, problem, "give pairs of which different things are said")
        if kind == "score":
            if wrong is not None:
                problem = f"the score {wrong[:40]!r} is not a number"
                raise DataError(table.path, labels[wrong], problem, "mend it, or set target to class")
            values = [number for number in numbers.values() if number is not None]
            return cls([], min(values), max(values))
        if len(labels) > 20 and 2 * len(labels) > rows:
            problem = f"{len(labels):,} different labels in {rows:,} rows, so this is hardly the column of labels"
            raise DataError(table.path, None, problem, "choose it with label_column")
        return cls(sorted(labels))

    @property
    def is_score(self) -> bool:
        return not self.classes

    def number(self, table: PairTable, line: int, label: str) -> float:
        """The number of a class, or the score; a DataError if it is neither."""
        if self.is_score:
            found = _number(label)
            if found is None:
                raise DataError(table.path, line, f"the score {label[:40]!r} is not a number", "mend it")
            return found
        if label not in self.classes:
            known = ", ".join(self.classes[:20])
            problem = f"the label {label[:40]!r} is not in the training data, whose labels are {known}"
            raise DataError(table.path, line, problem, "mend or remove the row, or train with such rows")
        return self.classes.index(label)


class JudgedPairs:
    """The pairs of a table as integers, for an `ExampleStore`: tokens (of the first), seconds, labels, lines."""

    per_token = False

    def __init__(
        self, table: PairTable, vocabulary: Vocabulary, judgement: Judgement, max_length: int,
        change: Callable[[str], str] = str, changed: str = "",
    ) -> None:  # fmt: skip
        self.table, self.vocabulary, self.judgement = table, vocabulary, judgement
        self.max_length, self.change, self.changed = max_length, change, changed
        kind = np.uint16 if len(vocabulary) <= 1 << 16 else np.uint32
        self.dtypes = {"tokens": kind, "seconds": kind, "labels": np.float64, "lines": np.int64}
        self.found: dict[str, Any] = {"cut": 0}

    @property
    def paths(self) -> list[Path]:
        return [self.table.path]

    @property
    def made_by(self) -> dict[str, Any]:
        return {
            "reader": "judged", "vocabulary": self.vocabulary.fingerprint, "classes": self.judgement.classes,
            "columns": list(self.table.wanted.values()), "max_length": self.max_length, "changed": self.changed,
        }  # fmt: skip

    def chunks(self) -> Iterator[Mapping[str, Column]]:
        self.found = {"cut": 0}
        for rows in chunks(self.table, lambda row: len(row.first) + len(row.second)):
            sides = []
            for texts in ([row.first for row in rows], [row.second for row in rows]):
                values, lengths = self.vocabulary.encode_many([self.change(text) for text in texts])
                side = cut_off(values, lengths, self.max_length)
                self.found["cut"] += int((side.lengths != lengths).sum())
                sides.append(side)
            one = np.ones(len(rows), np.int64)
            labels = np.array([self.judgement.number(self.table, row.line, row.label) for row in rows])
            lines = np.array([row.line for row in rows])
            yield {"tokens": sides[0], "seconds": sides[1], "labels": Column(labels, one), "lines": Column(lines, one)}


@dataclass(frozen=True)
class JudgedBatch:
    """Some pairs, time first; `[PAD]` (0) past each text's end."""

    first: Tensor  # (T, B) int64
    first_lengths: Tensor  # (B,) int64
    second: Tensor  # (S, B) int64
    second_lengths: Tensor  # (B,) int64
    labels: Tensor  # (B,) float64: the number of a class, or a score
    rows: Tensor  # (B,) int64

    def to(self, device: torch.device | str, non_blocking: bool = False) -> JudgedBatch:
        """This batch on another device."""
        names = ("first", "first_lengths", "second", "second_lengths", "labels", "rows")
        return replace(self, **{name: getattr(self, name).to(device, non_blocking=non_blocking) for name in names})

    def __repr__(self) -> str:
        return f"JudgedBatch({len(self.rows)} pairs)"


class JudgedBatches(Bucketed):
    """Each pair of a store once an epoch, pairs of similar length together; as in `Bucketed`."""

    def __init__(
        self, store: ExampleStore, *, tokens: int | None = None, sequences: int | None = None, shuffle: bool = True,
        seed: int = 0,
    ) -> None:  # fmt: skip
        lengths = np.maximum(store.lengths, np.diff(store["seconds"].offsets))
        super().__init__(store, lengths, tokens=tokens, sequences=sequences, shuffle=shuffle, seed=seed)

    def _of(self, chosen: np.ndarray) -> JudgedBatch:
        first, second, labels = (rows_of(self.store[name], chosen) for name in ("tokens", "seconds", "labels"))
        parts: Sequence[np.ndarray] = (
            pad(first.values, first.lengths), first.lengths, pad(second.values, second.lengths), second.lengths,
        )  # fmt: skip
        one, one_lengths, two, two_lengths = (torch.from_numpy(np.ascontiguousarray(part, np.int64)) for part in parts)
        rows = torch.from_numpy(chosen.astype(np.int64))
        return JudgedBatch(one, one_lengths, two, two_lengths, torch.from_numpy(labels.values.copy()), rows)


class Joined:
    """A table of pairs as one of texts, both of a pair in one, and scores to the nearest whole number: for a check."""

    def __init__(self, table: PairTable, judgement: Judgement) -> None:
        self.path = table.path
        self.table = table
        self.judgement = judgement

    def __iter__(self) -> Iterator[Row]:
        for row in self.table:
            score = _number(row.label) if self.judgement.is_score else None
            yield Row(row.line, f"{row.first} {row.second}", row.label if score is None else str(round(score)))


def _number(label: str) -> float | None:
    try:
        found = float(label)
    except ValueError:
        return None
    return found if math.isfinite(found) else None
