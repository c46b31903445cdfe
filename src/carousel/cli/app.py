"""Groups and commands whose help is plain text for 80 columns: names and choices are whole, examples can be copied.

Typer would draw help with Rich, whose import and tables take longer than everything else that `carousel --help` does.
"""

from __future__ import annotations

import inspect
import math
import os
import re
import shutil
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import typer
from typer.core import TyperCommand, TyperGroup

from carousel.errors import did_you_mean, shorten
from carousel.tasks.registry import SYNONYMS

METAVARS = {int: "N", float: "X", Path: "FILE"}  # what help shows for a value of each type
WIDEST = 100  # columns; longer lines are hard to read
_RANGE = re.compile(
    r"(?:; | *\[)(?:[\d.]+<=?)?x[<>]=?[\d.]+(?:<=?[\d.]+)?\]"
)  # that click adds to the text of an option
NAMES = 22  # columns for names; a longer name has its text on the next line


def with_parameters(
    command: Callable[..., None], parameters: Sequence[inspect.Parameter], help: str | None = None
) -> Callable[..., None]:
    """`command`, which takes keywords of any name, with the parameters that Typer makes options of, and its help."""
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    if help is not None:
        command.__doc__ = help
    return command


class Command(TyperCommand):
    """A command with plain help, whose numbers are written in digits."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        values, _, _ = self.make_parser(ctx).parse_args(list(args))
        numbers = {  # a metavar of one letter is that of a number
            param: text
            for param in self.get_params(ctx)
            if len(param.metavar or "") == 1 and isinstance(text := values.get(param.name), str)
        }
        for param, text in numbers.items():
            if param.metavar == METAVARS[float] and text != "null" and not _is_number(text):
                raise _not_a_number(text, ctx, param)
        rest = super().parse_args(ctx, list(args))
        for param, text in numbers.items():
            if "_" in text:  # Python reads 1_000 as 1000
                raise _not_a_number(text, ctx, param)
        return rest

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as stopped:  # Typer itself would exit silently
            raise typer.Abort from stopped

    def format_help(self, ctx: Any, formatter: Any) -> None:
        formatter.write(help_page(self, ctx))


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def _not_a_number(text: str, ctx: Any, param: Any) -> typer.BadParameter:
    return typer.BadParameter(f"{shorten(repr(text))} is not a number in digits", ctx=ctx, param_hint=param.opts[0])


class Group(TyperGroup):
    """A group of commands with plain help, which is also printed where no command is named."""

    kind: ClassVar[str] = "command"  # what its commands are named by
    synonyms: ClassVar[Mapping[str, str]] = {}  # what a reader may call a command, and its name

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, args or ["--help"])

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name = args[0]
        if self.get_command(ctx, name) is None and not name.startswith("-"):
            hint = did_you_mean(name, self.list_commands(ctx), self.synonyms)
            ctx.fail(f"there is no {self.kind} {shorten(repr(name))}" + (f"; {hint}" if hint else ""))
        return super().resolve_command(ctx, args)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        formatter.write(help_page(self, ctx))


class TaskGroup(Group):
    """A group with a command for each task."""

    kind = "task"
    synonyms = SYNONYMS


class App(typer.Typer):
    """A Typer application whose commands and groups have plain help, by -h and --help."""

    def __init__(self, *, cls: type[Group] = Group, **options: Any) -> None:
        super().__init__(
            cls=cls, add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None,
            context_settings={"help_option_names": ["-h", "--help"]}, **options,
        )  # fmt: skip

    def command(
        self, name: str | None = None, *, cls: type[TyperCommand] | None = Command, **options: Any
    ) -> Callable[[Any], Any]:
        return super().command(name, cls=cls, **options)


def bold(text: str) -> str:
    """`text` in bold; the colours of a stream that is no terminal are removed when it is printed."""
    return text if os.environ.get("NO_COLOR") else typer.style(text, bold=True)


def help_page(command: Any, ctx: Any) -> str:
    """The help of a command or a group: usage, text, and a list of names for each panel."""
    width = min(shutil.get_terminal_size().columns, WIDEST)
    parts = [bold("Usage: ") + _fill(_usage(command, ctx), width, 7).lstrip()]
    parts += _paragraphs(command.help or "", width)
    for title, rows in _panels(command, ctx).items():
        column = max((len(name) for name, _ in rows if len(name) <= NAMES), default=NAMES) + 4
        lines = [line for row in rows for line in _row(*row, column, width)]
        parts.append("\n".join([bold(f"{title}:"), *lines]))
    parts += _paragraphs(command.epilog or "", width)
    return "\n\n".join(parts) + "\n"


def _usage(command: Any, ctx: Any) -> str:
    """How the command is called: `carousel predict [OPTIONS] RUN [FILE]`."""
    arguments = [param for param in command.get_params(ctx) if param.param_type_name == "argument"]
    pieces = []
    for param in arguments:
        name = _plain(param.metavar) + ("..." if param.nargs == -1 and " " not in param.metavar else "")
        pieces.append(name if param.required else f"[{name}]")
    return " ".join([ctx.command_path, "[OPTIONS]", *pieces, *(["COMMAND ..."] if isinstance(command, Group) else [])])


def _plain(metavar: str) -> str:
    """The name of an argument, without brackets around the whole of it.

    >>> _plain("[FILE]"), _plain("[WORD]..."), _plain("SRC [TGT]"), _plain("[TASK] DATA")
    ('FILE', 'WORD', 'SRC [TGT]', '[TASK] DATA')
    """
    metavar = metavar.removesuffix("...")
    return metavar[1:-1] if metavar.startswith("[") and metavar.endswith("]") else metavar


def _paragraphs(text: str, width: int) -> Iterator[str]:
    """The paragraphs of a docstring; one that begins with a line of \\b alone is left as it is."""
    for paragraph in inspect.cleandoc(text).split("\n\n"):
        first, _, rest = paragraph.partition("\n")
        if first.strip() == "\b":
            yield textwrap.indent(rest, "  ")
        elif paragraph:
            yield _fill(" ".join(paragraph.split()), width, 2)


def _panels(command: Any, ctx: Any) -> dict[str, list[tuple[str, str]]]:
    """The rows of each panel, by title: what is written, and what it is."""
    panels: dict[str, list[tuple[str, str]]] = {}
    for param in command.get_params(ctx):
        if getattr(param, "hidden", False):
            continue
        if param.param_type_name == "argument":
            title, row = "Arguments", (_plain(param.metavar), param.help or "")
        else:
            title, row = "Options", (param.get_help_record(ctx)[0], _described(param.get_help_record(ctx)[1]))
        panels.setdefault(getattr(param, "rich_help_panel", None) or title, []).append(row)
    if isinstance(command, TyperGroup):
        commands = {name: command.get_command(ctx, name) for name in command.list_commands(ctx)}
        panels["Commands"] = [
            (name, " ".join((one.help or "").partition("\n\n")[0].split()))
            for name, one in commands.items()
            if one is not None and not one.hidden
        ]
    return panels


def _described(text: str) -> str:
    """The text of an option without the range of its values, and without brackets around a default in words.

    >>> _described("Each. [default: 5.0; x>=0.01]"), _described("Threads. [x>=1]"), _described("To. [default: (here)]")
    ('Each. [default: 5.0]', 'Threads.', 'To. [default: here]')
    """
    text = _RANGE.sub(lambda found: "]" if found[0].startswith(";") else "", text)
    return re.sub(r"\[default: \((.*?)\)", r"[default: \1", text)


def _row(name: str, text: str, column: int, width: int) -> Iterator[str]:
    """The lines of one row: the name, and from `column` on, beside or below it, the text."""
    lines = _fill(" ".join(text.split()), width, column).splitlines()
    if len(name) <= column - 4 and lines:
        yield f"  {name:{column - 2}}{lines.pop(0).lstrip()}"
    else:
        yield from _name_lines(name, width)
    yield from lines


def _name_lines(name: str, width: int) -> Iterator[str]:
    """A name of any length; choices are split after |, never inside a word."""
    line, parts = "  ", name.split("|")
    for number, part in enumerate(parts, 1):
        piece = part if number == len(parts) else f"{part}|"
        if len(line) + len(piece) > width:
            yield line
            line = " " * 6
        line += piece
    yield line


def _fill(text: str, width: int, indent: int) -> str:
    """`text` in lines of at most `width`, all of them indented; words and the notes of defaults are never broken."""
    margin = " " * indent
    return textwrap.fill(
        text.replace("[default: ", "[default:\xa0"), width, initial_indent=margin, subsequent_indent=margin,
        break_long_words=False, break_on_hyphens=False,
    ).replace("\xa0", " ")  # fmt: skip
