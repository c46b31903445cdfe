"""The calls `train`, `load`, `evaluate`, `check`, `baseline`, `sweep`, `compare`: what the commands do, from Python.

Data is files, or in memory: lists, tuples, arrays, a DataFrame, a `datasets` object, any iterable, in the natural form
of the task. Data in memory is written into the run directory, so that the run can be resumed and repeated.
"""

from __future__ import annotations

import inspect
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Literal, overload

from .errors import ArgumentError, RunError
from .tasks import find, find_for
from .tasks.base import are_files, errors_of_data
from .tasks.registry import inferred
from .wording import an

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .cells import Cell
    from .comparison import Comparison
    from .sweeps.results import Sweep
    from .tasks.base import Model, Task
    from .tasks.bilm.predictor import BiLanguageModel
    from .tasks.classify.predictor import Classifier
    from .tasks.encode.predictor import SentenceEncoder
    from .tasks.forecast.predictor import Forecaster
    from .tasks.lm.predictor import LanguageModel
    from .tasks.tag.predictor import Tagger
    from .tasks.translate.predictor import Translator
    from .tasks.tree.predictor import TreeModel
    from .training import Run
    from .training.baselines import Baselines


def train(
    task: str | type[Task],
    train: Any = None,
    *,
    dev: Any = None,
    out: str | Path,
    resume: bool = False,
    force: bool = False,
    callbacks: Sequence[Any] = (),
    quiet: bool = False,
    report: bool = True,
    preset: str | None = None,
    **settings: Any,
) -> Any:
    """Train a model, as `carousel train` does, and return it.

    `task` is a name, a class, or FILE.py:CLASS; `train` and `dev` are files or data in memory; `out` is the run
    directory, which keeps everything. `settings` are the options of `carousel train TASK --help`. `resume` continues
    the run in `out`, for which neither data nor settings need be given again; `force` starts over in its place;
    `callbacks` are Lightning's; `preset` (fast, default, best) names settings that those given override.

    >>> import tempfile, carousel
    >>> reviews = [("a fine film", "good"), ("dull", "bad")] * 4
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model = carousel.train("classify", reviews, out=folder + "/run", hidden=4, epochs=1, quiet=True)
    >>> model.predict("a fine film").label in ("bad", "good")
    True
    """
    from .training import Run, distributed, several
    from .training.trainer import preset_settings

    kind, run = find(task), Run(_folder(out))
    given = {"train": train, "dev": dev}
    held = {name: data for name, data in given.items() if data is not None and not are_files(kind, data)}
    files = {name: data for name, data in given.items() if data is not None and name not in held}
    values = {**preset_settings(kind, preset, resume=resume), **files, **settings}
    options: dict[str, Any] = {"callbacks": callbacks, "quiet": quiet, "report": report}
    with distributed.joined(run.folder, resume) as folder:
        own = run if folder == run.folder else Run(folder)
        with own.locked(), _written(kind, own, held, values, resume=resume, force=force) as written:
            several.train(kind, {**values, **written}, own, resume=resume, force=force, **options)
    return load(out)


