"""Data of the classifier of number sequences: files to batches, the labels and scales that a run keeps."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from ...data.sources.sequences import SequenceTable
from ...errors import DataError, RunError
from ...files import write_json
from ...training import Data
from ...training.run import read_json
from ...wording import counted, setting
from ..classify.data import class_weights
from ..classify.targets import Target
from ..shared.held_out import Sources, open_sources
from .batches import Scale, SequenceBatches, SequenceStore
from .check import SequenceCheck, check_sequences
from .settings import SequenceSettings

if TYPE_CHECKING:  # data is read without torch
    from torch import Tensor

FILE = "sequences.json"  # in the run directory


@dataclass
class SequenceAssets:
    """What a run keeps: the labels in their order, the variables, their scales."""

    target: Target
    variables: list[str]
    scale: Scale
    weights: Tensor | None = None  # of the classes in the loss, (classes,); while training

    @property
    def labels(self) -> list[str]:
        return self.target.labels

    def save(self, folder: Path) -> None:
        target, scale = self.target, self.scale
        kept = {
            "labels": target.labels, "mean": target.mean, "deviation": target.deviation, "variables": self.variables,
            "means": scale.mean.tolist(), "deviations": scale.deviation.tolist(), "missing": scale.missing,
        }  # fmt: skip
        write_json(folder / FILE, kept)

    @classmethod
    def load(cls, settings: SequenceSettings, folder: Path) -> Self:
        kept = read_json(folder / FILE, dict[str, Any])
        try:
            target = Target(settings.target, kept["labels"], mean=kept["mean"], deviation=kept["deviation"])
            scale = Scale(np.array(kept["means"], float), np.array(kept["deviations"], float), bool(kept["missing"]))
            return cls(target, kept["variables"], scale)
        except (KeyError, TypeError, ValueError) as error:
            raise RunError(f"{folder / FILE}: damaged ({error!r:.60}); copy it again, or train again") from error

    def store(self, table: SequenceTable) -> SequenceStore:
        """The sequences of a table, scaled, with their labels."""
        rows: list[Any] = list(table)
        self.check_variables(table.path, len(table.variables))
        column = next(iter(self.target.columns(table, rows).values())).values
        labels = column.astype(np.int64) if self.target.kind == "class" else column.astype(np.float32)[:, None]
        return SequenceStore([self.scale(row.x) for row in rows], labels)

    def check_variables(self, path: Path | str, count: int) -> None:
        if count != len(self.variables):
            own = counted(len(self.variables), "variable")
            problem = f"{counted(count, 'variable')}, where the training data has {len(self.variables)}"
            raise DataError(path, None, problem, f"give sequences of {own}: {', '.join(self.variables)[:200]}")


def open_table(settings: SequenceSettings, path: str | Path | SequenceTable, labelled: bool = True) -> SequenceTable:
    if isinstance(path, SequenceTable):
        return path
    s = settings
    return SequenceTable(path, s.label_column, s.id_column, s.columns, labelled=labelled)


def open_data(settings: SequenceSettings) -> Sources[SequenceTable]:
    """The tables to train on and for validation."""
    return open_sources(settings, lambda path: open_table(settings, path), "sequences")


def reading_batches(store: SequenceStore) -> SequenceBatches:
    """All sequences once, in an order that does not change."""
    return SequenceBatches(store, tokens=65_536, sequences=256, shuffle=False)


def prepare(settings: SequenceSettings, assets: SequenceAssets | None = None) -> tuple[SequenceAssets, Data]:
    """The assets of a new run, or those given, and the batches of its data."""
    s = settings
    sources = open_data(s)
    target, count = Target.learn(s, sources.whole)
    if assets is None:
        scale = Scale.learn([row.x for row in sources.train])
        assets = SequenceAssets(target, sources.whole.variables, scale)
    elif target != assets.target:
        raise RunError(
            f"{s.train}: its labels are not those of the run; restore it, or start over with {setting('force', True)}"
        )
    assets.weights = class_weights(s.class_weights, count)
    store = assets.store(sources.train)
    info = {"training sequences": _describe(s, s.train, store), "variables": ", ".join(assets.variables[:50])}
    if target.kind == "class":
        info["classes"] = ", ".join(f"{label} ({count[label] / count.total():.1%})" for label in target.labels[:50])
    else:
        info["numbers"] = f"mean {target.mean:.4g}, standard deviation {target.deviation:.4g}"
    if assets.scale.missing:
        info["missing numbers"] = "read as the mean of their variable, beside a sign that they are missing"
    dev = None
    if sources.dev is not None:
        held_out = assets.store(sources.dev)
        dev = reading_batches(held_out)
        info["dev sequences"] = _describe(s, sources.name, held_out)
    train = SequenceBatches(store, sequences=s.batch_size, seed=s.seed)
    return assets, sources.describe(Data(train, dev, {**info, "columns": sources.whole.reading}))


def check(settings: SequenceSettings) -> SequenceCheck:
    """What is in the files that `settings` name."""
    s = settings
    tables = [open_table(s, path) for path in (s.train, s.dev) if path is not None]
    return check_sequences(tables, Target(s.target), s.chunk)


def _describe(settings: SequenceSettings, path: Path | str, store: SequenceStore) -> str:
    long = int((store.lengths > settings.chunk).sum())
    note = (
        f"; {counted(long, 'long one is', 'long ones are')} read in chunks of at most {settings.chunk:,}"
        if long
        else ""
    )
    return f"{path}: {counted(len(store), 'sequence')}, {counted(int(store.lengths.sum()), 'step')}{note}"
