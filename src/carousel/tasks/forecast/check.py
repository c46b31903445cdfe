"""What there is to know of a series before training on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ...data.sources.series import Panel
from ...data.sources.times import time_words
from ..shared.checks import DataCheck

if TYPE_CHECKING:
    from rich.console import Group


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
    """What is in a file of series."""

    reading: str
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
    series: int = 1
    id_column: str | None = None
    future: tuple[str, ...] = ()

    @property
    def warnings(self) -> list[str]:
        warnings = list(self.notes)
        for name, one in self.variables.items():
            if one.constant:
                warnings.append(f"{self.file}: {name} is the same in all training rows; leave it out with columns")
            if one.beyond > 0.1 * (self.rows - self.training_rows):
                warnings.append(
                    f"{self.file}: {one.beyond:,} held-out values of {name} are outside the range of the training data"
                )
        return warnings

    def __rich__(self) -> Group:
        extent = (
            f"{self.rows:,} rows, {self.first} to {self.last}, {self.step} apart; {self.training_rows:,} for training"
        )
        if self.id_column is not None:
            extent = f"{self.series:,} series; {extent}"
        times = "no column of times" if self.time_column is None else f"times in {self.time_column}"
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        table = Table()
        for column in ("variable", "missing", "minimum", "mean", "maximum"):
            table.add_column(column, justify="left" if column == "variable" else "right")
        for name, one in self.variables.items():
            table.add_row(name, f"{one.missing:,}", f"{one.least:g}", f"{one.mean:.6g}", f"{one.most:g}")
        return Group(Text(f"{self.file}: {extent}; {times}"), table)


def describe_columns(panel: Panel) -> str:
    """Which columns are read as what."""
    first = panel.first
    times = "no column of times" if first.time_column is None else f"times in {first.time_column}"
    more = f" and {len(first.names) - 20:,} more" if len(first.names) > 20 else ""
    ids = "" if panel.id_column is None else f"; ids in {panel.id_column}"
    ahead = f"; known ahead: {', '.join(first.future_names)}" if first.future_names else ""
    return f"{times}; variables: {', '.join(first.names[:20])}{more}{ids}{ahead}"


def check_series(panel: Panel, rows: Mapping[str, int]) -> SeriesCheck:
    """What is in series of which the first `rows` rows of each are to be trained on."""
    variables, first = {}, panel.first
    every = [(one.values[: one.end], max(rows[name], 0)) for name, one in panel.series.items()]
    for k, name in enumerate(first.names):
        values = np.concatenate([table[:, k] for table, _ in every])
        there = values[~np.isnan(values)]
        beyond, constant = 0, True
        for table, count in every:
            trained = table[:count, k][~np.isnan(table[:count, k])]
            least, most = (trained.min(), trained.max()) if len(trained) else (np.nan, np.nan)
            held = table[count:, k]
            beyond += int(((held < least) | (held > most)).sum())
            constant = constant and bool(least == most)
        low, mean, high = (float(part(there)) if len(there) else np.nan for part in (np.min, np.mean, np.max))
        variables[name] = Variable(int(np.isnan(values).sum()), low, mean, high, constant, beyond)
    begin = min(panel.series.values(), key=lambda one: int(one.ticks[0]))
    end = max(panel.series.values(), key=lambda one: int(one.ticks[-1]))
    return SeriesCheck(
        describe_columns(panel), str(first.path),
        sum(len(table) for table, _ in every), sum(count for _, count in every),
        begin.time(int(begin.ticks[0])), end.time(int(end.ticks[end.end - 1])),
        time_words(first.step, first.unit), first.time_column, sum(one.put_in for one in panel.series.values()),
        variables, panel.notes, len(panel.series), panel.id_column, first.future_names,
    )  # fmt: skip
