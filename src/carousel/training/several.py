"""Training of one run, of an ensemble (several runs that differ by their seeds), of a learning curve (runs on parts of
the data), in one run directory.

The directory of an ensemble has settings, assets, baselines, result and report of its own; `members/1` and so on are
complete runs. A member that is finished is not trained again when the ensemble is resumed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch

from ..errors import ArgumentError
from ..files import write_json
from ..threads import threads
from ..wording import label_of, setting
from . import distributed, trainer
from .baselines import Baselines
from .data import Data
from .isolation import own_random_numbers
from .members import load_members, mean_and_deviation
from .network import Network, Trainable
from .progress import Bar
from .report import write_report
from .run import Run, read_json
from .settings import Settings

SHARES = (0.125, 0.25, 0.5)  # of the training data, the points of a learning curve before all of it
ONE = {"seeds": 1, "baseline": False}  # settings of a run that is a part of another


def train(
    task: type[Trainable],
    settings: Settings | Mapping[str, Any],
    out: str | Path | Run,
    *,
    resume: bool = False,
    force: bool = False,
    places: Mapping[str, str] | None = None,
    **options: Any,
) -> Run:
    """As `trainer.train`, whose `options` are taken too; with `seeds` more than 1 an ensemble."""
    run = out if isinstance(out, Run) else Run(out)
    with distributed.joined(run.folder, resume) as folder:
        if distributed.rank():  # only rank 0 prints and writes
            options |= {"quiet": True, "report": False}
        own = run if folder == run.folder else Run(folder)
        _train(task, settings, own, resume, force, places, **options)
        return run


def _train(
    task: type[Trainable],
    settings: Settings | Mapping[str, Any],
    run: Run,
    resume: bool,
    force: bool,
    places: Mapping[str, str] | None,
    **options: Any,
) -> Run:
    with run.locked():
        trainer.check_place(run, resume=resume, force=force)
        own = trainer.run_settings(run, task, settings, resume, places)
        curve, report = getattr(own, "learning_curve", False), options.get("report", True)
        options["report"] = report and not curve  # else it is written when the curve is known
        if distributed.size() > 1 and (curve or getattr(own, "seeds", 1) > 1):
            name = "learning_curve" if curve else "seeds"
            remedy = f"leave out {setting(name)}, or {setting('processes')}"
            raise ArgumentError(f"{setting(name)}: several processes train one model; {remedy}")
        if getattr(own, "seeds", 1) == 1:
            trainer.train(task, settings, run, resume=resume, force=force, places=places, **options)
        else:
            _train_members(task, own, run, resume, **options)
        if curve:
            _train_parts(task, own, run, report, **options)
    return run


def _train_parts(task: type[Trainable], settings: Any, run: Run, write: bool, **options: Any) -> None:
    """Train on parts of the data, and add the learning curve to result.json and to the report."""
    result, bar, points = run.result or {}, Bar(options.get("quiet", False)), []
    name = f"dev_{result['metric']}"
    for share in SHARES:
        own = settings.model_copy(update={"share": share * settings.share, "learning_curve": False, **ONE})
        part = Run(run.folder / "learning-curve" / f"{100 * share:g}")
        bar.say(f"learning curve: {100 * share:g} % of the training data")
        trainer.train(task, own, part, resume=part.begun, **{**options, "report": False})
        points.append({"share": share, name: (part.result or {})[name]})
    whole = result["members"][0] if "members" in result else result
    points.append({"share": 1.0, name: whole[name]})
    bar.say(
        f"learning curve, dev {label_of(result['metric'])}: "
        + ", ".join(f"{100 * point['share']:g} % {point[name]:.4g}" for point in points)
    )
    result["learning_curve"] = points
    write_json(run.result_file, result, indent=2)
    if write:
        _write_report(run, task, settings, result)


def _write_report(run: Run, task: type[Trainable], settings: Any, result: dict[str, Any]) -> None:
    with threads(settings.threads), own_random_numbers(settings.seed), trainer.explained(run, task.name):
        assets, data = task.prepare(settings, task.load_assets(settings, run.folder))
        baselines = read_json(run.baselines, Baselines) if run.baselines.exists() else None
        if getattr(settings, "seeds", 1) > 1:
            network = load_members(run, task, settings, assets)
        else:
            network = task.make_network(settings, assets)
            run.load_weights(network)
        write_report(run, task, task.make_model(network.eval(), assets), data.info, result, baselines)


def _train_members(
    task: type[Trainable],
    settings: Any,
    run: Run,
    resume: bool,
    *,
    callbacks: Sequence[Any] = (),
    quiet: bool = False,
    report: bool = True,
    command: Sequence[str] = (),
) -> Run:
    bar = Bar(quiet)
    with threads(settings.threads), own_random_numbers(settings.seed):
        start = run.folder if resume and run.members.is_dir() else None
        network, assets, data = trainer.set_up(run, task, settings, start, resume)
        baselines = trainer.find_baselines(run, task, network, assets, data, bar, start)
        run.members.mkdir(exist_ok=True)
        run.mark_started()
    train_one = partial(trainer.train, task, callbacks=callbacks, quiet=quiet, report=False, command=command)
    for number in range(1, settings.seeds + 1):
        own, member = member_settings(settings, number), run.member(number)
        bar.say(f"member {number} of {settings.seeds}, seed {own.seed}")
        train_one(own, member, resume=member.begun)
    with threads(settings.threads), own_random_numbers(settings.seed), trainer.explained(run, task.name):
        ensemble = load_members(run, task, settings, assets)
        result = _result(run, task, ensemble, data, command)
        result |= trainer.compare(baselines, settings, result, bar)
        write_json(run.result_file, result, indent=2)
        _say(bar, result)
        if report:
            write_report(run, task, task.make_model(ensemble, assets), data.info, result, baselines)
    return run


def member_settings(settings: Any, number: int) -> Any:
    """The settings of a member of an ensemble, by its number from 1: one model with a seed of its own."""
    seed = (settings.seed + number - 1) % 2**32
    return settings.model_copy(update={"seed": seed, "learning_curve": False, **ONE})


@torch.no_grad()
def _result(run: Run, task: type[Trainable], ensemble: Network, data: Data, command: Sequence[str]) -> dict[str, Any]:
    """Where an ensemble ended: what it and each of its members reach on the dev set."""
    settings, metric = ensemble.settings, ensemble.metric()
    name, results = f"dev_{metric.best}", [run.member(k).result or {} for k in range(1, settings.seeds + 1)]
    value = None
    if data.dev is not None:
        for batch in data.dev:
            metric.add(batch)
        value = metric.result()[metric.best]
    keys = ("seed", name, "best_epoch", "epochs", "steps", "minutes")
    result: dict[str, Any] = {
        "task": task.name,
        "metric": metric.best,
        name: value,
        "seeds": settings.seeds,
        "members": [{key: one[key] for key in keys} for one in results],
        **({} if value is None else {f"members_{name}": mean_and_deviation([one[name] for one in results])}),
        "epochs": min(one["epochs"] for one in results),
        "parameters": ensemble.size,
        "seed": settings.seed,
        "minutes": round(sum(one["minutes"] for one in results), 4),
        "command": trainer.command_line(run, task.name, command),
    }
    return result if data.held_out is None else {**result, "held_out": data.held_out}


def _say(bar: Bar, result: dict[str, Any]) -> None:
    name = f"dev_{result['metric']}"
    if result[name] is not None:
        each = result[f"members_{name}"]
        bar.say(
            f"ensemble of {result['seeds']}: dev {label_of(result['metric'])} {result[name]:.4g}; "
            f"its members {each['mean']:.4g} ± {each['sd']:.2g}"
        )
