"""`carousel lab …`: each claim of the textbook as something that runs. The commands are made from the labs."""

from __future__ import annotations

import dataclasses
import inspect
import itertools
import json
import shlex
import sys
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from operator import itemgetter
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from .app import METAVARS, App, with_parameters
from .errors import errors_of
from .runs import load
from .task_options import CellOption, TaskOption

app = App(help="Test a claim of the textbook by running it.")
OutOption = Annotated[
    Path | None,
    typer.Option(
        "--out", metavar="DIR", file_okay=False, help="Directory for the page (index.html), figures and numbers."
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the numbers as JSON.")]
RunOption = Annotated[Path | None, typer.Option("--run", metavar="RUN", help="Also examine this trained model.")]
DataOption = Annotated[
    list[Path] | None,
    typer.Option("--data", metavar="FILE", help="Data for the model; default: its own dev or training file."),
]
QuietOption = Annotated[bool, typer.Option("--quiet", help="No progress bar.")]


@app.command("list")
def every() -> None:
    """List the labs."""
    from carousel.lab import LABS

    width = max(map(len, LABS))
    for name, summary in LABS.items():
        typer.echo(f"{name:{width}}  {summary}")


@app.command("all")
def book(
    out: Annotated[Path, typer.Option("--out", metavar="DIR", file_okay=False, help="Directory for the pages.")],
    quick: Annotated[bool, typer.Option("--quick", help="Small runs: some claims stay undecided.")] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Keep labs that are done already.")] = False,
    workers: Annotated[int, typer.Option("--workers", metavar="N", min=1, help="Labs at the same time.")] = 2,
) -> None:
    """Run every lab and write a page for each, with an index.html that links to them.

    \b
    carousel lab all --out book
    carousel lab all --out book --quick
    carousel lab all --out book --resume      # after an interruption
    """
    from carousel.lab import LABS
    from carousel.lab.book import unfinished, write_book
    from carousel.lab.progress import Bar

    bar, width = Bar(), max(map(len, LABS))
    total = len(unfinished(out, tuple(LABS), quick) if resume else LABS)
    command = shlex.join(["carousel", *sys.argv[1:]])

    finished: list[str] = []

    def done(name: str, outcomes: str, seconds: float) -> None:
        finished.append(name)
        bar.advance(1, len(finished))
        bar.finish(f"{name:{width}}  {seconds:6.1f} s  {outcomes}")

    with errors_of("--out"), bar.over(f"{'lab':{width}}   seconds  claims", total, f"{{}} of {total} labs"):
        page = write_book(out, quick=quick, resume=resume, workers=workers, command=command, done=done)
    typer.echo(page)


def register(commands: App, words: Sequence[str]) -> None:
    """Add the group, with its labs if `words` name it."""
    if words:
        _register_labs(words[1:])
    commands.add_typer(app, name="lab")


def _register_labs(args: Sequence[str]) -> None:
    """Add the command of the lab that `args` begin with; of the others, which are not imported, what help lists."""
    from carousel.lab import LABS, module_of

    app.registered_commands = [command for command in app.registered_commands if command.name not in LABS]
    for name, summary in LABS.items():
        if args and name == args[0]:
            app.command(name)(_command(module_of(name)))
        else:
            app.command(name, help=summary)(_listed)


def _listed() -> None:
    """A lab in the list of commands."""


def _command(lab: Any) -> Callable[..., None]:
    """The command of a lab, from the signature of its `run`."""
    parts = _read(lab.run)
    parameters = [parameter for part in parts.values() for parameter in part.parameters]
    parameters += [_parameter("out", OutOption, None), _parameter("as_json", JsonOption, False)]
    parameters.sort(key=lambda parameter: parameter.name == "quiet")  # last; the others keep their order

    def command(out: Path | None, as_json: bool, **given: Any) -> None:
        values = {name: part.value(given) for name, part in parts.items()}
        values = {name: value for name, value in values.items() if value is not None and value != []}
        _check_arguments(lab.run, values)
        with _show(out, as_json) as shown:
            shown.append(lab.run(**values))

    return with_parameters(command, parameters, lab.HELP)


@contextmanager
def _show(out: Path | None, as_json: bool) -> Iterator[list[Any]]:
    """Where a command puts its finding: it is printed, and written to `out`, which is tried before the work begins."""
    from carousel.files import replace_files

    shown: list[Any] = []
    command = shlex.join(["carousel", *sys.argv[1:]])
    if out is None:
        yield shown
    else:
        with errors_of("--out"), replace_files(out) as folder:
            yield shown
            shown[0].fill(folder, command)
    finding = shown[0]
    if as_json:
        typer.echo(json.dumps(finding.numbers(), ensure_ascii=False))
    else:
        typer.echo(f"{finding}\n\n{finding.decision()}")
    if out is not None:
        typer.echo(out / "index.html", err=as_json)


# ---- the parameters of `run` as options ----


class Part(NamedTuple):
    """One parameter of `run`: its options, and its value from what they are given; None or []: its own default."""

    parameters: list[inspect.Parameter]
    value: Callable[[dict[str, Any]], Any]


def _read(run: Callable[..., Any]) -> dict[str, Part]:
    """The parameters of `run` for which the command line has options, by name."""
    hints = typing.get_type_hints(run, include_extras=True)
    parts: dict[str, Part] = {}
    for name, parameter in inspect.signature(run).parameters.items():
        settings = next((kind for kind in typing.get_args(hints[name]) if dataclasses.is_dataclass(kind)), None)
        if name == "model":
            kinds = {"run": RunOption, "data": DataOption, "task": TaskOption, "cell": CellOption}
            options = [_parameter(option, kind, None) for option, kind in kinds.items()]
            parts |= {"model": Part(options, _model), "data": Part([], itemgetter("data"))}
        elif name == "bar":
            parts["bar"] = Part([_parameter("quiet", QuietOption, False)], _bar)
        elif settings is not None:
            parts[name] = _flatten(settings)
        elif _offered(hints[name]) is not None:
            parts[name] = Part([_as_typer(name, hints[name], parameter.default)], itemgetter(name))
    return parts


def _flatten(settings: Any) -> Part:
    """Those fields of a dataclass that have an Option, as options of their own."""
    hints = typing.get_type_hints(settings, include_extras=True)
    defaults = {field.name: field.default for field in dataclasses.fields(settings) if _offered(hints[field.name])}
    options = [_as_typer(name, hints[name], default) for name, default in defaults.items()]
    return Part(options, lambda given: settings(**{name: given[name] for name in defaults}))


def _offered(hint: Any) -> Any:
    """The Option in an annotation, None if there is none."""
    from carousel.lab.options import Option

    return next((part for part in getattr(hint, "__metadata__", ()) if isinstance(part, Option)), None)


def _as_typer(name: str, hint: Any, default: Any) -> inspect.Parameter:
    """An annotated parameter as typer has it. An argument may be absent: `run` has the default then."""
    offered, kind = _offered(hint), hint.__origin__
    if not offered.argument:
        bounds = {"min": offered.minimum, "max": offered.maximum}
        metavar = offered.metavar or METAVARS.get(kind)
        as_option = typer.Option("--" + name.replace("_", "-"), metavar=metavar, help=offered.help, **bounds)
        return _parameter(name, Annotated[kind, as_option], default)
    several = kind is not str
    metavar = f"[{offered.metavar}]" + ("..." if several else "")
    kind = list[str] if several else str
    return _parameter(name, Annotated[kind | None, typer.Argument(metavar=metavar, help=offered.help)], None)


def _parameter(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _check_arguments(run: Callable[..., Any], values: Mapping[str, Any]) -> None:
    """An argument that is given needs those after it: arguments in the middle cannot be omitted."""
    hints = typing.get_type_hints(run, include_extras=True)
    arguments = {n: offered for n, hint in hints.items() if (offered := _offered(hint)) and offered.argument}
    for (name, offered), (later, needed) in itertools.pairwise(arguments.items()):
        if name in values and later not in values:
            text = f"a {offered.metavar.lower()} needs at least one {needed.metavar.lower()} after it"
            raise typer.BadParameter(text, param_hint=needed.metavar)


def _model(given: Mapping[str, Any]) -> Any:
    """The model to look at, if there is one."""
    if given["run"] is not None:
        return load(given["run"], task=given["task"], cell=given["cell"])
    for name in ("data", "task", "cell"):
        if given[name]:
            raise typer.BadParameter("it is about a trained model; give one with --run", param_hint=f"--{name}")
    return None


def _bar(given: Mapping[str, Any]) -> Any:
    from carousel.lab.progress import Bar

    return Bar(given["quiet"])
