"""Training: settings in, run directory out."""

from __future__ import annotations

import errno
import hashlib
import json
import logging
import math
import os
import shlex
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import lightning.pytorch as lightning
import torch
from lightning.pytorch.loggers import TensorBoardLogger
from lightning.pytorch.strategies import DDPStrategy

from ..cells import Cell, registry
from ..errors import ArgumentError, RunError, SettingsError, shorten
from ..files import FULL, remove_parts, replace_files, write_json, write_text
from ..program.tracing import NotAProgram
from ..threads import threads
from ..wording import an, counted, either, setting
from . import distributed
from .baselines import Baseline, Baselines, fit_baselines, suggestions
from .checkpoint_callback import CheckpointCallback
from .checkpoints import Checkpoints, step_of
from .csv_logger import CSVLogger, read_metrics
from .data import Data
from .isolation import own_random_numbers
from .manifest import check_manifest, write_manifest
from .memory import check_memory, outline
from .module import Diverged, Module
from .network import Network, Trainable
from .progress import Bar
from .report import write_report
from .run import Run, read_json
from .settings import MAY_CHANGE, Settings, gather, plain, shown

SHUT = (errno.EACCES, errno.EPERM, errno.EROFS)  # errors that mean the path is not writable


def train(
    task: type[Trainable],
    settings: Settings | Mapping[str, Any],
    out: str | Path | Run,
    *,
    callbacks: Sequence[lightning.Callback] = (),
    force: bool = False,
    resume: bool = False,
    quiet: bool = False,
    report: bool = True,
    command: Sequence[str] = (),
    places: Mapping[str, str] | None = None,
) -> Run:
    """Train one model of `task` with `settings` and write everything into the run directory `out`; `several.train` also
    trains ensembles.

    `resume` continues the run in `out` from its last checkpoint, with the same result as if it had not stopped; then
    `settings` are those given again, which must be the run's own except for a few. `force` starts over in its place;
    `callbacks` are Lightning's; `report` writes report.html; `command` is the command line, for the report; `places`
    say where settings were given, for messages. Raises `Interrupted` when the run was asked to stop (Ctrl-C), after
    saving. Random numbers, threads, signal handlers and log levels of the process are afterwards as before.
    """
    run, bar = out if isinstance(out, Run) else Run(out), Bar(quiet)
    with run.locked():
        check_place(run, resume=resume, force=force)
        own = run_settings(run, task, settings, resume, places)
        with threads(own.threads), own_random_numbers(own.seed), warnings.catch_warnings():
            if resume and run.finished(own.epochs):
                _finish(run, task, own, bar, report)
                return run
            start = _find_checkpoint(run, own, bar) if resume else None
            with bar.preparing():
                network, assets, data = set_up(run, task, own, start, resume)
            _announce(network.settings, data, bar)
            baselines = find_baselines(run, task, network, assets, data, bar, start)
            with explained(run, task.name):
                result = _fit(run, task.name, network, data, bar, callbacks, command, start)
                result |= compare(baselines, own, result, bar)
                write_json(run.result_file, result, indent=2)
                if report:
                    _report(run, task, own, assets, data, result, baselines)
    return run


def _announce(settings: Settings, data: Data, bar: Bar) -> None:
    """Print what a user should know of settings and data before anything is fitted to them."""
    for note in (*settings.unused, *data.notes):
        bar.say(note, "yellow")
    if "held out" in data.info:
        bar.say(f"held out for validation: {data.info['held out']}")


def _report(
    run: Run,
    task: type[Trainable],
    settings: Settings,
    assets: Any,
    data: Data,
    result: dict[str, Any],
    baselines: Baselines | None,
) -> None:
    """Write report.html, with the weights of the best epoch."""
    best = task.make_network(settings, assets)
    run.load_weights(best)
    write_report(run, task, task.make_model(best.eval(), assets), data.info, result, baselines)


