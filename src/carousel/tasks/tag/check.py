"""What there is to know of tagged sentences before training on them."""

from __future__ import annotations

from array import array
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ...data.sources.conll import Conll
from ...data.text.tags import Scheme, illegal, part, spans
from ...data.text.tokenizers import UNK
from ...wording import counted
from ..shared.checks import FilesCheck, table_of_files
from .examples import TagCounts, TagVocabulary, one_sentence

if TYPE_CHECKING:
    from rich.table import Table as RichTable


@dataclass(frozen=True)
class TagFacts:
    """One file, as a vocabulary sees it. Lengths are in words."""

    file: str
    sentences: int
    words: int
    median: float
    most: float  # 95 % of the sentences are no longer than this
    longest: int
    longest_line: int
    unknown: int  # words that are [UNK]
    unseen: int  # words that are not in the training file
    repeated: int  # sentences that stood in the file before
    illegal: int  # tags that break the rules of their scheme
    illegal_line: int | None  # the first of them
    strange: dict[str, int]  # tags that are not in the training file, and where each is first
    tags: dict[str, int]
    spans: dict[str, int]  # by type

    @property
    def unknown_rate(self) -> float:
        return self.unknown / self.words

    @property
    def unseen_rate(self) -> float:
        return self.unseen / self.words


@dataclass(frozen=True)
class TagCheck(FilesCheck[TagFacts]):
    """What is in files of tagged sentences."""

    vocabulary_size: int
    scheme: Scheme | None  # of the training file's tags
    max_length: int

    @property
    def warnings(self) -> list[str]:
        warnings = []
        for info in self.files:
            for tag, line in info.strange.items():
                warnings.append(f"{info.file}:{line}: the tag {tag!r} is not in {self.train.file}")
            if info.illegal:
                place = f"{info.file}:{info.illegal_line}"
                many = counted(info.illegal, "tag breaks", "tags break")
                warnings.append(f"{place}: {many} the rules of {self.scheme}, here first")
            warnings += (alone := one_sentence(info.file, info.sentences, info.words))
            if info.longest > self.max_length and not alone:
                place = f"{info.file}:{info.longest_line}"
                warnings.append(f"{place}: {info.longest:,} words in one sentence; is a blank line missing?")
            if info.repeated > 0.05 * info.sentences:
                warnings.append(f"{info.file}: {info.repeated:,} of {info.sentences:,} sentences repeat an earlier one")
        return warnings + self.shared_warning("sentences", 0.05)

    def __rich__(self) -> RichTable:
        kind = f"spans in {self.scheme}" if self.scheme else "plain tags"
        rows = {
            "sentences": "{f.sentences:,}",
            "words": "{f.words:,}",
            "median length": "{f.median:g}",
            "95th percentile": "{f.most:g}",
            "longest": "{f.longest:,} (line {f.longest_line:,})",
            "unknown words": "{f.unknown:,} ({f.unknown_rate:.2%})",
            "unseen in training": "{f.unseen:,} ({f.unseen_rate:.2%})",
            "repeated sentences": "{f.repeated:,}",
        }
        if self.scheme is not None:
            rows["illegal tags"] = "{f.illegal:,}"
        table = table_of_files(f"{kind}; vocabulary of {self.vocabulary_size:,} words", self.files, rows, self.shared)
        table.add_section()
        counts = [f.spans if self.scheme else f.tags for f in self.files]
        names = sorted(set().union(*counts), key=lambda name: (-counts[0].get(name, 0), name))
        for name in names[:40]:
            kind = "span" if self.scheme else "tag"
            table.add_row(f"{kind} {name[:40]}", *(f"{count.get(name, 0):,}" for count in counts))
        if len(names) > 40:
            table.add_row(f"… and {len(names) - 40:,} more", *("" for _ in self.files))
        return table


def check_tags(
    train: Conll, dev: Conll | None, vocabulary: TagVocabulary, counts: TagCounts, max_length: int
) -> TagCheck:
    """Read `train` and `dev` (or None) and say what is in them, as `vocabulary`, made from `counts`, sees it."""
    info, known = _read(train, vocabulary, counts)
    dev_info = shared = None
    if dev is not None:
        dev_info, sentences = _read(dev, vocabulary, counts)
        shared = int(np.isin(sentences, known).sum())
    return TagCheck(info, dev_info, shared, train.reading, len(vocabulary.words), counts.scheme, max_length)


def _read(source: Conll, vocabulary: TagVocabulary, counts: TagCounts) -> tuple[TagFacts, np.ndarray]:
    """The info of a file, and a hash of each sentence, (sentences,)."""
    lengths, first, hashes = array("q"), array("q"), array("q")
    tags: Counter[str] = Counter()
    types: Counter[str] = Counter()
    strange: dict[str, int] = {}
    unknown = unseen = broken = 0
    broken_line = None
    known = {pair[1] for pair in map(part, vocabulary.tags) if pair} if counts.scheme else set(vocabulary.tags)
    for sentence in source:
        columns = vocabulary.encode([sentence.words], characters=False)
        unknown += int(np.count_nonzero(columns["tokens"].values == UNK))
        unseen += int(np.count_nonzero(columns["unseen"].values))
        lengths.append(len(sentence.words))
        first.append(sentence.lines[0])
        hashes.append(hash(tuple(sentence.words)))
        tags.update(sentence.tags)
        for tag, line in zip(sentence.tags, sentence.lines, strict=True):
            type = (part(tag) or ("", None))[1] if counts.scheme else tag
            if type not in known:
                strange.setdefault(tag, line)
        if counts.scheme and all(map(part, sentence.tags)):
            types.update(span.type for span in spans(sentence.tags))
            wrong = illegal(sentence.tags, counts.scheme)
            broken += len(wrong)
            if wrong and broken_line is None:
                broken_line = sentence.lines[wrong[0]]
    length = np.array(lengths)
    return TagFacts(
        file=str(source.path),
        sentences=len(length),
        words=int(length.sum()),
        median=float(np.median(length)),
        most=float(np.quantile(length, 0.95, method="higher")),
        longest=int(length.max()),
        longest_line=first[int(length.argmax())],
        unknown=unknown,
        unseen=unseen,
        repeated=len(hashes) - len(set(hashes)),
        illegal=broken,
        illegal_line=broken_line,
        strange=strange,
        tags=dict(tags),
        spans=dict(types),
    ), np.array(hashes)
