"""What the checks of data have in common: lengths, warnings, a table with a column for each file, JSON's terms."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from rich.table import Table


@dataclass(frozen=True)
class TextFacts:
    """One file of texts, as a vocabulary sees it. Lengths are in tokens, without `[START]` and `[END]`."""

    file: str
    tokens: int
    shortest: int
    median: float
    most: float  # 95 % of the texts are no longer than this
    longest: int
    longest_line: int  # its number, counted from 1
    unknown: int  # tokens that are [UNK]

    @property
    def unknown_rate(self) -> float:
        return self.unknown / self.tokens

    def unknown_warning(self) -> list[str]:
        """A line if many tokens are unknown."""
        if self.unknown_rate <= 0.1:
            return []
        many = f"{self.unknown_rate:.1%} of the tokens are unknown"
        return [f"{self.file}: {many}; enlarge the vocabulary, or read bpe or characters"]


def length_facts(lengths: np.ndarray, lines: np.ndarray) -> dict[str, Any]:
    """The fields of `TextFacts` that lengths (texts,) give; `lines` are the numbers of the texts' lines.

    >>> length_facts(np.array([2, 4, 3]), np.array([1, 5, 7]))
    {'tokens': 9, 'shortest': 2, 'median': 3.0, 'most': 4.0, 'longest': 4, 'longest_line': 5}
    """
    return {
        "tokens": int(lengths.sum()), "shortest": int(lengths.min()), "median": float(np.median(lengths)),
        "most": float(np.quantile(lengths, 0.95, method="higher")), "longest": int(lengths.max()),
        "longest_line": int(lines[lengths.argmax()]),
    }  # fmt: skip


def length_rows(unit: str) -> dict[str, Callable[[Any], str]]:
    """Rows of a table: the lengths of a file's texts, each called a `unit`, and the unknown tokens."""
    return {
        "tokens": lambda f: f"{f.tokens:,}",
        f"shortest {unit}": lambda f: f"{f.shortest:,}",
        "median": lambda f: f"{f.median:g}",
        "95th percentile": lambda f: f"{f.most:g}",
        f"longest {unit}": lambda f: f"{f.longest:,} (line {f.longest_line:,})",
        "unknown tokens": lambda f: f"{f.unknown:,} ({f.unknown_rate:.2%})",
    }


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


class FilesCheck(DataCheck):
    """The same of files of examples: `train`, `dev` if there is one, and how many examples of `dev` both have."""

    train: Any
    dev: Any
    shared: int | None

    @property
    def files(self) -> list[Any]:
        """What was found in each file."""
        return [info for info in (self.train, self.dev) if info is not None]

    def shared_warning(self, unit: str, share: float = 0.0) -> list[str]:
        """A line if more than `share` of the dev set's `unit` are in the training data too."""
        if not self.dev or not self.shared or self.shared <= share * (total := getattr(self.dev, unit)):
            return []
        return [f"{self.dev.file}: {self.shared:,} of {total:,} {unit} are in {self.train.file} too"]


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
