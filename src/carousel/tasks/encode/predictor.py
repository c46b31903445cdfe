"""The sentence encoder in use: vectors of texts, classes or scores of pairs, evaluation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any, overload

import numpy as np
import torch
import torch.nn.functional as F

from ...data import Vocabulary
from ...data.sources.memory import read_rows, read_texts
from ...data.sources.tables import PairTable
from ...data.stores.examples import Column, ExampleBatch, ExampleStore, collate
from ...data.text.vocabulary import texts_of
from ...errors import ArgumentError, DataError, check_count, shorten
from ...training.modes import in_eval_mode
from ..base import LayerInput, VocabularyModel
from ..classify.targets import LabelProbabilities
from ..shared.ensemble import with_members
from ..shared.reading import usual_of
from .data import EncodeAssets, open_table, reading_batches, store_pairs, texts_of_pairs
from .examples import PairBatch, PairBatches, Target
from .network import EncoderNetwork, PairMetric

SHOWN = 100  # characters of each text, in the repr of a pair


class SentenceEncoder(VocabularyModel[EncoderNetwork, EncodeAssets, Vocabulary]):
    """An encoder of texts.

    >>> import tempfile, carousel
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     pairs = [("a man plays a guitar", "a man makes music", 4.5), ("a dog runs", "a man sleeps", 1.0)]
    ...     model = carousel.train("encode", pairs, out=folder + "/run", hidden=4, epochs=1, quiet=True)
    >>> model.embed("a man plays").shape
    (8,)
    """

    name = "encode"
    kind = "sentence encoder"
    item_types = (str,)
    columns: tuple[str, ...] = ("label", "confidence", "first", "second")  # type: ignore[misc]

    def __init__(self, network: EncoderNetwork, assets: EncodeAssets) -> None:
        super().__init__(network, assets)
        self.encoder = assets.encoder(network.settings)
        if assets.target.is_score:
            self.columns = ("score", "first", "second")

    @property
    def target(self) -> Target:
        return self.assets.target

    @property
    def info(self) -> dict[str, Any]:
        return {"tokens": self.vocabulary, "classes": self.target.classes, "embedder": self.network.context or ""}

    @property
    def vector_size(self) -> int:
        """How many numbers the vector of a text has."""
        return self.settings.encoded * max(1, len(self.members))

    def embed(self, texts: str | Iterable[str], *, tokenized: bool | None = None) -> np.ndarray:
        """The vector of a text, (size,), or of each of several, (texts, size) float32. Each text is encoded
        independently; `tokenized` as in `predict`."""
        if isinstance(texts, str):
            return next(self.vectors([texts], tokenized=tokenized))[0]
        parts = list(self.vectors(texts, tokenized=tokenized))
        return np.concatenate(parts) if parts else np.zeros((0, self.vector_size), np.float32)

    @in_eval_mode
    @torch.no_grad()
    def vectors(
        self, texts: Iterable[str], batch_size: int = 64, *, tokenized: bool | None = None
    ) -> Iterator[np.ndarray]:
        """As `embed`, for a stream of texts, `batch_size` at a time. A blank text is the zero vector."""
        waiting = read_texts(texts)
        while group := list(islice(waiting, batch_size)):
            yield self.network.encode(collate(self._read(group, tokenized)[0])).numpy()

    def table(
        self, texts: Sequence[str], *, tokenized: bool | None = None
    ) -> tuple[dict[str, Any], np.ndarray, list[int]]:
        """A row for each text: the columns beside its vector, and the vectors; and the lines that were cut off."""
        cut = [number for number, short in enumerate(self.encoder(texts, tokenized)[1].tolist(), 1) if short]
        return {"text": texts}, self.embed(texts, tokenized=tokenized), cut

    def similar(
        self, query: str, texts: Iterable[str], n: int = 10, *, tokenized: bool | None = None
    ) -> list[tuple[float, str]]:
        """The `n` texts nearest to `query` by the cosine of their vectors, nearest first; `tokenized` as
        in `predict`."""
        check_count("n", n)
        if not isinstance(query, str):
            raise ArgumentError(f"query: give one text, got {type(query).__name__}")
        if isinstance(texts, str):
            raise ArgumentError("texts: give a list of texts, got one text")
        texts = list(read_texts(texts))
        own = torch.from_numpy(self.embed(query, tokenized=tokenized))
        near = F.cosine_similarity(torch.from_numpy(self.embed(texts, tokenized=tokenized)), own, dim=1)
        best = near.topk(min(n, len(texts)))
        return [(float(value), texts[k]) for value, k in zip(best.values, best.indices.tolist(), strict=True)]

    @overload
    def predict(self, first: str, second: str, *, tokenized: bool | None = None) -> PairPrediction | PairScore: ...
    @overload
    def predict(
        self, first: tuple[str, str], second: None = None, *, tokenized: bool | None = None
    ) -> PairPrediction | PairScore: ...
    @overload
    def predict(
        self, first: Iterable[tuple[str, str]], second: None = None, *, tokenized: bool | None = None
    ) -> list[PairPrediction | PairScore]: ...
    def predict(
        self,
        first: str | tuple[str, str] | Iterable[tuple[str, str]],
        second: str | None = None,
        *,
        tokenized: bool | None = None,
    ) -> PairPrediction | PairScore | list[PairPrediction | PairScore]:
        """The class or the score of two texts, or of each of several pairs: `predict(a, b)`, `predict((a, b))`,
        `predict([(a, b), …])`. A pair with a blank text has none.

        Raw text is brought to the form of the training text; `tokenized`: it has that form. None: if it looks so.
        """
        if second is None and isinstance(first, str):
            raise ArgumentError("second: missing; give two texts, or an iterable of pairs")
        pair: Any = first if second is None else (first, second)
        one = isinstance(pair, tuple) and len(pair) == 2 and all(isinstance(text, str) for text in pair)
        if one or second is not None:
            return next(self.predictions([pair], tokenized=tokenized))
        return list(self.predictions(pair, tokenized=tokenized))

    @in_eval_mode
    @torch.no_grad()
    def predictions(
        self, pairs: Iterable[tuple[str, str]], batch_size: int = 128, *, tokenized: bool | None = None
    ) -> Iterator[PairPrediction | PairScore]:
        """As `predict`, for a stream of pairs, `batch_size` at a time."""
        network = self.network
        waiting = _checked(read_rows(pairs)[1])
        while group := list(islice(waiting, batch_size)):
            (first, cut_first), (second, cut_second) = (
                self._read([pair[k] for pair in group], tokenized) for k in (0, 1)
            )
            cut = (cut_first | cut_second).tolist()
            read = ((first["tokens"].lengths > 0) & (second["tokens"].lengths > 0)).tolist()
            nothing = torch.zeros(len(group), dtype=torch.float64)
            scores = network.scores(PairBatch(collate(first), collate(second), nothing, nothing))
            if self.target.is_score:
                values = network.expected(scores).tolist()
                for pair, value, full, short in zip(group, values, read, cut, strict=True):
                    yield PairScore(*pair, round(value, 6) if full else None, short)
            else:
                for pair, row, full, short in zip(group, scores.softmax(1).tolist(), read, cut, strict=True):
                    probabilities = zip(self.target.classes, (round(p, 6) for p in row), strict=True)
                    yield PairPrediction(*pair, dict(probabilities) if full else {}, short)

    def predict_lines(self, lines: Iterable[str], *, tokenized: bool | None = None) -> Iterator[dict[str, Any]]:
        return (prediction.as_dict() for prediction in self.predictions(_pairs(lines), tokenized=tokenized))

    def predict_file(self, path: Path, *, tokenized: bool | None = None) -> Iterator[dict[str, Any]]:
        """As `predict_lines`, for the pairs of a table; its labels, if there are any, are not read."""
        pairs = ((row.first, row.second) for row in open_table(self.settings, path, labelled=False))
        return (prediction.as_dict() for prediction in self.predictions(pairs, tokenized=tokenized))

    def _read(self, texts: Sequence[str], tokenized: bool | None) -> tuple[dict[str, Column], np.ndarray]:
        columns, cut = self.encoder(texts, tokenized)
        self.tally.add(columns["tokens"].values, texts)
        return columns, cut

    def batches(self, path: str | Path | PairTable) -> PairBatches:
        return reading_batches(store_pairs(self.settings, self.assets, open_table(self.settings, path)))

    def batch_of(self, items: Sequence[str]) -> ExampleBatch:
        """Texts, as `embed` takes them."""
        return collate(self._read(items, None)[0])

    def surface_forms(self, items: Sequence[str]) -> list[list[str]]:
        return self.encoder.split(items)

    def layer_input(self, batch: ExampleBatch | PairBatch) -> LayerInput:
        """Of the texts, or of the first texts of pairs."""
        texts = batch.first if isinstance(batch, PairBatch) else batch
        tokens = texts_of(self.vocabulary, texts.tokens, texts.lengths)
        return LayerInput("layers", self.network.layers, self.network.read(texts), texts.lengths, tokens)

    @in_eval_mode
    def measure(self, path: str | Path | PairTable) -> tuple[PairMetric, ExampleStore]:
        """The metric of a file, and its examples."""
        batches, metric = self.batches(path), self.network.metric()
        for batch in batches:
            metric.add(batch)
        return metric, batches.store

    @with_members
    def evaluate(self, path: str | Path | PairTable) -> dict[str, Any]:
        """Of scores: Pearson, Spearman and the mean squared error; of classes: accuracy, F1, the confusion matrix."""
        metric, store = self.measure(path)
        self.tally.include(usual_of(self.encoder, texts_of_pairs(open_table(self.settings, path))))
        result = {**metric.result(), "pairs": len(store), "unknown": store.unknown, "cut": store.info["cut"]}
        if not self.target.is_score:
            result |= {"classes": metric.confusion.classes(), "confusion": metric.confusion.table()}
        return result


@dataclass(frozen=True)
class PairPrediction(LabelProbabilities):
    """Two texts and the probability of each class for them; none if one of them is blank.

    >>> PairPrediction("a dog runs", "a cat sits", {"no": 0.875, "yes": 0.125})
    no 0.875  a dog runs | a cat sits
    """

    first: str
    second: str
    probabilities: dict[str, float]
    cut: bool = False  # of one of them only the first max_length tokens were read

    def as_dict(self) -> dict[str, Any]:
        """In JSON's terms."""
        return {"label": self.label, "confidence": self.confidence, **asdict(self)}

    def __repr__(self) -> str:
        return f"{self.label} {self.confidence or 0:.3f}  {shorten(self.first, SHOWN)} | {shorten(self.second, SHOWN)}"


