"""Figures that a command writes beside its output, one for each of a few lines."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import typer

from carousel.errors import ArgumentError
from carousel.wording import either

from .errors import check_output

MOST = 50  # lines; more files than anyone looks at


class Figures:
    """The figures of an option: that of the first line in its FILE, that of the second in FILE-2, and so on.

    They are drawn after all lines are done. Without a `path` nothing is drawn.
    """

    def __init__(self, option: str, path: Path | None) -> None:
        from carousel.pictures.files import FORMATS

        self.option, self.path = option, path
        self.figures: dict[Path, Callable[[], Any]] = {}
        if path is not None and path.suffix.lower() not in FORMATS:
            raise typer.BadParameter(f"{path}: a picture's name must end in {either(list(FORMATS))}", param_hint=option)
        check_output(option, path)

    def add(self, number: int, draw: Callable[[], Any]) -> None:
        """`draw` makes the figure of line `number`."""
        if self.path is None:
            return
        self.check(len(self.figures) + 1)
        self.figures[self.path if number == 1 else self.path.with_stem(f"{self.path.stem}-{number}")] = draw

    def check(self, lines: int) -> None:
        """Refuse figures of more than `MOST` lines."""
        if self.path is not None and lines > MOST:
            raise ArgumentError(f"{self.option} is for at most {MOST} lines at a time; give fewer")

    def write(self) -> None:
        from carousel.pictures import save

        for path, draw in self.figures.items():
            save(draw(), path)
