"""Counts and articles, as English has them."""

from __future__ import annotations


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
