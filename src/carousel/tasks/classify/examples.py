"""Tables of labelled texts as examples: tokens, and a class, labels or a number."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...data.sources.lines import chunks
from ...data.sources.tables import Table
from ...data.stores.examples import Column
from ...data.text.encoder import TextEncoder
from .targets import Target


class LabelledTexts:
    """The texts of some tables as integers, with what they are to be given."""

    per_token = False

    def __init__(self, tables: Sequence[Table], text_encoder: TextEncoder, target: Target) -> None:
        self.tables = tables
        self.text_encoder = text_encoder
        self.target = target
        self.dtypes = {**text_encoder.dtypes, **target.dtypes, "lines": np.int64}
        self.cut = 0  # texts that were longer than max_length

    @property
    def paths(self) -> list[Path]:
        return [table.path for table in self.tables]

    @property
    def made_by(self) -> dict[str, Any]:
        columns = [list(table.wanted.values()) for table in self.tables]
        own = {"reader": "table", **self.target.made_by, "columns": columns}
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
                lines = Column(np.array([row.line for row in rows]), np.ones(len(rows), np.int64))
                yield {**columns, **self.target.columns(table, rows), "lines": lines}
