"""What commands on a run have in common: its argument, loading it, the lines it is applied to."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from carousel.errors import DataError

from . import interrupts
from .task_options import refuse_command

STDIN = Path("standard input")  # as messages call it

RunArgument = Annotated[Path, typer.Argument(metavar="RUN", help="A run directory that carousel train made.")]
TokenizedOption = Annotated[
    bool, typer.Option("--tokenized", help="The text is tokenized already: it is split at spaces only.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


def load(folder: Path, command: str | None = None, task: str | None = None, cell: str | None = None) -> Any:
    """The model in a run directory, which must have `command` if one is named; `task`, `cell`: its own, FILE:CLASS."""
    with interrupts.ending_at_once():
        import torch  # noqa: F401

        from carousel.tasks import find
        from carousel.tasks.runs import load_run, task_of
        from carousel.tasks.shared.cell import find_cell
        from carousel.training import Run

    if task is not None:
        find(task)
    if cell is not None:
        find_cell(cell)
    if command is not None:
        refuse_command(folder, command, task_of(Run(folder)))
    with collection_paused():
        model = load_run(folder)
    interrupts.check()
    return model


@contextmanager
def collection_paused() -> Iterator[None]:
    """No search for cyclic garbage: importing torch and reading a model leave none, but a million objects to search."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def lines_of(path: Path | None, blank: bool = False) -> Iterator[str]:
    """The lines of a file or of standard input, without blank ones unless `blank`; there must be at least one."""
    if path is not None:
        from carousel.data import Lines, read_lines

        yield from (text for _, text in read_lines(path)) if blank else Lines(path)
        return
    from carousel.data.sources.lines import decode

    if sys.stdin.isatty():
        typer.echo("reading standard input, one item per line; end it with Ctrl-D", err=True)
    empty = True
    for number, raw in enumerate(sys.stdin.buffer, 1):
        line = decode(raw.rstrip(b"\r\n"), STDIN, number)
        if blank or line.strip():
            empty = False
            yield line
    if empty:
        raise DataError(STDIN, None, "there is no text in it", "give one item per line, or name a file")
