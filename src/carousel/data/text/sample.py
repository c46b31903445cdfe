"""A sample of a large text: blocks of it, evenly spaced."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ..sources.files import size_of
from ..sources.lines import Source, chunks


class Sample:
    """The texts of a source, or where it has more than `megabytes`, about as many, in blocks evenly spaced.

    The choice depends on the text and `megabytes` alone. `share` is how much of the source it is.
    """

    def __init__(self, source: Source, megabytes: int) -> None:
        self.source, self.path = source, source.path
        size = sum(map(size_of, source.files))
        self.share = min(1.0, megabytes * 1e6 / size)

    def __iter__(self) -> Iterator[str]:
        if self.share == 1.0:
            return iter(self.source)
        return (text for block in spaced(chunks(self.source, len), self.share) for text in block)


def spaced(blocks: Iterable[list[str]], share: float) -> Iterator[list[str]]:
    """A `share` of the blocks, the first among them, as evenly spaced as can be.

    >>> [block[0] for block in spaced([[str(k)] for k in range(10)], 0.3)]
    ['0', '4', '7']
    """
    chosen = -1
    for k, block in enumerate(blocks):
        if int(k * share) > chosen:
            chosen = int(k * share)
            yield block
