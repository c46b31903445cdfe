"""The classifier in use: labels for texts, evaluation, what its layers read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, overload

import torch

from ...data import Vocabulary
from ...data.sources.memory import read_texts
from ...data.sources.tables import Table
from ...data.stores.examples import ExampleBatch, ExampleBatches, ExampleStore, collate
from ...data.text.vocabulary import texts_of
from ...errors import shorten
from ...training.modes import in_eval_mode
from ..base import LayerInput, VocabularyModel
from ..shared.ensemble import with_members
from ..shared.reading import usual_of
from .chunks import Chunks
from .data import ClassifyAssets, open_table, store_examples
from .metrics import LabelScores, NumberErrors
from .network import ClassifierNetwork
from .targets import LabelProbabilities

SHOWN = 200  # characters of a text, in the repr of its prediction
MOST_PADDED = 4_000_000  # tokens, padding included, that are predicted at once


class Classifier(VocabularyModel[ClassifierNetwork, ClassifyAssets, Vocabulary]):
    """A classifier of texts.

    >>> import tempfile, carousel
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     reviews = [("a fine film", "good"), ("dull", "bad")]
    ...     model = carousel.train("classify", reviews, out=folder + "/run", hidden=4, epochs=1, quiet=True)
    >>> model.predict("a fine film").label in ("bad", "good")
    True
    """

    name = "classify"
    kind = "classifier"
    item_types = (str,)
    columns: tuple[str, ...] = ("label", "confidence", "text")  # type: ignore[misc]

    def __init__(self, network: ClassifierNetwork, assets: ClassifyAssets) -> None:
        super().__init__(network, assets)
        self.encoder = assets.encoder(network.settings)
        if assets.target.kind != "class":
            self.columns = ("labels" if assets.target.kind == "labels" else "number", "text")

    @property
    def labels(self) -> list[str]:
        return self.assets.labels

    @property
    def info(self) -> dict[str, Any]:
        labels = {"labels": self.labels} if self.labels else {"target": "a number"}
        return {"tokens": self.vocabulary, **labels, "embedder": self.network.context or ""}

    @overload
    def predict(self, texts: str, *, tokenized: bool | None = None) -> Prediction: ...  # type: ignore[overload-overlap]
    @overload
    def predict(self, texts: Iterable[str], *, tokenized: bool | None = None) -> Predictions: ...
    def predict(self, texts: str | Iterable[str], *, tokenized: bool | None = None) -> Prediction | Predictions:
        """The label of a text, or of each of several, with the model's confidence in it; prints readably.

        Raw text is brought to the form of the training text; `tokenized`: it has that form. None: if it looks so.
        """
        if isinstance(texts, str):
            return next(self.predictions([texts], tokenized=tokenized))
        return Predictions(self.predictions(texts, tokenized=tokenized))

    @in_eval_mode
    @torch.no_grad()
    def predictions(
        self, texts: Iterable[str], batch_size: int = 256, *, tokenized: bool | None = None
    ) -> Iterator[Prediction]:
        """As `predict`, for a stream of texts, `batch_size` at a time. A blank text has no label."""
        waiting = read_texts(texts)
        while group := list(islice(waiting, batch_size)):
            columns, cut = self.encoder(group, tokenized)
            self.tally.add(columns["tokens"].values, group)
            lengths = columns["tokens"].lengths.tolist()
            if max(lengths) * len(group) > MOST_PADDED and len(group) > 1:  # long texts: one by one
                scores = torch.cat([self.network.scores(self.batch_of([text])) for text in group])
            else:
                scores = self.network.scores(collate(columns))
            for text, length, row, short in zip(group, lengths, scores, cut.tolist(), strict=True):
                yield self._prediction(text, row if length else None, short)

    def _prediction(self, text: str, scores: torch.Tensor | None, cut: bool) -> Prediction:
        """What is predicted of a text whose scores are these, (classes,); None: it is blank."""
        target = self.assets.target
        if target.kind == "number":
            value = None if scores is None else float(scores[0]) * target.deviation + target.mean
            return NumberPrediction(text, {}, cut, value)
        if scores is None:
            return LabelsPrediction(text, {}, cut) if target.kind == "labels" else Prediction(text, {}, cut)
        if target.kind == "class":
            return Prediction(text, dict(zip(self.labels, scores.softmax(0).tolist(), strict=True)), cut)
        assert self.network.thresholds is not None
        probabilities = scores.sigmoid()
        chosen = (probabilities >= self.network.thresholds).tolist()
        labels = tuple(label for label, is_chosen in zip(self.labels, chosen, strict=True) if is_chosen)
        return LabelsPrediction(
            text, dict(zip(self.labels, probabilities.tolist(), strict=True)), cut, labels, target.separator
        )

    def predict_lines(self, lines: Iterable[str], *, tokenized: bool | None = None) -> Iterator[dict[str, Any]]:
        return (prediction.as_dict() for prediction in self.predictions(lines, tokenized=tokenized))

    def predict_file(self, path: Path, *, tokenized: bool | None = None) -> Iterator[dict[str, Any]]:
        """As `predict_lines`, for the texts of a table; its labels, if there are any, are not read."""
        rows = open_table(self.settings, path, labelled=False)
        return self.predict_lines((row.text for row in rows), tokenized=tokenized)

    def batches(self, path: str | Path | Table) -> ExampleBatches:
        store = store_examples(self.settings, self.assets, [open_table(self.settings, path)])
        return self.settings.reading_batches(store)

    def batch_of(self, items: Sequence[str]) -> ExampleBatch:
        return collate(self.encoder(items)[0])

    def surface_forms(self, items: Sequence[str]) -> list[list[str]]:
        return self.encoder.split(items)

    def layer_input(self, batch: ExampleBatch) -> LayerInput:
        chunks = Chunks(batch, self.settings.chunk)
        if chunks.needed:  # each is a sequence, as the layers read it
            batch = chunks.whole()
        tokens = texts_of(self.vocabulary, batch.tokens, batch.lengths)
        return LayerInput("layers", self.network.layers, self.network.read(batch), batch.lengths, tokens)

    @in_eval_mode
    def measure(self, path: str | Path | Table) -> tuple[Any, ExampleStore]:
        """The metric of a file, and its examples."""
        batches, metric = self.batches(path), self.network.metric(tune=False)
        for batch in batches:
            metric.add(batch)
        return metric, batches.store

    @with_members
    def evaluate(self, path: str | Path | Table) -> dict[str, Any]:
        """Accuracy, macro-F1 and the expected calibration error on a file; precision, recall and F1 of each class; the
        confusion matrix. Of several labels F1 (micro and macro) and a table of the labels; of numbers their errors."""
        metric, store = self.measure(path)
        self.tally.include(usual_of(self.encoder, (row.text for row in open_table(self.settings, path))))
        counts = {"texts": len(store), "tokens": store.tokens, "unknown": store.unknown, "cut": store.info["cut"]}
        if isinstance(metric, LabelScores):
            return {**metric.result(), **counts, "labels": metric.labels()}
        if isinstance(metric, NumberErrors):
            return {**metric.result(), **counts}
        confusion = metric.confusion
        calibration = {"calibration_error": metric.calibration_error}
        return {
            **metric.result(), **calibration, **counts, "classes": confusion.classes(), "confusion": confusion.table()
        }  # fmt: skip


@dataclass(frozen=True)
class Prediction(LabelProbabilities):
    """A text and the probability of each label for it; none if the text is blank.

    >>> Prediction("a fine film", {"bad": 0.125, "good": 0.875})
    good 0.875  a fine film
    """

    text: str
    probabilities: dict[str, float]
    cut: bool = False  # only the first max_length tokens were read

    def as_dict(self) -> dict[str, Any]:
        rounded = {label: round(p, 6) for label, p in self.probabilities.items()}
        confidence = None if self.confidence is None else round(self.confidence, 6)
        return {
            "label": self.label, "confidence": confidence, "text": self.text, "probabilities": rounded, "cut": self.cut
        }  # fmt: skip

    def __repr__(self) -> str:
        return f"{self.label} {self.confidence or 0:.3f}  {shorten(self.text, SHOWN)}"


@dataclass(frozen=True)
class LabelsPrediction(Prediction):
    """A text, the probability of each label, and the labels whose probability reaches their thresholds.

    >>> LabelsPrediction("a warm, funny film", {"funny": 0.9, "sad": 0.1, "warm": 0.8}, labels=("funny", "warm"))
    funny,warm  a warm, funny film
    """

    labels: tuple[str, ...] = ()
    separator: str = ","

    def as_dict(self) -> dict[str, Any]:
        rounded = {label: round(p, 6) for label, p in self.probabilities.items()}
        joined = self.separator.join(self.labels)
        return {"labels": joined, "text": self.text, "probabilities": rounded, "cut": self.cut}

    def __repr__(self) -> str:
        return f"{self.separator.join(self.labels)}  {shorten(self.text, SHOWN)}"


@dataclass(frozen=True)
class NumberPrediction(Prediction):
    """A text and the number that is predicted for it; None if the text is blank.

    >>> NumberPrediction("a fine film", {}, number=4.25)
    4.25  a fine film
    """

    number: float | None = None

    def as_dict(self) -> dict[str, Any]:
        return {"number": None if self.number is None else float(f"{self.number:.6g}"), "text": self.text,
                "cut": self.cut}  # fmt: skip

    def __repr__(self) -> str:
        return f"{'' if self.number is None else format(self.number, '.4g')}  {shorten(self.text, SHOWN)}"


class Predictions(list[Prediction]):
    """Predictions, printed one per line."""

    def __repr__(self) -> str:
        if any(isinstance(p, LabelsPrediction | NumberPrediction) for p in self):
            return "\n".join(map(repr, self))
        width = max((len(str(p.label)) for p in self), default=0)
        return "\n".join(f"{p.label!s:{width}} {p.confidence or 0:.3f}  {shorten(p.text, SHOWN)}" for p in self)
