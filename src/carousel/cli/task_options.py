"""Commands on a run whose options are also those that its task declares: `carousel predict`, `carousel eval`."""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from carousel.errors import CarouselError, RunError
from carousel.wording import dashed

from . import interrupts
from .app import METAVARS, with_parameters

TaskOption = Annotated[
    str | None, typer.Option("--task", metavar="FILE:CLASS", help="The task of the run, if it is one of your own.")
]

CellOption = Annotated[
    str | None, typer.Option("--cell", metavar="FILE:CLASS", help="The cell of the run, if it is one of your own.")
]


def for_task(
    command: Callable[..., None], declared: Callable[[Any], Mapping[str, Any]], args: Sequence[str]
) -> Callable[..., None]:
    """`command` with the options that the task of the run in `args` has for it, which it receives as `**options`."""
    task = _task_of(args)
    options = {} if task is None else declared(task)
    hints = typing.get_type_hints(command, include_extras=True)
    own = [
        parameter.replace(annotation=hints[name], kind=inspect.Parameter.KEYWORD_ONLY)
        for name, parameter in inspect.signature(command).parameters.items()
        if parameter.kind is not inspect.Parameter.VAR_KEYWORD
    ]
    extra = [_parameter(name, option, task) for name, option in options.items()]
    if task is not None:
        _refuse_others(task, declared, args)

    @functools.wraps(command)
    def run(**given: Any) -> None:
        command(**{name: value for name, value in given.items() if name not in options or value not in (None, False)})

    return with_parameters(run, [*own, *extra])


def _parameter(name: str, option: Any, task: Any) -> inspect.Parameter:
    as_option = typer.Option(
        dashed(name), help=option.help, metavar=option.metavar or METAVARS.get(option.kind), min=option.minimum,
        rich_help_panel=f"Options for {task.name} runs", show_default=False,
    )  # fmt: skip
    flag = option.kind is bool
    kind = bool if flag else option.kind | None
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=False if flag else None, annotation=Annotated[kind, as_option]
    )


def _task_of(args: Sequence[str]) -> Any:
    """The task of the run among a command's arguments; None if there is none, which the command then reports."""
    for arg, value in zip(args, [*args[1:], ""], strict=False):
        if arg == "--task" or arg.startswith("--task="):
            from carousel.tasks import find

            return find(arg.partition("=")[2] or value)
    for arg in args:
        if (Path(arg) / "config.yaml").is_file():
            with interrupts.ending_at_once():
                from carousel.tasks.runs import task_of  # late: help does not wait for torch
                from carousel.training import Run

            try:
                return task_of(Run(arg))
            except (CarouselError, OSError):
                return None
    return None


def _refuse_others(task: Any, declared: Callable[[Any], Mapping[str, Any]], args: Sequence[str]) -> None:
    """An option that another task declares: name the task that has it."""
    from carousel.tasks import find, names

    given = {arg.partition("=")[0] for arg in args if arg.startswith("--")}
    common = {"--task", "--cell", "--out", "--json", "--help", *map(dashed, declared(task))}
    for arg in sorted(given - common):
        having = [name for name in names() if arg in map(dashed, declared(find(name)))]
        if having:
            raise RunError(f"{arg} is for runs of {' or '.join(having)}; this is one of {task.name}")


def refuse_command(folder: Path, command: str, task: Any) -> None:
    """Raise if runs of `task` do not have `command`."""
    from carousel.tasks.registry import having

    if command not in task.commands:
        named = " or ".join(having(command))
        raise RunError(f"{folder}: is a run of {task.name}; carousel {command} is for runs of {named}")


def refuse_files(task: Any, count: int, where: str) -> None:
    """Raise if a set of data of so many files is more than `task` reads."""
    if count > task.num_files:
        few = "one file" if task.num_files == 1 else f"{task.num_files} files, or one with both"
        raise typer.BadParameter(f"the task {task.name} reads {few}; got {count}", param_hint=where)
