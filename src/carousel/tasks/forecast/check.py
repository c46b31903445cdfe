"""What there is to know of a series before training on it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ...data.sources.series import Series
from ...data.sources.times import time_words
from ..shared.checks import DataCheck

if TYPE_CHECKING:
    from rich.table import Table as RichTable


@dataclass(frozen=True)
class Variable:
    """One variable: what is missing, and how large it is."""

    missing: int
    least: float
    mean: float
    most: float
    constant: bool
    beyond: int  # held-out values outside of what the training rows have


@dataclass(frozen=True)
class SeriesCheck(DataCheck):
    """What `check_series` found. It prints as a table with Rich; `warnings` says what looks wrong."""

    file: str
    rows: int
    training_rows: int
    first: str
    last: str
    step: str
    time_column: str | None
    put_in: int
    variables: dict[str, Variable]
    notes: list[str]

    @property
    def reading(self) -> str:
        names = list(self.variables)
        more = f" and {len(names) - 20:,} more" if len(names) > 20 else ""
        times = "no column of times" if self.time_column is None else f"times in {self.time_column}"
        return f"{times}; variables: {', '.join(names[:20])}{more}"

    @property
    def warnings(self) -> list[str]:
        found = list(self.notes)
        for name, one in self.variables.items():
            if one.constant:
                found.append(f"{self.file}: {name} is the same in all training rows; leave it out with columns")
            if one.beyond > 0.1 * (self.rows - self.training_rows):
                found.append(f"{self.file}: {one.beyond:,} held-out values of {name} lie beyond those trained on")
        return found

    def __rich__(self) -> RichTable:
        extent = (
            f"{self.rows:,} rows, {self.first} to {self.last}, {self.step} apart; {self.training_rows:,} for training"
        )
        times = "no column of times" if self.time_column is None else f"times in {self.time_column}"
        from rich.table import Table

        table = Table(title=f"{self.file}: {extent}; {times}")
        for column in ("variable", "missing", "least", "mean", "most"):
            table.add_column(column, justify="left" if column == "variable" else "right")
        for name, one in self.variables.items():
            table.add_row(name, f"{one.missing:,}", f"{one.least:g}", f"{one.mean:.6g}", f"{one.most:g}")
        return table


def check_series(series: Series, rows: int) -> SeriesCheck:
    """What is in a series of which the first `rows` rows are to be trained on."""
    variables = {}
    for k, name in enumerate(series.names):
        values = series.values[:, k]
        there = values[~np.isnan(values)]
        trained = values[:rows][~np.isnan(values[:rows])]
        least, most = (trained.min(), trained.max()) if len(trained) else (np.nan, np.nan)
        held = values[rows:]
        beyond = int(((held < least) | (held > most)).sum())
        low, mean, high = (float(part(there)) if len(there) else np.nan for part in (np.min, np.mean, np.max))
        variables[name] = Variable(int(np.isnan(values).sum()), low, mean, high, bool(least == most), beyond)
    return SeriesCheck(
        str(series.path), len(series), rows, series.time(int(series.ticks[0])), series.time(int(series.ticks[-1])),
        time_words(series.step, series.unit), series.time_column, series.put_in, variables, series.notes,
    )  # fmt: skip
