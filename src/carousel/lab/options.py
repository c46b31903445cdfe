"""What the command line offers of a lab's `run`: parameters with an :class:`Option` in their annotation."""

from __future__ import annotations

from typing import Annotated, NamedTuple

from ..errors import check_counts


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
Updates = Annotated[int, Option("Updates of each training.", "N", minimum=1)]


def seed_numbers(seed: int, seeds: int) -> list[int]:
    """The random seeds of a run.

    >>> seed_numbers(3, 2)
    [3, 4]
    """
    check_counts(seeds=seeds)
    return list(range(seed, seed + seeds))


def help_text(summary: str | None, name: str, *examples: str) -> str:
    """The help of `carousel lab NAME`: the first line of `summary`, and the command with each of `examples`.

    >>> print(help_text("Squares.", "square", "--count 5"))
    Squares.
    <BLANKLINE>
    \b
    carousel lab square
    carousel lab square --count 5
    """
    first = (summary or "").partition("\n")[0]
    return "\n".join([first, "", "\b", *(f"carousel lab {name} {example}".rstrip() for example in ("", *examples))])
