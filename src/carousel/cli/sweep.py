"""`carousel sweep TASK`: many trials with different settings."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import typer

from .app import App, Command, TaskGroup, with_parameters
from .pairs import PairCommand
from .train import data_parameters, gathered, option, register_tasks, setting_parameters

app = App(cls=TaskGroup, help="Train many runs with different settings; several processes may share the work.")
OWN = ("out", "space", "vary", "trials", "sampler", "prune", "config", "set", "quiet", "json")


class SweepCommand(Command):
    """A command whose --vary takes several words."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, each_vary(args))


class PairSweepCommand(PairCommand):
    """The same for tasks on two files."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, each_vary(args))


def each_vary(args: list[str]) -> list[str]:
    """`--vary a=1,2 b=3,4` as `--vary a=1,2 --vary b=3,4`.

    >>> each_vary(["--vary", "lr=0.1..1", "hidden=2,4", "--trials", "3", "x=1"])
    ['--vary', 'lr=0.1..1', '--vary', 'hidden=2,4', '--trials', '3', 'x=1']
    """
    expanded: list[str] = []
    for arg in args:
        if expanded[-2:-1] == ["--vary"] and "=" in arg and not arg.startswith("-"):
            expanded.append("--vary")
        expanded.append(arg)
    return expanded


def command(task: Any, name: str) -> Any:
    """The function behind `carousel sweep NAME`: its options are the keys of the task's settings."""
    varied = "What to vary: KEY=VALUE,VALUE or KEY=LOW..HIGH, on a log scale if wide; several may follow."
    parameters = [
        *data_parameters(task, "Validation data, by which trials are compared."),
        option("out", Path, "The directory of the sweep; run the same command again to continue.", None,
               metavar="DIR", required=True),
        option("vary", list[str] | None, varied, None, metavar="KEY=…"),
        option("space", Path | None, "What to vary, in a YAML file.", None, metavar="FILE"),
        option("trials", int | None, "Number of trials in all. [default: 20]", None),
        option("sampler", Literal["tpe", "random"], "How values are chosen. [default: tpe]", None),
        option("prune", bool, "Stop trials that are worse than the median. [default: prune]", None),
        option("config", Path | None, "Settings of all trials in a YAML file.", None, metavar="FILE"),
        option("set", list[str] | None, "Any setting of all trials, as key=value; may be repeated.", None,
               metavar="KEY=VALUE"),
        option("quiet", bool, "No progress; print only the table.", None, flag=True),
        option("json", bool, "Print JSON instead of a table.", None, flag=True),
        *setting_parameters(task),
    ]  # fmt: skip

    def run(**given: Any) -> None:
        given |= {key: given[key] or None for key in ("train", "dev")}  # an empty list is nothing
        own = {key: given.pop(key) for key in OWN}
        _sweep(task, given, **own)

    help = f"""Sweep the settings of {task.name}: train a run for each trial, and find the best.

    Processes that run the same command at once, also on other hosts that share DIR, share the trials.
    """
    return with_parameters(run, parameters, help)


def _sweep(
    task: Any, given: dict[str, Any], out: Path, space: Path | None, vary: list[str] | None, trials: int | None,
    sampler: str | None, prune: bool | None, config: Path | None, set: list[str] | None, quiet: bool, json: bool,
) -> None:  # fmt: skip
    from carousel.sweeps.space import gather_space
    from carousel.sweeps.sweep import run_sweep
    from carousel.training.checkpoint_callback import Interrupted

    values, places = gathered(config, set, given)
    varied, more = gather_space(space, vary or [])
    words = ["carousel", *sys.argv[1:]]
    options: dict[str, Any] = {"trials": trials, "sampler": sampler, "prune": prune}
    try:
        sweep = run_sweep(
            task, values, varied, out, quiet=quiet, places={**places, **more}, command=words,
            **{key: value for key, value in options.items() if value is not None},
        )  # fmt: skip
    except Interrupted as stopped:
        typer.echo(f"{stopped}, which is kept; continue with: {shlex.join(words)}", err=True)
        raise typer.Exit(stopped.code) from None
    _show(sweep, out, as_json=json, quiet=quiet)


def _show(sweep: Any, out: Path, as_json: bool, quiet: bool) -> None:
    if as_json:
        typer.echo(json.dumps(sweep.as_dict(), ensure_ascii=False))
        return
    typer.echo(str(sweep))
    if quiet:
        return
    if sweep.best is None:
        typer.echo(f"no trial is complete yet; look at {shlex.quote(str(out / 'report.html'))}")
        return
    best = shlex.quote(str(out / "best"))
    typer.echo(
        f"best: {sweep.name_of_best}, dev {sweep.metric} {sweep.best.value:.4g}; use it with: "
        f"carousel eval {best} FILE; look at {shlex.quote(str(out / 'report.html'))}"
    )


def register(commands: App, words: Sequence[str]) -> None:
    """Add the group, with the command of the task that `words` name or of every task."""
    register_tasks(app, words, command, SweepCommand, PairSweepCommand)
    commands.add_typer(app, name="sweep")
