"""Counts, articles, choices and names of results, as English has them; settings as the user writes them; tables."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

# results of metrics whose names are not plain words
LABELS = {name: name.upper() for name in ("bleu", "crps", "f1", "mae", "mase", "mse", "r2", "rmse")}
LABELS |= {"chrf": "chrF", "end": "[END]", "pearson": "Pearson", "spearman": "Spearman"}


def counted(number: int, one: str, several: str | None = None) -> str:
    """A number and what it counts; `several` if that is not `one` with an s.

    >>> counted(1, "text"), counted(1200, "text"), counted(0, "row is", "rows are")
    ('1 text', '1,200 texts', '0 rows are')
    """
    return f"{number:,} {one if number == 1 else several or one + 's'}"


def an(word: str) -> str:
    """A word with its article, by its sound; one without a vowel is spelt out.

    >>> an("tag"), an("encode"), an("lm"), an("GRU"), an("RNN"), an("80%"), an("50%")
    ('a tag', 'an encode', 'an lm', 'a GRU', 'an RNN', 'an 80%', 'a 50%')
    """
    if word[:1].isdecimal():
        return f"{'an' if re.match('8|1[18](?![0-9])', word) else 'a'} {word}"
    small = word.lower()
    spelt = not set(small) & set("aeiou")
    return f"{'an' if small[:1] in ('aefhilmnorsx' if spelt else 'aeiou') else 'a'} {word}"


def capitalized(text: str) -> str:
    """Text that begins with a capital; other capitals stay.

    >>> capitalized("tagger"), capitalized("tagger with an LSTM")
    ('Tagger', 'Tagger with an LSTM')
    """
    return text[:1].upper() + text[1:]


def either(choices: Sequence[str]) -> str:
    """Choices, of which a reader takes one.

    >>> either(["more epochs"]), either(["more epochs", "another lr", "more data"])
    ('more epochs', 'more epochs, another lr or more data')
    """
    *others, last = choices
    return f"{', '.join(others)} or {last}" if others else last


def dashed(name: str) -> str:
    """A setting or option as it is written on the command line.

    >>> dashed("top_k"), dashed("constraints"), dashed("train")
    ('--top-k', '--constraint', 'TRAIN')
    """
    if name == "train":  # an argument
        return "TRAIN"
    return "--" + {"constraints": "constraint"}.get(name, name).replace("_", "-")


_spell: Callable[[str], str] = str  # how messages spell the names of settings


@contextmanager
def spelling(spell: Callable[[str], str]) -> Iterator[None]:
    """Messages spell settings so: `dashed` while a command runs, `str` for what a file says."""
    global _spell
    before, _spell = _spell, spell
    try:
        yield
    finally:
        _spell = before


def setting(name: str, value: str | int | float | None = None) -> str:
    """A setting, possibly with a value, as the user writes it: a keyword in Python, an option on the command line.

    >>> setting("label_column"), setting("scheme", "none"), setting("shared", True)
    ('label_column', "scheme='none'", 'shared=True')
    >>> with spelling(dashed):
    ...     setting("label_column"), setting("scheme", "none"), setting("shared", True), setting("tied", False)
    ('--label-column', '--scheme none', '--shared', '--no-tied')
    """
    if value is None or _spell is str:
        return _spell(name) if value is None else f"{name}={value!r}"
    option = _spell(name)
    return option if value is True else f"--no-{option[2:]}" if value is False else f"{option} {value}"


def minutes(value: float) -> str:
    """Minutes in few digits, but never nought.

    >>> minutes(12.34), minutes(1.5), minutes(0.025), minutes(0.0001)
    ('12.3', '1.5', '0.03', '0.01')
    """
    return f"{value:.1f}" if value >= 1 else f"{max(value, 0.01):.2f}"


def label_of(name: str) -> str:
    """What a reader calls the result `name` of a metric.

    >>> label_of("scaled_crps"), label_of("micro_f1")
    ('scaled CRPS', 'micro F1')
    """
    return " ".join(LABELS.get(word, word) for word in name.split("_"))


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
