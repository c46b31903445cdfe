"""A sweep: its directory, the loop over trials, and what came out.

sweep.json      task, settings, space, seed: what the trials have in common
journal.log     Optuna's journal of all trials
trials/0 …      a run directory for each trial
claims/0 …      files that are locked while a process trains the trial
best            a link to the best run so far
report.html
data/           the data, if it was given in memory
"""

from __future__ import annotations

import importlib.util
import math
import os
import secrets
import shlex
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import ArgumentError, DataError, RunError, SettingsError, check_count, shorten
from ..files import PART, write_json
from ..training.run import Run, read_json
from ..training.settings import plain, shown
from ..wording import counted, label_of, setting
from .report import write_sweep_report
from .results import Sweep, number_text, read_sweep
from .space import Space, as_dict, as_text, parse_space

if TYPE_CHECKING:
    import optuna

    from ..training.progress import Bar

SAMPLERS = ("tpe", "random")
SAME_FAILURES = 3  # of the first trials: then the sweep stops, since the next will fail in the same way


def run_sweep(
    task: Any,
    settings: Mapping[str, Any],
    vary: Mapping[str, Any],
    out: str | Path,
    *,
    trials: int = 20,
    sampler: str = "tpe",
    prune: bool = True,
    quiet: bool = False,
    places: Mapping[str, str] | None = None,
    command: Sequence[str] = (),
) -> Sweep:
    """Train `trials` runs of `task` in the directory `out`, or those that are left to do there, and return all of them.

    `settings` are those of every trial, `vary` the keys that differ, each with values or a range (`sweeps/space.py`);
    `places` say where keys were given, for messages. Several processes may call this for one directory at once.
    """
    if importlib.util.find_spec("optuna") is None:
        raise ArgumentError("sweep: needs the package optuna: pip install 'carousel-rnn[sweep]'")
    check_count("trials", trials)
    if sampler not in SAMPLERS:
        raise ArgumentError(f"sampler: there is no {sampler!r}; samplers are {', '.join(SAMPLERS)}")
    from ..training.progress import Bar

    values = {"baseline": False, **settings}  # baselines would be the same in every trial
    checked = task.Settings.check(values, places or {})
    space = parse_space(task.Settings, values, vary, places)
    with _calm_optuna():
        worker = _Worker(task, checked, values, space, Path(out), trials, sampler, prune, Bar(quiet), command)
        worker.begin()
        worker.work()
        return worker.finish()


