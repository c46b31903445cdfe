"""Errors as a line and an exit code."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import typer
from rich.console import Console

from carousel.wording import counted


def fail(message: str, code: int) -> NoReturn:
    """Print `message` as one red line on stderr and exit with `code`."""
    line = "error: " + " ".join(message.split())
    Console(stderr=True, highlight=False).print(line, style="red", markup=False, soft_wrap=True)
    sys.exit(code)


def warn(message: str) -> None:
    """Print `message` as one yellow line on stderr."""
    Console(stderr=True, highlight=False).print(message, style="yellow", markup=False, soft_wrap=True)


def warn_cut(data: Path | None, cut: Sequence[int], most: int, thing: str = "line") -> None:
    """Say which lines (or other things, counted from 1) of `data` were cut off after `most` tokens."""
    source = data or "standard input"
    where = f"{source}:{cut[0]}" if thing == "line" else f"{source}: {thing} {cut[0]}"
    several = f"; {len(cut):,} {thing}s in all" if len(cut) > 1 else ""
    warn(f"{where}: cut off after {counted(most, 'token')} (max_length of the run){several}")


def keep_input(name: str, out: Path | None, *inputs: Path | None) -> None:
    """Refuse to write where something is read from; `name` is the option that says `out`."""
    for path in inputs:
        if out is not None and path is not None and out.exists() and path.exists() and out.samefile(path):
            raise typer.BadParameter(f"{out} is read from; give another name", param_hint=name)


def apart(files: Mapping[str, Path | None]) -> None:
    """Refuse to write two things to one file; `files` are by the options that name them."""
    seen: dict[Path, str] = {}
    for name, path in files.items():
        if path is None or str(path) == "-":
            continue
        if (other := seen.setdefault(path.resolve(), name)) != name:
            raise typer.BadParameter(f"{path} is also that of {other}; give another name", param_hint=name)


def usage(error: typer.TyperException) -> str:
    """What was wrong with the command line, and the command that says what is right."""
    context = getattr(error, "ctx", None)
    path = context.command_path if context else "carousel"
    return f"{error.format_message().rstrip('.')} (see {path} --help)"


def reason(error: OSError | ValueError) -> str:
    """The error in words: `runs/a: Permission denied` rather than `[Errno 13] …`."""
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return str(error) or type(error).__name__


@contextmanager
def option(name: str) -> Iterator[None]:
    """Where the only files in use are those an option names: a file that cannot be used is a wrong option."""
    try:
        yield
    except OSError as error:
        raise typer.BadParameter(reason(error), param_hint=name) from error
