"""A source of plain text in the form of a model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ..sources.lines import Piece, Source, chunks
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
        form = self.form
        for pieces in chunks(self.source.pieces(), lambda piece: len(piece.text)):
            lines = [piece.text.removesuffix("\n") for piece in pieces]
            texts = form.read(lines, form.tokenized if self.training else None).texts
            for piece, line, text in zip(pieces, lines, texts, strict=True):
                yield Piece(piece.line, text + piece.text[len(line) :], piece.end)

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
