"""What the checks of data have in common: a table with a column for each file, and the same in JSON's terms."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from rich.table import Table


class DataCheck(ABC):
    """A dataclass of what was found in data."""

    @property
    @abstractmethod
    def warnings(self) -> list[str]:
        """What looks wrong, one line each."""

    def as_dict(self) -> dict[str, Any]:
        """All of it in JSON's terms."""
        return {**asdict(self), "warnings": self.warnings}  # type: ignore[call-overload]


def table_of_files(
    title: str, files: Sequence[Any], rows: Mapping[str, Callable[[Any], str]], shared: int | None = None
) -> Table:
    """A column for each of `files` and a row for each of `rows`, which give a cell from what is known of a file.

    `shared` counts what the last file has in common with the training file.
    """
    table = Table(title=title)
    table.add_column("")
    for info in files:
        table.add_column(info.file, justify="right")
    for name, cell in rows.items():
        table.add_row(name, *(cell(info) for info in files))
    if shared is not None:
        table.add_row("also in train", *("" for _ in files[1:]), f"{shared:,}")
    return table
