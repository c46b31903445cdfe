"""The trials of a sweep in Optuna's journal, one file that several processes append to; who works on which.

Every lock is the kernel's (flock): it ends with its process, however that ends. Nothing waits for a dead process.
"""

from __future__ import annotations

import errno
import hashlib
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import optuna
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler, RandomSampler, TPESampler
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import FrozenTrial, TrialState

from ..errors import RunError
from ..training.run import make_folder
from ..wording import setting
from .pruning import median_pruner
from .space import Choices, Space

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

ATTEMPTS = 20  # to draw a value that leaves a trial different from all others; then one is taken from the list
UNFINISHED = (TrialState.RUNNING, TrialState.WAITING)


def try_lock(path: Path) -> int | None:
    """Lock the file `path`, made if it is missing; None if another process has. Returns the open descriptor."""
    return _flock(path, wait=False)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """The lock of the file `path`, once every other process has released it."""
    descriptor = _flock(path, wait=True)
    assert descriptor is not None
    try:
        yield
    finally:
        os.close(descriptor)


def _flock(path: Path, wait: bool) -> int | None:
    make_folder(path.parent)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)  # writable: a lock over NFS needs that
    try:
        if fcntl is not None:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError as error:
        os.close(descriptor)
        if error.errno in (errno.EAGAIN, errno.EACCES):
            return None
        problem = f"its file system has no locks ({error.strerror})"
        raise RunError(f"{path}: {problem}, which a sweep needs; choose another {setting('out')}") from error
    return descriptor


class JournalLock:
    """The lock of the journal while a process appends to it.

    A process that was killed while it appended may have left half a line, which is removed before the next is written.
    """

    def __init__(self, journal: Path) -> None:
        self.journal = journal
        self._descriptor = -1

    def acquire(self) -> bool:
        descriptor = _flock(self.journal.with_name(self.journal.name + ".lock"), wait=True)
        assert descriptor is not None
        self._descriptor = descriptor
        _remove_half_line(self.journal)
        return True

    def release(self) -> None:
        os.close(self._descriptor)


def _remove_half_line(path: Path) -> None:
    with open(path, "rb+") as file:
        end = file.seek(0, os.SEEK_END)
        if not end or (file.seek(-1, os.SEEK_END), file.read(1))[1] == b"\n":
            return
        file.seek(0)
        file.truncate(file.read().rfind(b"\n") + 1)


def open_study(journal: Path, sampler: BaseSampler, *, prune: bool, minimize: bool) -> optuna.Study:
    """The study in the file `journal`, made if it is missing; the caller has the sweep's lock."""
    lock: Any = JournalLock(journal)  # it has the methods of optuna's own locks
    storage = JournalStorage(JournalFileBackend(str(journal), lock_obj=lock))
    pruner: Any = median_pruner() if prune else optuna.pruners.NopPruner()
    return optuna.create_study(
        storage=storage, sampler=sampler, pruner=pruner, study_name="carousel", load_if_exists=True,
        direction="minimize" if minimize else "maximize",
    )  # fmt: skip


class Sampler(BaseSampler):
    """Draws each value with a seed made of the sweep's seed, the number of the trial and the key.

    So what a trial gets depends on the trials before it alone, not on which process asks or how often it was killed.
    Trial 0 has the values of `start`, as far as they are in the space. No two trials have the same values.
    """

    def __init__(self, kind: str, seed: int, start: Mapping[str, Any], space: Space) -> None:
        self.kind, self.seed, self.start, self.space = kind, seed, start, space

    def infer_relative_search_space(self, study: Any, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        return {}

    def sample_relative(self, study: Any, trial: FrozenTrial, search_space: Any) -> dict[str, Any]:
        return {}

    def sample_independent(
        self, study: Any, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        if trial.number == 0 and param_name in self.start:
            return self.start[param_name]
        others = [other for other in study.get_trials(deepcopy=False) if other.number != trial.number]
        for attempt in range(ATTEMPTS):
            given = f"{self.seed} {trial.number} {param_name}" + (f" {attempt}" if attempt else "")
            seed = int.from_bytes(hashlib.sha256(given.encode()).digest()[:4], "little")
            sampler = RandomSampler(seed) if self.kind == "random" else TPESampler(seed=seed, n_startup_trials=10)
            value = sampler.sample_independent(study, trial, param_name, param_distribution)
            if self.left(others, {**trial.params, param_name: value}):
                return value
        listed = self.space[param_name].listed()
        return next(value for value in listed if self.left(others, {**trial.params, param_name: value}))

    def left(self, trials: Sequence[FrozenTrial], begun: Mapping[str, Any]) -> bool:
        """Whether some values that go on from those in `begun` are those of none of the `trials`."""
        names = list(self.space)
        whole = (one.params for one in trials if one.params.keys() >= self.space.keys())
        same = (values for values in whole if all(_key(values[name]) == _key(value) for name, value in begun.items()))
        used = {tuple(_key(values[name]) for name in names) for values in same}
        return len(used) < math.prod(self.space[name].count for name in names if name not in begun)


def _key(value: Any) -> Any:
    """A value as it is told apart from others: steps add up to 0.3 and to 0.30000000000000004."""
    return f"{value:.10g}" if isinstance(value, float) else value


def suggest(trial: optuna.Trial, space: Space) -> dict[str, Any]:
    """The values of a trial; of one that has some already, those."""
    values: dict[str, Any] = {}
    for name, one in space.items():
        if isinstance(one, Choices):
            values[name] = trial.suggest_categorical(name, one.values)
        elif isinstance(one.low, int):
            values[name] = trial.suggest_int(name, one.low, int(one.high), step=int(one.step or 1), log=one.log)
        else:
            values[name] = trial.suggest_float(name, one.low, one.high, step=one.step, log=one.log)
    return values
