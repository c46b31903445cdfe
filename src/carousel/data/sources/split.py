"""Validation data held out of a training file, where none is given.

Examples are chosen by a hash of their text and a seed, so that the choice depends on neither the order of the file nor
the number of threads, and copies of a text, also in other case or spacing, are never on both sides. Running text, whose
lines depend on one another, is split in two instead: its end is held out.
"""

from __future__ import annotations

import copy
import hashlib
from array import array
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, Protocol, Self, TypeVar

import numpy as np

from ...wording import counted
from .files import matching, open_bytes, size_of

FEWEST = 20  # different texts that a file must have for some to be held out
SMALLEST = 10  # examples to hold out even if the share is fewer; but never more than a fifth of the texts
FEWEST_CHARACTERS = 2000  # of running text
BLOCK = 1 << 16  # bytes in which the place to split running text is looked for

T = TypeVar("T")


class Part(NamedTuple):
    """One side of a file that is split by examples: those held out, or the rest.

    An example is held out if the hash of its text is below `limit`, unless it is among `common`: texts with so many
    copies that they would be most of what is held out. Of the rest a `share` may be taken, by another hash: a larger
    share has all of a smaller one.
    """

    seed: int
    limit: int
    common: tuple[int, ...]
    held_out: bool
    share: float = 1.0

    def has(self, text: str) -> bool:
        mark = hash_text(text, self.seed)
        if (mark < self.limit and mark not in self.common) != self.held_out:
            return False
        return self.share == 1 or hash_text(text, self.seed + 1) < self.share * 2**64


class End(NamedTuple):
    """One side of running text: up to a byte, or what follows; `line` is the number of the line that byte is on.

    Of several files, bytes are counted through all of them, lines in the file that the byte is in.
    """

    byte: int
    line: int
    held_out: bool


class Splittable:
    """A source of examples of which a part can be left out. A subclass says what it reads with `selected`."""

    part: Part | End | None = None

    def take(self, part: Part | End) -> Self:
        """The same source with one side of the file only."""
        taken = copy.copy(self)
        taken.part = part
        return taken

    def selected(self, items: Iterable[T], text: Callable[[T], str]) -> Iterator[T]:
        """`items` without those of the other side; `text` is what an item is recognised by."""
        part = self.part
        return iter(items) if not isinstance(part, Part) else (item for item in items if part.has(text(item)))

    @property
    def part_mark(self) -> dict[str, Any]:
        """What a cache must know of the part, in JSON's terms; nothing if it is the whole file."""
        return {} if self.part is None else {"part": [_plain(value) for value in self.part]}


class ByExample(Protocol):
    """A source whose examples are identified by their texts (`keys`)."""

    def keys(self) -> Iterator[str]: ...

    def take(self, part: Part | End) -> Self: ...


S = TypeVar("S", bound=ByExample)


class Split(NamedTuple):
    """How a file was split; `examples` of `total` are held out. `problem` says why nothing is."""

    rest: Part | End | None
    held_out: Part | End | None
    examples: int = 0
    total: int = 0
    problem: str = ""


def split_examples(source: ByExample, share: float, seed: int = 0) -> Split:
    """The part of a source to hold out: about `share` of its examples, at least a few; nothing of a tiny file.

    >>> class Texts(list):
    ...     keys = list.__iter__
    >>> split = split_examples(Texts(f"text {k}" for k in range(1000)), 0.05)
    >>> split.examples, split.total
    (50, 1000)
    """
    marks = array("Q", (hash_text(text, seed) for text in source.keys()))  # noqa: SIM118
    texts, copies = np.unique(np.frombuffer(marks, np.uint64), return_counts=True)
    if len(texts) < FEWEST:
        few = counted(len(texts), "different text")
        return Split(None, None, 0, len(marks), f"{few}, and {FEWEST} are needed")
    wanted = max(round(share * len(marks)), min(SMALLEST, len(texts) // 5))
    common = copies > max(1, wanted // 4)
    reached = np.cumsum(np.where(common, 0, copies))
    last = min(int(np.searchsorted(reached, wanted)), len(texts) - 2)  # one is left to train on
    limit = int(texts[last]) + 1
    chosen = tuple(int(mark) for mark in texts[common] if mark < limit)
    rest, held_out = (Part(seed, limit, chosen, side) for side in (False, True))
    return Split(rest, held_out, int(reached[last]), len(marks))


def split_end(path: Path, share: float) -> Split:
    """The end of running text, about `share` of it, from the start of a line if there is one near."""
    files = matching(path)
    sizes = [size_of(file) for file in files]
    size = sum(sizes)
    if size < FEWEST_CHARACTERS:
        return Split(None, None, 0, size, f"{size:,} bytes of text, and {FEWEST_CHARACTERS:,} are needed")
    cut = max(1, min(round((1 - share) * size), size - FEWEST_CHARACTERS // 10))
    at = int(np.searchsorted(np.cumsum(sizes), cut, "right"))  # the file with the cut in it
    before = sum(sizes[:at])
    with open_bytes(files[at], cut - before) as file:
        cut += _boundary(file.read(min(BLOCK, max(1, (sum(sizes[: at + 1]) - cut) // 2))))
    line, left = 1, cut - before
    with open_bytes(files[at]) as file:
        while left > 0 and (block := file.read(min(1 << 20, left))):
            line, left = line + block.count(b"\n"), left - len(block)
    return Split(End(cut, line, False), End(cut, line, True), size - cut, size)


def _boundary(block: bytes) -> int:
    """Where in a block to split: after its first newline, else before its first space, else between two characters."""
    if (at := block.find(b"\n")) >= 0:
        return at + 1
    if (at := block.find(b" ")) >= 0:
        return at
    return next((k for k, byte in enumerate(block[:4]) if byte & 0xC0 != 0x80), 0)


def hash_text(text: str, seed: int) -> int:
    """64 bits of a text, which upper case and spacing do not change."""
    plain = " ".join(text.lower().split()).encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(plain, digest_size=8, key=str(seed).encode()).digest(), "little")


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
