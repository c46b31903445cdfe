"""The network of the task on trees: embedding → tree layer → classes, at every node."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ...data.stores.examples import NO_LABEL
from ...metrics import Confusion
from ...networks.trees import ChildSumTreeLSTM, NaryTreeLSTM, RecursiveNet, TreeLayer
from ...training import Loss, Network, SummedMetric
from .data import TreeAssets
from .examples import TreeBatch
from .settings import TreeSettings


def tree_layer(settings: TreeSettings, children: int) -> TreeLayer:
    """The layer that gives a node its state from its children, of which there are at most so many."""
    s = settings
    if s.composition == "child-sum":
        return ChildSumTreeLSTM(s.embedding, s.hidden)
    if s.composition == "recursive":
        return RecursiveNet(s.embedding, s.hidden, children, s.activation)
    return NaryTreeLSTM(s.embedding, s.hidden, children)


class TreeNetwork(Network):
    """The nodes (n,) of some trees to scores of the classes (n, classes)."""

    unit = "nodes"

    def __init__(self, settings: TreeSettings, assets: TreeAssets) -> None:
        super().__init__()
        self.settings = s = settings
        self.classes = assets.classes
        self.embedder = s.word_embedder(assets.vocabulary)
        self.layer = tree_layer(s, assets.children)
        self.drop = nn.Dropout(s.dropout)
        self.output = nn.Linear(s.hidden, len(assets.classes))
        if assets.vectors is not None:
            self.embedder.set_vectors(assets.vectors)

    def read(self, batch: TreeBatch) -> Tensor:
        """What the layer reads, (n, embedding)."""
        return self.embedder(batch.tokens.unsqueeze(0))[0]

    def states(self, batch: TreeBatch) -> Tensor:
        """A state for every node, (n, hidden)."""
        return self.layer(self.read(batch), batch.forest)

    def scores(self, batch: TreeBatch) -> Tensor:
        """Log-probabilities of the classes before they are normalised, (n, classes)."""
        return self.output(self.drop(self.states(batch)))

    def loss(self, batch: TreeBatch) -> Loss:
        """The mean cross-entropy of the labels: of all nodes that have one, or of the roots."""
        scores, labels = self.scores(batch), batch.labels
        assert labels is not None
        if self.settings.train_on == "root":
            scores, labels = scores[batch.roots], labels[batch.roots]
        count = int((labels != NO_LABEL).sum())
        total = F.cross_entropy(
            scores, labels, ignore_index=NO_LABEL, reduction="sum", label_smoothing=self.settings.label_smoothing
        )
        return Loss(total / max(1, count), max(1, count))

    def row_names(self, assets: TreeAssets) -> dict[str, tuple[Sequence[str], ...]]:
        words, classes = (assets.vocabulary.tokens,), (assets.classes.names,)
        return {"embedder.embedder.weight": words, "output.weight": classes, "output.bias": classes}

    def metric(self) -> NodeAccuracy:
        return NodeAccuracy(self)


class NodeAccuracy(SummedMetric):
    """The share of roots, and of all labelled nodes, whose most probable class is theirs."""

    best = "accuracy"
    sums = ("roots", "nodes", "total")

    def __init__(self, network: TreeNetwork) -> None:
        self.network = network
        self.roots, self.nodes = Confusion(network.classes.names), Confusion(network.classes.names)
        self.total = 0.0

    @torch.no_grad()
    def add(self, batch: TreeBatch) -> None:
        scores = self.network.scores(batch)
        assert batch.labels is not None
        every = torch.ones(len(scores), dtype=torch.bool)
        for confusion, chosen in (
            (self.roots, torch.zeros_like(every).index_fill_(0, batch.roots, True)),
            (self.nodes, every),
        ):
            chosen = chosen & (batch.labels != NO_LABEL)
            confusion.add(batch.labels[chosen], scores[chosen].argmax(1))
        at = batch.roots
        self.total += float(F.cross_entropy(scores[at], batch.labels[at], ignore_index=NO_LABEL, reduction="sum"))

    def result(self) -> dict[str, float]:
        return {
            "accuracy": self.roots.accuracy,
            "node_accuracy": self.nodes.accuracy,
            "macro_f1": self.roots.macro_f1,
            "loss": self.total / max(1, self.roots.total),
        }