def _finish(run: Run, task: type[Trainable], settings: Settings, bar: Bar, report: bool) -> None:
    """What is left to do for a run that has been trained to the end: its report, if it could not be written then."""
    result = run.result or {}
    run.check_weights()
    bar.say(f"{run.folder}: finished already, after {counted(result['epochs'], 'epoch')}")
    if report and not run.report.exists():
        with explained(run, task.name):
            assets = task.load_assets(settings, run.folder)
            baselines = read_json(run.baselines, Baselines) if run.baselines.exists() else None
            _report(run, task, settings, *task.prepare(settings, assets), result, baselines)
        bar.say(f"{run.report}: written")


def run_settings(
    run: Run,
    task: type[Trainable],
    settings: Settings | Mapping[str, Any],
    resume: bool,
    places: Mapping[str, str] | None,
) -> Settings:
    """The settings of the run, checked; of a resumed one its own."""
    if resume:
        given = settings.model_dump(exclude_unset=True) if isinstance(settings, Settings) else settings
        return resumed_settings(run, task, given, places)
    if isinstance(settings, Settings):
        return settings
    checked: Settings = task.Settings.check(settings, places or {})
    return checked


def _find_checkpoint(run: Run, settings: Settings, bar: Bar) -> Path | None:
    """The checkpoint to resume from; None if the run has not come to its first, or all are damaged."""
    checkpoints = Checkpoints(run.checkpoints)
    if not checkpoints.paths() and _is_past_first_epoch(run):
        remedy = f"copy them from an intact copy of the run, or start over with {setting('force', True)}"
        raise RunError(f"{run.checkpoints}: no checkpoints to resume from; {remedy}")
    start = checkpoints.latest(lambda line: bar.say(line, "yellow"))
    if start is not None:
        check_manifest(run.folder, settings.lasting)
        if run.weights.exists():
            run.read_weights()  # damage is found now, not at the end
        begun = checkpoints.load_checkpoint(start)["loops"]["fit_loop"]["epoch_progress"]["current"]["started"]
        if begun > 1 and not run.weights.exists():
            raise run.lost_weights()
        if begun > settings.epochs:
            raise RunError(
                f"{setting('epochs')}: the run is in epoch {begun} already; give {begun} or more, got {settings.epochs}"
            )
    return start


def _is_past_first_epoch(run: Run) -> bool:
    """Whether starting over would lose work: the weights of the first epoch are written before its checkpoint, and may
    remain the best. A log that does not show it is taken for damaged."""
    if not run.weights.exists() or run.result_file.exists():
        return run.weights.exists()
    try:
        epochs = [row.get("epoch", 0) for row in read_metrics(run.metrics)]
    except (OSError, RunError):
        return True
    return max(epochs, default=2) > 1


def set_up(
    run: Run, task: type[Trainable], settings: Settings, start: Path | None, resume: bool
) -> tuple[Network, Any, Data]:
    """Read the data, make the network, and write what does not change in training; nothing is written before that."""
    assets, data = task.prepare(settings, None if start is None else task.load_assets(settings, run.folder))
    check_dev(settings, data)
    placement(settings)  # a device that is missing is reported before anything is written
    if (shapes := outline(task, settings, assets)) is not None:
        check_memory(shapes, training=True)
    network = task.make_network(settings, assets)
    if start is None and settings.start_from is not None:
        data.notes += task.start_network(network, assets)
    if (cell := _own_cell(settings)) is not None and (reason := _not_fused(cell, settings)) is not None:
        path = f"reference, several times slower than a fused one: {reason}"
        data.notes.append(f"the cell {settings.cell} runs on the path {path}")  # type: ignore[attr-defined]
        data.info["path of the cell"] = path
    if start is None and (run.exists or cell is not None):
        _try_step(network, data.train)
    if not resume:
        run.begin()
    write_text(run.config, settings.to_yaml())  # of a resumed run, too: it may have more epochs now
    if start is None:
        with replace_files(run.folder) as folder:
            assets.save(folder)
            write_manifest(folder, settings.lasting)
    return network, assets, data


def _own_cell(settings: Settings) -> type[Cell] | None:
    """The cell of the settings, if it is not one of ours."""
    cell = registry().get(getattr(settings, "cell", ""))
    return None if cell is None or cell.__module__.partition(".")[0] == __name__.partition(".")[0] else cell


