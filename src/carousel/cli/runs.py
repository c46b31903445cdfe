"""What commands on a run have in common: its argument, loading it, the lines it is applied to."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer

from carousel.errors import DataError
from carousel.wording import either

from . import interrupts
from .task_options import refuse_command

STDIN = Path("standard input")  # as messages call it

RunArgument = Annotated[Path, typer.Argument(metavar="RUN", help="A run directory that carousel train made.")]
TokenizedOption = Annotated[
    bool, typer.Option("--tokenized", help="The text is tokenized already: it is split at spaces only.")
]
TextColumnOption = Annotated[
    str | None,
    typer.Option("--text-column", metavar="COLUMN", help="Of a table: the column of texts, by name or number from 1."),
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


def texts_of(path: Path | None, column: str | None) -> list[str]:
    """The texts of a table, which are in `column`, or else the lines of a file or of standard input; blank ones too."""
    from carousel.data.sources.tables import TABLES, TextColumn

    if path is not None and path.suffix.lower() in TABLES:
        return list(TextColumn(path, column))
    if column is not None:
        raise typer.BadParameter(f"it applies to tables ({either(TABLES)})", param_hint="--text-column")
    return list(lines_of(path, blank=True))


def unless_dash(path: Path | None) -> Path | None:
    """The file at `path`; None, which is standard input or output, for `-`."""
    return None if path is not None and str(path) == "-" else path


def lines_of(path: Path | None, blank: bool = False) -> Iterator[str]:
    """The lines of a file, a pipe or standard input, without blank ones unless `blank`; there must be at least one."""
    path = unless_dash(path)
    if path is not None and (path.is_file() or path.is_dir() or not path.exists()):
        from carousel.data import Lines, read_lines

        yield from (text for _, text in read_lines(path)) if blank else Lines(path)
        return
    from carousel.data.sources.lines import decode

    if path is None and sys.stdin.isatty():
        typer.echo("reading standard input, one item per line; end it with Ctrl-D", err=True)
    empty, name = True, path or STDIN
    with nullcontext(sys.stdin.buffer) if path is None else path.open("rb") as file:
        for number, raw in enumerate(file, 1):
            line = decode(raw.rstrip(b"\r\n"), name, number)
            if blank or line.strip():
                empty = False
                yield line
    if empty:
        raise DataError(name, None, "there is no text in it", "give one item per line, or name a file")
