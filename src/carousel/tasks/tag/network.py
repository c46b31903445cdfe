"""The tagger's network: words and their characters → layers → a score for each tag of each word."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from ...data.stores.examples import NO_LABEL, ExampleBatch
from ...data.text.tags import legal, type_of
from ...metrics import Confusion
from ...metrics.spans import SpanScore
from ...networks.auxiliary_lm import MOST_WORDS, AuxiliaryLM
from ...networks.crf import CRF
from ...networks.encoder import SequenceDropout
from ...ops.cross_entropy import linear_cross_entropy
from ...training import Loss, Network, SummedMetric
from ..shared.context_network import context_embedder
from .data import TagAssets
from .settings import TagSettings


class TaggerNetwork(Network):
    """Sentences (T, B) to scores of the tags (T, B, K), and to the best tags of each sentence."""

    unit = "words"

    def __init__(self, settings: TagSettings, assets: TagAssets) -> None:
        super().__init__()
        self.settings = s = settings
        vocabulary = assets.vocabulary
        self.tags, self.scheme = vocabulary.tags, vocabulary.scheme
        self.context = context_embedder(s, assets.context)
        self.embedder = s.word_embedder(vocabulary.words, s.variational)
        self.shapes = s.word_readers(vocabulary.characters, len(vocabulary.words))
        self.drop_shapes = SequenceDropout(s.dropout, s.variational)
        beside = sum(part.size for part in (self.shapes, self.context) if part is not None)
        self.layers = s.encoder(s.embedding + beside)
        self.drop = SequenceDropout(s.dropout, s.variational)
        self.residual = nn.ModuleList(
            s.recurrent(s.encoded, bidirectional=s.bidirectional) for _ in range(s.residual_layers)
        )
        self.output = nn.Linear(s.encoded, len(self.tags))
        self.crf: CRF | None = None
        if s.output == "crf" or (s.output == "auto" and self.scheme is not None):
            masks = [torch.from_numpy(mask) for mask in legal(self.tags, self.scheme)]
            self.crf = CRF(len(self.tags), *masks)
        directions = 2 if s.bidirectional else 1
        self.auxiliary = AuxiliaryLM(len(vocabulary.words), s.hidden, directions) if s.predicts_neighbours else None
        if assets.vectors is not None:
            self.embedder.set_vectors(assets.vectors)

    def read(self, batch: ExampleBatch) -> Tensor:
        """What the layers read of a batch, (T, B, I)."""
        x = self.embedder(batch.tokens)
        if self.shapes is not None:
            assert batch.characters is not None and batch.spelling is not None
            shapes = self.shapes(batch.characters, batch.spelling, batch.mask)
            x = torch.cat((x, self.drop_shapes(shapes)), 2)
        if self.context is not None:
            x = torch.cat((x, self.context(batch.context)), 2)
        return x

    def encode(self, batch: ExampleBatch) -> Tensor:
        """What the output layer reads, (T, B, directions · hidden)."""
        return self.refine(self.encode_below(batch), batch.lengths)

    def encode_below(self, batch: ExampleBatch) -> Tensor:
        """What the residual layers read, (T, B, directions · hidden)."""
        y, _ = self.layers(self.read(batch), lengths=batch.lengths)
        return self.drop(y)

    def refine(self, x: Tensor, lengths: Tensor) -> Tensor:
        """x (T, B, directions · hidden) → the same and, added to it, what each residual layer makes of it."""
        for layer in self.residual:
            y, _ = layer(x, lengths=lengths)
            x = x + self.drop(y)
        return x

    def emissions(self, batch: ExampleBatch) -> Tensor:
        """A score for each tag of each word, (T, B, K); without a CRF, its log-probability."""
        scores = self.output(self.encode(batch))
        return scores if self.crf is not None else scores.log_softmax(2)

    def loss(self, batch: ExampleBatch) -> Loss:
        """The negative log-probability of the tags, divided by the number of words; in training, with that of each
        word's neighbours, times `lm_loss`."""
        assert batch.labels is not None
        words = int(batch.lengths.sum())
        below = self.encode_below(batch)
        x = self.refine(below, batch.lengths)
        if self.crf is not None:
            mean = self.crf.loss(self.output(x), batch.labels, batch.lengths).sum() / words
        else:
            mean = linear_cross_entropy(
                x, self.output.weight, batch.labels, self.output.bias, ignore_index=NO_LABEL,
                label_smoothing=self.settings.label_smoothing,
            )  # fmt: skip
        if self.auxiliary is not None and self.training:
            mean = mean + self.settings.lm_loss * self.auxiliary(below, batch.tokens, batch.mask) / words
        return Loss(mean, words)

    def row_names(self, assets: TagAssets) -> dict[str, tuple[Sequence[str], ...]]:
        vocabulary, tags = assets.vocabulary, (assets.vocabulary.tags,)
        words = {"embedder.embedder.weight": (vocabulary.words.tokens,)}
        spelled = {"shapes.readers.0.embedder.weight": (vocabulary.characters.tokens,)}
        crf = {"crf.transitions": tags * 2, "crf.start": tags, "crf.end": tags}
        most = (vocabulary.words.tokens[:MOST_WORDS],)
        predicted = {"auxiliary.output.weight": most, "auxiliary.output.bias": most}
        return {**words, **spelled, **crf, **predicted, "output.weight": tags, "output.bias": tags}

    def metric(self) -> TagMetric:
        return TagMetric(self)


