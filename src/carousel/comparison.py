"""Several runs of one task side by side: `carousel compare`.

Read from the files of the runs alone (config.yaml, result.json, metrics.csv), so that no model is loaded.
"""

from __future__ import annotations

import hashlib
import re
import shlex
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .errors import ArgumentError, RunError, shorten
from .report import Page, figure, verbatim
from .training.csv_logger import read_metrics
from .training.run import COPY, Run
from .training.settings import shown
from .wording import label_of, minutes, text_table

NOT_SETTINGS = ("threads", "checkpoint_minutes", "log_steps", "baseline")  # keys that do not change what is learned
_NUMBER = re.compile(r"[\d.,e+ ±-]*")  # a cell in which nothing is markup


@dataclass(frozen=True)
class ComparedRun:
    """One run; `value` is the dev metric of its best epoch, None without a dev set. Unfinished: the best until now."""

    folder: Path
    settings: dict[str, Any]
    seed: int
    value: float | None
    epochs: int | None
    minutes: float | None
    parameters: int | None
    curve: list[tuple[float, float]]  # (epoch, dev metric)
    finished: bool


@dataclass(frozen=True)
class Group:
    """Runs that differ by their seed only."""

    runs: list[ComparedRun]

    @property
    def values(self) -> list[float]:
        """One for each seed: a run that is repeated says nothing of the spread."""
        return list({run.seed: run.value for run in reversed(self.runs) if run.value is not None}.values())[::-1]

    @property
    def mean(self) -> float | None:
        return statistics.mean(self.values) if self.values else None

    @property
    def sd(self) -> float | None:
        """Of the seeds (n − 1); None with fewer than two."""
        return statistics.stdev(self.values) if len(self.values) > 1 else None

    @property
    def value_text(self) -> str:
        """Mean ± sd."""
        if self.mean is None:
            return ""
        return f"{self.mean:.4g}" if self.sd is None else f"{self.mean:.4g} ± {self.sd:.2g}"

    @property
    def name(self) -> str:
        first, *others = [str(run.folder) for run in self.runs]
        same = " of the same seed" if len({run.seed for run in self.runs}) == 1 else ""
        return first if not others else f"{first} and {len(others)} more{same}"


@dataclass(frozen=True)
class Comparison:
    """Runs of one task; `print` shows a table. `differing` are the settings that are not the same in all of them."""

    task: str
    metric: str
    differing: list[str]
    groups: list[Group]

    def rows(self) -> tuple[list[str], list[list[str]]]:
        """A table: the names of its columns, and one row for each group."""
        several = any(len(group.runs) > 1 for group in self.groups)
        rows = []
        for group in self.groups:
            first = group.runs[0]
            times = [run.minutes for run in group.runs if run.minutes is not None]
            rows.append(
                [
                    group.name + ("" if all(run.finished for run in group.runs) else " (unfinished)"),
                    *(_cell(first.settings.get(key)) for key in self.differing),
                    *([",".join(str(run.seed) for run in group.runs)] if several else []),
                    group.value_text,
                    minutes(statistics.mean(times)) if times else "",
                    "" if first.parameters is None else f"{first.parameters:,}",
                ]
            )  # fmt: skip
        seeds = ["seeds"] if several else []
        return ["run", *self.differing, *seeds, f"dev {label_of(self.metric)}", "minutes", "parameters"], rows

    def as_dict(self) -> dict[str, Any]:
        """In JSON's terms."""
        groups = [
            {
                "settings": {key: group.runs[0].settings.get(key) for key in self.differing},
                "mean": group.mean,
                "sd": group.sd,
                "runs": [
                    {"run": str(run.folder), **{k: v for k, v in vars(run).items() if k not in ("folder", "settings")}}
                    for run in group.runs
                ],
            }
            for group in self.groups
        ]
        return {"task": self.task, "metric": self.metric, "differing": self.differing, "groups": groups}

    def __str__(self) -> str:
        return text_table(*self.rows())

    def write_page(self, path: str | Path) -> None:
        """A page with the table and the dev curves of all runs."""
        runs = [run for group in self.groups for run in group.runs]
        columns, rows = self.rows()
        page = Page(
            f"{len(runs)} runs: {self.task}", f"Runs of the task {self.task}, compared by dev {label_of(self.metric)}."
        )
        how = "Settings that are the same in all runs are left out. Runs that differ by their seed only are one row: "
        page.heading("Runs").text(how + "mean ± standard deviation over seeds, mean minutes.")
        page.table(columns, [[cell if _NUMBER.fullmatch(cell) else verbatim(cell) for cell in row] for row in rows])
        if any(run.curve for run in runs):
            page.figure(self._curves(), f"Dev {label_of(self.metric)}", "After each epoch; one colour for each row.")
        page.footer(command=shlex.join(["carousel", "compare", *(str(run.folder) for run in runs), "--out", str(path)]))
        page.write(Path(path))

    def _curves(self) -> Any:
        drawn = figure(440, hovermode="closest")
        colours = drawn.layout.colorway
        for number, group in enumerate(self.groups):
            first = group.runs[0].settings
            name = ", ".join(f"{key} {_cell(first.get(key))}" for key in self.differing) or group.name
            for k, run in enumerate(group.runs):
                if run.curve:
                    epochs, values = zip(*run.curve, strict=True)
                    drawn.add_scatter(
                        x=epochs, y=values, mode="lines+markers" if len(epochs) < 40 else "lines", name=name,
                        legendgroup=str(number), showlegend=k == 0, text=f"{run.folder} (seed {run.seed})",
                        line={"color": colours[number % len(colours)]},
                    )  # fmt: skip
        last = max(epoch for group in self.groups for run in group.runs for epoch, _ in run.curve)
        drawn.update_xaxes(title_text="epoch", dtick=1 if last <= 10 else None)
        return drawn.update_yaxes(title_text=f"dev {label_of(self.metric)}")


