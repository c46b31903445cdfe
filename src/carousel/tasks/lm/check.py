"""What there is to know of text before training on it: counts, lengths, unknown tokens, duplicate lines."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ...data.sources.lines import Source, chunks
from ...data.text.tokenizers import UNK, Kind
from ...data.text.vocabulary import Vocabulary
from ...wording import setting
from ..shared.checks import FilesCheck, TextFacts, length_facts, length_rows, table_of_files

if TYPE_CHECKING:
    from rich.table import Table

LAYOUTS = {  # of a source, in words
    "lines": "one item on each line",
    "running": "one stream of text, with its line breaks",
    "running-end": "one stream of sentences, one on each line",
}


@dataclass(frozen=True)
class TextInfo(TextFacts):
    """One file of lines."""

    lines: int  # blank ones not counted, unless they are part of running text
    blank: int  # lines that were skipped
    repeated: int | None  # lines that stood in the file before; None for running text

    @property
    def repeats(self) -> str:
        """`repeated` as a cell of a table."""
        return "" if self.repeated is None else f"{self.repeated:,}"


@dataclass(frozen=True)
class TextCheck(FilesCheck[TextInfo]):
    """What is in files of text."""

    kind: Kind
    vocabulary_size: int
    remedies: tuple[str, ...] = ()  # for unknown tokens

    @property
    def warnings(self) -> list[str]:
        warnings = []
        for info in self.files:
            name = info.file
            warnings += info.unknown_warning(self.remedies)
            if self.kind == "word" and info.median == 1 and info.repeated is not None:
                warnings.append(
                    f"{name}: most lines are one word: the text has no spaces; give {setting('tokens', 'character')}"
                )
            if info.repeated and info.repeated > 0.01 * info.lines:
                warnings.append(f"{name}: {info.repeated:,} of {info.lines:,} lines repeat an earlier one")
            if info.repeated is not None and info.longest > max(1000, 10 * info.most):
                place = f"{name}:{info.longest_line}"
                warnings.append(f"{place}: {info.longest:,} tokens in one line; cut it or set {setting('max_length')}")
        return warnings + self.shared_warning("lines")

    def __rich__(self) -> Table:
        rows = {
            "lines": "{f.lines:,}",
            "blank lines": "{f.blank:,}",
            **length_rows("line"),
            "repeated lines": "{f.repeats}",
        }
        title = f"{self.kind} vocabulary of {self.vocabulary_size:,} tokens"
        return table_of_files(title, self.files, rows, self.shared)


def check_text(train: Source, dev: Source | None, vocabulary: Vocabulary, remedies: Sequence[str] = ()) -> TextCheck:
    """Read `train` and `dev` (or None) once each and say what is in them, as `vocabulary` sees it; `remedies` are those
    for unknown tokens.

    >>> import pathlib, tempfile
    >>> from carousel.data import Lines, Vocabulary
    >>> from carousel.tasks.lm.check import check_text
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "train.txt")
    ...     _ = file.write_text("to be\\n\\nor not to be\\nto be\\n")
    ...     check = check_text(Lines(file), None, Vocabulary.train(Lines(file), "word", min_frequency=2))
    >>> check.train.lines, check.train.blank, check.train.repeated, check.train.longest_line, check.train.unknown_rate
    (3, 1, 1, 3, 0.25)
    """
    train_facts, known = _read(train, vocabulary)
    dev_info = shared = None
    if dev is not None:
        dev_info, lines = _read(dev, vocabulary)
        if known is not None and lines is not None:
            shared = int(np.isin(lines, known).sum())
    reading = f"{LAYOUTS[train.layout]}; {vocabulary.kind} tokens"
    return TextCheck(train_facts, dev_info, shared, reading, vocabulary.kind, len(vocabulary), tuple(remedies))


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
        **length_facts(length, number),
        unknown=unknown,
        repeated=None if lines is None else len(lines) - len(np.unique(lines)),
    )
    return info, lines
