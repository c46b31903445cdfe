"""metrics.csv: what a run measured, the same bytes however often it was interrupted."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TextIO

from lightning.pytorch.loggers.logger import Logger

from ..errors import RunError, shorten
from ..files import write_text
from ..wording import counted

FIRST = ["step", "epoch"]  # columns that every row has


class CSVLogger(Logger):
    """A table with fixed columns that grows by a row at a time. Times and rates have no place in it: they differ.

    `text` is all of it; a checkpoint stores it, and `restore` writes it again.
    """

    def __init__(self, path: Path, columns: Sequence[str]) -> None:
        super().__init__()
        self.path = path
        self.columns = [*FIRST, *columns]

    @property
    def name(self) -> str:
        return "metrics"

    @property
    def version(self) -> str:
        return ""

    def log_hyperparams(self, *args: Any, **kwargs: Any) -> None:
        """Settings are in config.yaml."""

    def begin(self) -> None:
        self._append(self.columns, "w")

    @property
    def text(self) -> str:
        return self.path.read_text("utf-8")

    def restore(self, text: str) -> None:
        write_text(self.path, text)

    def finalize(self, status: str) -> None:
        """The end of a run: what was appended reaches the disk."""
        with open(self.path, "r+b") as file:  # Windows syncs only what is open for writing
            os.fsync(file.fileno())

    def log_metrics(self, metrics: dict[str, Any], step: int | None = None) -> None:
        row = {"step": step, **metrics}
        unknown = row.keys() - set(self.columns)
        if unknown:
            raise ValueError(f"{self.path.name} has no column {sorted(unknown)}; it has {self.columns}")
        self._append([_text(row.get(column)) for column in self.columns], "a")

    def _append(self, cells: Sequence[str], mode: str) -> None:
        line = io.StringIO()
        csv.writer(line, lineterminator="\n").writerow(cells)
        with open(self.path, mode, encoding="utf-8", newline="") as file:
            file.write(line.getvalue())  # one write: a line is there whole or not at all


def read_metrics(path: Path) -> list[dict[str, float]]:
    """The rows of a metrics.csv, empty cells left out; each has a step and an epoch. A RunError if it is damaged."""
    with open(path, encoding="utf-8", newline="") as file:
        try:
            return list(_rows(file))
        except (csv.Error, ValueError) as error:
            remedy = "copy it again from an intact copy of the run"
            raise RunError(f"{path}: damaged ({shorten(error, 100)}); {remedy}") from error


def _rows(file: TextIO) -> Iterator[dict[str, float]]:
    """A ValueError if they are not as `CSVLogger` writes them."""
    lines = csv.reader(file)
    columns = next(lines, [])
    if columns[: len(FIRST)] != FIRST:
        raise ValueError(f"its first line does not begin with {','.join(FIRST)}")
    for cells in lines:
        if len(cells) != len(columns):
            raise ValueError(f"line {lines.line_num}: {counted(len(cells), 'cell')} instead of {len(columns)}")
        row = {name: float(cell) for name, cell in zip(columns, cells, strict=True) if cell}
        if missing := [name for name in FIRST if name not in row]:
            raise ValueError(f"line {lines.line_num}: the {missing[0]} is missing")
        yield row


def _text(value: Any) -> str:
    return "" if value is None else str(value) if isinstance(value, int) else f"{value:.6g}"