def _not_fused(cell: type[Cell], settings: Settings) -> str | None:
    """Why a cell is no program, with the line of its file; None if it is one."""
    hidden = getattr(settings, "hidden", 4)
    try:
        cell().program(hidden, hidden)
    except NotAProgram as error:
        return str(error)
    return None


def _try_step(network: Network, batches: Any) -> None:
    """Raise now what the first step of training would raise, before a run is replaced: its code may be a user's own.

    Random numbers, the network and the place in the data are afterwards as before.
    """
    place = batches.state_dict()
    with torch.random.fork_rng(devices=[]):
        for batch in batches:
            loss = network.loss(batch).mean
            if not math.isfinite(float(loss.detach())):
                raise Diverged(f"the loss is {float(loss.detach())} at step 0; try other {setting('seed')} or data")
            loss.backward()
            break
    network.zero_grad()
    network.carried = {}
    batches.load_state_dict(place)


def find_baselines(
    run: Run, task: type[Trainable], network: Network, assets: Any, data: Data, bar: Bar, start: Path | None
) -> Baselines | None:
    """What simple methods reach on the same data; of a resumed run, what they reached when it began."""
    if not network.settings.baseline or distributed.rank():
        return None
    if start is not None and run.baselines.exists():
        return read_json(run.baselines, Baselines)

    def say(result: Baseline) -> None:
        bar.say(f"baseline {result.name}: dev {metric.label(metric.best)} {result.value:.4g}  ({result.seconds:.1f} s)")

    metric = network.metric()
    baselines = fit_baselines(task, network.settings, assets, data, metric, say)
    for note in baselines.notes:
        bar.say(note, "yellow")
    if baselines.results:
        write_json(run.baselines, baselines.as_dict(), indent=2)
    return baselines


def compare(baselines: Baselines | None, settings: Settings, result: dict[str, Any], bar: Bar) -> dict[str, Any]:
    """What result.json says of the baselines; whether the model beats the best of them is printed."""
    if baselines is None or baselines.best is None:
        return {}
    value = result[f"dev_{result['metric']}"]
    beaten = baselines.beaten_by(value)
    comparison: dict[str, Any] = {
        "baselines": [one._asdict() for one in baselines.results],
        "beats_baselines": beaten,
        "verdict": baselines.verdict(value),
    }
    perfect = value == (0 if baselines.lower_is_better else 1)
    if beaten is False and not perfect:
        comparison["suggestions"] = suggestions(settings, result)
        bar.say(f"{comparison['verdict']}; try {either(comparison['suggestions'])}", "yellow")
    elif beaten is not None:
        bar.say(comparison["verdict"])
    return comparison


def check_place(run: Run, *, resume: bool, force: bool) -> None:
    """Raise unless a run may begin in this directory or, with `resume`, be continued."""
    if resume and force:
        raise ArgumentError("resume and force: a run is continued or started over; choose one of them")
    if not resume:
        run.check_free(force)
    elif not run.exists or not (run.started or run.config.exists()):
        raise RunError(f"{run.folder}: no run to resume; leave out {setting('resume', True)} to start one")


def preset_settings(task: type[Trainable], preset: str | None, *, resume: bool) -> Mapping[str, Any]:
    """The settings of a preset, for a new run; a resumed one has its own."""
    if preset is not None and resume:
        raise ArgumentError("preset: a run is resumed with its own settings; leave out the preset")
    settings: Mapping[str, Any] = task.Settings.preset(preset)
    return settings


