"""A source of plain text in the form of a model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ..sources.blocks import LARGE, Block
from ..sources.lines import Piece, Source, blocks_of, chunks
from .form import TextForm


class FormedText:
    """The text of a source, brought to a form; `training`: it is the text that the form was learned from."""

    def __init__(self, source: Source, form: TextForm, training: bool = False) -> None:
        self.source, self.form, self.training = source, form, training
        self.path, self.files, self.layout = source.path, source.files, source.layout

    @property
    def part_mark(self) -> dict[str, Any]:
        return {**self.source.part_mark, "form": [self.form.fingerprint, self.training]}

    @property
    def blank(self) -> int:
        return getattr(self.source, "blank", 0)

    def pieces(self) -> Iterator[Piece]:
        for pieces in chunks(self.source.pieces(), lambda piece: len(piece.text)):
            texts = self._formed([piece.text for piece in pieces])
            for piece, text in zip(pieces, texts, strict=True):
                yield Piece(piece.line, text, piece.end)

    def blocks(self, size: int = LARGE, share: float = 1.0) -> Iterator[Block]:
        """The same text in blocks, as those of the source."""
        for block in blocks_of(self.source, size, share):
            yield block if self._is_formed(block) else Block.of(self._formed(block.texts()), block.ends)

    def _is_formed(self, block: Block) -> bool:
        """Whether a block is in the form already."""
        form = self.form
        if not self.training or (form.split and not form.tokenized):
            return False
        return not form.lower or (text := block.data.tobytes().decode()) == text.lower()

    def _formed(self, texts: Sequence[str]) -> list[str]:
        lines = [text.removesuffix("\n") for text in texts]
        formed = self.form.read(lines, self.form.tokenized if self.training else None).texts
        return [new + text[len(line) :] for new, line, text in zip(formed, lines, texts, strict=True)]

    def __iter__(self) -> Iterator[str]:
        return (piece.text for piece in self.pieces())


def restored(form: TextForm, pieces: Iterable[str]) -> Iterator[str]:
    """Generated text that comes in `pieces`, put back into readable text word by word."""
    text, yielded = "", 0
    for piece in pieces:
        text += piece
        complete = text[: max(text.rfind(" "), text.rfind("\n")) + 1].rstrip(" ")
        if len(readable := form.restore(complete)) > yielded:
            yield readable[yielded:]
            yielded = len(readable)
    if rest := form.restore(text)[yielded:]:
        yield rest
