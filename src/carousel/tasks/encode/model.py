"""Sentence encoders: a vector for a text, learnt from pairs of texts and what is said of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ...data import Vocabulary
from ...data.sources.memory import write_table
from ...data.sources.tables import PairTable
from ...data.stores.examples import ExampleBatch, ExampleStore, collate, keep_examples
from ...data.text.encoder import Reading
from ...data.text.vocabulary import texts_of
from ...errors import DataError
from ...files import write_json
from ...metrics import Confusion, pearson, spearman
from ...networks.pooling import pooling
from ...pictures.confusion import show_confusion
from ...report import figure
from ...training import ColumnName, Data, Loss, Metric, key
from ...training.modes import in_eval_mode
from ...training.run import read_kept
from ..base import LayerInput
from ..classify.check import TableCheck, check_tables
from ..shared.combined import CombinedTask
from ..shared.context import ContextEmbedder, read_words
from ..shared.settings import PoolingName, WordSettings
from .examples import Joined, JudgedBatch, JudgedBatches, JudgedPairs, Judgement


class EncodeSettings(WordSettings):
    """Keys of the sentence encoder."""

    task: Literal["encode"] = key("encode", "the task", "data")
    first_column: ColumnName | None = key(
        None, "the column of first texts, by name or by number from 1; null: found", "data"
    )
    second_column: ColumnName | None = key(None, "the column of second texts; null: found", "data")
    label_column: ColumnName | None = key(None, "the column of labels or scores; null: found", "data")
    target: Literal["class", "score"] | None = key(
        None, "what is said of a pair: a class (entailment) or a score (relatedness); null: found", "data"
    )
    tokens: Literal["word", "character", "bpe"] = key("word", "what a token is", "data")
    pooling: PoolingName = key("max", "how the vectors of all tokens become one; attention: self-attentive", "model")
    dropout: float = key(0.3, "dropout of what is known of a pair, and between layers", "model", ge=0, lt=1)
    head: int = key(64, "units between the vectors of a pair and what is said of it", "model", ge=1)

    def table(self, path: str | Path, labelled: bool = True) -> PairTable:
        return PairTable(path, self.first_column, self.second_column, self.label_column, labelled=labelled)

    def keep(self, table: PairTable, reading: Reading, judgement: Judgement) -> ExampleStore:
        return keep_examples(JudgedPairs(table, reading, judgement), self.cache_folder)


class SentenceEncoder(CombinedTask):
    """embedding → layers → pooling → u; of two texts (u, v, |u − v|, u ∘ v) → head → a class, or a score.

    A score is the expected value of a distribution over the whole numbers from the least score to the most; what is
    learnt is that distribution, with the weight of a score between two numbers shared by both.
    """

    name = "encode"
    help = """Train a sentence encoder on pairs of texts and what is said of them: TSV, CSV or JSONL.

    \b
    carousel train encode pairs.tsv --dev dev.tsv --label-column relatedness_score --out run
    carousel train encode snli.tsv --target class --hidden 300 --out run    # entailment: a class
    carousel train encode pairs.tsv --pooling attention --cell gru --out run

    Then: carousel embed run texts.txt --out vectors.npy, carousel similar run texts.txt --to "a dog runs"."""
    Settings = EncodeSettings
    unit = "pairs"
    commands = ("embed", "similar")
    predict_extensions = (".tsv", ".csv", ".jsonl", ".ndjson", ".tab")
    columns = ("label", "first", "second")

    def __init__(
        self,
        settings: EncodeSettings,
        vocabulary: Vocabulary,
        judgement: Judgement,
        context: ContextEmbedder | None = None,
    ) -> None:
        super().__init__()
        self.settings = s = settings
        self.vocabulary = vocabulary
        self.judgement = judgement
        self.embedder = s.word_embedder(vocabulary, s.variational)
        self.embedder.drop.rate = 0.0  # two masks would make the vectors of equal texts differ: |u − v| must be clean
        self.context = context
        if context is not None:
            context.drop.rate = s.embedder_dropout or 0.0
        self.reading = s.reading(vocabulary, None if context is None else context.wordbook)
        self.layers = s.encoder(s.embedding + (context.size if context is not None else 0))
        self.pool = pooling(s.pooling, s.encoded, s.bidirectional)
        self.levels: Tensor | None
        levels = None
        if judgement.is_score:
            levels = torch.tensor(judgement.levels, dtype=torch.float32)
        self.register_buffer("levels", levels, persistent=False)
        outputs = len(judgement.classes) if levels is None else len(levels)
        self.head = nn.Sequential(
            nn.Dropout(s.dropout), nn.Linear(4 * s.encoded, s.head), nn.Tanh(), nn.Linear(s.head, outputs)
        )

    # ---------------------------------------------------------------- the network

    def encode(self, batch: ExampleBatch) -> Tensor:
        """The texts' vectors, (B, size)."""
        y, _ = self.layers(read_words(self.embedder, self.context, batch), lengths=batch.lengths)
        return self.pool(y, batch.lengths)

    def scores(self, batch: JudgedBatch) -> Tensor:
        """Log-probabilities before they are normalised: of the classes, or of the levels of a score, (B, K)."""
        u, v = self.encode(batch.first), self.encode(batch.second)
        return self.head(torch.cat((u, v, (u - v).abs(), u * v), 1))

    def expected(self, scores: Tensor) -> Tensor:
        """The score that a distribution over levels means, (B,)."""
        assert self.levels is not None
        return scores.softmax(1) @ self.levels

    def spread(self, labels: Tensor) -> Tensor:
        """A score as a distribution over the two levels beside it, (B, K)."""
        assert self.levels is not None
        place = (labels - float(self.levels[0])).clamp(0, len(self.levels) - 1)
        low = place.floor().long().clamp(max=len(self.levels) - 2)
        share = (place - low).float()
        made = torch.zeros(len(labels), len(self.levels))
        made[torch.arange(len(labels)), low] = 1 - share
        made[torch.arange(len(labels)), low + 1] = share
        return made

    # ---------------------------------------------------------------- training

    def loss(self, batch: JudgedBatch) -> Loss:
        """The mean cross-entropy of a pair's class; of a score, also its squared error."""
        scores = self.scores(batch)
        smooth = self.settings.label_smoothing
        if not self.judgement.is_score:
            return Loss(F.cross_entropy(scores, batch.labels.long(), label_smoothing=smooth), len(scores))
        apart = F.cross_entropy(scores, self.spread(batch.labels), label_smoothing=smooth)
        off = F.mse_loss(self.expected(scores), batch.labels.float())
        return Loss(apart + off, len(scores))

    @property
    def info(self) -> dict[str, Any]:
        return {"tokens": self.vocabulary, "classes": self.judgement.classes, "embedder": self.context or ""}

    def metric(self) -> Judged:
        return Judged(self)

    # ---------------------------------------------------------------- use

    def embed(self, texts: str | Iterable[str]) -> np.ndarray:
        """The vector of a text, (size,), or of each of several, (texts, size) float32. Neighbours do not matter."""
        if isinstance(texts, str):
            return next(self.vectors([texts]))[0]
        parts = list(self.vectors(texts))
        return np.concatenate(parts) if parts else np.zeros((0, self.settings.encoded), np.float32)

    @in_eval_mode
    @torch.no_grad()
    def vectors(self, texts: Iterable[str], batch: int = 64) -> Iterator[np.ndarray]:
        """As `embed`, for texts that stream past, `batch` at a time. A blank text is the zero vector."""
        waiting = iter(texts)
        while group := list(islice(waiting, batch)):
            yield self.encode(collate(self.reading(group)[0])).numpy()

    def table(self, texts: Sequence[str]) -> tuple[dict[str, Any], np.ndarray, list[int]]:
        """A row for each text: what stands beside its vector, and the vectors; and the lines that were cut off."""
        cut = [number for number, short in enumerate(self.reading(texts)[1].tolist(), 1) if short]
        return {"text": texts}, self.embed(texts), cut

    def similar(self, query: str, texts: Sequence[str], most: int = 10) -> list[tuple[float, str]]:
        """The texts nearest to `query` by the cosine of their vectors, the nearest first."""
        own = torch.from_numpy(self.embed(query))
        near = F.cosine_similarity(torch.from_numpy(self.embed(texts)), own, dim=1)
        best = near.topk(min(most, len(texts)))
        return [(float(value), texts[k]) for value, k in zip(best.values, best.indices.tolist(), strict=True)]

    def predict(self, first: str, second: str) -> Said:
        """What the model says of two texts."""
        return next(self.predictions([(first, second)]))

    @in_eval_mode
    @torch.no_grad()
    def predictions(self, pairs: Iterable[tuple[str, str]], batch: int = 128) -> Iterator[Said]:
        """As `predict`, for pairs that stream past."""
        waiting = iter(pairs)
        while group := list(islice(waiting, batch)):
            (first, cut_first), (second, cut_second) = (self.reading([pair[k] for pair in group]) for k in (0, 1))
            cut = (cut_first | cut_second).tolist()
            nothing = torch.zeros(len(group), dtype=torch.float64)
            scores = self.scores(JudgedBatch(collate(first), collate(second), nothing, nothing))
            if self.judgement.is_score:
                for pair, value, short in zip(group, self.expected(scores).tolist(), cut, strict=True):
                    yield Said(*pair, round(value, 6), {}, short)
            else:
                for pair, row, short in zip(group, scores.softmax(1).tolist(), cut, strict=True):
                    chances = dict(zip(self.judgement.classes, (round(p, 6) for p in row), strict=True))
                    yield Said(*pair, max(chances, key=chances.__getitem__), chances, short)

    def predict_lines(self, lines: Iterable[str]) -> Iterator[dict[str, Any]]:
        return (asdict(found) for found in self.predictions(_pairs(lines)))

    def predict_file(self, path: Path) -> Iterator[dict[str, Any]]:
        """As `predict_lines`, for the pairs of a table, whose labels, if there are any, are not looked at."""
        rows = self.settings.table(path, labelled=False)
        return (asdict(found) for found in self.predictions((row.first, row.second) for row in rows))

    @in_eval_mode
    def evaluate(self, path: str | Path) -> dict[str, Any]:
        """Of scores: Pearson, Spearman and the mean squared error; of classes: accuracy, F1 and confusions."""
        meter, store = self._measure(path)
        found = {**meter.result(), "pairs": len(store), "unknown": store.unknown, "cut": store.facts["cut"]}
        if not self.judgement.is_score:
            found |= {"classes": meter.confusion.classes(), "confusion": meter.confusion.table()}
        return found

    def batches(self, path: str | Path) -> JudgedBatches:
        store = self.settings.keep(self.settings.table(path), self.reading, self.judgement)
        return JudgedBatches(store, tokens=16_384, sequences=256, shuffle=False)

    def layer_input(self, batch: JudgedBatch) -> LayerInput:
        """Of the first texts of the pairs."""
        first = batch.first
        tokens = texts_of(self.vocabulary, first.tokens, first.lengths)
        x = read_words(self.embedder, self.context, first)
        return LayerInput("layers", self.layers, x, first.lengths, tokens)

    def _measure(self, path: str | Path) -> tuple[Judged, ExampleStore]:
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
        told = ", ".join(f"{name} *{value:.4f}*" for name, value in meter.result().items())
        if not self.judgement.is_score:
            show_confusion(page, meter.confusion, "What is taken for what", f"`{self.settings.dev}`: {told}.")
            return
        drawn = figure(460)
        drawn.add_scatter(x=meter.gold, y=meter.said, mode="markers", marker={"size": 4, "opacity": 0.5})
        drawn.update_xaxes(title_text="the score given").update_yaxes(title_text="the model's")
        page.figure(drawn, "Scores", f"`{self.settings.dev}`: {told}.")

    # ---------------------------------------------------------------- data

    @classmethod
    def prepare(cls, settings: EncodeSettings, network: Self | None = None) -> tuple[Self, Data]:
        s = settings
        table, dev_table = s.table(s.train), None if s.dev is None else s.table(s.dev)  # a missing file is said first
        learned = network is None
        if network is None:
            judgement = Judgement.of(table, s.target)
            texts = (s.read_text(text) for row in table for text in (row.first, row.second))
            vocabulary = s.make_vocabulary(texts, s.tokens)
            network = cls(settings, vocabulary, judgement, ContextEmbedder.find(s))
        vocabulary, judgement = network.vocabulary, network.judgement
        store = s.keep(table, network.reading, judgement)
        said = (
            f"scores from {judgement.least:g} to {judgement.most:g}"
            if judgement.is_score
            else ", ".join(judgement.classes)
        )
        facts = {
            "training pairs": f"{s.train}: {len(store):,}",
            "what is said": said,
            "vocabulary": f"{len(vocabulary):,} {s.tokens} tokens",
        }
        if network.context is not None:
            facts["embedder"] = network.context.describe(store)
        dev = None
        if dev_table is not None:
            held_out = s.keep(dev_table, network.reading, judgement)
            dev = JudgedBatches(held_out, tokens=16_384, sequences=256, shuffle=False)
            rate = held_out.unknown / held_out.tokens
            facts["dev pairs"] = f"{s.dev}: {len(held_out):,}; {rate:.2%} of the words unknown"
        if learned:
            facts |= s.set_vectors(network.embedder, vocabulary)
        train = JudgedBatches(store, tokens=s.batch_tokens, sequences=s.batch_size, seed=s.seed)
        return network, Data(train, dev, facts, s.cut_notes(store))

    @classmethod
    def write_data(cls, data: Any, stem: Path, settings: Mapping[str, Any]) -> Path:
        """(first text, second text, label or score), or columns."""
        return write_table(data, stem, ("first", "second", "label"))

    @classmethod
    def check(cls, settings: EncodeSettings) -> TableCheck:
        """What is in the files that `settings` name, before training on them; a pair counts as one text."""
        s = settings
        table = s.table(s.train)
        judgement = Judgement.of(table, s.target)
        vocabulary = s.make_vocabulary((s.read_text(t) for row in table for t in (row.first, row.second)), s.tokens)
        dev = None if s.dev is None else Joined(s.table(s.dev), judgement)
        return check_tables(Joined(table, judgement), dev, vocabulary, 2 * s.max_length, s.read_text, weighted=False)

    def save(self, folder: Path) -> None:
        self.vocabulary.save(folder / "tokenizer.json")
        write_json(folder / "labels.json", asdict(self.judgement))
        if self.context is not None:
            self.context.keep(folder)

    @classmethod
    def load_assets(cls, settings: EncodeSettings, folder: Path) -> Self:
        judgement = read_kept(folder / "labels.json", lambda kept: Judgement(**kept))
        context = ContextEmbedder.restore(settings, folder)
        return cls(settings, Vocabulary.load(folder / "tokenizer.json"), judgement, context)


