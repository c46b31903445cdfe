"""What a user can put right: `CarouselError` and its kinds. Any other exception is a bug of the package's own.

The text of such an error is one line that names what is wrong and what would be right; the command line prints it as it
is. Kinds that stand for a bad value are ValueErrors too, as PyTorch's checks of arguments are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

LONGEST = 1000  # characters of a message
LONGEST_PROBLEM = 300  # of a DataError's, so that its file and its remedy are never cut


def shorten(text: object, longest: int = 60) -> str:
    """`text` as a message can show it: the middle of a long one is left out.

    >>> shorten("hidden"), shorten("a" * 70 + "z", 9)
    ('hidden', 'aaaa…aaaz')
    """
    text = str(text)
    half = (longest - 1) // 2
    return text if len(text) <= longest else f"{text[: longest - 1 - half]}…{text[-half:]}"


class CarouselError(Exception):
    """Something that a user can put right: data, settings, arguments, a run directory, the machine."""

    def __str__(self) -> str:
        return shorten(super().__str__(), LONGEST)


class ArgumentError(CarouselError, ValueError):
    """An argument of a call, or an option of a command, that cannot be: which, what was given, what is accepted."""


class SettingsError(CarouselError, ValueError):
    """A key of the settings that does not exist, or a value that cannot be: where, what, and what would be right."""


class RunError(CarouselError, ValueError):
    """A run directory that cannot be used: which, why, and what to do."""


class DataError(CarouselError, ValueError):
    """Bad input. Its text is `file:line: problem; remedy`; the parts are kept as attributes.

    >>> print(DataError("poems.txt", 17, "byte 0xff at column 5 is not UTF-8", "convert it with iconv"))
    poems.txt:17: byte 0xff at column 5 is not UTF-8; convert it with iconv
    >>> print(DataError("poems.txt", None, "the file is empty", "give a text file"))
    poems.txt: the file is empty; give a text file
    """

    def __init__(self, file: str | Path | None, line: int | None, problem: str, remedy: str) -> None:
        super().__init__(file, line, problem, remedy)  # all of them, so that the error survives pickling
        self.file = None if file is None else Path(file)
        self.line = line
        self.problem = shorten(problem, LONGEST_PROBLEM)
        self.remedy = remedy

    def __str__(self) -> str:
        if self.file is None:
            where = "" if self.line is None else f"line {self.line}: "
        else:
            where = f"{self.file}: " if self.line is None else f"{self.file}:{self.line}: "
        return f"{where}{self.problem}; {self.remedy}"


def did_you_mean(
    word: str, choices: Iterable[str], synonyms: Mapping[str, str] | None = None, cutoff: float = 0.6
) -> str:
    """`did you mean …?` with the one of `choices` that is most like `word`, in whatever case; empty if none is.

    `synonyms` are further words to compare with, each with what is to be proposed for it.

    >>> did_you_mean("hiden", ["hidden", "layers"])
    'did you mean hidden?'
    >>> did_you_mean("learning_rate", ["lr"], {"learning_rate": "lr"}), did_you_mean("colour", ["lr"])
    ('did you mean lr?', '')
    """
    import difflib

    meant = {key.lower(): value for key, value in (synonyms or {}).items()} | {key.lower(): key for key in choices}
    near = difflib.get_close_matches(str(word)[:100].lower(), meant, 1, cutoff)
    return f"did you mean {meant[near[0]]}?" if near else ""


def check_count(name: str, value: int | None, *, least: int = 1, optional: bool = False) -> None:
    """Raise an ArgumentError unless the argument `name` is a whole number from `least` up (or None, if optional).

    >>> check_count("streams", 0)
    Traceback (most recent call last):
    ...
    carousel.errors.ArgumentError: streams must be a whole number from 1 up, got 0
    """
    if value is None and optional:
        return
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ArgumentError(f"{name} must be a whole number from {least} up{' or None' * optional}, got {value!r}")
    if value >= 2**31:
        raise ArgumentError(f"{name} must be less than 2**31, got {value}")


def check_counts(**values: int) -> None:
    """Raise an ArgumentError unless each of these arguments is a whole number from 1 up."""
    for name, value in values.items():
        check_count(name, value)
