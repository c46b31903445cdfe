"""Sentences without labels: a line each of a text file, or those of a file in columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ...data.sources.conll import Conll, Sentence
from ...data.sources.lines import Lines, Piece, chunks
from ...data.sources.split import Splittable
from ...data.stores.examples import Column
from ...data.text.words import WordVocabulary

COLUMNS = (".conll", ".conllu", ".bio", ".iob")  # endings of the names of files with a word a line


class Sentences(Splittable):
    """The sentences of a file, checked as they stream past, with the words that are between spaces.

    A file whose name ends in .conllu, .conll, .bio or .iob has a word a line; words are in column `word_column` (in
    CoNLL-U in its second). As a source of text, which vocabularies are made from, it is in lower case if `lower`.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "text.txt")
    ...     _ = file.write_text("Ada sat\\n\\nHi\\n")
    ...     [(one.words, one.lines) for one in Sentences(file).sentences()], list(Sentences(file, lower=True))
    ([(['Ada', 'sat'], [1, 1]), (['Hi'], [3])], ['ada sat', 'hi'])
    """

    layout = "lines"

    def __init__(self, path: str | Path, *, word_column: int = 1, lower: bool = False) -> None:
        in_columns = Path(path).suffix.lower() in COLUMNS
        self.source = Conll(path, word_column=word_column, tagged=False) if in_columns else Lines(path)
        self.path = self.source.path
        self.word_column = word_column
        self.lower = lower

    @property
    def blank(self) -> int:
        """Lines that were skipped; in a file of columns they say where a sentence ends."""
        return self.source.blank if isinstance(self.source, Lines) else 0

    def sentences(self) -> Iterator[Sentence]:
        return self.selected(self._every(), lambda sentence: " ".join(sentence.words))

    def keys(self) -> Iterator[str]:
        return (" ".join(sentence.words) for sentence in self.sentences())

    def _every(self) -> Iterator[Sentence]:
        if isinstance(self.source, Conll):
            yield from self.source
            return
        for line, text, _ in self.source.pieces():
            words = text.split()
            yield Sentence(words, [], [line] * len(words))

    def pieces(self) -> Iterator[Piece]:
        for sentence in self.sentences():
            text = " ".join(sentence.words)
            yield Piece(sentence.lines[0], text.lower() if self.lower else text, False)

    def __iter__(self) -> Iterator[str]:
        return (piece.text for piece in self.pieces())


class ReadSentences:
    """The sentences of a file as integers, for an `ExampleStore`; cut into parts of `max_length` words."""

    per_token = False

    def __init__(self, source: Sentences, book: WordVocabulary, max_length: int | None = None) -> None:
        self.source, self.book, self.max_length = source, book, max_length
        self.dtypes: dict[str, Any] = {**book.dtypes, "lines": np.int64}
        self.found: dict[str, Any] = {}

    @property
    def paths(self) -> list[Path]:
        return [self.source.path]

    @property
    def made_by(self) -> dict[str, Any]:
        column = self.source.word_column
        own = {"reader": "sentences", "word_column": column, "max_length": self.max_length}
        return {**own, **self.source.part_mark, **self.book.fingerprint}

    def chunks(self) -> Iterator[Mapping[str, Column]]:
        self.found = {"cut": 0}
        for group in chunks(self._parts(), lambda part: 8 * len(part.words)):
            first = np.array([part.lines[0] for part in group])
            words = [part.words for part in group]
            yield {**self.book.encode(words), "lines": Column(first, np.ones_like(first))}

    def _parts(self) -> Iterator[Sentence]:
        for sentence in self.source.sentences():
            step = self.max_length or len(sentence.words)
            self.found["cut"] += len(sentence.words) > step
            for start in range(0, len(sentence.words), step):
                part = slice(start, start + step)
                yield Sentence(sentence.words[part], [], sentence.lines[part])