class TagMetric(SummedMetric):
    """The share of words with the right tag, F1 of the spans if there are any, and the mean loss of a word."""

    sums = ("confusion", "spans", "total", "unseen", "unseen_right")

    def __init__(self, network: TaggerNetwork) -> None:
        self.network = network
        self.best = "accuracy" if network.scheme is None else "span_f1"
        self.confusion = Confusion(network.tags)
        self.spans = SpanScore()
        self.total = 0.0
        self.unseen = self.unseen_right = 0

    @torch.no_grad()
    def add(self, batch: ExampleBatch, unseen: Tensor | None = None) -> None:
        """Count a batch; `unseen`, (words,) bool, marks the words, sentence by sentence, that were not in training."""
        network = self.network
        assert batch.labels is not None
        emissions = network.emissions(batch)
        mask = batch.mask
        if network.crf is not None:
            tags = network.crf.best(emissions, batch.lengths).tags
            self.total += float(network.crf.loss(emissions, batch.labels, batch.lengths).sum())
        else:
            tags = emissions.argmax(2)
            gold = batch.labels.clamp(min=0).unsqueeze(2)
            self.total -= float(emissions.gather(2, gold).squeeze(2)[mask].sum())
        by_row = mask.T
        gold, predicted = batch.labels.T[by_row], tags.T[by_row]
        self.confusion.add(gold, predicted)
        if unseen is not None:
            self.unseen += int(unseen.sum())
            self.unseen_right += int((gold == predicted)[unseen].sum())
        if network.scheme is not None:
            names = np.array(network.tags, object)
            ends = batch.lengths.cumsum(0)[:-1].tolist()
            both = (np.split(names[numbers.numpy()], ends) for numbers in (gold, predicted))
            for right, guess in zip(*both, strict=True):
                self.spans.add(right.tolist(), guess.tolist())

    @property
    def accuracy_unseen(self) -> float:
        """Of the words that were marked as unseen in training."""
        return self.unseen_right / max(1, self.unseen)

    @property
    def confusion_by_type(self) -> Confusion:
        """The confusion matrix of the tags; if these are parts of spans, of the types of the spans."""
        if self.network.scheme is None:
            return self.confusion
        return self.confusion.merged([type_of(tag) for tag in self.confusion.labels])

    def result(self) -> dict[str, float]:
        result = {"accuracy": self.confusion.accuracy, "loss": self.total / max(1, self.confusion.total)}
        return result if self.network.scheme is None else {"span_f1": self.spans.f1, **result}
