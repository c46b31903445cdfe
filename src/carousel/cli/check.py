"""A look at data before training, `carousel check`: with the options of `carousel train TASK` that are about data."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from itertools import takewhile
from json import dumps
from pathlib import Path
from typing import Annotated, Any

import typer

from carousel.errors import CarouselError
from carousel.wording import dashed, either

from .app import App, Command, with_parameters
from .baseline import BATCHES
from .pairs import PairCommand
from .task_options import refuse_files
from .train import gathered, option, setting_parameters

DECIDING = (
    "columns",
    "layout",
    "tokens",
    "classes",
)  # settings that decide, beside those of single columns, how data is read
HELP = """Check data before training on it: counts, lengths, labels, unknown tokens, duplicates.

The task is inferred from the names and first rows of the files, unless it is given. Its options about data are those
of carousel train; carousel check TASK --help shows them.

\b
carousel check reviews.tsv --dev dev.tsv
carousel check tweets.csv --text-column tweet --label-column topic
carousel check poems.txt --dev dev.txt --json | jq .warnings
# two files: a text and its translation
carousel check train.en train.de --dev dev.en dev.de
# a task that cannot be inferred
carousel check translate pairs.tsv
carousel check my_task.py:Sensor data.txt
"""


class _Check(Command):
    """A command whose arguments may begin with a task, which `register` has read."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, args[1:] if _names_task(args) else args)


class _PairCheck(_Check, PairCommand):
    """The same for a task on two files."""


def _names_task(args: Sequence[str]) -> bool:
    """Whether the first of the arguments is a task rather than a file; a misspelt task is one if files follow it."""
    from carousel.tasks import names
    from carousel.user_code import is_place

    if not args or args[0].startswith("-"):
        return False
    follows = len(args) > 1 and not args[1].startswith("-")
    return args[0] in names() or is_place(args[0]) or (follows and args[0].isalpha() and not Path(args[0]).exists())


def _files(args: Sequence[str]) -> list[str]:
    """The files to train on among the arguments: those that begin them, or else those that no option takes."""
    leading = list(takewhile(lambda arg: not arg.startswith("-"), args))
    pairs = zip(["", *args], args, strict=False)
    return leading or [arg for before, arg in pairs if not arg.startswith("-") and before in ("", "--json")]


def command(task: Any, why: str) -> Callable[..., None]:
    """The function behind `carousel check` for data of `task`, and `why` it is that one; None: nothing is known yet."""
    several = "" if task is not None and task.num_files == 1 else "; for a translator two files"
    data = Annotated[list[Path], typer.Argument(metavar="[TASK] DATA", help=f"Training data{several}.")]
    parameters = [
        inspect.Parameter("data", inspect.Parameter.KEYWORD_ONLY, annotation=data),
        option("dev", list[Path] | None, f"Validation data{several}.", None, metavar="FILE"),
        option("config", Path | None, "Settings in a YAML file.", None, metavar="FILE"),
        option("set", list[str] | None, "Any setting, as key=value; may be repeated.", None, metavar="KEY=VALUE"),
        option("json", bool, "Print JSON instead of a table.", None, flag=True),
        *([] if task is None else setting_parameters(task, "data", without=BATCHES)),
    ]

    def run(**given: Any) -> None:
        own = {name: given.pop(name) for name in ("data", "dev", "config", "set", "json")}
        _check(task, why, given, **own)

    return with_parameters(run, parameters, HELP)


def _check(
    task: Any, why: str, given: dict[str, Any], data: list[Path], dev: list[Path] | None, config: Path | None,
    set: list[str] | None, json: bool,
) -> None:  # fmt: skip
    from carousel.tasks.registry import inferred

    for name, files in (("DATA", data), ("--dev", dev or [])):
        refuse_files(task, len(files), name)
    alone = task.num_files == 1
    for name, files in (("train", data), ("dev", dev or [])):
        given[name] = (files[0] if alone else files) if files else None
    values, places = gathered(config, set, given)
    settings = task.Settings.check(values, places)
    with inferred(task, why):
        report = task.check(settings)
    if json:
        typer.echo(dumps({"task": task.name, **report.as_dict()}, ensure_ascii=False))
        return
    from rich.console import Console

    console = Console(highlight=False)
    because = f" ({why})" if why else ""
    console.print(f"Read as data for {task.name}{because}: {report.reading}.", markup=False, soft_wrap=True)
    keys = [name for name in task.Settings.model_fields if name.endswith("column") or name in DECIDING]
    change = either([*map(dashed, keys), "another task (carousel check TASK DATA)"])
    console.print(f"To read it otherwise, give {change}.", markup=False, soft_wrap=True, style="dim")
    console.print(report)
    for warning in report.warnings:
        console.print(warning, style="yellow", markup=False, soft_wrap=True)


def register(app: App, words: Sequence[str]) -> None:
    """Add the command, with the options of the task that `words` name or whose data they name."""
    task, why, args = None, "", list(words[1:]) if words[:1] == ["check"] else []
    if args:
        from carousel.tasks import find, find_for

        if _names_task(args):
            task = find(args[0])
        elif files := _files(args):
            try:
                task, why = find_for(files)
            except CarouselError:
                if not {"-h", "--help"} & {*args}:
                    raise
    pair = task is not None and task.num_files > 1
    app.command("check", cls=_PairCheck if pair else _Check)(command(task, why))
