"""What there is to know of labelled sequences before training on them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ...data.sources.sequences import SequenceTable
from ..classify.targets import Target
from ..shared.checks import DataCheck, table_of_files

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


@dataclass(frozen=True)
class SequenceCheck(DataCheck):
    """What `check_sequences` found. It prints as a table with Rich; `warnings` says what looks wrong."""

    columns: str
    train: SequenceFacts
    dev: SequenceFacts | None
    shared: int | None  # sequences of dev that are trained on too; None without dev

    @property
    def reading(self) -> str:
        return self.columns

    @property
    def warnings(self) -> list[str]:
        found, train = [], self.train
        if train.labels:
            (rare, least), often = min(train.labels.items(), key=lambda item: item[1]), max(train.labels.values())
            if often >= 10 * least:
                said = f"{rare!r} is {least:,} of {train.sequences:,} sequences"
                found.append(f"{train.file}: classes are uneven ({said}); consider class_weights: balanced")
        found += [f"{train.file}: {name} is always the same; leave it out with columns" for name in train.constant]
        if self.dev is not None:
            if strange := sorted(self.dev.labels.keys() - train.labels.keys()):
                found.append(f"{self.dev.file}: labels that {train.file} does not have: {', '.join(strange[:10])}")
            if len(self.dev.variables) != len(train.variables):
                found.append(
                    f"{self.dev.file}: {len(self.dev.variables)} variables, {train.file} has {len(train.variables)}"
                )
            if self.shared:
                found.append(
                    f"{self.dev.file}: {self.shared:,} of {self.dev.sequences:,} sequences are in {train.file} too"
                )
        return found

    def __rich__(self) -> RichTable:
        files = [facts for facts in (self.train, self.dev) if facts is not None]
        rows = {
            "sequences": lambda f: f"{f.sequences:,}",
            "variables": lambda f: f"{len(f.variables):,}",
            "shortest": lambda f: f"{f.shortest:,}",
            "median": lambda f: f"{f.median:g}",
            "longest": lambda f: (
                f"{f.longest:,} ({'sequence' if f.file.endswith('.npz') else 'line'} {f.longest_line:,})"
            ),
            "missing numbers": lambda f: f"{f.missing:,}",
            "repeated": lambda f: f"{f.repeated:,}",
        }
        if any(f.chunked for f in files):
            rows["read in chunks"] = lambda f: f"{f.chunked:,}"
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
    return SequenceCheck(tables[0].reading, facts[0], facts[1] if len(facts) > 1 else None, shared)


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
