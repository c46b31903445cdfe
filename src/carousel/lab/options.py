"""What the command line offers of a lab's `run`: parameters with an :class:`Option` in their annotation."""

from __future__ import annotations

from typing import Annotated, NamedTuple


class Option(NamedTuple):
    """An option of `carousel lab NAME`: `hidden: Annotated[int, Option("Units of a layer.", "H", minimum=1)] = 16`.

    Its name, type and default are those of the parameter. A parameter without an Option is Python's only.
    """

    help: str
    metavar: str | None = None  # None: the name of the type
    minimum: int | None = None
    maximum: int | None = None
    argument: bool = False  # given by its place rather than by --name


Seed = Annotated[int, Option("Random seed.", "N", minimum=0, maximum=2**32 - 1)]
Hidden = Annotated[int, Option("Units of a layer.", "H", minimum=1)]
Seeds = Annotated[int, Option("How many random seeds, from --seed on.", "N", minimum=1)]
