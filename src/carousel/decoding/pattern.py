"""Verse patterns: number and length of lines, and the punctuation between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..errors import ArgumentError, did_you_mean


@dataclass(frozen=True)
class Pattern:
    """`lines` lines of `length` characters (a number, or one for each line), with `punctuation` after them in turn.

    The punctuation of a line is a string of marks, "" for none; if there are fewer than lines, they repeat.

    >>> Pattern(2, 3).layout()
    '○○○，○○○。'
    >>> Pattern(3, (7, 5, 5), ("", "", "。")).layout()
    '○○○○○○○○○○○○○○○○○。'
    >>> len(Pattern.named("五言律詩"))
    48
    """

    lines: int
    length: int | tuple[int, ...]
    punctuation: Sequence[str] = ("，", "。")

    def __post_init__(self) -> None:
        if self.lines < 1:
            raise ArgumentError(f"Pattern: lines must be at least 1, got {self.lines}")
        if not self.punctuation:
            raise ArgumentError('Pattern: punctuation is empty; ("",) is a form without any')
        if min(self.lengths, default=0) < 1 or len(self.lengths) != self.lines:
            each = f"one for each of the {self.lines} lines"
            raise ArgumentError(f"Pattern: length must be a number above 0, or {each}, got {self.length}")

    @classmethod
    def named(cls, name: str) -> Pattern:
        """A form by its name: 五言絕句, 七言絕句, 五言律詩, 七言律詩.

        >>> Pattern.named("七言絕句")
        Pattern(lines=4, length=7, punctuation=('，', '。'))
        """
        plain = name.translate(str.maketrans("绝诗", "絕詩"))
        if plain not in NAMED:
            hint = did_you_mean(plain, NAMED, cutoff=0.3)
            raise ArgumentError(f"no form is named {name!r}, only {', '.join(NAMED)}{hint and '; ' + hint}")
        return NAMED[plain]

    @property
    def lengths(self) -> tuple[int, ...]:
        """The number of characters of each line."""
        return (self.length,) * self.lines if isinstance(self.length, int) else tuple(self.length)

    def places(self) -> list[tuple[int, str | None]]:
        """Every place in order: its line, from 0, and its mark, None for a character."""
        return [
            (line, mark)
            for line, length in enumerate(self.lengths)
            for mark in [*[None] * length, *self.punctuation[line % len(self.punctuation)]]
        ]

    def line_ends(self) -> list[int]:
        """The place of each line's last character."""
        ends = {line: place for place, (line, mark) in enumerate(self.places()) if mark is None}
        return [ends[line] for line in range(self.lines)]

    def layout(self) -> str:
        """The pattern as text, ○ for a character."""
        return "".join(mark or "○" for _, mark in self.places())

    def __len__(self) -> int:
        return len(self.places())


NAMED = {
    "五言絕句": Pattern(4, 5),
    "七言絕句": Pattern(4, 7),
    "五言律詩": Pattern(8, 5),
    "七言律詩": Pattern(8, 7),
}
