"""`carousel train TASK`: one command for each task, with an option for every key of its settings."""

from __future__ import annotations

import inspect
import os
import shlex
import subprocess
import sys
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Union

import typer

from carousel.errors import shorten
from carousel.wording import dashed

from . import interrupts
from .app import METAVARS, App, Command, TaskGroup, with_parameters
from .pairs import PairCommand

NULL = object()  # what the word null on the command line gives

app = App(cls=TaskGroup, help="Train a model and save it in a run directory.")


def command(task: Any, name: str) -> Any:
    """The function behind `carousel train NAME`: its options are the keys of the task's settings."""
    parameters = [
        *data_parameters(task, "Validation data, which selects the best epoch."),
        option("out", Path, "The run directory.", None, metavar="RUN", required=True),
        option("preset", str | None, _presets(task), None, metavar="|".join(task.Settings.PRESETS)),
        option("config", Path | None, "Settings in a YAML file.", None, metavar="FILE"),
        option("set", list[str] | None, "Any setting, as key=value; may be repeated.", None, metavar="KEY=VALUE"),
        option("resume", bool, "Continue the run in --out from its last checkpoint.", None, flag=True),
        option("force", bool, "Overwrite the run in --out.", None, flag=True),
        option("quiet", bool, "No progress; print only the run directory.", None, flag=True),
        option("processes", int, "Number of processes on this host, which share each batch. [default: 1]", None),
        *setting_parameters(task),
    ]

    def run(**given: Any) -> None:
        given |= {name: given[name] or None for name in ("train", "dev")}  # an empty list is nothing
        if (processes := given.pop("processes")) is not None:
            _launch(processes)
        own = {name: given.pop(name) for name in ("out", "preset", "config", "set", "resume", "force", "quiet")}
        _train(task, name, given, **own)

    return with_parameters(run, parameters, task.help or f"Train a model of the task {task.name}.")


def _presets(task: Any) -> str:
    """The help of --preset: what each one sets, and how long it takes."""
    parts = []
    for name, (settings, time) in task.Settings.PRESETS.items():
        values = ", ".join(f"{key} {value}" for key, value in settings.items())
        parts.append(f"{name} ({values}: {time})" if settings else f"{name} ({time})")
    return f"Settings that other options override: {'; '.join(parts)}."


def _launch(processes: int) -> None:
    """Run this command in several processes, and leave with their exit code; with one, nothing happens."""
    if processes < 1:
        raise typer.BadParameter(f"--processes {processes}: give 1 or more")
    if processes == 1 or "TORCHELASTIC_RUN_ID" in os.environ:
        return
    at = next(k for k, word in enumerate(sys.argv) if word.split("=")[0] == "--processes")
    rest = sys.argv[1:at] + sys.argv[at + (1 if "=" in sys.argv[at] else 2) :]
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--no-python", "--nproc-per-node", str(processes)]
    threads = max(1, (os.cpu_count() or 1) // processes)
    environment = {"OMP_NUM_THREADS": str(threads), "TORCH_CPP_LOG_LEVEL": "ERROR", **os.environ}
    code = subprocess.run([sys.executable, *torchrun, sys.executable, "-m", "carousel", *rest], env=environment)
    raise typer.Exit(1 if code.returncode else 0)


def data_parameters(task: Any, dev: str) -> list[inspect.Parameter]:
    """The argument TRAIN and the option --dev, whose help is `dev`; files, or pairs of files."""
    files = "TRAIN" if task.num_files == 1 else "SRC [TGT]"
    whole = Path | None if task.num_files == 1 else list[Path] | None
    return [
        _argument("train", Annotated[whole, typer.Argument(metavar=files, help="Training data.")]),
        option("dev", whole, dev, None, metavar=files.replace("TRAIN", "FILE")),
    ]


def setting_parameters(task: Any, group: str | None = None, without: Sequence[str] = ()) -> list[inspect.Parameter]:
    """An option for every key of the task's settings, by group, or for those of one group, `without` some."""
    return [
        _setting(key, field, f"Settings: {name}", task.Settings.OTHER_DEFAULTS)
        for name, fields in task.Settings.grouped().items()
        for key, field in fields.items()
        if group in (None, name) and key not in ("task", "train", "dev", *without)
    ]


def _setting(key: str, field: Any, panel: str, others: Mapping[str, Mapping[str, Any]]) -> inspect.Parameter:
    """The option of a key of the settings; `others` are the defaults that hold with another option."""
    from carousel.training.settings import Choices

    shown = ("" if field.default else "no-") + key.replace("_", "-") if field.annotation is bool else field.default
    other = "".join(f"; with {option} {defaults[key]}" for option, defaults in others.items() if key in defaults)
    default = "" if field.default is None else f" [default: {shown}{other}]"
    known = next((extra for extra in field.metadata if isinstance(extra, Choices)), None)
    metavar = (field.json_schema_extra or {}).get("metavar")
    if known is not None:
        metavar = "|".join([*known.names(), known.other])
    text, nullable = f"{field.description}{default}", field.default is None
    return option(key, field.annotation, text, panel, metavar=metavar, nullable=nullable)


def _train(
    task: Any, name: str, given: dict[str, Any], out: Path, preset: str | None, config: Path | None,
    set: list[str] | None, resume: bool, force: bool, quiet: bool,
) -> None:  # fmt: skip
    with interrupts.ending_at_once():
        from carousel.training.checkpoint_callback import Interrupted
        from carousel.training.run import Run
        from carousel.training.several import train
        from carousel.training.trainer import preset_settings, resume_command
        from carousel.user_code import is_place

    interrupts.check()
    if resume and force:
        raise typer.BadParameter("choose one of --resume and --force")
    values, places = gathered(config, set, given)
    values = {**preset_settings(task, preset, resume=resume), **values}
    run = Run(out)
    before = run.result if resume else None
    try:
        train(
            task, values, out, force=force, resume=resume, quiet=quiet, command=["carousel", *sys.argv[1:]],
            places=places,
        )  # fmt: skip
    except Interrupted as stopped:
        cell = str(given.get("cell") or "")
        more = f" --cell {shlex.quote(cell)}" if is_place(cell) else ""
        typer.echo(f"{stopped}, which is kept; resume with: {resume_command(run, name)}{more}", err=True)
        raise typer.Exit(stopped.code) from None
    if int(os.environ.get("RANK", "0")):  # only rank 0 prints
        return
    if not (resume and run.result == before):  # else it had finished already
        typer.echo(out if quiet else f"{out}: done; look at {shlex.quote(str(run.report))}")


def gathered(
    config: Path | None, pairs: list[str] | None, given: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, str]]:
    """The settings in a YAML file, in key=value pairs and in options, and where each was set."""
    from carousel.training.settings import gather

    values, places = gather(config, pairs or [], given)
    return {key: None if value is NULL else value for key, value in values.items()}, places


