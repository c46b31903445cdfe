"""Errors as a line and an exit code."""

from __future__ import annotations

import errno
import os
import platform
import shlex
import sys
import tempfile
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import typer

from carousel.errors import CarouselError, did_you_mean
from carousel.files import DISK, FULL
from carousel.user_code import mistake
from carousel.version import __version__
from carousel.wording import counted

BUG = 70  # the exit code of a bug: EX_SOFTWARE of sysexits.h
# torch has no MemoryError: these are in the RuntimeErrors of its CPU allocator, of a size beyond 64 bits, and of a GPU
_NO_MEMORY = ("DefaultCPUAllocator: ", "Storage size calculation overflowed", "OutOfMemoryError: ")


def fail(message: str, code: int) -> NoReturn:
    """Print `message` as one red line on stderr and exit with `code`."""
    _print_coloured("error: " + " ".join(message.split()), "red")
    sys.exit(code)


def warn(message: str) -> None:
    """Print `message` as one yellow line on stderr."""
    _print_coloured(message, "yellow")


def _print_coloured(line: str, colour: str) -> None:
    """Print a line on stderr, without the colour where that is no terminal or NO_COLOR is set."""
    typer.secho(line, err=True, fg=None if os.environ.get("NO_COLOR") else colour)


def warn_unlike(model: Any, data: Any = None) -> None:
    """Say so if the text that `model` has read is unlike what it was trained on."""
    if model.unlike is not None:
        remedy = "check its language, case and tokenization, or train on such text"
        warn(f"{data or 'standard input'}: {model.unlike}: the text is unlike the training text; {remedy}")


def warn_cut(data: Path | None, cut: Sequence[int], most: int, thing: str = "line") -> None:
    """Say which lines (or other things, counted from 1) of `data` were cut off after `most` tokens."""
    source = data or "standard input"
    where = f"{source}:{cut[0]}" if thing == "line" else f"{source}: {thing} {cut[0]}"
    several = f"; {len(cut):,} {thing}s in all" if len(cut) > 1 else ""
    warn(f"{where}: cut off after {counted(most, 'token')} (max_length of the run){several}")


def check_output(name: str, out: Path | None, *inputs: Path | None) -> None:
    """Refuse to write a file where something is read from, or in a directory that does not exist, whose name may be
    misspelt; `name` is the option that names `out`."""
    if out is None:
        return
    if out.is_dir():
        raise typer.BadParameter(f"{out}: is a directory; give a file", param_hint=name)
    if not out.parent.exists():
        raise typer.BadParameter(f"{out}: there is no directory {out.parent}; create it first", param_hint=name)
    for path in inputs:
        if path is not None and out.exists() and path.exists() and out.samefile(path):
            raise typer.BadParameter(f"{out} is read from; give another name", param_hint=name)


def apart(files: Mapping[str, Path | None]) -> None:
    """Refuse to write two things to one file; `files` maps each option to its path."""
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
    complaint: Any = error.__cause__
    if hasattr(complaint, "errors"):  # pydantic's, which Typer passes on as it is
        from carousel.training.settings import as_given, requirement

        first = complaint.errors()[0]
        error.message = f"{requirement(first)}, got {as_given(first['input'])}"
    message = error.format_message().rstrip(".").removeprefix("Invalid value: ")  # it names the option itself
    if (wrong := getattr(error, "option_name", "")) and hasattr(error, "possibilities"):  # no such option
        hint = did_you_mean(wrong, error.possibilities or [])
        message = f"there is no option {wrong}" + (f"; {hint}" if hint else "")
    return f"{message} (see {path} --help)"


def reason(error: OSError) -> str:
    """The error in words: `runs/a: Permission denied` rather than `[Errno 13] …`."""
    text, name = error.strerror or str(error), error.filename
    if name is None and error.errno in DISK and _printing(error):
        name = "standard output"
    if error.strerror and name is not None:
        missing = error.errno == errno.ENOENT
        text = f"{name}: {'no such file or directory; check the path' if missing else error.strerror}"
    return f"{text}; free some space" if error.errno in FULL else text


def _printing(error: OSError) -> bool:
    """Whether an error comes from what a command prints: of ours, that alone is written where no file has a name."""
    frames = traceback.walk_tb(error.__traceback__)
    modules = [name for frame, _ in frames if (name := frame.f_globals.get("__name__", "")).startswith("carousel.")]
    return bool(modules) and modules[-1].startswith("carousel.cli.")


def fault(error: Exception) -> str | None:
    """What a user can put right, in words, in the user's own code too; None if the error is a bug of ours."""
    if isinstance(error, CarouselError):
        return str(error)
    if isinstance(error, OSError) and error.errno is not None:  # from the system, not raised by a library
        return reason(error)
    if isinstance(error, MemoryError) or any(sign in f"{type(error).__name__}: {error}" for sign in _NO_MEMORY):
        return "not enough memory; use smaller batches or a smaller model, or close other programs"
    if isinstance(error, UnicodeEncodeError) and error.encoding.lower().replace("-", "") != "utf8":
        return f"{error.object[error.start]!r} cannot be printed as {error.encoding}; set PYTHONIOENCODING=utf-8"
    return mistake(error)


def bug(error: Exception, args: Sequence[str]) -> str:
    """Write a file with all that is needed to find the bug; a line that asks to report it."""
    text = "".join(traceback.format_exception(error))
    python = f"Python {platform.python_version()}, {platform.platform()}"
    torch = getattr(sys.modules.get("torch"), "__version__", "not imported")
    about = f"{shlex.join(['carousel', *args])}\nCarousel {__version__}, PyTorch {torch}, {python}\n\n{text}"
    what = " ".join(traceback.format_exception_only(error)[-1].split())
    what = what if len(what) <= 200 else what[:199] + "…"
    try:
        with tempfile.NamedTemporaryFile(
            "w", prefix="carousel-", suffix=".txt", delete=False, encoding="utf-8", errors="backslashreplace"
        ) as file:
            file.write(about)
        where = file.name
    except OSError:
        sys.stderr.write(about)
        where = "the traceback above"
    return f"this is a bug in Carousel ({what}); please report it with {where}"


@contextmanager
def errors_of(name: str, kind: type[Exception] = OSError) -> Iterator[None]:
    """Report errors of a kind as those of the option or argument `name`; by default those of the files it names."""
    try:
        yield
    except kind as error:
        text = reason(error) if isinstance(error, OSError) else str(error)
        raise typer.BadParameter(text, param_hint=name) from error