class _Worker:
    """One process at work on a sweep."""

    def __init__(
        self, task: Any, checked: Any, settings: dict[str, Any], space: Space, folder: Path, trials: int, sampler: str,
        prune: bool, bar: Bar, command: Sequence[str],
    ) -> None:  # fmt: skip
        self.task, self.checked, self.settings, self.space, self.folder = task, checked, settings, space, folder
        self.trials, self.sampler, self.prune, self.bar, self.command = trials, sampler, prune, bar, command
        self.file, self.lock = folder / "sweep.json", folder / ".lock"
        self.about: dict[str, Any] = {}

    # ---------------------------------------------------------------- the directory

    def begin(self) -> None:
        """Open the sweep in the directory, or make it; nothing is written before the data has been read once."""
        from .trials import Sampler, locked, open_study

        if self.folder.exists() and not self.folder.is_dir():
            raise RunError(f"{self.folder}: is a file; a sweep needs a directory of its own")
        own = {
            "task": self.task.name, "settings": {name: plain(value) for name, value in self.settings.items()},
            "vary": as_dict(self.space), "sampler": self.sampler, "prune": self.prune,
        }  # fmt: skip
        if not self.file.exists():
            others = [p.name for p in self.folder.iterdir()] if self.folder.exists() else []
            if any(not name.startswith(".") and name != "data" for name in others):
                raise RunError(f"{self.folder}: holds other files; give an empty or new directory")
            metric = self._read_data_once()
            with locked(self.lock):
                if not self.file.exists():  # another process may have been faster
                    write_json(self.file, {**own, **metric}, indent=2)
        self.about = read_json(self.file, dict[str, Any])
        for name, value in own.items():
            if self.about.get(name) != value:
                raise RunError(
                    f"{self.file}: {_difference(name, self.about.get(name), value)}; give what the sweep began with "
                    f"(only {setting('trials')} may change), or choose another {setting('out')}"
                )
        start = {name: plain(getattr(self.checked, name)) for name in self.space}
        start = {name: value for name, value in start.items() if value in self.space[name]}
        self.drawing = Sampler(self.sampler, self.checked.seed, start, self.space)
        with locked(self.lock):
            self.study = open_study(
                self.folder / "journal.log", self.drawing, prune=self.prune, minimize=self.about["lower_is_better"],
            )  # fmt: skip

    def _read_data_once(self) -> dict[str, Any]:
        """The metric of the task, which may depend on the data; data that cannot be used is found here."""
        from ..threads import threads
        from ..training.isolation import own_random_numbers

        with threads(self.checked.threads), own_random_numbers(self.checked.seed), self.bar.preparing():
            assets, data = self.task.prepare(self.checked)
            if data.dev is None:
                raise SettingsError(f"a sweep needs a dev set, by which trials are compared; give {setting('dev')}")
            metric = self.task.make_network(self.checked, assets).metric()
        return {"metric": metric.best, "lower_is_better": metric.lower_is_better}

    # ---------------------------------------------------------------- trials

    def work(self) -> None:
        """Take up trials that dead processes left unfinished, then begin new ones, until there are none to do."""
        while (claimed := self._claim()) is not None:
            trial, descriptor = claimed
            try:
                self._train(trial)
                self._link_best()
            finally:
                os.close(descriptor)
            self._stop_if_all_fail()

    def _claim(self) -> tuple[optuna.Trial, int] | None:
        """A trial that is this process's alone until the descriptor is closed; None if there is nothing to do."""
        import optuna

        from .trials import UNFINISHED, locked, suggest, try_lock

        with locked(self.lock):  # so that no two processes begin the last trial
            known = self.study.get_trials(deepcopy=False)
            for one in known:
                if one.state in UNFINISHED and (claim := try_lock(self._claim_file(one.number))) is not None:
                    if self.study.get_trials(deepcopy=False)[one.number].state in UNFINISHED:
                        trial = optuna.Trial(self.study, one._trial_id)
                        suggest(trial, self.space)
                        return trial, claim
                    os.close(claim)
            if len(known) >= self.trials:
                return None
            if not self.drawing.left(known, {}):
                self.bar.say(
                    f"{counted(len(known), 'trial')} of {self.trials}: every combination of values has been tried"
                )
                return None
            trial = self.study.ask()
            claim = try_lock(self._claim_file(trial.number))
            assert claim is not None  # whoever claims a trial has the sweep's lock
            suggest(trial, self.space)
            return trial, claim

    def _claim_file(self, number: int) -> Path:
        return self.folder / "claims" / str(number)

    def _train(self, trial: optuna.Trial) -> None:
        from optuna.trial import TrialState

        from ..training import several
        from ..training.checkpoint_callback import Interrupted
        from .pruning import Pruning

        run = Run(self.folder / "trials" / str(trial.number))
        values = {**self.settings, **trial.params}
        described = " ".join(f"{name}={number_text(value)}" for name, value in trial.params.items())
        self.bar.say(f"trial {trial.number} of {self.trials}: {described}{' (resumed)' if run.begun else ''}")
        try:
            own = self.task.Settings.check(values, {})
            if not ("pruned" in trial.user_attrs and run.result is not None):
                callbacks = [Pruning(trial)] if getattr(own, "seeds", 1) == 1 else []  # members are not compared
                several.train(
                    self.task, values, run, resume=run.begun, callbacks=callbacks, quiet=self.bar.console.quiet
                )
        except (Interrupted, DataError, RunError, OSError):
            raise  # nothing that another trial would do better: the trial is resumed when the sweep is
        except Exception as error:  # whatever it is, it is this trial's
            trial.set_user_attr("error", shorten(" ".join(f"{type(error).__name__}: {error}".split()), 400))
            self.study.tell(trial.number, state=TrialState.FAIL)
            self.bar.say(f"trial {trial.number} failed: {shorten(error, 300)}", "yellow")
            return
        value = (run.result or {})[f"dev_{self.about['metric']}"]
        if value is None or math.isnan(value):
            trial.set_user_attr("error", f"dev {self.about['metric']} is {value}")
            self.study.tell(trial.number, state=TrialState.FAIL)
        elif "pruned" in trial.user_attrs:
            self.study.tell(trial.number, state=TrialState.PRUNED)
            self.bar.say(f"trial {trial.number}: pruned after {counted(trial.user_attrs['pruned'], 'epoch')}")
        else:
            self.study.tell(trial.number, value)
            best = self.study.best_trial
            self.bar.say(
                f"trial {trial.number}: dev {label_of(self.about['metric'])} {value:.4g}; "
                f"best so far: trial {best.number}, {best.value:.4g}"
            )

    def _stop_if_all_fail(self) -> None:
        """Raise if nothing but failures has come out of the first trials."""
        from optuna.trial import TrialState

        done = [one for one in self.study.get_trials(deepcopy=False) if one.state.is_finished()]
        if len(done) >= SAME_FAILURES and all(one.state is TrialState.FAIL for one in done):
            problem = shorten(done[-1].user_attrs.get("error"), 300)
            raise RunError(f"{self.folder}: all of the first {len(done)} trials failed; the last: {problem}")

    # ---------------------------------------------------------------- what came out

    def _link_best(self) -> None:
        """Let `best` be a link to the best run; where there are no links, a file with its path."""
        from .trials import locked

        with locked(self.lock):
            best = read_sweep(self.folder, self.study, self.space, self.about).best
            if best is None:
                return
            link, target = self.folder / "best", f"trials/{best.number}"
            part = self.folder / f".best.{os.getpid()}-{secrets.token_hex(4)}{PART}"
            try:
                os.symlink(target, part, target_is_directory=True)
            except OSError:
                part.write_text(target + "\n", "utf-8")
            os.replace(part, link)

    def finish(self) -> Sweep:
        """Write the report, and say what is left to do."""
        sweep = read_sweep(self.folder, self.study, self.space, self.about)
        write_sweep_report(sweep, self.study, shlex.join(self.command or ["carousel.sweep"]))
        left = [trial.number for trial in sweep.trials if trial.state == "unfinished"]
        if left:
            self.bar.say(f"{counted(len(left), 'trial is', 'trials are')} being trained by other processes")
        return sweep


def _difference(part: str, before: Any, now: Any) -> str:
    """How a part of sweep.json differs from what is given now; of a mapping, its first entry that does.

    >>> _difference("settings", {"epochs": 1, "seed": 0}, {"seed": 0})
    'epochs was 1, is not given now'
    >>> _difference("vary", {"hidden": [2, 4]}, {"hidden": [2, 8]})
    'vary hidden was 2,4, is 2,8 now'
    """
    texts = ["not given" if value is None else shown(value) for value in (before, now)]
    if isinstance(before, dict) and isinstance(now, dict):
        name = next(name for name in [*before, *now] if name not in now or before.get(name, now) != now[name])
        show = as_text if part == "vary" else shown
        texts = [show(values[name]) if name in values else "not given" for values in (before, now)]
        part = f"vary {name}" if part == "vary" else name
    return f"{part} was {shorten(texts[0], 200)}, is {shorten(texts[1], 200)} now"


@contextmanager
def _calm_optuna() -> Iterator[None]:
    """Without Optuna's own messages: the lines of trials say what is needed."""
    import optuna

    level = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", category=optuna.exceptions.ExperimentalWarning)
            yield
    finally:
        with suppress(ValueError):
            optuna.logging.set_verbosity(level)
