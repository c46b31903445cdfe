"""The classifier: one label for a text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Literal, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ...data import Vocabulary
from ...data.sources.memory import write_table
from ...data.sources.tables import Table
from ...data.stores.examples import ExampleBatch, ExampleBatches, ExampleStore, collate, keep_examples
from ...data.text.encoder import Reading
from ...data.text.vocabulary import texts_of
from ...errors import RunError, SettingsError
from ...files import write_json
from ...metrics import Confusion
from ...networks.encoder import SequenceDropout
from ...networks.pooling import PoolingName, pooling
from ...pictures.confusion import show_confusion
from ...training import ColumnName, Data, Loss, Metric, key
from ...training.modes import in_eval_mode
from ...training.run import read_kept
from ...wording import counted
from ..base import CombinedTask, LayerInput
from ..shared.context import ContextEmbedder, read_words
from ..shared.words import WordSettings
from .check import TableCheck, check_tables
from .examples import LabelledTexts, count_labels


class ClassifySettings(WordSettings):
    """Keys of the classifier."""

    task: Literal["classify"] = key("classify", "the task", "data")
    text_column: ColumnName | None = key(None, "the column of texts, by name or by number from 1; null: found", "data")
    label_column: ColumnName | None = key(
        None, "the column of labels, by name or by number from 1; null: found", "data"
    )
    extra: Path | None = key(None, "more labelled examples to train on, such as the phrases of sentences", "data")
    tokens: Literal["word", "character", "bpe"] = key("word", "what a token is", "data")
    pooling: PoolingName = key("max", "how the vectors of all tokens become one", "model")
    class_weights: str = key(
        "none", "how much an example counts: none (all the same), balanced (classes do), or LABEL=WEIGHT,…", "model"
    )

    def table(self, path: str | Path, labelled: bool = True) -> Table:
        return Table(path, self.text_column, self.label_column, labelled=labelled)

    @property
    def training_tables(self) -> list[Table]:
        return [self.table(path) for path in (self.train, self.extra) if path is not None]

    def store(self, tables: Sequence[Table], reading: Reading, labels: Sequence[str]) -> ExampleStore:
        return keep_examples(LabelledTexts(tables, reading, labels), self.cache_folder)

    def weights(self, count: Counter[str]) -> Tensor | None:
        """What an example of each class counts, (classes,); None if all count the same."""
        labels = sorted(count)
        if self.class_weights == "none":
            return None
        if self.class_weights == "balanced":  # 1 on average over the examples
            return torch.tensor([count.total() / (len(labels) * count[label]) for label in labels])
        given: dict[str, float] = {}
        for pair in self.class_weights.split(","):
            label, _, weight = pair.rpartition("=")
            try:
                given[label.strip()] = float(weight)
            except ValueError:
                given[label.strip()] = -1
        if set(given) != set(labels) or not all(0 <= weight < float("inf") for weight in given.values()):
            example = ",".join(f"{label}=1" for label in labels[:3]) + (",…" if len(labels) > 3 else "")
            raise SettingsError(f"class_weights: write none, balanced or {example}; got {self.class_weights!r}")
        return torch.tensor([given[label] for label in labels])


class Classifier(CombinedTask):
    """embedding → layers → pooling → classes.

    >>> from carousel.tasks.classify.model import Classifier, ClassifySettings
    >>> from carousel.data import Vocabulary
    >>> words = Vocabulary.train(["a fine film", "a dull film"], "word")
    >>> model = Classifier(ClassifySettings(train="reviews.tsv"), words, ["bad", "good"]).eval()
    >>> model.predict("a fine film").label in ("bad", "good")
    True
    """

    name = "classify"
    help = """Train a classifier on a table of texts and labels: TSV, CSV or JSONL.

    \b
    carousel train classify reviews.tsv --dev dev.tsv --out run     # two columns: text, label
    carousel train classify tweets.csv --text-column tweet --label-column topic --out run
    carousel train classify log.tsv --text-column 3 --label-column 1 --class-weights balanced --out run
    carousel train classify reviews.tsv --vectors glove.txt --embedding 300 --lower --out run
    carousel train classify names.tsv --tokens character --cell gru --pooling last --out run

    Then: carousel eval run dev.tsv, carousel predict run texts.txt."""
    Settings = ClassifySettings
    unit = "texts"
    extensions = predict_extensions = (".tsv", ".csv", ".jsonl", ".ndjson", ".tab")
    columns = ("label", "confidence", "text")

    def __init__(
        self,
        settings: ClassifySettings,
        vocabulary: Vocabulary,
        labels: Sequence[str],
        weights: Tensor | None = None,
        context: ContextEmbedder | None = None,
    ) -> None:
        super().__init__()
        self.settings = s = settings
        self.vocabulary = vocabulary
        self.labels = list(labels)
        self.embedder = s.word_embedder(vocabulary, s.variational)
        self.context = context
        self.reading = s.reading(vocabulary, None if context is None else context.wordbook)
        self.layers = s.encoder(s.embedding + (context.size if context is not None else 0))
        self.drop = SequenceDropout(s.dropout, s.variational)
        self.pool = pooling(s.pooling, s.encoded, s.bidirectional)
        self.output = nn.Linear(s.encoded, len(self.labels))
        self.weights: Tensor | None
        self.register_buffer("weights", weights, persistent=False)

    # ---------------------------------------------------------------- the network

    def scores(self, batch: ExampleBatch) -> Tensor:
        """Log-probabilities of the classes before they are normalised, (B, classes)."""
        y, _ = self.layers(read_words(self.embedder, self.context, batch), lengths=batch.lengths)
        return self.output(self.pool(self.drop(y), batch.lengths))

    # ---------------------------------------------------------------- training

    def loss(self, batch: ExampleBatch) -> Loss:
        """The mean cross-entropy of a text's label."""
        scores = self.scores(batch)
        assert batch.labels is not None
        smooth = self.settings.label_smoothing
        losses = F.cross_entropy(scores, batch.labels, reduction="none", label_smoothing=smooth)
        if self.weights is not None:
            losses = losses * self.weights[batch.labels]
        return Loss(losses.mean(), len(losses))

    @property
    def info(self) -> dict[str, Any]:
        return {"tokens": self.vocabulary, "labels": self.labels, "embedder": self.context or ""}

    def metric(self) -> Accuracy:
        return Accuracy(self)

    # ---------------------------------------------------------------- use

    def predict(self, texts: str | Iterable[str]) -> Prediction | Predictions:
        """The label of a text, or of each of several, with the model's confidence in it; prints readably."""
        if isinstance(texts, str):
            return next(self.predictions([texts]))
        return Predictions(self.predictions(texts))

    @in_eval_mode
    @torch.no_grad()
    def predictions(self, texts: Iterable[str], batch: int = 256) -> Iterator[Prediction]:
        """As `predict`, for texts that stream past, `batch` at a time. A blank text has no label."""
        waiting = iter(texts)
        while group := list(islice(waiting, batch)):
            columns, cut = self.reading(group)
            made = collate(columns)
            found = zip(group, made.lengths.tolist(), self.scores(made).softmax(1).tolist(), cut.tolist(), strict=True)
            for text, length, row, short in found:
                yield Prediction(text, dict(zip(self.labels, row if length else [], strict=bool(length))), short)

    def predict_lines(self, lines: Iterable[str]) -> Iterator[dict[str, Any]]:
        return (found.as_dict() for found in self.predictions(lines))

    def predict_file(self, path: Path) -> Iterator[dict[str, Any]]:
        """As `predict_lines`, for the texts of a table, whose labels, if there are any, are not looked at."""
        return self.predict_lines(row.text for row in self.settings.table(path, labelled=False))

    @in_eval_mode
    def evaluate(self, path: str | Path) -> dict[str, Any]:
        """Accuracy and macro-F1 on a file; precision, recall and F1 of each class; what is taken for what."""
        meter, store = self._measure(path)
        return {
            **meter.result(),
            "texts": len(store),
            "tokens": store.tokens,
            "unknown": store.unknown,
            "cut": store.facts["cut"],
            "classes": meter.confusion.classes(),
            "confusion": meter.confusion.table(),
        }

    def batches(self, path: str | Path) -> ExampleBatches:
        store = self.settings.store([self.settings.table(path)], self.reading, self.labels)
        return self.settings.reading_batches(store)

    def layer_input(self, batch: ExampleBatch) -> LayerInput:
        x = read_words(self.embedder, self.context, batch)
        return LayerInput(
            "layers", self.layers, x, batch.lengths, texts_of(self.vocabulary, batch.tokens, batch.lengths)
        )

    def _measure(self, path: str | Path) -> tuple[Accuracy, ExampleStore]:
        batches, meter = self.batches(path), self.metric()
        for batch in batches:
            meter.add(batch)
        return meter, batches.store

    def show(self, page: Any) -> None:
        if self.context is not None:
            self.context.show(page)
        if self.settings.dev is None:
            return
        meter, _ = self._measure(self.settings.dev)
        told = f"`{self.settings.dev}`: accuracy *{meter.confusion.accuracy:.2%}* of {meter.confusion.total:,} texts."
        show_confusion(page, meter.confusion, "What is taken for what", told)

    # ---------------------------------------------------------------- data

    @classmethod
    def prepare(cls, settings: ClassifySettings, network: Self | None = None) -> tuple[Self, Data]:
        s = settings
        tables, dev_table = s.training_tables, None if s.dev is None else s.table(s.dev)  # a missing file is said first
        count = count_labels(tables[0])
        labels = sorted(count)
        weights = s.weights(count)
        learned = network is None
        if network is None:
            texts = (s.read_text(row.text) for table in tables for row in table)
            vocabulary = s.make_vocabulary(texts, s.tokens)
            network = cls(settings, vocabulary, labels, weights, ContextEmbedder.find(s))
        elif labels != network.labels:
            raise RunError(f"{s.train}: its labels are not those of the run; restore it, or start over with --force")
        network.weights, vocabulary, context = weights, network.vocabulary, network.context
        store = s.store(tables, network.reading, labels)
        facts = {
            "training texts": _describe(s.train, store),
            "classes": ", ".join(f"{label} ({count[label] / count.total():.1%})" for label in labels[:50]),
            "vocabulary": f"{len(vocabulary):,} {s.tokens} tokens; {store.unknown / store.tokens:.2%} unknown",
        }
        if context is not None:
            facts["embedder"] = context.describe(store)
        dev = None
        if dev_table is not None:
            held_out = s.store([dev_table], network.reading, labels)
            dev = s.reading_batches(held_out)
            facts["dev texts"] = (
                f"{_describe(dev_table.path, held_out)}; {held_out.unknown / held_out.tokens:.2%} unknown"
            )
        if learned:
            facts |= s.set_vectors(network.embedder, vocabulary)
        return network, Data(s.training_batches(store), dev, facts, s.cut_notes(store))

    @classmethod
    def write_data(cls, data: Any, stem: Path, settings: Mapping[str, Any]) -> Path:
        """(text, label) pairs, or columns."""
        return write_table(data, stem, ("text", "label"))

    @classmethod
    def check(cls, settings: ClassifySettings) -> TableCheck:
        """What is in the files that `settings` name, before training on them."""
        s = settings
        tables = s.training_tables
        dev = None if s.dev is None else s.table(s.dev)
        vocabulary = s.make_vocabulary((s.read_text(row.text) for table in tables for row in table), s.tokens)
        extra = tables[1] if len(tables) > 1 else None
        return check_tables(tables[0], dev, vocabulary, s.max_length, s.read_text, extra=extra)

    def save(self, folder: Path) -> None:
        self.vocabulary.save(folder / "tokenizer.json")
        write_json(folder / "labels.json", self.labels, indent=0)
        if self.context is not None:
            self.context.keep(folder)

    @classmethod
    def load_assets(cls, settings: ClassifySettings, folder: Path) -> Self:
        labels = read_kept(folder / "labels.json", list[str])
        context = ContextEmbedder.restore(settings, folder)
        return cls(settings, Vocabulary.load(folder / "tokenizer.json"), labels, context=context)