def compare_runs(folders: Sequence[Path]) -> Comparison:
    """Read runs and group them; they must be of one task and one metric."""
    if not folders:
        raise ArgumentError("runs: give run directories to compare")
    read = [_read(Run(folder)) for folder in dict.fromkeys(map(Path, folders))]
    for which in (0, 1):  # task, metric
        if other := next((one for one in read if one[which] != read[0][which]), None):
            kinds = f"{read[0][2].folder} is of {read[0][which]}, {other[2].folder} of {other[which]}"
            raise ArgumentError(f"runs: {kinds}; compare runs of one {('task', 'metric')[which]}")
    runs = [run for _, _, run in read]
    keys = [key for key in dict.fromkeys(k for run in runs for k in run.settings) if key not in NOT_SETTINGS]
    differing = [key for key in keys if any(run.settings.get(key) != runs[0].settings.get(key) for run in runs)]
    groups: dict[str, list[ComparedRun]] = {}
    for run in runs:
        groups.setdefault(str([run.settings.get(key) for key in differing]), []).append(run)
    return Comparison(read[0][0], read[0][1], differing, [Group(group) for group in groups.values()])


def _cell(value: Any) -> str:
    """A setting in a table or a legend.

    >>> _cell(0.0003298603769674154), _cell(True), _cell(8)
    ('0.0003299', 'true', '8')
    """
    return f"{value:.4g}" if isinstance(value, float) else shorten(shown(value), 30)


def _read(run: Run) -> tuple[str, str, ComparedRun]:
    """The task, the metric and the facts of a run."""
    settings = {key: _own_data(run, value) for key, value in run.config_values().items()}
    task, seed = str(settings.pop("task")), settings.pop("seed", 0)
    if not isinstance(seed, int):
        raise RunError(f"{run.config}: seed: {shorten(shown(seed))} is no whole number; {COPY}")
    result = run.result
    if result is not None:
        metric = result["metric"]
    elif run.weights.exists():
        best = [name for name in run.weights_info() if name.startswith("dev_")]
        metric = best[0].removeprefix("dev_") if best else ""
    else:
        raise RunError(f"{run.folder}: nothing to compare yet; let the run come to the end of its first epoch")
    name = f"dev_{metric}"
    rows = read_metrics(run.metrics) if run.metrics.exists() else []
    curve = [(row["epoch"], row[name]) for row in rows if name in row]
    known: dict[str, Any] = result if result is not None else dict(run.weights_info())
    facts = ComparedRun(
        run.folder, settings, seed, known.get(name), known.get("epochs"), known.get("minutes"),
        known.get("parameters"), curve, result is not None,
    )  # fmt: skip
    return task, metric, facts


def _own_data(run: Run, value: Any) -> Any:
    """A setting; of a file of the run's own, its data given in memory, the name and what tells its content apart."""
    if isinstance(value, list):
        return [_own_data(run, one) for one in value]
    folder = run.folder.resolve()
    if not isinstance(value, str) or not Path(value).is_relative_to(folder) or not Path(value).is_file():
        return value
    digest = hashlib.sha256(Path(value).read_bytes()).hexdigest()
    return f"{Path(value).relative_to(folder)} ({digest[:8]})"