@overload
def load(
    run: str | Path, tasks: Iterable[type[Any]] = (), *, cells: Iterable[type[Cell]] = (), task: Literal["lm"]
) -> LanguageModel: ...
@overload
def load(
    run: str | Path, tasks: Iterable[type[Any]] = (), *, cells: Iterable[type[Cell]] = (), task: Literal["bilm"]
) -> BiLanguageModel: ...
@overload
def load(
    run: str | Path, tasks: Iterable[type[Any]] = (), *, cells: Iterable[type[Cell]] = (), task: Literal["classify"]
) -> Classifier: ...
@overload
def load(
    run: str | Path, tasks: Iterable[type[Any]] = (), *, cells: Iterable[type[Cell]] = (), task: Literal["tag"]
) -> Tagger: ...
@overload
def load(
    run: str | Path, tasks: Iterable[type[Any]] = (), *, cells: Iterable[type[Cell]] = (), task: Literal["encode"]
) -> SentenceEncoder: ...
@overload
def load(
    run: str | Path, tasks: Iterable[type[Any]] = (), *, cells: Iterable[type[Cell]] = (), task: Literal["tree"]
) -> TreeModel: ...
@overload
def load(
    run: str | Path, tasks: Iterable[type[Any]] = (), *, cells: Iterable[type[Cell]] = (), task: Literal["forecast"]
) -> Forecaster: ...
@overload
def load(
    run: str | Path, tasks: Iterable[type[Any]] = (), *, cells: Iterable[type[Cell]] = (), task: Literal["translate"]
) -> Translator: ...
@overload
def load(
    run: str | Path,
    tasks: type[Any] | Iterable[type[Any]] = (),
    *,
    cells: type[Cell] | Iterable[type[Cell]] = (),
    task: str | type[Task] | None = None,
) -> Any: ...
def load(
    run: str | Path,
    tasks: type[Any] | Iterable[type[Any]] = (),
    *,
    cells: type[Cell] | Iterable[type[Cell]] = (),
    task: str | type[Any] | None = None,
) -> Any:
    """The trained model in a run directory: `carousel.load("run").generate("明月")`.

    `tasks` and `cells` are classes of your own, one or several, needed to load runs that use them; one that has been
    imported is known anyway. `task`, a name, a class or FILE.py:CLASS, is the task that the run must belong to; type
    checkers then know the class of the model too.
    """
    from .tasks.runs import load_run, task_of
    from .tasks.shared.cell import find_cell
    from .training import Run
    from .training.isolation import own_random_numbers

    for one in [tasks] if isinstance(tasks, type) else tasks:
        find(one)
    for cell in [cells] if isinstance(cells, type) else cells:
        find_cell(cell)
    if not isinstance(run, str | Path):
        raise ArgumentError(f"run: give a run directory, got {run!r}")
    wanted = None if task is None else find(task)
    kind = task_of(Run(run))
    if wanted is not None and kind is not wanted:
        raise RunError(f"{run}: a run of {kind.name}, not of {wanted.name}")
    with own_random_numbers():  # a network draws its first weights before it gets those of the run
        return load_run(run)


def evaluate(model: str | Path | Model[Any, Any], *data: Any, **options: Any) -> dict[str, Any]:
    """The measures of a model, or of the one in a run directory, on data: what `carousel eval --json` prints.

    `data` is one file, several where the task has several, or data in memory; `options` are those of `carousel eval`.
    """
    model = load(model) if isinstance(model, str | Path) else model
    task = getattr(model, "task", None)
    if task is None:
        raise ArgumentError(f"model: give a model or a run directory, got {model!r}")
    takes = inspect.signature(model.evaluate).parameters
    unknown = sorted(options.keys() - takes.keys())
    if unknown and not any(parameter.kind is parameter.VAR_KEYWORD for parameter in takes.values()):
        known = ", ".join(task.evaluate_options) or "none"
        raise ArgumentError(f"{unknown[0]}: {an(model.kind)} has no such option of evaluation; it has: {known}")
    if not data:
        raise ArgumentError("data: missing; give a file, or data in memory")
    return model.evaluate(*data, **options)


def check(data: Any, *, dev: Any = None, task: str | type[Task] | None = None, **settings: Any) -> Any:
    """What is in data before training on it: counts, lengths, labels, unknown tokens, duplicates; `print` shows it.

    Without `task`, files are recognised by their names and first rows. The result has `reading` (which columns are read
    as what), `warnings` and `as_dict()`.
    """
    if task is None:
        files = list(data) if isinstance(data, list | tuple) else [data]
        if not all(isinstance(file, str | Path) for file in files):
            raise ArgumentError("task: missing; it cannot be inferred from data in memory")
        kind, why = find_for(files)
    else:
        kind, why = find(task), ""
    with _settings(kind, data, dev, settings) as checked, inferred(kind, why):
        return kind.check(checked)


def baseline(task: str | type[Task], train: Any, *, dev: Any = None, **settings: Any) -> Baselines:
    """What simple methods reach on data, as `carousel baseline` measures it: `print` shows a table.

    The result has `results`, each with a name, a value and seconds, `best`, the best of them, `metric`, `notes` and
    `as_dict()`.
    """
    from .training.baselines import measure_baselines

    kind = find(task)
    with _settings(kind, train, dev, settings) as checked:
        return measure_baselines(kind, checked)


def sweep(
    task: str | type[Task],
    train: Any,
    *,
    dev: Any = None,
    out: str | Path,
    vary: Mapping[str, Any],
    trials: int = 20,
    sampler: str = "tpe",
    prune: bool = True,
    quiet: bool = False,
    **settings: Any,
) -> Sweep:
    """Train many runs with different settings, as `carousel sweep` does; called again, continue where it stopped.

    `vary` has for each key a list of values, a range as text such as "1e-4..1e-2", or a mapping with low, high and
    possibly log or step; `settings` are those of all trials. The result has `best`, whose `run` is a run directory,
    and `trials`; `print` shows a table. Every trial is in `out`, with a report.
    """
    from .sweeps.sweep import run_sweep

    kind, folder = find(task), _folder(out)
    values = {name: data for name, data in (("train", train), ("dev", dev)) if data is not None}
    held = {name: values.pop(name) for name, data in list(values.items()) if not are_files(kind, data)}
    values |= settings
    try:
        if held:
            values |= _shared_data(kind, held, values, folder / "data")
        return run_sweep(kind, values, vary, folder, trials=trials, sampler=sampler, prune=prune, quiet=quiet)
    finally:
        if held and not (folder / "sweep.json").exists():  # it did not begin
            shutil.rmtree(folder / "data", ignore_errors=True)


