"""Tagged sentences as examples: words, their characters and their tags as integers."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ...data.sources.conll import Conll, Sentence
from ...data.sources.lines import chunks, read_lines
from ...data.stores.examples import Column, ExampleSource
from ...data.text.tags import Recognition, Scheme, all_tags, convert, illegal, part
from ...data.text.usual import Tally
from ...data.text.vocabulary import Vocabulary
from ...data.text.words import WordVocabulary, in_context
from ...errors import DataError
from ...files import write_json, write_text
from ...training.run import read_json
from ...wording import counted, setting
from .settings import SchemeName

MOST_IN_ONE = 100  # words of a file that is one sentence, from which there is a warning


class TagCounts:
    """What a file to train on holds: its words and tags, and the scheme of the tags."""

    def __init__(self, source: Conll, scheme: SchemeName = "auto", whole: Conll | None = None) -> None:
        """`scheme` is that of the file's tags: `none` if they are not parts of spans, `auto` if it is to be found.

        Where some of the file is held out, words are those of `source`, but tags those of the `whole` file.
        """
        self.path = source.path
        self.words: Counter[str] = Counter()
        self.tags: Counter[str] = Counter()
        self.sentences = 0
        lines: dict[str, int] = {}
        seen = Recognition()
        for sentence in source:
            self.sentences += 1
            self.words.update(sentence.words)
        sentences = spaced = 0
        for sentence in whole or source:
            sentences += 1
            spaced += sum(" " in word for word in sentence.words)
            self.tags.update(sentence.tags)
            for tag in set(sentence.tags) - lines.keys():
                lines[tag] = sentence.lines[sentence.tags.index(tag)]
            if scheme != "none" and all(map(part, sentence.tags)):
                seen.add(sentence.tags)
        if sentences == 1 and 2 * spaced > self.tags.total():
            problem = "no blank line, and most of its words are several: it looks like a table of texts"
            remedy = "give a file with one word per line, or use the task classify"
            raise DataError(self.path, None, problem, remedy)
        self.scheme: Scheme | None = None  # that of the file; None: its tags are not parts of spans
        spans = [tag for tag in self.tags if tag != "O" and part(tag)]
        if (scheme == "auto" and spans and "O" in self.tags) or scheme in ("iob1", "iob2", "bioes"):
            for tag, line in lines.items():
                if part(tag) is None:
                    remedy = f"fix it, or give {setting('scheme', 'none')} if these are no spans"
                    raise DataError(self.path, line, f"the tag {tag!r} is not O, B-TYPE, I-TYPE and so on", remedy)
            self.scheme = seen.scheme if scheme == "auto" else scheme
        if len(self.tags) == 1:
            only = next(iter(self.tags))
            raise DataError(self.path, None, f"every word has the tag {only!r}", "give examples of at least two tags")

    @property
    def types(self) -> list[str]:
        """The types of spans, sorted."""
        return sorted({pair[1] for pair in map(part, self.tags) if pair and pair[1]})


@dataclass
class KeptTags:
    """tags.json."""

    tags: list[str]
    scheme: Scheme | None
    written: Scheme | None
    lower: bool


@dataclass
class TagVocabulary:
    """The words, characters and tags of a model, and their numbers.

    >>> from carousel.data import Vocabulary
    >>> words, characters = Vocabulary.train(["ada sat"], "word"), Vocabulary.train(["Ada sat"])
    >>> tags, seen = ["O", "B-PER", "I-PER"], frozenset({"Ada", "sat"})
    >>> vocabulary = TagVocabulary(words, characters, tags, "iob2", "iob1", seen)
    >>> columns = vocabulary.encode([["ADA", "sat"]])
    >>> columns["tokens"].values.tolist(), columns["unseen"].values.tolist(), columns["spelling"].values.tolist()
    ([4, 5], [1, 0], [3, 3])
    """

    words: Vocabulary
    characters: Vocabulary
    tags: list[str]
    scheme: Scheme | None  # that `tags` are in; None: they are not parts of spans
    written: Scheme | None  # that of the training file
    seen: frozenset[str]  # the words of the training file, as they stand there
    lower: bool = True  # whether `words` are in lower case
    context: WordVocabulary | None = None  # that of an embedder, which reads the same words

    @classmethod
    def learn(
        cls, counts: TagCounts, words: Vocabulary, scheme: Scheme, lower: bool, context: WordVocabulary | None = None
    ) -> TagVocabulary:
        """The vocabulary of a training file; tags that are parts of spans are put into `scheme`."""
        characters = Vocabulary.train((word * n for word, n in counts.words.items()), "character")
        if counts.scheme is None:
            tags, own = sorted(counts.tags, key=lambda tag: (-counts.tags[tag], tag)), None
        else:
            tags, own = all_tags(counts.types, scheme), scheme
        return cls(words, characters, tags, own, counts.scheme, frozenset(counts.words), lower, context)

    def encode(self, sentences: Sequence[Sequence[str]], characters: bool = True) -> dict[str, Column]:
        """The columns of some sentences: tokens, whether each was unseen in training, their characters, and what an
        embedder reads."""
        columns = self._book.encode(sentences, characters)
        every = [word for words in sentences for word in words]
        unseen = np.fromiter((word not in self.seen for word in every), np.uint8, len(every))
        columns["unseen"] = Column(unseen, columns["tokens"].lengths)
        return columns if self.context is None else columns | in_context(self.context.encode(sentences))

    def usual(self, sentences: Iterable[Sequence[str]]) -> Tally:
        """What some sentences are like."""
        return self._book.usual(sentences)

    @cached_property
    def _book(self) -> WordVocabulary:
        return WordVocabulary(self.words, self.characters, self.lower)

    @cached_property
    def numbers(self) -> dict[str, int]:
        """The number of each tag."""
        return {tag: k for k, tag in enumerate(self.tags)}

    @property
    def fingerprint(self) -> dict[str, Any]:
        """All that the integers depend on, in JSON's terms."""
        seen = hashlib.blake2b("\n".join(sorted(self.seen)).encode(), digest_size=16).hexdigest()
        own = {**self._book.fingerprint, "tags": self.tags, "seen": seen}
        return own if self.context is None else {**own, "context": self.context.fingerprint}

    def save(self, folder: Path) -> None:
        """Write it to a run directory."""
        self.words.save(folder / "tokenizer.json")
        self.characters.save(folder / "characters.json")
        write_json(folder / "tags.json", asdict(KeptTags(self.tags, self.scheme, self.written, self.lower)))
        write_text(folder / "words.txt", "".join(f"{word}\n" for word in sorted(self.seen)))

    @classmethod
    def load(cls, folder: Path, context: WordVocabulary | None = None) -> TagVocabulary:
        """The one in a run directory; `context` has the words of its embedder."""
        words, characters = (Vocabulary.load(folder / f"{name}.json") for name in ("tokenizer", "characters"))
        seen = frozenset(word for _, word in read_lines(folder / "words.txt"))
        kept = read_json(folder / "tags.json", KeptTags)
        return cls(words, characters, kept.tags, kept.scheme, kept.written, seen, kept.lower, context)


