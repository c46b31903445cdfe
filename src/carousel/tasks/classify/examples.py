"""Tables of labelled texts as examples: tokens and a class."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...data.sources.lines import chunks
from ...data.sources.tables import Table
from ...data.stores.examples import Column
from ...data.text.encoder import TextEncoder
from ...errors import DataError


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
    """The texts of some tables as integers, with the numbers of their labels."""

    per_token = False

    def __init__(self, tables: Sequence[Table], text_encoder: TextEncoder, labels: Sequence[str]) -> None:
        self.tables = tables
        self.text_encoder = text_encoder
        self.labels = {label: k for k, label in enumerate(labels)}
        self.dtypes = {**text_encoder.dtypes, "labels": np.uint32, "lines": np.int64}
        self.cut = 0  # texts that were longer than max_length

    @property
    def paths(self) -> list[Path]:
        return [table.path for table in self.tables]

    @property
    def made_by(self) -> dict[str, Any]:
        columns = [list(table.wanted.values()) for table in self.tables]
        own = {"reader": "table", "labels": list(self.labels), "columns": columns}
        return {**own, **self.tables[0].part_mark, **self.text_encoder.made_by}

    @property
    def found(self) -> dict[str, Any]:
        return {"cut": self.cut}

    def chunks(self) -> Iterator[Mapping[str, Column]]:
        self.cut = 0
        for table in self.tables:
            for rows in chunks(table, lambda row: len(row.text)):
                columns, cut = self.text_encoder([row.text for row in rows])
                self.cut += int(cut.sum())
                one = np.ones(len(rows), np.int64)
                labels = np.array([self._number(table, row.line, row.label) for row in rows])
                lines = np.array([row.line for row in rows])
                yield {**columns, "labels": Column(labels, one), "lines": Column(lines, one)}

    def _number(self, table: Table, line: int, label: str) -> int:
        if label not in self.labels:
            known = ", ".join(list(self.labels)[:20]) + (", …" if len(self.labels) > 20 else "")
            problem = f"the label {label[:40]!r} is not in the training data, whose labels are {known}"
            raise DataError(table.path, line, problem, "fix or remove the row, or train with such rows")
        return self.labels[label]
