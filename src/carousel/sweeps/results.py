"""The results of a sweep: its trials as a table, the best first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..training.run import Run
from ..training.settings import shown
from ..wording import counted, minutes, text_table
from .space import Space, as_dict

if TYPE_CHECKING:
    import optuna


@dataclass(frozen=True)
class Trial:
    """One trial of a sweep; `state` is complete, pruned, failed or unfinished."""

    number: int
    state: str
    value: float | None  # the dev metric: of the best epoch, or of the last if it was pruned
    values: dict[str, Any]  # of the keys that are varied
    run: Path
    minutes: float | None
    error: str | None  # why it failed


@dataclass(frozen=True)
class Sweep:
    """The trials of a sweep; `print` shows a table, the best first."""

    folder: Path
    task: str
    metric: str
    lower_is_better: bool
    space: Space
    trials: list[Trial]

    @property
    def complete(self) -> list[Trial]:
        """The trials that were trained to the end, the best first."""
        sign = 1 if self.lower_is_better else -1
        done = [trial for trial in self.trials if trial.state == "complete" and trial.value is not None]
        return sorted(done, key=lambda trial: (sign * (trial.value or 0.0), trial.number))

    @property
    def best(self) -> Trial | None:
        return self.complete[0] if self.complete else None

    @property
    def name_of_best(self) -> str:
        """The best trial, and how many others reach the same."""
        best = self.complete[0]
        others = sum(trial.value == best.value for trial in self.complete) - 1
        return f"trial {best.number}" + (f" ({counted(others, 'other')} as good)" if others else "")

    def rows(self) -> tuple[list[str], list[list[str]]]:
        """A table: the names of its columns, and a row for each trial, the best first."""
        ranked = self.complete + [trial for trial in self.trials if trial.state != "complete"]
        rows = [
            [
                str(trial.number), "" if trial.value is None else f"{trial.value:.4g}", trial.state,
                *(number_text(trial.values.get(name)) if name in trial.values else "" for name in self.space),
                "" if trial.minutes is None else minutes(trial.minutes),
            ]
            for trial in ranked
        ]  # fmt: skip
        return ["trial", f"dev {self.metric}", "state", *self.space, "minutes"], rows

    def as_dict(self) -> dict[str, Any]:
        """In JSON's terms."""
        trials = [{**vars(trial), "run": str(trial.run)} for trial in self.trials]
        best = None if self.best is None else self.best.number
        return {
            "task": self.task, "metric": self.metric, "lower_is_better": self.lower_is_better, "best": best,
            "vary": as_dict(self.space), "trials": trials,
        }  # fmt: skip

    def __str__(self) -> str:
        columns, rows = self.rows()
        return text_table(columns, rows)


def number_text(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else shown(value)


def read_sweep(folder: Path, study: optuna.Study, space: Space, about: Mapping[str, Any]) -> Sweep:
    """The sweep in a directory as it is now."""
    words = {"COMPLETE": "complete", "PRUNED": "pruned", "FAIL": "failed"}
    trials = []
    for one in study.get_trials(deepcopy=False):
        run = Run(folder / "trials" / str(one.number))
        result = run.result if run.folder.is_dir() else None
        trials.append(
            Trial(
                one.number,
                words.get(one.state.name, "unfinished"),
                one.value,
                dict(one.params),
                run.folder,
                (result or {}).get("minutes"),
                one.user_attrs.get("error"),
            )
        )
    return Sweep(folder, about["task"], about["metric"], about["lower_is_better"], space, trials)
