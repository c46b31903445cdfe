"""What the checks of data have in common: a table with a column for each file, and the same in JSON's terms."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.table import Table


class DataCheck(ABC):
    """A dataclass of what was found in data."""

    @property
    @abstractmethod
    def warnings(self) -> list[str]:
        """What looks wrong, one line each."""

    @property
    @abstractmethod
    def reading(self) -> str:
        """What the data was taken for: which columns are read as what."""

    def as_dict(self) -> dict[str, Any]:
        """All of it in JSON's terms."""
        return {"reading": self.reading, **asdict(self), "warnings": self.warnings}  # type: ignore[call-overload]


def short_names(paths: Sequence[str]) -> list[str]:
    """The paths without the directories that they have in common.

    >>> short_names(["data/en/train.tsv", "data/en/dev.tsv"]), short_names(["data/old/a.tsv", "data/new/a.tsv"])
    (['train.tsv', 'dev.tsv'], ['old/a.tsv', 'new/a.tsv'])
    """
    parts = [Path(path).parts for path in paths]
    length = 1
    while length < max(map(len, parts)) and len({part[-length:] for part in parts}) < len(set(parts)):
        length += 1
    return ["/".join(part[-length:]) for part in parts]


def table_of_files(
    title: str, files: Sequence[Any], rows: Mapping[str, Callable[[Any], str]], shared: int | None = None
) -> Table:
    """A column for each of `files` and a row for each of `rows`, which give a cell from what is known of a file.

    `shared` counts what the last file has in common with the training file.
    """
    from rich.table import Table  # late: a prediction does not wait for it

    table = Table(title=title)
    table.add_column("")
    for name in short_names([info.file for info in files]):
        table.add_column(name, justify="right", overflow="fold")  # nothing is cut: a cut name may look like another
    for name, cell in rows.items():
        table.add_row(name, *(cell(info) for info in files))
    if shared is not None:
        table.add_row("also in train", *("" for _ in files[1:]), f"{shared:,}")
    return table