def _folder(out: Any) -> Path:
    if not isinstance(out, str | PathLike) or not str(out):
        raise ArgumentError(f"out: give a directory for the run, got {out!r:.60}")
    return Path(out)


def _shared_data(task: type[Task], held: Mapping[str, Any], values: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The files in `folder` that data in memory is written to; data that is there already must be the same."""
    files: dict[str, Any] = {}
    with TemporaryDirectory() as temporary:
        for name, data in held.items():
            written = task.write_data(data, Path(temporary) / name, values)
            for file in [written] if isinstance(written, Path) else written:
                before = folder / file.name
                if before.exists() and before.read_bytes() != file.read_bytes():
                    raise RunError(f"{before}: the data given for {name} is not that of the sweep; restore it")
            folder.mkdir(parents=True, exist_ok=True)
            files[name] = _moved(written, folder)
    return files


def compare(runs: Iterable[str | Path]) -> Comparison:
    """Several runs of one task side by side, as `carousel compare` shows them: `print` shows a table.

    Runs that differ by their seed only are one row, with mean and standard deviation. The result has `groups`,
    `as_dict()` and `write_page(file)`.
    """
    from .comparison import compare_runs

    if isinstance(runs, str | Path):
        raise ArgumentError(f"runs: give a list of run directories, got {str(runs)!r}")
    return compare_runs([Path(run) for run in runs])


@contextmanager
def _settings(task: type[Task], train: Any, dev: Any, given: Mapping[str, Any]) -> Iterator[Any]:
    """Checked settings, with data in memory written to files for a while."""
    with TemporaryDirectory() as folder:
        values = dict(given)
        for name, data in (("train", train), ("dev", dev)):
            if data is not None and not are_files(task, data):
                data = task.write_data(data, Path(folder) / name, values)
            if data is not None:
                values[name] = data
        with errors_of_data(folder):
            yield task.Settings.check(values, {})


@contextmanager
def _written(
    task: type[Task], run: Run, held: dict[str, Any], values: dict[str, Any], *, resume: bool, force: bool
) -> Iterator[dict[str, Any]]:
    """The files in the run directory that data in memory is written to; if the run does not begin, it is removed."""
    from .training import trainer

    if not held:  # the usual case: files stay where they are
        yield {}
        return
    trainer.check_place(run, resume=resume, force=force)
    if resume:
        with TemporaryDirectory() as folder:
            yield {name: _same(task, run, name, data, values, Path(folder)) for name, data in held.items()}
        return
    with TemporaryDirectory() as folder:  # nothing of a run is replaced before data and settings are known to be right
        written = {name: task.write_data(data, Path(folder) / name, values) for name, data in held.items()}
        task.Settings.check({**values, **written}, {})
        run.begin()
        run.has_data = True
        run.data.mkdir()
        files = {name: _moved(given, run.data) for name, given in written.items()}
    try:
        with errors_of_data(run.data):
            yield files
    finally:
        if not run.begun:
            run.begin()
            run.incomplete.unlink()
            shutil.rmtree(run.data)


def _moved(given: Path | tuple[Path, ...], folder: Path) -> Path | tuple[Path, ...]:
    """Files that were written elsewhere, now in `folder`."""
    given_paths = [given] if isinstance(given, Path) else given
    paths = tuple(Path(shutil.move(file, folder / file.name)) for file in given_paths)
    return paths[0] if isinstance(given, Path) else paths


def _same(task: type[Task], run: Run, name: str, data: Any, values: dict[str, Any], folder: Path) -> Any:
    """The files of data that is given again when a run is resumed, which must be what it was."""
    given = task.write_data(data, folder / name, values)
    paths = [given] if isinstance(given, Path) else given
    own = [run.data / file.relative_to(folder) for file in paths]
    for file, before in zip(paths, own, strict=True):
        if not before.exists() or before.read_bytes() != file.read_bytes():
            raise RunError(f"{before}: the data given for {name} is not that of the run; leave it out, or restore it")
    return own[0] if isinstance(given, Path) else tuple(own)
