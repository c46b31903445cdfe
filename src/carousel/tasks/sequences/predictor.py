"""The classifier of number sequences in use: labels or numbers for sequences, evaluation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ...data.sources.sequences import SequenceTable, read_array
from ...data.sources.series import MISSING
from ...errors import DataError
from ...parsing import parse_number
from ...training.modes import in_eval_mode
from ..base import LayerInput, Model
from ..classify.chunks import Chunks
from ..classify.metrics import NumberErrors
from ..classify.targets import LabelProbabilities
from .batches import SequenceBatch, SequenceBatches, collate
from .data import SequenceAssets, open_table, reading_batches
from .network import SequenceNetwork

TOGETHER = 64  # sequences that are predicted at once


@dataclass(frozen=True)
class SequencePrediction(LabelProbabilities):
    """What is predicted for a sequence: the probability of each label, or a number.

    >>> SequencePrediction("3", {"walk": 0.75, "run": 0.25})
    walk 0.750  3
    """

    name: str  # the id of the sequence, or where it stands
    probabilities: dict[str, float]
    number: float | None = None

    def as_dict(self) -> dict[str, Any]:
        if self.number is not None:
            return {"number": float(f"{self.number:.6g}"), "sequence": self.name}
        rounded = {label: round(p, 6) for label, p in self.probabilities.items()}
        return {
            "label": self.label, "confidence": round(self.confidence or 0, 6), "sequence": self.name,
            "probabilities": rounded,
        }  # fmt: skip

    def __repr__(self) -> str:
        value = f"{self.label} {self.confidence or 0:.3f}" if self.number is None else f"{self.number:.4g}"
        return f"{value}  {self.name}"


class SequencePredictions(list[SequencePrediction]):
    """Predictions, printed one per line."""

    def __repr__(self) -> str:
        return "\n".join(map(repr, self))


class SequenceClassifier(Model[SequenceNetwork, SequenceAssets]):
    """A classifier of number sequences."""

    name = "sequences"
    kind = "classifier of sequences"

    def __init__(self, network: SequenceNetwork, assets: SequenceAssets) -> None:
        super().__init__(network, assets)
        named = assets.target.kind == "number"
        self.columns = ("number", "sequence") if named else ("label", "confidence", "sequence")  # type: ignore[misc]

    @property
    def labels(self) -> list[str]:
        return self.assets.labels

    @property
    def info(self) -> dict[str, Any]:
        return {
            "variables": self.assets.variables,
            **({"labels": self.labels} if self.labels else {"target": "a number"}),
        }

    def _items(self, item: Any) -> list[Any]:
        several = isinstance(item, list | tuple) and item and all(np.ndim(one) > 0 for one in item)
        return list(item) if several else [item]

    def predict(self, sequences: Any) -> SequencePrediction | SequencePredictions:
        """What is predicted for a sequence, an array (T,) or (T, V), or for each of a list of arrays."""
        items = self._items(sequences)
        predictions = self.predictions((str(k), one) for k, one in enumerate(items, 1))
        return next(predictions) if items[0] is sequences else SequencePredictions(predictions)

    @in_eval_mode
    @torch.no_grad()
    def predictions(self, named: Iterable[tuple[str, Any]]) -> Iterator[SequencePrediction]:
        """The same for a stream of sequences with their names."""
        waiting, target = iter(named), self.assets.target
        while group := list(islice(waiting, TOGETHER)):
            scores = self.network.scores(self.batch_of([x for _, x in group]))
            for (name, _), row in zip(group, scores, strict=True):
                if target.kind == "number":
                    yield SequencePrediction(name, {}, float(row[0]) * target.deviation + target.mean)
                else:
                    yield SequencePrediction(name, dict(zip(self.labels, row.softmax(0).tolist(), strict=True)))

    def predict_lines(self, lines: Iterable[str]) -> Iterator[dict[str, Any]]:
        """A line is a sequence of one variable: numbers, or words for missing ones, with commas or white space
        between."""

        def read() -> Iterator[tuple[str, np.ndarray]]:
            for number, line in enumerate(lines, 1):
                parts = line.replace(",", " ").split()
                values = [np.nan if part.lower() in MISSING else parse_number(part) for part in parts]
                x = np.array([np.inf if value is None else value for value in values])
                if np.isinf(x).any() or np.isnan(x).all():
                    raise DataError(
                        None, number, f"{line[:40]!r} is not a line of numbers", "put commas or spaces between"
                    )
                yield str(number), np.array(values, np.float32)[:, None]

        return (one.as_dict() for one in self.predictions(read()))

    def predict_file(self, path: Path) -> Iterator[dict[str, Any]]:
        """The same for the sequences of a table or of arrays; labels, if there are any, are not read."""
        table = open_table(self.settings, path, labelled=False)
        self.assets.check_variables(path, len(table.variables))
        return (one.as_dict() for one in self.predictions((row.name, row.x) for row in table))

    def batches(self, path: str | Path | SequenceTable) -> SequenceBatches:
        return reading_batches(self.assets.store(open_table(self.settings, path)))

    def batch_of(self, items: Sequence[Any]) -> SequenceBatch:
        arrays = [read_array(item, f"item {k}") for k, item in enumerate(items, 1)]
        for x in arrays:
            self.assets.check_variables("a sequence", x.shape[1])
        return collate([self.assets.scale(x) for x in arrays], np.arange(len(arrays)))

    def layer_input(self, batch: SequenceBatch) -> LayerInput:
        chunks = Chunks(batch, self.settings.chunk)
        if chunks.needed:  # each is a sequence, as the layers read it
            batch = chunks.whole()
        return LayerInput("layers", self.network.layers, batch.x, batch.lengths)

    @in_eval_mode
    def measure(self, path: str | Path | SequenceTable) -> tuple[Any, SequenceBatches]:
        """The metric of a file, and its batches."""
        batches, metric = self.batches(path), self.network.metric(tune=False)
        for batch in batches:
            metric.add(batch)
        return metric, batches

    def evaluate(self, path: str | Path | SequenceTable) -> dict[str, Any]:
        """Accuracy, macro-F1 and the expected calibration error on a file; precision, recall and F1 of each class; the
        confusion matrix. Of numbers their errors."""
        metric, batches = self.measure(path)
        counts = {"sequences": len(batches.store), "steps": batches.tokens}
        if isinstance(metric, NumberErrors):
            return {**metric.result(), **counts}
        confusion = metric.confusion
        return {
            **metric.result(), "calibration_error": metric.calibration_error, **counts,
            "classes": confusion.classes(), "confusion": confusion.table(),
        }  # fmt: skip
