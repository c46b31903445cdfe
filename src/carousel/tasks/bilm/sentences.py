"""Sentences without labels: the lines of a text file, or the sentences of a file in columns."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ...data.sources.conll import Conll, Sentence
from ...data.sources.lines import Lines, Piece, chunks
from ...data.sources.split import End, Part
from ...data.stores.examples import Column, ExampleSource
from ...data.text.form import TextForm
from ...data.text.words import WordVocabulary

COLUMNS = (".conll", ".conllu", ".bio", ".iob")  # endings of the names of files with one word per line


class Sentences:
    """The sentences of a file, checked as they stream past, with the words that are between spaces.

    A file whose name ends in .conllu, .conll, .bio or .iob has one word per line; words are in column `word_column` (in
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
        self.in_columns = Path(path).suffix.lower() in COLUMNS
        self.source = Conll(path, word_column=word_column, tagged=False) if self.in_columns else Lines(path)
        self.form: TextForm | None = None
        self.training = False
        self.path = self.source.path
        self.files = self.source.files if isinstance(self.source, Lines) else (self.path,)
        self.word_column = word_column
        self.lower = lower

    def keys(self) -> Iterator[str]:
        return self.source.keys()

    def take(self, part: Part | End) -> Sentences:
        """The same source with one side of the file only."""
        taken = copy.copy(self)
        taken.source = self.source.take(part)
        return taken

    @property
    def part_mark(self) -> dict[str, Any]:
        form = {} if self.form is None else {"form": [self.form.fingerprint, self.training]}
        return {**self.source.part_mark, **form}

    def prepared(self, form: TextForm | None, training: bool = False) -> Sentences:
        """The same with lines in a form, which was learned from them if they are for `training`."""
        prepared = copy.copy(self)
        prepared.form, prepared.training = form, training
        return prepared

    @property
    def blank(self) -> int:
        """Lines that were skipped; in a file of columns they say where a sentence ends."""
        return self.source.blank if isinstance(self.source, Lines) else 0

    def sentences(self) -> Iterator[Sentence]:
        if isinstance(self.source, Conll):
            yield from self.source
            return
        form = self.form
        for pieces in chunks(self.source.pieces(), lambda piece: len(piece.text)):
            texts = [piece.text for piece in pieces]
            if form is not None:
                texts = form.read(texts, form.tokenized if self.training else None).texts
            for piece, text in zip(pieces, texts, strict=True):
                if words := text.split():
                    yield Sentence(words, [], [piece.line] * len(words))

    def pieces(self) -> Iterator[Piece]:
        for sentence in self.sentences():
            text = " ".join(sentence.words)
            yield Piece(sentence.lines[0], text.lower() if self.lower else text, False)

    def __iter__(self) -> Iterator[str]:
        return (piece.text for piece in self.pieces())


class ReadSentences(ExampleSource):
    """The sentences of a file as integers, for an `ExampleStore`; cut into parts of `max_length` words."""

    def __init__(self, source: Sentences, words: WordVocabulary, max_length: int | None = None) -> None:
        self.source, self.words, self.max_length = source, words, max_length
        super().__init__(source.files, words.dtypes)

    @property
    def made_by(self) -> dict[str, Any]:
        column = self.source.word_column
        own = {"reader": "sentences", "word_column": column, "max_length": self.max_length}
        return {**own, **self.source.part_mark, **self.words.fingerprint}

    def chunks(self) -> Iterator[Mapping[str, Column]]:
        self.counts = {"cut": 0}
        for group in chunks(self._parts(), lambda part: 8 * len(part.words)):
            first = np.array([part.lines[0] for part in group])
            words = [part.words for part in group]
            yield {**self.words.encode(words), "lines": Column(first, np.ones_like(first))}

    def _parts(self) -> Iterator[Sentence]:
        for sentence in self.source.sentences():
            step = self.max_length or len(sentence.words)
            self.counts["cut"] += len(sentence.words) > step
            for start in range(0, len(sentence.words), step):
                part = slice(start, start + step)
                yield Sentence(sentence.words[part], [], sentence.lines[part])
