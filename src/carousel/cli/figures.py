"""Pictures that a command makes on the side, one for each of a few lines."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import typer

MOST = 50  # lines: who asks for a picture wants to look at it


class Figures:
    """What an option's FILE is to hold: the picture of the first line; that of the second goes beside it, as FILE-2.

    Nothing is drawn until all lines are done. Without a `path` nothing is drawn at all.
    """

    def __init__(self, option: str, path: Path | None) -> None:
        from carousel.pictures.files import FORMATS

        self.option, self.path = option, path
        self.made: dict[Path, Callable[[], Any]] = {}
        if path is not None and path.suffix.lower() not in FORMATS:
            raise typer.BadParameter(f"{path}: a picture's name must end in {', '.join(FORMATS)}", param_hint=option)

    def add(self, number: int, draw: Callable[[], Any]) -> None:
        """`draw` gives the picture of line `number`."""
        if self.path is None:
            return
        if len(self.made) == MOST:
            raise ValueError(f"{self.option} is for at most {MOST} lines at a time; give fewer")
        self.made[self.path if number == 1 else self.path.with_stem(f"{self.path.stem}-{number}")] = draw

    def write(self) -> None:
        from carousel.pictures import save

        for path, draw in self.made.items():
            save(draw(), path)
