"""The sentence encoder's network: embedding → layers → pooling → u; of two texts a class, or a score."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ...data.stores.examples import ExampleBatch
from ...metrics import Confusion, pearson, spearman
from ...networks.pooling import pooling
from ...training import Loss, Network, SummedMetric
from ..shared.context_network import context_embedder, read_words
from .data import EncodeAssets
from .examples import PairBatch
from .settings import EncodeSettings


class EncoderNetwork(Network):
    """Texts (T, B) to vectors u (B, size); of two texts (u, v, |u − v|, u ∘ v) → head → a class, or a score.

    A score is the expected value of a distribution over the whole numbers from the least score to the most; what is
    learnt is that distribution, with the weight of a score between two numbers shared by both.
    """

    unit = "pairs"

    def __init__(self, settings: EncodeSettings, assets: EncodeAssets) -> None:
        super().__init__()
        self.settings = s = settings
        self.target = assets.target
        context = context_embedder(s, assets.context)
        self.embedder = s.word_embedder(assets.vocabulary, s.variational)
        self.embedder.drop.rate = 0.0  # two masks would make the vectors of equal texts differ: |u − v| must be clean
        self.context = context
        if context is not None:
            context.drop.rate = s.embedder_dropout or 0.0
        self.layers = s.encoder(s.embedding + (context.size if context is not None else 0))
        self.pool = pooling(s.pooling, s.encoded, s.bidirectional)
        levels = torch.tensor(self.target.levels, dtype=torch.float32) if self.target.is_score else None
        self.levels: Tensor | None
        self.register_buffer("levels", levels, persistent=False)
        outputs = len(self.target.classes) if levels is None else len(levels)
        self.head = nn.Sequential(
            nn.Dropout(s.dropout), nn.Linear(4 * s.encoded, s.head), nn.Tanh(), nn.Linear(s.head, outputs)
        )
        if assets.vectors is not None:
            self.embedder.set_vectors(assets.vectors)

    def read(self, batch: ExampleBatch) -> Tensor:
        """What the layers read of a batch of texts, (T, B, I)."""
        return read_words(self.embedder, self.context, batch)

    def encode(self, batch: ExampleBatch) -> Tensor:
        """The texts' vectors, (B, size)."""
        y, _ = self.layers(self.read(batch), lengths=batch.lengths)
        return self.pool(y, batch.lengths)

    def scores(self, batch: PairBatch) -> Tensor:
        """Log-probabilities before they are normalised: of the classes, or of the levels of a score, (B, K)."""
        u, v = self.encode(batch.first), self.encode(batch.second)
        return self.head(torch.cat((u, v, (u - v).abs(), u * v), 1))

    def expected(self, scores: Tensor) -> Tensor:
        """The expected value of the distribution over levels, (B, K) → (B,)."""
        assert self.levels is not None
        return scores.softmax(1) @ self.levels

    def spread(self, labels: Tensor) -> Tensor:
        """Scores (B,) as distributions over the two levels beside each, (B, K)."""
        assert self.levels is not None
        place = (labels - float(self.levels[0])).clamp(0, len(self.levels) - 1)
        low = place.floor().long().clamp(max=len(self.levels) - 2)
        share = (place - low).float()
        rows = torch.arange(len(labels))
        distribution = torch.zeros(len(labels), len(self.levels))
        distribution[rows, low] = 1 - share
        distribution[rows, low + 1] = share
        return distribution

    def loss(self, batch: PairBatch) -> Loss:
        """The mean cross-entropy of a pair's class; of a score, also its squared error."""
        scores = self.scores(batch)
        smooth = self.settings.label_smoothing
        if not self.target.is_score:
            return Loss(F.cross_entropy(scores, batch.labels.long(), label_smoothing=smooth), len(scores))
        cross_entropy = F.cross_entropy(scores, self.spread(batch.labels), label_smoothing=smooth)
        squared_error = F.mse_loss(self.expected(scores), batch.labels.float())
        return Loss(cross_entropy + squared_error, len(scores))

    def row_names(self, assets: EncodeAssets) -> dict[str, tuple[Sequence[str], ...]]:
        outputs = (list(map(str, self.target.levels if self.target.is_score else self.target.classes)),)
        words = {"embedder.embedder.weight": (assets.vocabulary.tokens,)}
        return {**words, "head.3.weight": outputs, "head.3.bias": outputs}

    def metric(self) -> PairMetric:
        return PairMetric(self)


class PairMetric(SummedMetric):
    """Of scores the correlations with the true ones and the mean squared error; of classes accuracy and macro-F1."""

    sums = ("confusion", "gold", "predicted", "total", "count")

    def __init__(self, network: EncoderNetwork) -> None:
        self.network = network
        self.best = "pearson" if network.target.is_score else "accuracy"
        self.tie_breaker = "mse" if network.target.is_score else "loss"
        self.confusion = Confusion(network.target.classes)
        self.gold: list[float] = []
        self.predicted: list[float] = []
        self.total = 0.0
        self.count = 0

    @torch.no_grad()
    def add(self, batch: PairBatch) -> None:
        scores = self.network.scores(batch)
        self.count += len(scores)
        if self.network.target.is_score:
            self.gold += batch.labels.tolist()
            self.predicted += self.network.expected(scores).tolist()
        else:
            self.confusion.add(batch.labels.long(), scores.argmax(1))
            self.total += float(F.cross_entropy(scores, batch.labels.long(), reduction="sum"))

    def result(self) -> dict[str, float]:
        if not self.network.target.is_score:
            c = self.confusion
            return {"accuracy": c.accuracy, "macro_f1": c.macro_f1, "loss": self.total / max(1, self.count)}
        squares = [(a - b) ** 2 for a, b in zip(self.gold, self.predicted, strict=True)]
        return {
            "pearson": pearson(self.gold, self.predicted),
            "spearman": spearman(self.gold, self.predicted),
            "mse": sum(squares) / max(1, len(squares)),
        }
