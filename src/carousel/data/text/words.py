"""Words to integers: the number of each word, and those of its characters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from ..stores.examples import CONTEXT, Column
from .usual import Tally
from .vocabulary import Vocabulary

LONGEST = 40  # characters that are read of a word: of a longer one, half of them at each end
T = TypeVar("T")


@dataclass(frozen=True)
class WordVocabulary:
    """The words and the characters that a model knows; without characters it knows words alone.

    >>> book = WordVocabulary(Vocabulary.train(["ada sat"], "word"), Vocabulary.train(["Ada sat"]), lower=True)
    >>> columns = book.encode([["ADA", "sat"], ["ran"]])
    >>> columns["tokens"].values.tolist(), columns["tokens"].lengths.tolist(), columns["spelling"].values.tolist()
    ([4, 5, 3], [2, 1], [3, 3, 3])
    """

    words: Vocabulary
    characters: Vocabulary | None
    lower: bool = False  # whether `words` are in lower case; characters keep theirs

    def encode(self, sentences: Sequence[Sequence[str]], characters: bool = True) -> dict[str, Column]:
        """The columns of some sentences: tokens and, unless they are not wanted, the characters of words."""
        lengths = np.array([len(words) for words in sentences], np.int64)
        every = [word for words in sentences for word in words]
        columns = {"tokens": Column(self.words.word_ids(every, self.lower), lengths)}
        if characters and self.characters is not None:
            half = LONGEST // 2
            short = [word if len(word) <= LONGEST else word[:half] + word[-half:] for word in every]
            values, spelling = self.characters.encode_many(short)
            owner = np.repeat(np.arange(len(sentences)), lengths)
            counts = np.bincount(owner, spelling, minlength=len(sentences)).astype(np.int64)
            columns |= {"characters": Column(values, counts), "spelling": Column(spelling, lengths)}
        return columns

    def usual(self, sentences: Iterable[Sequence[str]]) -> Tally:
        """What some sentences are like."""
        texts = (" ".join(words) for words in sentences)
        return Tally().add_sample(lambda some: self.encode([t.split() for t in some], False)["tokens"].values, texts)

    @property
    def dtypes(self) -> dict[str, Any]:
        """The numpy types of its columns."""
        small = len(self.words) <= 1 << 16 and self.words.beyond is None
        tokens = {"tokens": np.uint16 if small else np.uint32}
        return tokens if self.characters is None else {**tokens, "characters": np.uint32, "spelling": np.uint8}

    @property
    def fingerprint(self) -> dict[str, Any]:
        """All that the integers depend on, in JSON's terms."""
        characters = None if self.characters is None else self.characters.fingerprint
        return {"words": self.words.fingerprint, "characters": characters, "lower": self.lower}

    def save(self, folder: Path) -> None:
        """Write it to a run directory."""
        self.words.save(folder / "tokenizer.json")
        if self.characters is not None:
            self.characters.save(folder / "characters.json")

    @classmethod
    def load(cls, folder: Path, characters: bool, lower: bool) -> WordVocabulary:
        """The one that was written there, with `characters` or without."""
        known = Vocabulary.load(folder / "characters.json") if characters else None
        return cls(Vocabulary.load(folder / "tokenizer.json"), known, lower)


def in_context(parts: Mapping[str, T]) -> dict[str, T]:
    """The same parts under the names that those of an embedder have among a task's own."""
    return {CONTEXT + name: part for name, part in parts.items()}
