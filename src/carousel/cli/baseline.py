"""`carousel baseline TASK`: what simple methods reach on data, without training a model."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer

from .app import App, TaskGroup, with_parameters
from .train import data_parameters, gathered, option, register_tasks, setting_parameters

BATCHES = ("batch_size", "batch_tokens", "bptt", "vary_bptt")  # how data is read makes no difference to a baseline

app = App(cls=TaskGroup, help="Measure simple baselines on data, without training a model.")


def command(task: Any, name: str) -> Any:
    """The function behind `carousel baseline NAME`: its options are the keys of the task's settings about data."""
    parameters = [
        *data_parameters(task, "Validation data, on which the baselines are measured."),
        option("config", Path | None, "Settings in a YAML file.", None, metavar="FILE"),
        option("set", list[str] | None, "Any setting, as key=value; may be repeated.", None, metavar="KEY=VALUE"),
        option("json", bool, "Print JSON instead of a table.", None, flag=True),
        *setting_parameters(task, "data", without=BATCHES),
    ]

    def run(**given: Any) -> None:
        given |= {name: given[name] or None for name in ("train", "dev")}  # an empty list is nothing
        own = {name: given.pop(name) for name in ("config", "set", "json")}
        _measure(task, given, own["config"], own["set"], own["json"])

    help = f"Baselines for {task.name}: simple methods, fitted to TRAIN and measured on --dev."
    return with_parameters(run, parameters, help)


def _measure(task: Any, given: dict[str, Any], config: Path | None, set: list[str] | None, as_json: bool) -> None:
    from carousel.training.baselines import measure_baselines

    values, places = gathered(config, set, given)
    baselines = measure_baselines(task, task.Settings.check(values, places))
    if as_json:
        typer.echo(json.dumps(baselines.as_dict(), ensure_ascii=False))
        return
    typer.echo(str(baselines))


def register(commands: App, words: Sequence[str]) -> None:
    """Add the group, with the command of the task that `words` name or of every task."""
    register_tasks(app, words, command, fits=lambda task: task.has_baselines())
    commands.add_typer(app, name="baseline")
