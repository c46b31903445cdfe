"""What there is to know of a series before training on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ...data.sources.series import Panel
from ...data.sources.times import time_words
from ...wording import counted, setting
from ..shared.checks import FilesCheck

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
class SeriesFacts:
    """One file of series."""

    file: str
    rows: int
    first: str  # time
    last: str
    put_in: int  # rows that stand for those left out
    variables: dict[str, Variable]


@dataclass(frozen=True)
class SeriesCheck(FilesCheck[SeriesFacts]):
    """What is in files of series; without one for validation, the rows of `train` that are held out are in it too."""

    training_rows: int
    step: str
    time_column: str | None
    notes: list[str]
    series: int = 1
    id_column: str | None = None
    future: tuple[str, ...] = ()

    @property
    def warnings(self) -> list[str]:
        warnings = list(self.notes)
        for name, one in self.train.variables.items():
            if one.constant:
                remedy = f"leave it out with {setting('columns')}"
                warnings.append(f"{self.train.file}: {name} is the same in all training rows; {remedy}")
        held = self.files[-1]
        count = sum(one.rows for one in self.files) - self.training_rows
        for name, one in held.variables.items():
            if one.beyond > 0.1 * count:
                many = counted(
                    one.beyond, f"held-out value of column {name} is", f"held-out values of column {name} are"
                )
                warnings.append(f"{held.file}: {many} outside the range of the training data")
        return warnings

    def __rich__(self) -> Group:
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        times = "no column of times" if self.time_column is None else f"times in {self.time_column}"
        parts: list[Text | Table] = []
        for one in self.files:
            extent = f"{one.rows:,} rows, {one.first} to {one.last}, {self.step} apart"
            if self.dev is None:
                extent += f"; {self.training_rows:,} for training"
            if self.id_column is not None:
                extent = f"{self.series:,} series; {extent}"
            table = Table()
            for column in ("variable", "missing", "minimum", "mean", "maximum"):
                table.add_column(column, justify="left" if column == "variable" else "right")
            for name, of in one.variables.items():
                table.add_row(name, f"{of.missing:,}", f"{of.least:g}", f"{of.mean:.6g}", f"{of.most:g}")
            parts += [Text(f"{one.file}: {extent}; {times}"), table]
        return Group(*parts)


def describe_columns(panel: Panel) -> str:
    """Which columns are read as what."""
    first = panel.first
    times = "no column of times" if first.time_column is None else f"times in {first.time_column}"
    more = f" and {len(first.names) - 20:,} more" if len(first.names) > 20 else ""
    ids = "" if panel.id_column is None else f"; ids in {panel.id_column}"
    ahead = f"; known ahead: {', '.join(first.future_names)}" if first.future_names else ""
    return f"{times}; variables: {', '.join(first.names[:20])}{more}{ids}{ahead}"


def check_series(panel: Panel, rows: Mapping[str, int], dev: str | None = None) -> SeriesCheck:
    """What is in series of which the first `rows` rows of each are to be trained on; the others are from the file
    `dev`, if there is one."""
    first = panel.first
    ends = {name: rows[name] if dev else one.end for name, one in panel.series.items()}
    train = _facts(panel, str(first.path), dict.fromkeys(ends, 0), ends, rows)
    held = None if dev is None else _facts(panel, dev, rows, {n: one.end for n, one in panel.series.items()}, rows)
    return SeriesCheck(
        train, held, None, describe_columns(panel), sum(max(rows[name], 0) for name in panel.series),
        time_words(first.step, first.unit), first.time_column, panel.notes, len(panel.series), panel.id_column,
        first.future_names,
    )  # fmt: skip


def _facts(
    panel: Panel, file: str, begins: Mapping[str, int], ends: Mapping[str, int], rows: Mapping[str, int]
) -> SeriesFacts:
    """What is in the rows of each series from `begins` to `ends`, of which the first `rows` of all are trained on."""
    spans = [(one, begins[name], ends[name], max(rows[name], 0)) for name, one in panel.series.items()]
    spans = [span for span in spans if span[1] < span[2]]
    variables = {}
    for k, name in enumerate(panel.first.names):
        values = np.concatenate([one.values[begin:end, k] for one, begin, end, _ in spans])
        there = values[~np.isnan(values)]
        beyond, constant = 0, True
        for one, begin, end, count in spans:
            trained = one.values[:count, k][~np.isnan(one.values[:count, k])]
            least, most = (trained.min(), trained.max()) if len(trained) else (np.nan, np.nan)
            held = one.values[max(begin, count) : end, k]
            beyond += int(((held < least) | (held > most)).sum())
            constant = constant and bool(least == most)
        low, mean, high = (float(part(there)) if len(there) else np.nan for part in (np.min, np.mean, np.max))
        variables[name] = Variable(int(np.isnan(values).sum()), low, mean, high, constant, beyond)
    first, at, *_ = min(spans, key=lambda span: int(span[0].ticks[span[1]]))
    last, _, to, _ = max(spans, key=lambda span: int(span[0].ticks[span[2] - 1]))
    put_in = sum(int((one.lines[begin:end] == 0).sum()) for one, begin, end, _ in spans)
    return SeriesFacts(
        file, sum(end - begin for _, begin, end, _ in spans), first.time(int(first.ticks[at])),
        last.time(int(last.ticks[to - 1])), put_in, variables,
    )  # fmt: skip