class TaggedSentences(ExampleSource):
    """The sentences of a file, with the numbers of their words and tags, for an `ExampleStore`.

    Sentences of more than `max_length` words are cut into parts. Tags that break the rules of their scheme are read in
    the way of `spans`; they are counted.
    """

    per_token = True

    def __init__(
        self, source: Conll, vocabulary: TagVocabulary, max_length: int | None = None, characters: bool = True
    ) -> None:
        self.source = source
        self.vocabulary = vocabulary
        self.max_length = max_length
        self.characters = characters
        words = WordVocabulary(vocabulary.words, vocabulary.characters if characters else None)
        context = {} if vocabulary.context is None else in_context(vocabulary.context.dtypes)
        super().__init__([source.path], {"labels": np.uint16, "unseen": np.uint8, **words.dtypes, **context})

    @property
    def made_by(self) -> dict[str, Any]:
        return {
            "reader": "conll", "column": self.source.column, "word_column": self.source.word_column,
            "max_length": self.max_length, "with_characters": self.characters, "written": self.vocabulary.written,
            **self.source.part_mark, **self.vocabulary.fingerprint,
        }  # fmt: skip

    def chunks(self) -> Iterator[Mapping[str, Column]]:
        self.counts = {"sentences": 0, "illegal": 0, "illegal_line": None, "cut": 0, "cut_line": None, "longest": 0}
        for group in chunks(self._parts(), lambda sentence: 8 * len(sentence.words)):
            labels = [self.vocabulary.numbers[tag] for sentence in group for tag in sentence.tags]
            lengths = np.array([len(sentence.words) for sentence in group])
            first = np.array([sentence.lines[0] for sentence in group])
            yield {
                **self.vocabulary.encode([sentence.words for sentence in group], self.characters),
                "labels": Column(np.array(labels), lengths),
                "lines": Column(first, np.ones_like(first)),
            }

    def _parts(self) -> Iterator[Sentence]:
        """The sentences, cut and with tags that are in the vocabulary."""
        counts, most, scheme = self.counts, self.max_length, self.vocabulary.scheme
        for sentence in self.source:
            self._check(sentence)
            counts["sentences"] += 1
            counts["longest"] = max(counts["longest"], len(sentence.words))
            if scheme is not None and self.vocabulary.written is not None:
                broken = illegal(sentence.tags, self.vocabulary.written)
                counts["illegal"] += len(broken)
                if broken and counts["illegal_line"] is None:
                    counts["illegal_line"] = sentence.lines[broken[0]]
            step = most or len(sentence.words)
            if len(sentence.words) > step:
                counts["cut"] += 1
                counts["cut_line"] = counts["cut_line"] or sentence.lines[0]
            for start in range(0, len(sentence.words), step):
                words, tags, lines = (values[start : start + step] for values in sentence)
                yield Sentence(words, tags if scheme is None else convert(tags, scheme), lines)  # type: ignore[arg-type]

    def _check(self, sentence: Sentence) -> None:
        """Complain of a tag that is not one of the training data's."""
        known = self._known
        for tag, line in zip(sentence.tags, sentence.lines, strict=True):
            if tag not in known:
                remedy = "fix it, or train on data that has it"
                raise DataError(self.source.path, line, f"the tag {tag!r} is not in the training data", remedy)

    @cached_property
    def _known(self) -> frozenset[str]:
        types = {pair[1] for pair in map(part, self.vocabulary.tags) if pair}
        if self.vocabulary.scheme is None:
            return frozenset(self.vocabulary.tags)
        return frozenset(["O", *(f"{prefix}-{type}" for type in types for prefix in "BIESLU")])


def warnings(path: Path, info: Mapping[str, Any], scheme: Scheme | None) -> list[str]:
    """What a user should know of a file of tagged sentences, one line each."""
    lines = one_sentence(path, info["sentences"], info["longest"])
    if info["illegal"]:
        many = counted(info["illegal"], "tag breaks", "tags break")
        lines.append(
            f"{path}:{info['illegal_line']}: {many} the rules of {scheme}, here first; read as the nearest spans"
        )
    if info["cut"]:
        many = counted(info["cut"], "sentence is", "sentences are")
        lines.append(
            f"{path}:{info['cut_line']}: {many} longer than {setting('max_length')} and cut into parts "
            f"(the longest has {info['longest']:,} words); is a blank line between sentences missing?"
        )
    return lines


def one_sentence(path: str | Path, sentences: int, words: int) -> list[str]:
    """A line if a file has no blank lines between sentences, so that all of its words are one.

    >>> one_sentence("a.conll", 1, 800)
    ['a.conll: no blank line, so its 800 words are one sentence; put one after each sentence']
    """
    if sentences > 1 or words < MOST_IN_ONE:
        return []
    return [f"{path}: no blank line, so its {words:,} words are one sentence; put one after each sentence"]