@dataclass(frozen=True)
class Prediction:
    """A text and the probability of each label for it; none if the text is blank.

    >>> Prediction("a fine film", {"bad": 0.125, "good": 0.875})
    good 0.875  a fine film
    """

    text: str
    probabilities: dict[str, float]
    cut: bool = False  # only the first max_length tokens were read

    @property
    def label(self) -> str | None:
        return max(self.probabilities, key=self.probabilities.__getitem__, default=None)

    @property
    def confidence(self) -> float | None:
        return max(self.probabilities.values(), default=None)

    def as_dict(self) -> dict[str, Any]:
        rounded = {label: round(p, 6) for label, p in self.probabilities.items()}
        confidence = None if self.confidence is None else round(self.confidence, 6)
        return {
            "label": self.label, "confidence": confidence, "text": self.text, "probabilities": rounded, "cut": self.cut
        }  # fmt: skip

    def __repr__(self) -> str:
        return f"{self.label} {self.confidence or 0:.3f}  {self.text}"


class Predictions(list[Prediction]):
    """Predictions, printed one a line."""

    def __repr__(self) -> str:
        width = max((len(str(found.label)) for found in self), default=0)
        return "\n".join(f"{found.label!s:{width}} {found.confidence or 0:.3f}  {found.text}" for found in self)


class Accuracy(Metric):
    """The share of texts whose label is the most probable one, and the mean F1 of the classes."""

    best = "accuracy"

    def __init__(self, model: Classifier) -> None:
        self.model = model
        self.confusion = Confusion(model.labels)
        self.total = 0.0

    @torch.no_grad()
    def add(self, batch: ExampleBatch) -> None:
        scores = self.model.scores(batch)
        assert batch.labels is not None
        self.total += float(F.cross_entropy(scores, batch.labels, reduction="sum"))
        self.confusion.add(batch.labels, scores.argmax(1))

    def merge(self, other: Accuracy) -> None:
        self.confusion.merge(other.confusion)
        self.total += other.total

    def result(self) -> dict[str, float]:
        found = self.confusion
        return {"accuracy": found.accuracy, "macro_f1": found.macro_f1, "loss": self.total / max(1, found.total)}


def _describe(path: Path, store: ExampleStore) -> str:
    cut = store.facts["cut"]
    said = f"; {cut:,} cut off after max_length" if cut else ""
    return f"{path}: {counted(len(store), 'text')}, {counted(store.tokens, 'token')}{said}"
