"""What is said of bad input and of bad arguments: one line that names what is wrong and what would be right."""

from __future__ import annotations

from pathlib import Path


class DataError(ValueError):
    """Bad input. Its text is one line: `file:line: problem; remedy`; the parts are kept as attributes.

    >>> from carousel.data import DataError
    >>> print(DataError("poems.txt", 17, "byte 0xff at column 5 is not UTF-8", "convert it with iconv"))
    poems.txt:17: byte 0xff at column 5 is not UTF-8; convert it with iconv
    >>> print(DataError("poems.txt", None, "the file is empty", "give a text file"))
    poems.txt: the file is empty; give a text file
    """

    def __init__(self, file: str | Path | None, line: int | None, problem: str, remedy: str) -> None:
        super().__init__(file, line, problem, remedy)  # all of them, so that the error survives pickling
        self.file = None if file is None else Path(file)
        self.line = line
        self.problem = problem
        self.remedy = remedy

    def __str__(self) -> str:
        if self.file is None:
            where = "" if self.line is None else f"line {self.line}: "
        else:
            where = f"{self.file}: " if self.line is None else f"{self.file}:{self.line}: "
        return f"{where}{self.problem}; {self.remedy}"


def check_count(name: str, value: int | None, *, least: int = 1, optional: bool = False) -> None:
    """Raise a ValueError unless the argument `name` is a whole number from `least` up (or None, if optional).

    >>> from carousel.data.errors import check_count
    >>> check_count("streams", 0)
    Traceback (most recent call last):
    ...
    ValueError: streams must be a whole number from 1 up, got 0
    """
    if value is None and optional:
        return
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"{name} must be a whole number from {least} up{' or None' * optional}, got {value!r}")


def check_counts(**values: int) -> None:
    """Raise a ValueError unless each of these arguments is a whole number from 1 up."""
    for name, value in values.items():
        check_count(name, value)
