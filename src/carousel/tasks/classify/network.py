"""The classifier's network: embedding → layers → pooling → classes."""

from __future__ import annotations

from typing import Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ...data.stores.examples import ExampleBatch
from ...metrics import Confusion
from ...networks.encoder import SequenceDropout
from ...networks.pooling import pooling
from ...training import Loss, Metric, Network
from ..shared.context import context_embedder, read_words
from .data import ClassifyAssets
from .settings import ClassifySettings


class ClassifierNetwork(Network):
    """Texts (T, B) to scores of the classes (B, classes)."""

    unit = "texts"

    def __init__(self, settings: ClassifySettings, assets: ClassifyAssets) -> None:
        super().__init__()
        self.settings = s = settings
        self.labels = assets.labels
        context = context_embedder(s, assets.context)
        self.embedder = s.word_embedder(assets.vocabulary, s.variational)
        self.context = context
        self.layers = s.encoder(s.embedding + (self.context.size if self.context is not None else 0))
        self.drop = SequenceDropout(s.dropout, s.variational)
        self.pool = pooling(s.pooling, s.encoded, s.bidirectional)
        self.output = nn.Linear(s.encoded, len(self.labels))
        self.weights: Tensor | None
        self.register_buffer("weights", assets.weights, persistent=False)
        if assets.vectors is not None:
            self.embedder.set_vectors(assets.vectors)

    def read(self, batch: ExampleBatch) -> Tensor:
        """What the layers read of a batch, (T, B, I)."""
        return read_words(self.embedder, self.context, batch)

    def scores(self, batch: ExampleBatch) -> Tensor:
        """Log-probabilities of the classes before they are normalised, (B, classes)."""
        y, _ = self.layers(self.read(batch), lengths=batch.lengths)
        return self.output(self.pool(self.drop(y), batch.lengths))

    def loss(self, batch: ExampleBatch) -> Loss:
        """The mean cross-entropy of a text's label."""
        scores = self.scores(batch)
        assert batch.labels is not None
        smooth = self.settings.label_smoothing
        losses = F.cross_entropy(scores, batch.labels, reduction="none", label_smoothing=smooth)
        if self.weights is not None:
            losses = losses * self.weights[batch.labels]
        return Loss(losses.mean(), len(losses))

    def metric(self) -> Accuracy:
        return Accuracy(self)


class Accuracy(Metric):
    """The share of texts whose label is the most probable one, and the mean F1 of the classes."""

    best = "accuracy"

    def __init__(self, network: ClassifierNetwork) -> None:
        self.network = network
        self.confusion = Confusion(network.labels)
        self.total = 0.0

    @torch.no_grad()
    def add(self, batch: ExampleBatch) -> None:
        scores = self.network.scores(batch)
        assert batch.labels is not None
        self.total += float(F.cross_entropy(scores, batch.labels, reduction="sum"))
        self.confusion.add(batch.labels, scores.argmax(1))

    def merge(self, other: Self) -> None:
        self.confusion.merge(other.confusion)
        self.total += other.total

    def result(self) -> dict[str, float]:
        c = self.confusion
        return {"accuracy": c.accuracy, "macro_f1": c.macro_f1, "loss": self.total / max(1, c.total)}
