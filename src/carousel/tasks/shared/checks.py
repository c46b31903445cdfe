"""What the checks of data have in common: lengths, warnings, a table with a column for each file, JSON's terms."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import numpy as np

from ...wording import either, setting

if TYPE_CHECKING:
    from rich.table import Table


class Facts(Protocol):
    """What is in a file."""

    @property
    def file(self) -> str: ...


F = TypeVar("F", bound=Facts)


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

    def unknown_warning(self, remedies: Sequence[str]) -> list[str]:
        """A line if many tokens are unknown; `remedies` as `unknown_remedies` has them."""
        if self.unknown_rate <= 0.1:
            return []
        many = f"{self.unknown_rate:.1%} of the tokens are unknown"
        return [f"{self.file}: {many}; give {either([*remedies, 'more training text'])}"]


def unknown_remedies(settings: Any) -> list[str]:
    """The settings of a task, as the user writes them, by which fewer tokens would be unknown."""
    fields, remedies = type(settings).model_fields, []
    if (
        getattr(settings, "vectors", "") is None and getattr(settings, "tokens", "") == "word"
    ):  # words beyond it are read
        remedies.append(setting("vectors", "glove"))
    if getattr(settings, "vocabulary_size", None) is not None:
        remedies.append(f"a larger {setting('vocabulary_size')}")
    frequent = settings.min_frequency
    if (2 if frequent is None and settings.tokens == "word" else frequent or 1) > 1:
        remedies.append(setting("min_frequency", 1))
    if "tokens" in fields and settings.tokens == "word":
        remedies += [setting("tokens", "bpe"), setting("tokens", "character")]
    return remedies


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


def length_rows(unit: str) -> dict[str, str]:
    """Rows of a table of files: the lengths of a file's texts, each called a `unit`, and the unknown tokens."""
    return {
        "tokens": "{f.tokens:,}",
        f"shortest {unit}": "{f.shortest:,}",
        "median": "{f.median:g}",
        "95th percentile": "{f.most:g}",
        f"longest {unit}": "{f.longest:,} (line {f.longest_line:,})",
        "unknown tokens": "{f.unknown:,} ({f.unknown_rate:.2%})",
    }


def uneven_warning(file: str, labels: Mapping[str, int], total: int, unit: str) -> list[str]:
    """A line if one label of the training data is ten times as frequent as another; it has `total` `unit`.

    >>> uneven_warning("a.tsv", {"good": 99, "bad": 1}, 100, "texts")
    ["a.tsv: classes are uneven ('bad' is 1 of 100 texts); consider class_weights='balanced'"]
    """
    rare = min(labels, key=labels.__getitem__)
    if max(labels.values()) < 10 * labels[rare]:
        return []
    share = f"{rare!r} is {labels[rare]:,} of {total:,} {unit}"
    return [f"{file}: classes are uneven ({share}); consider {setting('class_weights', 'balanced')}"]


class DataCheck(ABC):
    """A dataclass of what is in data. It prints as a table with Rich."""

    reading: str  # what the data was taken for: which columns are read as what

    def __str__(self) -> str:
        """As `carousel check` prints it: what was read as what, the table, the warnings."""
        from rich.console import Console

        console = Console(width=120, color_system=None, highlight=False)
        with console.capture() as printed:
            console.print(self)
        return "\n".join([f"{self.reading}.", printed.get().rstrip(), *self.warnings])

    @property
    @abstractmethod
    def warnings(self) -> list[str]:
        """What a user should know before training, one line each."""

    def as_dict(self) -> dict[str, Any]:
        """All of it in JSON's terms."""
        return {**asdict(self), "warnings": self.warnings}  # type: ignore[call-overload]


@dataclass(frozen=True)
class FilesCheck(DataCheck, Generic[F]):
    """What is in files of examples."""

    train: F
    dev: F | None
    shared: int | None  # examples of dev that are trained on too; None without dev or for running text
    reading: str

    @property
    def files(self) -> list[F]:
        """What is in each file."""
        return [facts for facts in (self.train, self.dev) if facts is not None]

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


def table_of_files(title: str, files: Sequence[Facts], rows: Mapping[str, str], shared: int | None = None) -> Table:
    """A column for each of `files` and a row for each of `rows`: a cell is a format with the facts of a file as f.

    `shared` counts what the last file has in common with the training file.
    """
    from rich.table import Table  # late: a prediction does not wait for it

    table = Table(title=title)
    table.add_column("")
    for name in short_names([facts.file for facts in files]):
        table.add_column(name, justify="right", overflow="fold")  # nothing is cut: a cut name may look like another
    for name, cell in rows.items():
        table.add_row(name, *(cell.format(f=facts) for facts in files))
    if shared is not None:
        table.add_row("also in train", *("" for _ in files[1:]), f"{shared:,}")
    return table
