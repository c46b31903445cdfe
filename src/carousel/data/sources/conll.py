"""Tagged sentences in columns, one word per line, a blank line after each sentence: CoNLL-U, and CoNLL columns.

In CoNLL-U, which has ten columns with tabs between, comments, multiword tokens (`3-4`) and empty nodes (`8.1`) are left
out; the words are the syntactic ones, and tags are in UPOS, XPOS or a column by its number. In other files columns are
counted from 1 and separated by tabs or else by spaces, throughout; `-DOCSTART-` lines are left out, and a line that
begins with `#` is a word like any other.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from ...errors import ArgumentError, DataError
from ...wording import counted, either, setting
from .lines import check_file, read_lines
from .split import Splittable

CONLLU = {"upos": 4, "xpos": 5}  # columns of CoNLL-U that are tags
NAMES = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
_NUMBER = re.compile(r"[1-9]\d{0,8}")
_LEFT_OUT = re.compile(r"[1-9]\d*-[1-9]\d*|\d+\.[1-9]\d*")


class Sentence(NamedTuple):
    """The words of a sentence, their tags (empty if the file was read without), and the line of each word."""

    words: list[str]
    tags: list[str]
    lines: list[int]


class Conll(Splittable):
    """The sentences of a file, checked as they stream past; iterating again reads it again.

    `column` says where the tags are: `upos` or `xpos` of CoNLL-U, or a column's number; without it `upos` if the file's
    name ends in .conllu, which is CoNLL-U whatever the column, else the last column. Words are in column `word_column`
    (in CoNLL-U in its second). With `tagged` false tags are not looked for.

    >>> import pathlib, tempfile
    >>> from carousel.data.sources.conll import Conll
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "names.conll")
    ...     _ = file.write_text("Ada\\tB-PER\\nsat\\tO\\n\\nHi\\tO\\n")
    ...     list(Conll(file))
    [Sentence(words=['Ada', 'sat'], tags=['B-PER', 'O'], lines=[1, 2]), Sentence(words=['Hi'], tags=['O'], lines=[4])]
    """

    def __init__(
        self, path: str | Path, column: str | None = None, *, word_column: int = 1, tagged: bool = True
    ) -> None:
        self.path = check_file(path)
        self.column = check_column(column)
        self.word_column = word_column
        self.tagged = tagged
        self.conllu = column in CONLLU or self.path.suffix.lower() == ".conllu"

    def __iter__(self) -> Iterator[Sentence]:
        return self.selected(self._every(), lambda sentence: " ".join(sentence.words))

    def keys(self) -> Iterator[str]:
        return (" ".join(sentence.words) for sentence in self)

    def _every(self) -> Iterator[Sentence]:
        reader: _ConlluLines | _ColumnLines
        if self.conllu:
            reader = _ConlluLines(self.path, self.column or "upos", self.tagged)
        else:
            reader = _ColumnLines(self.path, self.column, self.word_column, self.tagged)
        sentence = Sentence([], [], [])
        empty = True
        for number, text in read_lines(self.path):
            if not text or text.isspace():
                if sentence.words:
                    yield sentence
                    sentence, empty = Sentence([], [], []), False
            elif (cells := reader.read(number, text, len(sentence.words))) is not None:
                sentence.words.append(cells[0])
                sentence.lines.append(number)
                if self.tagged:
                    sentence.tags.append(cells[1])
        if sentence.words:
            yield sentence
        elif empty:
            raise DataError(self.path, None, "there is no sentence in it", "give a file with one word per line")

    @property
    def reading(self) -> str:
        """Which columns are read as what."""
        if self.conllu:
            place = _place(self.column or "upos")
            return f"CoNLL-U, words in column 2, tags in column {place} ({NAMES[place - 1]})"
        tags = "the last column" if self.column is None else f"column {self.column}"
        return f"words in column {self.word_column}, tags in {tags}"

    def __repr__(self) -> str:
        return f"Conll({str(self.path)!r}, {self.column!r})"


def check_column(column: str | None) -> str | None:
    """`column`, if it says where tags can be: `upos`, `xpos`, a number from 1, or None.

    >>> from carousel.data.sources.conll import check_column
    >>> check_column("pos")
    Traceback (most recent call last):
    ...
    carousel.errors.ArgumentError: a column is upos, xpos or a number from 1
    """
    if column is None or column in CONLLU or _NUMBER.fullmatch(column):
        return column
    raise ArgumentError("a column is upos, xpos or a number from 1")


def _place(column: str) -> int:
    """The number of a column of CoNLL-U."""
    return CONLLU.get(column) or int(column)


class _ConlluLines:
    """Reads a line of CoNLL-U."""

    def __init__(self, path: Path, column: str, tagged: bool) -> None:
        self.path = path
        self.place = _place(column)
        self.tagged = tagged
        if not 3 <= self.place <= 10:
            problem = f"tags of CoNLL-U are not in column {column}"
            raise DataError(path, None, problem, f"choose {setting('column')} upos, xpos or a number from 3 to 10")

    def read(self, number: int, text: str, before: int) -> tuple[str, str] | None:
        """The word and the tag on a line, where `before` words of its sentence came before; None if there is none."""
        if text.startswith("#"):
            return None
        cells = text.split("\t")
        if len(cells) != 10:
            problem = f"{counted(len(cells), 'column')} with tabs between, where CoNLL-U has 10"
            other = f"give the number of the column with the tags ({setting('column')})"
            if self.path.suffix.lower() == ".conllu":
                other = "if the file has other columns, give it a name that ends in .conll"
            raise DataError(self.path, number, problem, f"fix the line, or {other}")
        id, word, tag = cells[0], cells[1], cells[self.place - 1]
        if _LEFT_OUT.fullmatch(id):
            return None
        if not _NUMBER.fullmatch(id):
            raise DataError(self.path, number, f"{id!r} is not the number of a word", "number words from 1")
        if id != str(before + 1):
            remedy = "put a blank line between sentences" if id == "1" else "number words from 1, without gaps"
            raise DataError(self.path, number, f"word {id} comes after {counted(before, 'word')}", remedy)
        if not word:
            raise DataError(self.path, number, "there is no word in column 2", "put one there")
        if self.tagged and tag in ("", "_"):
            raise DataError(
                self.path,
                number,
                f"{word!r} has no {NAMES[self.place - 1]}",
                f"give it one, or choose {either([setting('column', name) for name in CONLLU])}",
            )
        return word, tag


class _ColumnLines:
    """Reads a line of columns. The first one says how many there are, and what separates them."""

    def __init__(self, path: Path, column: str | None, word_column: int, tagged: bool) -> None:
        self.path = path
        self.column = column
        self.word_column = word_column
        self.tagged = tagged
        self.first = 0  # the line that said
        self.count = 0  # columns
        self.tabs = False

    def read(self, number: int, text: str, before: int) -> tuple[str, str] | None:
        """The word and the tag on a line; None if there is none."""
        if text.startswith("-DOCSTART-"):
            return None
        if not self.first:
            self._learn(number, text)
        if self.tabs != ("\t" in text) and self.count > 1 and len(text.split()) > 1:
            here, there = ("no tabs", "tabs") if self.tabs else ("tabs", "spaces")
            problem = f"{here} between columns, where line {self.first} has {there}"
            raise DataError(self.path, number, problem, "use one of them throughout")
        cells = self._split(text)
        if len(cells) != self.count:
            problem = f"{counted(len(cells), 'column')}, where line {self.first} has {self.count}"
            raise DataError(self.path, number, problem, "give each word all of its columns")
        word = cells[self.word_column - 1]
        tag = cells[self.tag_column - 1] if self.tagged else ""
        if not word:
            raise DataError(self.path, number, f"there is no word in column {self.word_column}", "put one there")
        if self.tagged and not tag:
            raise DataError(self.path, number, f"{word!r} has no tag in column {self.tag_column}", "give it one")
        return word, tag

    def _split(self, text: str) -> list[str]:
        return [cell.strip(" ") for cell in text.split("\t")] if self.tabs else text.split()

    def _learn(self, number: int, text: str) -> None:
        self.first, self.tabs = number, "\t" in text
        self.count = count = len(self._split(text))
        self.tag_column = count if self.column is None else int(self.column)
        problem = remedy = ""
        if self.word_column > count:
            problem = f"{counted(count, 'column')}, so words are not in column {self.word_column}"
            remedy = f"choose it with {setting('word_column')}, from 1 to {count}"
        elif self.tagged and count == 1:
            problem, remedy = "one column, so its words have no tags", "put a tab or a space between word and tag"
        elif self.tagged and self.tag_column > count:
            problem = f"{counted(count, 'column')}, so tags are not in column {self.tag_column}"
            remedy = f"choose {setting('column')} from 1 to {count}"
        elif self.tagged and self.tag_column == self.word_column:
            problem, remedy = (
                f"words and tags cannot both be in column {self.tag_column}",
                f"choose another {setting('column')} or {setting('word_column')}",
            )
        if problem:
            raise DataError(self.path, number, problem, remedy)