@dataclass(frozen=True)
class Said:
    """Two texts and what the model says of them: a class with the chances of each, or a score."""

    first: str
    second: str
    label: str | float
    probabilities: dict[str, float]
    cut: bool = False  # of one of them only the first max_length tokens were read

    def __repr__(self) -> str:
        said = (
            f"{self.label:.3f}"
            if isinstance(self.label, float)
            else f"{self.label} {self.probabilities[self.label]:.3f}"
        )
        return f"{said}  {self.first} | {self.second}"


class Judged(Metric):
    """What was said of pairs against what should have been."""

    def __init__(self, model: SentenceEncoder) -> None:
        self.model = model
        self.best = "pearson" if model.judgement.is_score else "accuracy"
        self.confusion = Confusion(model.judgement.classes)
        self.gold: list[float] = []
        self.said: list[float] = []
        self.total = 0.0
        self.count = 0

    @torch.no_grad()
    def add(self, batch: JudgedBatch) -> None:
        scores = self.model.scores(batch)
        self.count += len(scores)
        if self.model.judgement.is_score:
            self.gold += batch.labels.tolist()
            self.said += self.model.expected(scores).tolist()
        else:
            self.confusion.add(batch.labels.long(), scores.argmax(1))
            self.total += float(F.cross_entropy(scores, batch.labels.long(), reduction="sum"))

    def merge(self, other: Judged) -> None:
        self.confusion.merge(other.confusion)
        self.gold += other.gold
        self.said += other.said
        self.total += other.total
        self.count += other.count

    def result(self) -> dict[str, float]:
        if not self.model.judgement.is_score:
            found = self.confusion
            return {"accuracy": found.accuracy, "macro_f1": found.macro_f1, "loss": self.total / max(1, self.count)}
        off = [(a - b) ** 2 for a, b in zip(self.gold, self.said, strict=True)]
        return {
            "pearson": pearson(self.gold, self.said),
            "spearman": spearman(self.gold, self.said),
            "mse": sum(off) / max(1, len(off)),
        }


def _pairs(lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(lines, 1):
        texts = line.split("\t")
        if len(texts) == 1:
            raise DataError(None, number, "one text only", "put a tab between the two texts of a pair")
        if len(texts) > 2:
            remedy = "put one tab between two texts, or give a table as a file named .tsv"
            raise DataError(None, number, f"{len(texts)} texts with tabs between, where a pair has two", remedy)
        yield texts[0], texts[1]