def _argument(name: str, annotation: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def option(
    name: str, kind: Any, help: str, panel: str | None, *, metavar: str | None = None, required: bool = False,
    flag: bool = False, nullable: bool = False,
) -> inspect.Parameter:  # fmt: skip
    """An option --name. Its value is None if it is not given, so that a settings file can set it, and NULL if `null` is
    given and the setting allows it."""
    kind, choices = _plain(kind)
    if choices:
        metavar = "|".join(choices)
    names = [dashed(name)] if flag or kind is not bool else [f"{dashed(name)}/--no-{dashed(name)[2:]}"]
    metavar = metavar or METAVARS.get(kind, "TEXT")
    parser = partial(_value, kind, nullable) if kind in (int, float, Path) or (nullable and kind is str) else None
    option = typer.Option(*names, help=help, rich_help_panel=panel, metavar=metavar, show_default=False, parser=parser)
    if not flag and not required:
        kind = kind | None
    default: Any = inspect.Parameter.empty if required else False if flag else None
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, option])


def _value(kind: type, nullable: bool, text: str) -> Any:
    """What the text of an option says: a number in digits (Python itself would read 1_000 as 1000), or NULL."""
    if nullable and text == "null":
        return NULL
    if kind is Path and not text:
        raise typer.BadParameter("it is empty; give a path")
    try:
        if kind not in (int, float) or "_" not in text:
            return kind(text)
    except ValueError:
        pass
    default = "; null is the default" if nullable else ""
    raise typer.BadParameter(
        f"{shorten(repr(text))} is not a {'whole ' if kind is int else ''}number in digits{default}"
    )


def _plain(kind: Any) -> tuple[Any, list[str]]:
    """The one type that the command line reads, and the choices if there are some."""
    if typing.get_origin(kind) in (Union, types.UnionType):
        parts = {typing.get_origin(part) or part for part in typing.get_args(kind)} - {type(None)}
        if typing.Literal in parts and len(parts) > 1:
            return str, []  # a number or a word: settings tell them apart
        kind = next(part for part in typing.get_args(kind) if part is not type(None))
    if typing.get_origin(kind) is Annotated:
        kind = typing.get_args(kind)[0]
    if typing.get_origin(kind) is typing.Literal:
        return str, [str(choice) for choice in typing.get_args(kind)]  # settings check it, and name the near miss
    return kind, []


def register(commands: App, words: Sequence[str]) -> None:
    """Add the group, with the command of the task that `words` name or of every task."""
    register_tasks(app, words, command)
    commands.add_typer(app, name="train")


def register_tasks(
    group: App, words: Sequence[str], make: Callable[[Any, str], Any], single: Any = Command, pair: Any = PairCommand,
    fits: Callable[[Any], bool] = lambda task: True,
) -> None:  # fmt: skip
    """Add to a group the command that `make` makes of the task that `words` name, or of every task that `fits`; of none
    if there are no words, because options come from pydantic models, whose import takes a while. `single` and `pair`
    are the classes of commands on one file and on two."""
    if not words:
        return
    from carousel.tasks import find, names
    from carousel.user_code import is_place

    known = {command.name for command in group.registered_commands}
    asked = words[1] if len(words) > 1 else ""
    named = asked in names() or is_place(asked)
    for name in [asked] if named else names():
        if (name not in known or is_place(name)) and (named or fits(find(name))):
            task = find(name)
            group.command(name, cls=pair if task.num_files > 1 else single)(make(task, name))
