"""A sample of a large text: blocks of it, evenly spaced."""

from __future__ import annotations

from collections.abc import Iterator

from ..sources.blocks import LARGE, SMALL, Block
from ..sources.files import size_of
from ..sources.lines import Source, blocks_of


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
        return (text for block in self.blocks() for text in block.texts())

    def blocks(self, size: int = LARGE, share: float = 1.0) -> Iterator[Block]:
        """The same in blocks; of a part of the source they are small, so that it is a part of every place."""
        return blocks_of(self.source, size if self.share == 1.0 else min(size, SMALL), share * self.share)
