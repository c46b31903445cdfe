"""Options of two files: `--dev dev.en dev.de`, or one TSV file with both."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .app import Command


class PairCommand(Command):
    """A command whose --dev, like its arguments, is two files, or one that has both sides."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, both(args))


def both(args: list[str]) -> list[str]:
    """`--dev A B` as `--dev A --dev B`, unless A is a file of both sides.

    >>> both(["a.en", "a.de", "--dev", "d.en", "d.de", "--lr", "1"])
    ['a.en', 'a.de', '--dev', 'd.en', '--dev', 'd.de', '--lr', '1']
    >>> both(["--dev", "d.tsv", "a.tsv"])
    ['--dev', 'd.tsv', 'a.tsv']
    """
    from carousel.tasks.translate.pairs import TABLES

    expanded: list[str] = []
    first = ""  # the first file of a --dev, if it may have a second
    for arg in args:
        if first and not arg.startswith("-") and Path(first).suffix.lower() not in TABLES:
            expanded.append("--dev")
        first = arg if expanded[-1:] == ["--dev"] and not first else arg[6:] if arg.startswith("--dev=") else ""
        expanded.append(arg)
    return expanded
