"""Counts and articles, as English has them; tables of text."""

from __future__ import annotations

from collections.abc import Sequence


def counted(number: int, one: str, several: str | None = None) -> str:
    """A number and what it counts; `several` if that is not `one` with an s.

    >>> counted(1, "text"), counted(1200, "text"), counted(0, "row is", "rows are")
    ('1 text', '1,200 texts', '0 rows are')
    """
    return f"{number:,} {one if number == 1 else several or one + 's'}"


def an(word: str) -> str:
    """A word with its article, by its sound; one without a vowel is spelt out.

    >>> an("tag"), an("encode"), an("lm"), an("GRU"), an("RNN")
    ('a tag', 'an encode', 'an lm', 'a GRU', 'an RNN')
    """
    small = word.lower()
    spelt = not set(small) & set("aeiou")
    return f"{'an' if small[:1] in ('aefhilmnorsx' if spelt else 'aeiou') else 'a'} {word}"


def text_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table for a terminal; the first column is set left, the others right.

    >>> print(text_table(["run", "loss"], [["a", "0.25"], ["base", "1.5"]]))
    run   loss
    a     0.25
    base   1.5
    """
    widths = [max(map(len, column)) for column in zip(columns, *rows, strict=True)]
    lines = []
    for row in (columns, *rows):
        first, *others = zip(row, widths, strict=True)
        cells = [first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in others)]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)