@dataclass(frozen=True)
class PairScore:
    """Two texts and their score; None if one of them is blank.

    >>> PairScore("a dog runs", "a dog is running", 4.5)
    4.500  a dog runs | a dog is running
    """

    first: str
    second: str
    score: float | None
    cut: bool = False  # of one of them only the first max_length tokens were read

    def as_dict(self) -> dict[str, Any]:
        """In JSON's terms."""
        return {"score": self.score, "first": self.first, "second": self.second, "cut": self.cut}

    def __repr__(self) -> str:
        shown = "" if self.score is None else f"{self.score:.3f}"
        return f"{shown}  {shorten(self.first, SHOWN)} | {shorten(self.second, SHOWN)}"


def _checked(pairs: Iterable[Sequence[Any]]) -> Iterator[tuple[str, str]]:
    for number, pair in enumerate(pairs, 1):
        if (
            not isinstance(pair, Sequence)
            or isinstance(pair, str)
            or len(pair) != 2
            or not all(isinstance(text, str) for text in pair)
        ):
            raise ArgumentError(
                f"pairs: item {number} is not of the form (first, second): {pair!r:.60}; give a list of pairs"
            )
        yield pair[0], pair[1]


def _pairs(lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(lines, 1):
        texts = line.split("\t") if line.strip() else ["", ""]  # a blank line has its place
        if len(texts) == 1:
            raise DataError(None, number, "one text only", "put a tab between the two texts of a pair")
        if len(texts) > 2:
            remedy = "put one tab between two texts, or give a table as a file named .tsv"
            raise DataError(None, number, f"{len(texts)} texts with tabs between, where a pair has two", remedy)
        yield texts[0], texts[1]
