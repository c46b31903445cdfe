"""The classifier's network: embedding → layers → pooling → classes, beside a linear model of n-grams."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ...data.stores.examples import ExampleBatch
from ...layers import Recurrent
from ...metrics import Confusion, expected_calibration_error
from ...networks.encoder import SequenceDropout
from ...networks.pooling import pooling
from ...training import Loss, Metric, Network, SummedMetric
from ..shared.context_network import context_embedder, read_words
from .chunks import Chunks
from .data import ClassifyAssets
from .metrics import LabelScores, NumberErrors
from .settings import ClassifySettings
from .targets import Target


class LabelNetwork(Network):
    """Sequences to scores of classes: a subclass makes its `layers` and what they read, and calls `make_output`."""

    layers: Recurrent

    def make_output(self, settings: Any, target: Target, weights: Tensor | None) -> None:
        """Pooling, output layer, and what is chosen on the dev set; `weights` are those of the classes in the loss."""
        self.settings = s = settings
        self.labels, self.target = target.labels, target
        self.drop = SequenceDropout(s.dropout, s.variational)
        self.pool = pooling(s.pooling, s.encoded, s.bidirectional)
        self.output = nn.Linear(s.encoded, target.outputs)
        thresholds = torch.full((len(self.labels),), 0.5) if target.kind == "labels" else None
        self.thresholds: Tensor | None  # (labels,): of probabilities, chosen on the dev set
        self.register_buffer("thresholds", thresholds)
        self.weights: Tensor | None
        self.register_buffer("weights", weights, persistent=False)
        self.mixture: Tensor | None  # (2,): the share of the linear model, the temperature of this network
        self.register_buffer("mixture", torch.tensor([0.5, 1.0]) if s.mixes else None)

    def read(self, batch: Any) -> Tensor:
        """What the layers read of a batch, (T, B, I)."""
        raise NotImplementedError

    def encode(self, batch: Any) -> Tensor:
        """The vectors of each step of a batch, (T, B, F)."""
        y, _ = self.layers(self.read(batch), lengths=batch.lengths)
        return self.drop(y)

    def own_scores(self, batch: Any) -> Tensor:
        """Log-probabilities of the classes before they are normalised, by this network alone, (B, classes); of labels
        the logits, (B, labels); of a number its distance from the mean in standard deviations, (B, 1)."""
        chunks = Chunks(batch, self.settings.chunk)
        if chunks.needed:
            return self.output(chunks.pooled(self.encode, self.pool))
        return self.output(self.pool(self.encode(batch), batch.lengths))

    def scores(self, batch: Any) -> Tensor:
        """The same of the mixture with the linear model, if there is one: then they are normalised."""
        own = self.own_scores(batch)
        if self.mixture is None or batch.linear is None:
            return own
        return mix(own, batch.linear, *self.mixture.tolist())

    def loss(self, batch: Any) -> Loss:
        """The mean cross-entropy of the label by this network alone: the linear model is trained apart. Of several
        labels the mean binary cross-entropy of a decision, of a number its squared error."""
        scores, smooth = self.own_scores(batch), self.settings.label_smoothing
        if batch.targets is not None and self.target.kind == "number":
            return Loss(F.mse_loss(scores, batch.targets), len(scores))
        if batch.targets is not None:
            smoothed = batch.targets * (1 - smooth) + smooth / 2
            return Loss(F.binary_cross_entropy_with_logits(scores, smoothed, pos_weight=self.weights), len(scores))
        assert batch.labels is not None
        losses = F.cross_entropy(scores, batch.labels, reduction="none", label_smoothing=smooth)
        if self.weights is not None:
            losses = losses * self.weights[batch.labels]
        return Loss(losses.mean(), len(losses))

    def describe_choice(self) -> tuple[str, bool]:
        if self.mixture is None:
            return "", False
        share = float(self.mixture[0])
        return f"the linear model has a share of {share:.0%} in the predictions", share == 1

    def metric(self, tune: bool = True) -> Metric:
        """With `tune`, whatever is chosen on the dev set is chosen: thresholds, the share of the linear model."""
        if self.target.kind == "number":
            return NumberErrors(self)
        if self.target.kind == "labels":
            return LabelScores(self, tune)
        return MixtureAccuracy(self) if self.mixture is not None and tune else Accuracy(self)


class ClassifierNetwork(LabelNetwork):
    """Texts (T, B) to scores of the classes (B, classes)."""

    unit = "texts"

    def __init__(self, settings: ClassifySettings, assets: ClassifyAssets) -> None:
        super().__init__()
        s = settings
        context = context_embedder(s, assets.context)
        self.embedder = s.word_embedder(assets.vocabulary, s.variational)
        self.context = context
        self.layers = s.encoder(s.embedding + (self.context.size if self.context is not None else 0))
        self.make_output(s, assets.target, assets.weights)
        if assets.vectors is not None:
            self.embedder.set_vectors(assets.vectors)

    def read(self, batch: ExampleBatch) -> Tensor:
        return read_words(self.embedder, self.context, batch)

    def row_names(self, assets: ClassifyAssets) -> dict[str, tuple[Sequence[str], ...]]:
        words, labels = (assets.vocabulary.tokens,), (assets.labels or ["number"],)
        return {"embedder.embedder.weight": words, "output.weight": labels, "output.bias": labels}


def mix(own: Tensor, linear: Tensor, share: float, temperature: float) -> Tensor:
    """Log-probabilities of a mixture, (B, classes): ln(share · e^linear + (1 - share) · softmax(own / temperature))."""
    own = (own / temperature).log_softmax(1)
    if share in (0, 1):
        return linear if share else own
    return torch.logaddexp(linear + math.log(share), own + math.log1p(-share))


class Accuracy(SummedMetric):
    """The share of examples whose label is the most probable one, and the mean F1 of the classes."""

    best = "accuracy"
    sums: ClassVar[tuple[str, ...]] = ("confusion", "total", "confidences", "right")

    def __init__(self, network: LabelNetwork) -> None:
        self.network = network
        self.confusion = Confusion(network.labels)
        self.total = 0.0
        self.confidences: list[float] = []  # in the predicted classes
        self.right: list[bool] = []

    @torch.no_grad()
    def add(self, batch: Any) -> None:
        scores = self.network.scores(batch)
        assert batch.labels is not None
        self.confidences += scores.softmax(1).max(1).values.tolist()
        self.right += (scores.argmax(1) == batch.labels).tolist()
        self.total += float(F.cross_entropy(scores, batch.labels, reduction="sum"))
        self.confusion.add(batch.labels, scores.argmax(1))

    @property
    def calibration_error(self) -> float:
        """The expected calibration error: how far confidence is from accuracy."""
        return expected_calibration_error(self.confidences, self.right)

    def result(self) -> dict[str, float]:
        c = self.confusion
        return {"accuracy": c.accuracy, "macro_f1": c.macro_f1, "loss": self.total / max(1, c.total)}


class MixtureAccuracy(Accuracy):
    """The accuracy on the dev set with the best mixture, which the network then has: share and temperature are those
    with the smallest loss there."""

    sums = ("seen",)
    SHARES = tuple(k / 20 for k in range(21))
    TEMPERATURES = tuple(2 ** (k / 4) for k in range(-4, 9))  # 0.5 to 4

    def __init__(self, network: LabelNetwork) -> None:
        super().__init__(network)
        self.seen: list[tuple[Tensor, Tensor, Tensor]] = []  # scores of both models (B, classes), labels (B,)

    @torch.no_grad()
    def add(self, batch: ExampleBatch) -> None:
        assert batch.labels is not None and batch.linear is not None
        self.seen.append((self.network.own_scores(batch), batch.linear, batch.labels))

    def result(self) -> dict[str, float]:
        if self.seen:
            own, linear, labels = (torch.cat(parts) for parts in zip(*self.seen, strict=True))
            both = [(share, t) for t in self.TEMPERATURES for share in self.SHARES]
            losses = [float(F.nll_loss(mix(own, linear, *one), labels)) for one in both]
            best = both[losses.index(min(losses))]
            assert self.network.mixture is not None
            self.network.mixture.copy_(torch.tensor(best))
            self.confusion = Confusion(self.network.labels)
            self.confusion.add(labels, mix(own, linear, *best).argmax(1))
            self.total = min(losses) * len(labels)
        return super().result()
