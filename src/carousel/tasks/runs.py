"""Run directories as models: which task a run is of, its settings, and the model with the weights of the best epoch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..errors import RunError, SettingsError, did_you_mean
from ..training import Run, Settings
from ..training.manifest import check_manifest
from ..wording import setting
from .base import Model, Task
from .registry import find, names
from .shared.cell import is_known, unknown_cell


def task_of(run: Run) -> type[Task]:
    """The task that a run is of."""
    name: Any = run.config_values()["task"]
    if not isinstance(name, str) or name not in names():
        if (hint := did_you_mean(str(name), names())) or not isinstance(name, str):
            raise SettingsError(f"{run.config}: task: there is no {name!r}; {hint}")
        raise RunError(
            f"{run.folder}: a run of the task {name!r}, which is not known here; "
            f"give {setting('task', 'FILE.py:CLASS')}, or import its module first"
        )
    return find(name)


def settings_of(run: Run) -> tuple[type[Task], Settings]:
    """The task and the settings in config.yaml."""
    task, cell = task_of(run), run.config_values().get("cell")
    if "cell" in task.Settings.model_fields and isinstance(cell, str) and not is_known(cell):
        raise RunError(f"{run.folder}: {unknown_cell(cell)}")
    return task, run.read_settings(task.Settings)


def load_run(folder: str | Path) -> Any:
    """The model in a run directory, in eval mode."""
    run = Run(folder)
    task, settings = settings_of(run)
    for one in runs_of(run, settings):
        one.check_weights()  # before any other file of it is read
    check_manifest(run.folder, settings.lasting)
    assets = task.load_assets(settings, run.folder)
    return make_model(run, task, settings, assets)


def runs_of(run: Run, settings: Any) -> list[Run]:
    """The runs that have weights: those of the members of an ensemble, or the run itself."""
    seeds = getattr(settings, "seeds", 1)
    return [run] if seeds == 1 else [run.member(number) for number in range(1, seeds + 1)]


def make_model(run: Run, task: type[Task], settings: Settings, assets: Any) -> Model[Any, Any]:
    """The model of a run whose settings and assets are read already."""
    from ..training.members import load_members  # late: with torch, which finding a run does not need
    from ..training.memory import check_memory, outline
    from ..wording import label_of

    if (shapes := outline(task, settings, assets)) is not None:  # before memory is asked for
        for one in runs_of(run, settings):
            one.check_shapes(shapes)
        check_memory(shapes, training=False)
    if getattr(settings, "seeds", 1) > 1:
        network, parts = load_members(run, task, settings, assets), []
    else:
        network = task.make_network(settings, assets)
        run.load_weights(network)
        parts = [f"{label_of(name)} {value:.4g}" for name, value in run.weights_info().items()]
    model = task.make_model(network.eval(), assets)
    model.declared = task
    model.origin = ", ".join([str(run.folder), *parts])
    return model
