"""Tables of labelled texts as examples: tokens, and a class, labels or a number."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ...data.sources.lines import chunks
from ...data.sources.tables import Table
from ...data.stores.examples import Column, ExampleSource
from ...data.text.encoder import TextEncoder
from .targets import Target


class LabelledTexts(ExampleSource):
    """The texts of some tables as integers, with what they are to be given."""

    def __init__(self, tables: Sequence[Table], text_encoder: TextEncoder, target: Target) -> None:
        self.tables = tables
        self.text_encoder = text_encoder
        self.target = target
        super().__init__([table.path for table in tables], {**text_encoder.dtypes, **target.dtypes})

    @property
    def made_by(self) -> dict[str, Any]:
        columns = [list(table.wanted.values()) for table in self.tables]
        own = {"reader": "table", **self.target.made_by, "columns": columns}
        return {**own, **self.tables[0].part_mark, **self.text_encoder.made_by}

    def chunks(self) -> Iterator[Mapping[str, Column]]:
        self.counts = {"cut": 0}  # texts that were longer than max_length
        for table in self.tables:
            for rows in chunks(table, lambda row: len(row.text)):
                columns, cut = self.text_encoder([row.text for row in rows])
                self.counts["cut"] += int(cut.sum())
                lines = Column(np.array([row.line for row in rows]), np.ones(len(rows), np.int64))
                yield {**columns, **self.target.columns(table, rows), "lines": lines}
