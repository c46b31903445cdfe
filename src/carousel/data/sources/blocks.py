"""Text in large blocks of whole lines, as bytes: a corpus is worked on by arrays, not line by line."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np

from ...progress import advance
from .files import open_bytes, plain_size

T = TypeVar("T")

LARGE = 1 << 22  # bytes of a block that is tokenized
SMALL = 1 << 18  # bytes of a block of a sample
_SURROGATES = re.compile("[\ud800-\udfff]")  # halves of characters, which UTF-8 does not have


class Block(NamedTuple):
    """Texts end to end in UTF-8: text k is `data[bounds[k] : bounds[k + 1]]`, and `[END]` follows it if `ends[k]`."""

    data: np.ndarray  # (bytes,) uint8
    bounds: np.ndarray  # (texts + 1,) int64
    ends: np.ndarray  # (texts,) bool

    @classmethod
    def of(cls, texts: Sequence[str], ends: Any = False) -> Block:
        """These texts, with halves of characters replaced.

        >>> Block.of(["ab", "", "c"]).bounds.tolist()
        [0, 2, 2, 3]
        """
        try:
            encoded = [text.encode() for text in texts]
        except UnicodeEncodeError:
            encoded = [encodable(text).encode() for text in texts]
        bounds = np.zeros(len(texts) + 1, np.int64)
        np.cumsum(np.fromiter(map(len, encoded), np.int64, len(encoded)), out=bounds[1:])
        return cls(np.frombuffer(b"".join(encoded), np.uint8), bounds, np.broadcast_to(ends, len(texts)))

    @classmethod
    def of_lines(cls, raw: bytes, newlines: bool, end: bool) -> Block:
        r"""Each line a text, with its newline or without.

        >>> Block.of_lines(b"ab\n\nc", False, True).texts()
        ['ab', '', 'c']
        """
        data = np.frombuffer(raw, np.uint8)
        newline = data == 0x0A
        stops = np.flatnonzero(newline) + 1
        if len(data) and not newline[-1]:
            stops = np.append(stops, len(data))
        count = len(stops)
        if not newlines:
            stops = stops - np.minimum(np.arange(1, count + 1), np.count_nonzero(newline))
            data = data[~newline]
        return cls(data, np.concatenate([[0], stops]), np.full(count, end))

    def texts(self) -> list[str]:
        raw = self.data.tobytes()
        bounds = self.bounds.tolist()
        return [raw[a:b].decode() for a, b in pairwise(bounds)]

    def without_blank(self) -> Block:
        """The texts that are more than space.

        >>> Block.of(["ab", " ", "", "c", "\u3000"]).without_blank().texts()
        ['ab', 'c']
        """
        lengths = np.diff(self.bounds)
        kept = lengths > 0
        visible = (self.data > 0x20) & (self.data < 0x7F)  # a text without any is looked at
        if len(self.data):
            seen = np.add.reduceat(visible, self.bounds[:-1][kept], dtype=np.int64)
            for k in np.flatnonzero(kept)[seen == 0].tolist():
                kept[k] = not self.data[self.bounds[k] : self.bounds[k + 1]].tobytes().decode().isspace()
        if kept.all():
            return self
        bounds = np.concatenate([[0], np.cumsum(lengths[kept])])
        return Block(self.data[np.repeat(kept, lengths)], bounds, self.ends[kept])


def merged(blocks: Iterable[Block], size: int) -> Iterator[Block]:
    """The same texts in blocks that reach `size` bytes.

    >>> [block.texts() for block in merged([Block.of(["ab"]), Block.of(["c"]), Block.of(["d"])], 3)]
    [['ab', 'c'], ['d']]
    """
    waiting: list[Block] = []
    for block in blocks:
        waiting.append(block)
        if sum(len(one.data) for one in waiting) >= size:
            yield _joined(waiting)
            waiting = []
    if waiting:
        yield _joined(waiting)


def _joined(blocks: Sequence[Block]) -> Block:
    lengths = np.concatenate([np.diff(block.bounds) for block in blocks])
    data, ends = (np.concatenate([block[k] for block in blocks]) for k in (0, 2))
    return blocks[0] if len(blocks) == 1 else Block(data, np.concatenate([[0], np.cumsum(lengths)]), ends)


def encodable(text: str) -> str:
    """`text` with halves of characters replaced, so that it can be written as UTF-8."""
    return _SURROGATES.sub("\ufffd", text)


class Raw(NamedTuple):
    """Lines of a file as they are, from byte `start` in line `number`; `data` is None for a line without end, which
    continues to `stop`."""

    path: Path
    start: int
    stop: int
    number: int
    data: bytes | None


def raw_blocks(path: Path, start: int, stop: int | None, number: int, size: int, longest: int | None) -> Iterator[Raw]:
    """The lines of a file from byte `start` to `stop` in blocks of about `size` bytes; reading ends at one that is
    longer than `longest`."""
    with open_bytes(path, start) as file:
        left, rest = stop - start if stop is not None else None, b""

        def read() -> Iterator[bytes]:
            nonlocal left
            while block := file.read(size if left is None else min(size, left)):
                left = None if left is None else left - len(block)
                yield block

        for block in advance(read(), path, plain_size(path)):
            data = rest + block
            cut = data.rfind(b"\n") + 1
            data, rest = data[:cut], data[cut:]
            if data:
                yield Raw(path, start, start + len(data), number, data)
                start, number = start + len(data), number + data.count(b"\n")
            if longest is not None and len(rest) > longest:
                yield Raw(path, start, start if stop is None else stop, number, None)
                return
        if rest:
            yield Raw(path, start, start + len(rest), number, rest)


def spaced(blocks: Iterable[T], share: float) -> Iterator[T]:
    """A `share` of the blocks, the first among them, as evenly spaced as can be.

    >>> list(spaced(range(10), 0.3))
    [0, 4, 7]
    """
    chosen = -1
    for k, block in enumerate(blocks):
        if int(k * share) > chosen:
            chosen = int(k * share)
            yield block