def resumed_settings(
    run: Run, task: type[Trainable], given: Mapping[str, Any], places: Mapping[str, str] | None = None
) -> Settings:
    """The settings of a run that is resumed; those `given` again must be the same, except those that may change.

    `places` say where each was given, as `gather` has them.
    """
    name = run.config_values()["task"]
    if name != task.name:
        raise RunError(f"{run.folder}: {an(str(name))} run; resume it with carousel train {name}")
    raw, lines = gather(run.config, (), {})
    lines = {name: place for name, place in lines.items() if name not in given}
    new = task.Settings.check(
        {**raw, **given}, lines | dict(places or {})
    )  # first: a cell given as FILE.py:CLASS is known then
    kept = run.read_settings(task.Settings)
    for name in type(new).model_fields:
        then, now = plain(getattr(kept, name)), plain(getattr(new, name))
        grows = name == "seeds" and 1 < then < now  # an ensemble gets more members
        if then != now and name not in MAY_CHANGE and not grows:
            raise RunError(
                f"{run.config}: {name} is {shorten(shown(then), 200)} there, {shorten(shown(now), 200)} now; "
                f"a run is resumed with its own settings (only {', '.join(map(setting, sorted(MAY_CHANGE)))} may "
                f"change, and {setting('seeds')} of an ensemble rise)"
            )
    return new


def check_dev(settings: Settings, data: Data) -> None:
    if settings.schedule == "plateau" and settings.warmup not in (0, type(settings).model_fields["warmup"].default):
        remedy = f"give {setting('warmup', 0)}, or choose another {setting('schedule')}"
        raise SettingsError(f"{setting('warmup')}: the schedule plateau has none; {remedy}")
    asking = {
        "patience": settings.patience is not None,
        "schedule": settings.schedule == "plateau",
        "learning_curve": getattr(settings, "learning_curve", False),
    }
    for name, asked in asking.items():
        if asked and data.dev is None:
            raise SettingsError(
                f"{setting(name)}: {shown(getattr(settings, name))} needs a dev set, and there is none; "
                f"give {setting('dev')}"
            )


def _fit(
    run: Run,
    task: str,
    network: Network,
    data: Data,
    bar: Bar,
    callbacks: Sequence[lightning.Callback],
    command: Sequence[str],
    start: Path | None,
) -> dict[str, Any]:
    settings = network.settings
    checkpoints = Checkpoints(run.checkpoints)
    remove_parts(run.folder)
    distributed.ready("data")
    distributed.same_everywhere("training data or vocabularies", _digest(data, network))
    distributed.draw_apart(settings.seed)
    batches = distributed.share(data.train)
    module = Module(network, batches, data.dev)
    metrics = [f"dev_{name}" for name in network.metric().result()] if data.dev is not None else []
    log = CSVLogger(run.metrics, ["lr", "loss", "gradient", *metrics])
    saver = CheckpointCallback(run, log, bar)
    resumed = 0 if start is None else step_of(start)
    if start is None:
        log.begin()
    else:
        module.check_data(checkpoints.load_checkpoint(start))
        bar.say(f"resuming from step {resumed}")
    among = "" if distributed.size() == 1 else f", each shared by {distributed.size()} processes"
    bar.say(f"{network.size:,} parameters, {counted(len(data.train), 'batch', 'batches')} per epoch{among}")
    with _quiet_lightning():
        trainer = lightning.Trainer(
            **placement(settings),
            max_epochs=settings.epochs,
            accumulate_grad_batches=settings.accumulate,
            callbacks=[bar, *callbacks, saver],
            logger=[log, TensorBoardLogger(run.folder, name="", version="tensorboard", purge_step=resumed)],
            plugins=[checkpoints],
            enable_checkpointing=True,
            enable_model_summary=False,
            num_sanity_val_steps=0,
            use_distributed_sampler=False,
            limit_val_batches=1.0 if data.dev is not None else 0,
        )
        try:
            again = "with --resume" if distributed.rank() else f"with: {resume_command(run, task)}"
            with distributed.contact(f"start all of them again {again}"):
                trainer.fit(module, batches, data.dev, ckpt_path=None if start is None else str(start))
        except Diverged as error:
            raise Diverged(_what_to_try(error, run, settings)) from error
        finally:
            saver.stop_listening()
    result = _result(task, module, saver, trainer)
    if data.held_out is not None:
        result["held_out"] = data.held_out
    result["command"] = command_line(run, task, command)
    return result


