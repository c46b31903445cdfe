"""What there is to know of text before training on it: counts, lengths, unknown tokens, duplicate lines."""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ...data.sources.lines import Source, chunks
from ...data.text.tokenizers import UNK, Kind
from ...data.text.vocabulary import Vocabulary
from ..shared.checks import DataCheck, table_of_files

if TYPE_CHECKING:
    from rich.table import Table


@dataclass(frozen=True)
class TextInfo:
    """One file, as a vocabulary sees it. Lengths are tokens a line, without the `[START]` and `[END]` of batches."""

    file: str
    lines: int  # blank ones not counted, unless they are part of running text
    blank: int  # lines that were skipped
    tokens: int
    shortest: int
    median: float
    most: float  # 95 % of the lines are no longer than this
    longest: int
    longest_line: int  # its number, counted from 1
    unknown: int  # tokens that are [UNK]
    repeated: int | None  # lines that stood in the file before; None for running text

    @property
    def unknown_rate(self) -> float:
        return self.unknown / self.tokens


@dataclass(frozen=True)
class TextCheck(DataCheck):
    """What `check_text` found. It prints as a table with Rich; `warnings` says what looks wrong."""

    kind: Kind
    vocabulary_size: int
    train: TextInfo
    dev: TextInfo | None
    shared: int | None  # lines of dev that are in train too; None for running text or without dev

    @property
    def reading(self) -> str:
        form = "running text" if self.train.repeated is None else "one item on each line"
        return f"{form}; {self.kind} tokens"

    @property
    def warnings(self) -> list[str]:
        """What a user should know before training, one line each."""
        found = []
        for info in filter(None, (self.train, self.dev)):
            name = info.file
            if info.unknown_rate > 0.1:
                said = f"{info.unknown_rate:.1%} of the tokens are unknown"
                found.append(f"{name}: {said}; enlarge the vocabulary, or read bpe or characters")
            if self.kind == "word" and info.median == 1 and info.repeated is not None:
                found.append(f"{name}: most lines are one word: the text has no spaces; use characters")
            if info.repeated and info.repeated > 0.01 * info.lines:
                found.append(f"{name}: {info.repeated:,} of {info.lines:,} lines repeat an earlier one")
            if info.repeated is not None and info.longest > max(1000, 10 * info.most):
                place = f"{name}:{info.longest_line}"
                found.append(f"{place}: {info.longest:,} tokens in one line; cut it or set max_length")
        if self.shared and self.dev:
            found.append(f"{self.dev.file}: {self.shared:,} of {self.dev.lines:,} lines are in {self.train.file} too")
        return found

    def __rich__(self) -> Table:
        files = [info for info in (self.train, self.dev) if info is not None]
        rows = {
            "lines": lambda f: f"{f.lines:,}",
            "blank lines": lambda f: f"{f.blank:,}",
            "tokens": lambda f: f"{f.tokens:,}",
            "shortest line": lambda f: f"{f.shortest:,}",
            "median": lambda f: f"{f.median:g}",
            "95 %": lambda f: f"{f.most:g}",
            "longest line": lambda f: f"{f.longest:,} (line {f.longest_line:,})",
            "unknown": lambda f: f"{f.unknown:,} ({f.unknown_rate:.2%})",
            "repeated lines": lambda f: "" if f.repeated is None else f"{f.repeated:,}",
        }
        table = table_of_files(f"{self.kind} vocabulary of {self.vocabulary_size:,} tokens", files, rows, self.shared)
        return table


def check_text(train: Source, dev: Source | None, vocabulary: Vocabulary) -> TextCheck:
    """Read `train` and `dev` (or None) once each and say what is in them, as `vocabulary` sees it.

    >>> import pathlib, tempfile
    >>> from carousel.data import Lines, Vocabulary
    >>> from carousel.tasks.lm.check import check_text
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "train.txt")
    ...     _ = file.write_text("to be\\n\\nor not to be\\nto be\\n")
    ...     found = check_text(Lines(file), None, Vocabulary.train(Lines(file), "word", min_frequency=2))
    >>> found.train.lines, found.train.blank, found.train.repeated, found.train.longest_line, found.train.unknown_rate
    (3, 1, 1, 3, 0.25)
    """
    train_facts, known = _read(train, vocabulary)
    dev_info = shared = None
    if dev is not None:
        dev_info, lines = _read(dev, vocabulary)
        if known is not None and lines is not None:
            shared = int(np.isin(lines, known).sum())
    return TextCheck(vocabulary.kind, len(vocabulary), train_facts, dev_info, shared)


def _read(source: Source, vocabulary: Vocabulary) -> tuple[TextInfo, np.ndarray | None]:
    """The info of a file, and a hash of each line, (lines,), unless it is running text."""
    numbers, lengths, hashes = array("q"), array("q"), array("q")
    unknown = 0
    for pieces in chunks(source.pieces(), lambda piece: len(piece.text)):
        values, counts = vocabulary.encode_many([piece.text for piece in pieces])
        unknown += int(np.count_nonzero(values == UNK))
        numbers.extend(piece.line for piece in pieces)
        lengths.extend(int(count) + piece.end for count, piece in zip(counts, pieces, strict=True))
        if source.layout == "lines":
            hashes.extend(hash(piece.text) for piece in pieces)
    number, piece = np.unique(np.array(numbers), return_inverse=True)  # a long line comes in several pieces
    length = np.bincount(piece, np.array(lengths)).astype(np.int64)
    lines = np.array(hashes) if source.layout == "lines" else None
    info = TextInfo(
        file=str(source.path),
        lines=len(number),
        blank=getattr(source, "blank", 0),
        tokens=int(length.sum()),
        shortest=int(length.min()),
        median=float(np.median(length)),
        most=float(np.quantile(length, 0.95, method="higher")),
        longest=int(length.max()),
        longest_line=int(number[length.argmax()]),
        unknown=unknown,
        repeated=None if lines is None else len(lines) - len(np.unique(lines)),
    )
    return info, lines
