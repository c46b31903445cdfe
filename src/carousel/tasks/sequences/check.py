"""What there is to know of labelled sequences before training on them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ...data.sources.sequences import SequenceTable
from ...wording import setting
from ..classify.targets import Target
from ..shared.checks import FilesCheck, table_of_files, uneven_warning

if TYPE_CHECKING:
    from rich.table import Table as RichTable


@dataclass(frozen=True)
class SequenceFacts:
    """One file. Lengths are in steps."""

    file: str
    sequences: int
    variables: list[str]
    shortest: int
    median: float
    longest: int
    longest_line: int
    chunked: int  # sequences that are read in chunks
    missing: int  # numbers
    constant: list[str]  # variables that are always the same
    repeated: int  # sequences that stood in the file before
    labels: dict[str, int]

    @property
    def num_variables(self) -> int:
        return len(self.variables)

    @property
    def numbered(self) -> str:
        """What `longest_line` counts."""
        return "sequence" if self.file.endswith(".npz") else "line"


@dataclass(frozen=True)
class SequenceCheck(FilesCheck[SequenceFacts]):
    """What is in files of labelled sequences."""

    @property
    def warnings(self) -> list[str]:
        warnings, train = [], self.train
        if train.labels:
            warnings += uneven_warning(train.file, train.labels, train.sequences, "sequences")
        remedy = f"leave it out with {setting('columns')}"
        warnings += [f"{train.file}: {name} is always the same; {remedy}" for name in train.constant]
        if self.dev is not None:
            if strange := sorted(self.dev.labels.keys() - train.labels.keys()):
                warnings.append(f"{self.dev.file}: labels that {train.file} does not have: {', '.join(strange[:10])}")
            if len(self.dev.variables) != len(train.variables):
                warnings.append(
                    f"{self.dev.file}: {len(self.dev.variables)} variables, {train.file} has {len(train.variables)}"
                )
        return warnings + self.shared_warning("sequences")

    def __rich__(self) -> RichTable:
        files = self.files
        rows = {
            "sequences": "{f.sequences:,}",
            "variables": "{f.num_variables:,}",
            "shortest": "{f.shortest:,}",
            "median": "{f.median:g}",
            "longest": "{f.longest:,} ({f.numbered} {f.longest_line:,})",
            "missing numbers": "{f.missing:,}",
            "repeated": "{f.repeated:,}",
        }
        if any(f.chunked for f in files):
            rows["read in chunks"] = "{f.chunked:,}"
        table = table_of_files("lengths in steps", files, rows, self.shared)
        table.add_section()
        for label in sorted({label for f in files for label in f.labels})[:30]:
            table.add_row(f"label {label[:40]}", *(f"{f.labels.get(label, 0):,}" for f in files))
        return table


def check_sequences(tables: Sequence[SequenceTable], target: Target, chunk: int) -> SequenceCheck:
    """What is in the tables to train on and, if there is a second, for validation."""
    facts = [_facts(table, target, chunk) for table in tables]
    shared = None
    if len(tables) > 1:
        known = set(tables[0].keys())
        shared = sum(key in known for key in tables[1].keys())  # noqa: SIM118
    return SequenceCheck(facts[0], facts[1] if len(facts) > 1 else None, shared, tables[0].reading)


def _facts(table: SequenceTable, target: Target, chunk: int) -> SequenceFacts:
    rows = list(table)
    lengths = np.array([len(row.x) for row in rows])
    whole = np.concatenate([row.x for row in rows])
    with np.errstate(invalid="ignore"):
        spread = [np.unique(column[~np.isnan(column)]).size for column in whole.T]
    if target.kind == "number":
        for row in rows:
            target.number(table, row)
    return SequenceFacts(
        file=str(table.path),
        sequences=len(rows),
        variables=table.variables,
        shortest=int(lengths.min()),
        median=float(np.median(lengths)),
        longest=int(lengths.max()),
        longest_line=rows[int(lengths.argmax())].line,
        chunked=int((lengths > chunk).sum()),
        missing=int(np.isnan(whole).sum()),
        constant=[name for name, count in zip(table.variables, spread, strict=True) if count <= 1],
        repeated=len(rows) - len(set(table.keys())),
        labels=dict(Counter(row.label for row in rows)) if target.kind == "class" else {},
    )