def placement(settings: Settings) -> dict[str, Any]:
    """Where Lightning trains: the device, and this process alone or those of torchrun."""
    device = find_device(settings.device)
    if device == "cpu" and settings.precision != "32" and settings.device == "cpu":
        raise SettingsError(
            f"{setting('precision')}: {settings.precision} is for a GPU; leave it out, "
            f"or choose another {setting('device')}"
        )
    precision = "32-true" if device == "cpu" or settings.precision == "32" else f"{settings.precision}-mixed"
    one: dict[str, Any] = {"accelerator": device, "precision": precision, "devices": 1}
    if distributed.size() == 1:
        return one
    local = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    backend = "nccl" if device == "cuda" else "gloo"
    strategy = DDPStrategy(process_group_backend=backend, find_unused_parameters=True, broadcast_buffers=False)
    return {**one, "strategy": strategy, "devices": local, "num_nodes": distributed.size() // local}


def find_device(name: str) -> str:
    """The device to train on: `name` if it is there, and for auto the first GPU that is."""
    there = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if name == "auto":
        return next(device for device in ("cuda", "mps", "cpu") if there[device])
    if not there[name]:
        here = ", ".join(device for device, found in there.items() if found)
        raise SettingsError(
            f"{setting('device')}: there is no {name} on this machine, only {here}; choose one of these, or auto"
        )
    return name


def _digest(data: Data, network: Network) -> str:
    """What must be the same in every process."""
    state = json.dumps([data.train.state_dict(), network.size], sort_keys=True, default=str)
    return hashlib.sha256(state.encode()).hexdigest()


def command_line(run: Run, task: str, command: Sequence[str]) -> str:
    """The command that trained a run; of a call from Python, one that repeats it."""
    return shlex.join(command or ["carousel", "train", task, "--config", str(run.config)])


def _result(task: str, module: Module, saver: CheckpointCallback, trainer: lightning.Trainer) -> dict[str, Any]:
    """Where a run ended."""
    return {
        "task": task,
        "metric": module.best,
        f"dev_{module.best}": saver.best,
        "best_epoch": saver.best_epoch,
        "epochs": trainer.current_epoch,
        "steps": trainer.global_step,
        "parameters": module.network.size,
        "seed": module.settings.seed,
        "minutes": round(saver.minutes, 4),
        **({"choice": saver.choice[0], "network_is_idle": saver.choice[1]} if saver.choice[0] else {}),
    }


@contextmanager
def explained(run: Run, task: str) -> Iterator[None]:
    """What a file that could not be written or read means for the run; other errors are left as they are."""
    try:
        yield
    except OSError as error:
        if error.errno is None:  # raised by a library or a callback, not by the system
            raise
        left = Checkpoints(run.checkpoints).paths()
        kept = f"; step {step_of(left[-1])} is kept" if left else ""
        remedy = "free some space" if error.errno in FULL else "make it writable" if error.errno in SHUT else "fix that"
        raise RunError(
            f"{error.filename or run.folder}: {error.strerror or error}{kept}; {remedy}, then resume with: "
            f"{resume_command(run, task)}"
        ) from error


def resume_command(run: Run, task: str) -> str:
    return f"carousel train {task} --out {shlex.quote(str(run.folder))} --resume"


def _what_to_try(error: Diverged, run: Run, settings: Settings) -> str:
    """What went wrong, what is kept, and what to do about it."""
    left = Checkpoints(run.checkpoints).paths()
    kept = (
        f"the checkpoint of step {step_of(left[-1])} is kept in {run.checkpoints}" if left else "nothing was kept yet"
    )
    advice = [f"a lower {setting('lr')} (it is {settings.lr:g})"]
    if not settings.clip:
        advice.append(f"clipping ({setting('clip', 5)})")
    elif settings.clip > 1:
        advice.append(f"a smaller {setting('clip')} (it is {settings.clip:g})")
    return f"{error}; {kept}; try {either(advice)}"


@contextmanager
def _quiet_lightning() -> Any:
    """Without Lightning's own messages: the bar shows what is needed."""
    log = logging.getLogger("lightning.pytorch")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", module="lightning")
            warnings.filterwarnings("ignore", message=".*does not have many workers.*")
            yield
    finally:
        log.setLevel(level)
