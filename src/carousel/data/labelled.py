"""Tables of labelled texts as examples: tokens and a class."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .errors import DataError
from .examples import Column
from .lines import chunks
from .tables import Table
from .vocabulary import Vocabulary


def count_labels(table: Table) -> Counter[str]:
    """How often each label occurs in a table to train on; a DataError if nothing can be learnt from them."""
    count: Counter[str] = Counter(row.label for row in table)
    total = count.total()
    if len(count) == 1:
        problem = f"every row has the label {next(iter(count))!r}"
        raise DataError(table.path, None, problem, "give examples of at least two classes")
    if len(count) > 20 and 2 * len(count) > total:
        problem = f"{len(count):,} different labels in {total:,} rows, so this is hardly the column of labels"
        raise DataError(table.path, None, problem, "choose it with label_column, and the text with text_column")
    return count


class LabelledTexts:
    """The texts of some tables, each cut off after `max_length` tokens, with the numbers of their labels."""

    per_token = False

    def __init__(
        self,
        tables: Sequence[Table],
        vocabulary: Vocabulary,
        labels: Sequence[str],
        max_length: int,
        change: Callable[[str], str] = str,
        changed: str = "",
    ) -> None:
        """`change` is done to every text first; `changed` says what it is, since the cache cannot see that."""
        self.tables = tables
        self.vocabulary = vocabulary
        self.labels = {label: k for k, label in enumerate(labels)}
        self.max_length = max_length
        self.change = change
        self.changed = changed
        self.dtypes = {
            "tokens": np.uint16 if len(vocabulary) <= 1 << 16 else np.uint32,
            "labels": np.uint32,
            "lines": np.int64,
        }
        self.cut = 0  # texts that were longer than max_length

    @property
    def paths(self) -> list[Path]:
        return [table.path for table in self.tables]

    @property
    def made_by(self) -> dict[str, Any]:
        columns = [list(table.wanted.values()) for table in self.tables]
        labels = list(self.labels)
        return {
            "reader": "table", "vocabulary": self.vocabulary.fingerprint, "labels": labels, "columns": columns,
            "max_length": self.max_length, "changed": self.changed,
        }  # fmt: skip

    @property
    def found(self) -> dict[str, Any]:
        return {"cut": self.cut}

    def chunks(self) -> Iterator[Mapping[str, Column]]:
        self.cut = 0
        for table in self.tables:
            for rows in chunks(table, lambda row: len(row.text)):
                tokens = self.vocabulary.encode_many([self.change(row.text) for row in rows])
                cut = cut_off(*tokens, self.max_length)
                self.cut += int((cut.lengths != tokens[1]).sum())
                one = np.ones(len(rows), np.int64)
                labels = np.array([self._number(table, row.line, row.label) for row in rows])
                lines = np.array([row.line for row in rows])
                yield {"tokens": cut, "labels": Column(labels, one), "lines": Column(lines, one)}

    def _number(self, table: Table, line: int, label: str) -> int:
        if label not in self.labels:
            known = ", ".join(list(self.labels)[:20]) + (", …" if len(self.labels) > 20 else "")
            problem = f"the label {label[:40]!r} is not in the training data, whose labels are {known}"
            raise DataError(table.path, line, problem, "mend or remove the row, or train with such rows")
        return self.labels[label]


def cut_off(values: np.ndarray, lengths: np.ndarray, most: int) -> Column:
    """Rows given end to end, each cut off after `most` values.

    >>> import numpy as np
    >>> from carousel.data.labelled import cut_off
    >>> [part.tolist() for part in cut_off(np.array([1, 2, 3, 4]), np.array([3, 1]), 2)]
    [[1, 2, 4], [2, 1]]
    """
    if lengths.max(initial=0) <= most:
        return Column(values, lengths)
    place = np.arange(len(values)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    return Column(values[place < most], np.minimum(lengths, most))
