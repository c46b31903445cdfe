"""What there is to know of pairs before training on them: each side as text, and pairs that look misaligned."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...data.sources.lines import Piece, chunks
from ...data.text.vocabulary import Vocabulary
from ...wording import setting
from ..lm.check import TextCheck, check_text
from ..shared.checks import DataCheck
from .pairs import Pairs

if TYPE_CHECKING:
    from rich.console import Group


@dataclass(frozen=True)
class PairCheck(DataCheck):
    """What `check_pairs` found. It prints as two tables with Rich; `warnings` says what looks wrong."""

    source: TextCheck
    target: TextCheck
    max_length: int
    long: int  # training pairs with more tokens than that
    unlike: int  # training pairs of which one side is more than three times as long as the other, and ten tokens more
    first_unlike: int | None  # the line of the first
    reading: str  # which files or columns are read as what

    @property
    def warnings(self) -> list[str]:
        """What a user should know before training, one line each."""
        warnings = [*self.source.warnings, *self.target.warnings]
        file, lines = self.source.train.file, self.source.train.lines
        if self.long:
            warnings.append(
                f"{file}: {self.long:,} of {lines:,} pairs are longer than {setting('max_length')}, {self.max_length}"
            )
        if self.unlike:
            warnings.append(
                f"{file}:{self.first_unlike}: one side is more than three times as long as the other, as in "
                f"{self.unlike:,} of {lines:,} pairs; are the files aligned?"
            )
        return warnings

    def as_dict(self) -> dict[str, Any]:
        """All of it in JSON's terms."""
        sides = {"source": self.source.as_dict(), "target": self.target.as_dict()}
        own = {name: getattr(self, name) for name in ("max_length", "long", "unlike", "first_unlike")}
        return {"reading": self.reading, **sides, **own, "warnings": self.warnings}

    def __rich__(self) -> Group:
        from rich.console import Group

        return Group(self.source.__rich__(), self.target.__rich__())


class _Side:
    """One side of some pairs, as text."""

    layout = "lines"

    def __init__(self, pairs: Pairs, side: int, change: Callable[[str], str]) -> None:
        self.pairs, self.side, self.change = pairs, side, change
        self.path = pairs.paths[side] if len(pairs.paths) == 2 else Path(f"{pairs.paths[0]}[{pairs.columns[side]}]")
        self.files = (pairs.paths[side if len(pairs.paths) == 2 else 0],)

    @property
    def part_mark(self) -> dict[str, Any]:
        return self.pairs.part_mark

    @property
    def blank(self) -> int:
        return self.pairs.blank

    def pieces(self) -> Iterator[Piece]:
        return (Piece(pair.line, self.change(pair.sides[self.side]), False) for pair in self.pairs)

    def __iter__(self) -> Iterator[str]:
        return (piece.text for piece in self.pieces())


def check_pairs(
    train: Pairs, dev: Pairs | None, source: Vocabulary, target: Vocabulary, max_length: int,
    changes: Sequence[Callable[[str], str]] = (str, str),
) -> PairCheck:  # fmt: skip
    """Read `train` and `dev` (or None) and say what is in them, as the vocabularies see it.

    >>> import pathlib, tempfile
    >>> from carousel.data import Vocabulary
    >>> from carousel.tasks.translate.check import check_pairs
    >>> from carousel.tasks.translate.pairs import Pairs
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "pairs.tsv")
    ...     _ = file.write_text("a b\\tc\\n" + "a\\t" + "c " * 20 + "\\n")
    ...     words = Vocabulary.train(["a b c"], "word")
    ...     check = check_pairs(Pairs([file]), None, words, words, max_length=10)
    >>> check.long, check.unlike, check.first_unlike, check.target.train.longest
    (1, 1, 2, 20)
    """
    checks = [
        check_text(_Side(train, k, changes[k]), None if dev is None else _Side(dev, k, changes[k]), vocabulary)
        for k, vocabulary in enumerate((source, target))
    ]
    long, unlike = 0, []
    for pairs in chunks(train, lambda pair: len(pair.source) + len(pair.target)):
        a, b = (v.encode_many([changes[k](pair.sides[k]) for pair in pairs])[1] for k, v in ((0, source), (1, target)))
        longer, shorter = np.maximum(a, b), np.minimum(a, b)
        long += int(np.count_nonzero(longer > max_length))
        odd = np.flatnonzero((longer > 3 * shorter) & (longer > shorter + 10))
        unlike += [pairs[k].line for k in odd.tolist()]
    first = unlike[0] if unlike else None
    return PairCheck(checks[0], checks[1], max_length, long, len(unlike), first, train.reading)
