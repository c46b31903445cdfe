"""Trees: a label for every node, from the words below it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Literal, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ...data import UNK, Vocabulary
from ...data.sources.brackets import Tree, Trees, read_brackets
from ...data.sources.memory import write_lines
from ...data.stores.examples import NO_LABEL, ExampleStore, keep_examples
from ...errors import SettingsError
from ...files import write_json
from ...metrics import Confusion
from ...networks.trees import ChildSumTreeLSTM, NaryTreeLSTM, RecursiveNet, TreeLayer
from ...pictures.confusion import show_confusion
from ...training import Data, Loss, Metric, key
from ...training.modes import in_eval_mode
from ...training.run import read_kept
from ..base import Option
from ..shared.combined import CombinedTask
from ..shared.settings import VectorSettings
from .check import TreeCheck, check_trees
from .examples import (
    Classes,
    LabelledTrees,
    TreeBatch,
    TreeBatches,
    TreeCounts,
    check_children,
    collate_trees,
    encode_trees,
)


class TreeSettings(VectorSettings):
    """Keys of the task on trees."""

    task: Literal["tree"] = key("tree", "the task", "data")
    classes: str | None = key(None, "join labels, as negative=0,1;positive=3,4; nodes with others do not count", "data")
    composition: Literal["n-ary", "child-sum", "recursive"] = key(
        "n-ary", "how a node comes of its children: two kinds of Tree-LSTM, or the plain recursive network", "model"
    )
    children: int | None = key(
        None, "the most children of a node (not for child-sum); null: as in train", "model",
        {"composition": ("n-ary", "recursive")}, ge=1,
    )  # fmt: skip
    activation: Literal["tanh", "sigmoid"] = key(
        "tanh", "of the recursive network", "model", {"composition": ("recursive",)}
    )
    hidden: int = key(150, "units of a node's state", "model", ge=1)
    train_on: Literal["all", "root"] = key("all", "the nodes whose labels are learnt", "model")

    def layer(self, children: int) -> TreeLayer:
        if self.composition == "child-sum":
            return ChildSumTreeLSTM(self.embedding, self.hidden)
        if self.composition == "recursive":
            return RecursiveNet(self.embedding, self.hidden, children, self.activation)
        return NaryTreeLSTM(self.embedding, self.hidden, children)


class TreeModel(CombinedTask):
    """embedding → tree layer → classes, at every node.

    >>> from carousel.tasks.tree.model import TreeModel, TreeSettings
    >>> from carousel.data import Vocabulary
    >>> from carousel.tasks.tree.examples import Classes
    >>> words = Vocabulary.train(["a fine film"], "word")
    >>> model = TreeModel(TreeSettings(train="trees.txt"), words, Classes({"0": ["0"], "1": ["1"]}), ["0", "1"], 2)
    >>> model.predict("(_ (_ fine) (_ film))").label in ("0", "1")
    True
    """

    name = "tree"
    help = """Train on trees with labels at their nodes: Penn brackets, or dependency trees in CoNLL-U.

    \b
    carousel train tree train.txt --dev dev.txt --out run          # (3 (2 The) (4 (3 actors) (4 shine)))
    carousel train tree train.txt --classes "negative=0,1;positive=3,4" --out run
    carousel train tree train.txt --composition recursive --train-on root --out run
    carousel train tree train.conllu --composition child-sum --out run

    Then: carousel eval run dev.txt, carousel predict run trees.txt."""
    Settings = TreeSettings
    unit = "nodes"
    extensions = (".ptb", ".mrg", ".trees", ".tree")
    predict_extensions = (".conllu",)
    columns = ("label", "confidence", "tree")
    predict_options = {"draw": Option(bool, "Each tree as a drawing.")}

    def __init__(
        self, settings: TreeSettings, vocabulary: Vocabulary, classes: Classes, known: list[str], children: int
    ) -> None:
        super().__init__()
        self.settings = s = settings
        self.vocabulary, self.classes, self.known, self.children_at_most = vocabulary, classes, known, children
        self.embedder = s.word_embedder(vocabulary)
        self.layer = s.layer(children)
        self.drop = nn.Dropout(s.dropout)
        self.output = nn.Linear(s.hidden, len(classes))

    # ---------------------------------------------------------------- the network

    def states(self, batch: TreeBatch) -> Tensor:
        """A state for every node, (n, hidden)."""
        return self.layer(self.embedder(batch.tokens.unsqueeze(0))[0], batch.forest)

    def scores(self, batch: TreeBatch) -> Tensor:
        """Log-probabilities of the classes before they are normalised, (n, classes)."""
        return self.output(self.drop(self.states(batch)))

    # ---------------------------------------------------------------- training

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

    @property
    def info(self) -> dict[str, Any]:
        return {"words": self.vocabulary, "labels": self.classes.names}

    def metric(self) -> NodeAccuracy:
        return NodeAccuracy(self)

    # ---------------------------------------------------------------- use

    def predict(self, trees: str | Tree | Iterable[str | Tree]) -> LabelledTree | list[LabelledTree]:
        """The label of every node of a tree, or of each of several; trees are given in brackets, labels ignored."""
        if isinstance(trees, str | Tree):
            return next(self.predictions([Tree.parse(trees) if isinstance(trees, str) else trees]))
        return list(self.predictions(Tree.parse(tree) if isinstance(tree, str) else tree for tree in trees))

    @in_eval_mode
    @torch.no_grad()
    def predictions(self, trees: Iterable[Tree], batch: int = 128, path: Path | None = None) -> Iterator[LabelledTree]:
        """As `predict`, for trees that stream past, `batch` at a time."""
        waiting = iter(trees)
        most = None if self.settings.composition == "child-sum" else self.children_at_most
        while group := list(islice(waiting, batch)):
            for tree in group:
                check_children(tree, most, path)
            made = collate_trees(encode_trees(group, self.vocabulary, self.settings.lower))
            probabilities = self.scores(made).softmax(1)
            for tree, rows in zip(group, probabilities.split(made.lengths.tolist()), strict=True):
                yield LabelledTree(tree, self.classes.names, rows)

    def predict_lines(self, lines: Iterable[str], *, draw: bool = False) -> Iterator[dict[str, Any]]:
        trees = read_brackets(enumerate(lines, 1), None)
        return (found.as_dict(draw) for found in self.predictions(trees))

    def predict_file(self, path: Path, *, draw: bool = False) -> Iterator[dict[str, Any]]:
        """As `predict_lines`, for a file of brackets or of CoNLL-U."""
        return (found.as_dict(draw) for found in self.predictions(Trees(path), path=path))

    def format(self, found: dict[str, Any], *, draw: bool = False, **options: Any) -> str:
        return found["drawing"] + "\n" if draw else super().format(found)

    @in_eval_mode
    def evaluate(self, path: str | Path) -> dict[str, Any]:
        """Accuracy at the roots and at all nodes; precision, recall and F1 of each class of a root."""
        meter, store = self._measure(path)
        return {
            **meter.result(),
            "trees": len(store),
            "unlabelled": store.facts["unlabelled"],
            "nodes": store.tokens,
            "unknown": store.unknown,
            "classes": meter.roots.classes(),
            "confusion": meter.roots.table(),
        }

    def _measure(self, path: str | Path) -> tuple[NodeAccuracy, ExampleStore]:
        store = _store(self.settings, Trees(path), self.vocabulary, self.classes, self.known, self.children_at_most)
        meter = self.metric()
        for batch in TreeBatches(store, trees=128, shuffle=False):
            meter.add(batch)
        return meter, store

    def show(self, page: Any) -> None:
        if self.settings.dev is None:
            return
        meter, _ = self._measure(self.settings.dev)
        told = f"`{self.settings.dev}`: accuracy *{meter.roots.accuracy:.2%}* of {meter.roots.total:,} roots."
        show_confusion(page, meter.roots, "What is taken for what, at the roots", told)
        page.heading("Some trees").text("Each node with the most probable class, and how probable it is.")
        small = (tree for tree in Trees(self.settings.dev) if len(tree) <= 40)
        for found in self.predictions(islice(small, 3)):
            page.code(found.drawing())

    # ---------------------------------------------------------------- data

    @classmethod
    def prepare(cls, settings: TreeSettings, network: Self | None = None) -> tuple[Self, Data]:
        s = settings
        source, dev_source = Trees(s.train), None if s.dev is None else Trees(s.dev)  # a missing file is said first
        learned = network is None
        if network is None:
            counts, classes, vocabulary = _learn(s, source)
            children = s.children or max(1, counts.most_children)
            known = sorted(counts.labels)
            network = cls(settings, vocabulary, classes, known, children)
        else:
            counts, classes, vocabulary = TreeCounts(source), network.classes, network.vocabulary
            children, known = network.children_at_most, network.known
        store = _store(s, source, vocabulary, classes, known, children)
        total = sum(counts.words.values())
        facts = {
            "training trees": f"{s.train}: {counts.trees:,} trees, {counts.nodes:,} nodes, {total:,} words",
            "classes": ", ".join(f"{name} ({', '.join(of)})" for name, of in classes.labels.items())
            if s.classes
            else ", ".join(
                f"{name} ({counts.labels[name] / counts.labels.total():.1%})" for name in classes.names[:50]
            ),
            "vocabulary": f"{len(vocabulary):,} words; {store.unknown / total:.2%} unknown",
            "children": f"{counts.most_children} at most",
        }
        dev = None
        if dev_source is not None:
            held_out = _store(s, dev_source, vocabulary, classes, known, children)
            dev = TreeBatches(held_out, trees=128, shuffle=False)
            facts["dev trees"] = f"{s.dev}: {len(held_out):,} trees, {held_out.tokens:,} nodes"
        if learned:
            facts |= s.set_vectors(network.embedder, vocabulary)
        return network, Data(TreeBatches(store, trees=s.batch_size, seed=s.seed), dev, facts)

    @classmethod
    def write_data(cls, data: Any, stem: Path, settings: Mapping[str, Any]) -> Path:
        """Trees in brackets, as text or as `Tree`."""
        return write_lines(data, stem.with_suffix(".txt"), str)

    @classmethod
    def check(cls, settings: TreeSettings) -> TreeCheck:
        """What is in the files that `settings` name, before training on them."""
        s = settings
        source = Trees(s.train)
        counts, classes, vocabulary = _learn(s, source)
        known = set(vocabulary.tokens[UNK + 1 :])
        return check_trees(
            source, None if s.dev is None else Trees(s.dev), known, sorted(counts.labels), classes, s.lower
        )

    def save(self, folder: Path) -> None:
        self.vocabulary.save(folder / "tokenizer.json")
        kept = {"classes": self.classes.labels, "labels": self.known, "children": self.children_at_most}
        write_json(folder / "labels.json", kept)

    @classmethod
    def load_assets(cls, settings: TreeSettings, folder: Path) -> Self:
        kept = read_kept(
            folder / "labels.json", lambda kept: (Classes(kept["classes"]), kept["labels"], kept["children"])
        )
        return cls(settings, Vocabulary.load(folder / "tokenizer.json"), *kept)


@dataclass(frozen=True)
class LabelledTree:
    """A tree and what the model says of each of its nodes."""

    tree: Tree
    classes: list[str]
    probabilities: Tensor  # (nodes, classes), children before parents

    @property
    def labels(self) -> list[str]:
        """The most probable class of each node."""
        return [self.classes[k] for k in self.probabilities.argmax(1).tolist()]

    @property
    def label(self) -> str:
        """That of the root."""
        return self.labels[-1]

    @property
    def confidence(self) -> float:
        return float(self.probabilities[-1].max())

    def drawing(self) -> str:
        """The tree in lines of text, each node with its class and how probable it is."""
        labels, sure = self.labels, self.probabilities.max(1).values.tolist()
        return self.tree.drawing(lambda node: f"{labels[node]} {sure[node]:.2f}")

    def __str__(self) -> str:
        labels = self.labels
        return self.tree.written(lambda node: labels[node])

    def __repr__(self) -> str:
        return f"{self.label} {self.confidence:.3f}  {self}"

    def as_dict(self, draw: bool = False) -> dict[str, Any]:
        """In JSON's terms; with its drawing only if asked, for that of a deep tree is as wide as it is long."""
        rounded = {name: round(p, 6) for name, p in zip(self.classes, self.probabilities[-1].tolist(), strict=True)}
        sure = [round(p, 6) for p in self.probabilities.max(1).values.tolist()]
        return {
            "label": self.label, "confidence": round(self.confidence, 6), "tree": str(self), "probabilities": rounded,
            "nodes": [list(pair) for pair in zip(self.labels, sure, strict=True)],
        } | ({"drawing": self.drawing()} if draw else {})  # fmt: skip


class NodeAccuracy(Metric):
    """The share of roots, and of all labelled nodes, whose most probable class is theirs."""

    best = "accuracy"

    def __init__(self, model: TreeModel) -> None:
        self.model = model
        self.roots, self.nodes = Confusion(model.classes.names), Confusion(model.classes.names)
        self.total = 0.0

    @torch.no_grad()
    def add(self, batch: TreeBatch) -> None:
        scores = self.model.scores(batch)
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

    def merge(self, other: NodeAccuracy) -> None:
        self.roots.merge(other.roots)
        self.nodes.merge(other.nodes)
        self.total += other.total

    def result(self) -> dict[str, float]:
        return {
            "accuracy": self.roots.accuracy,
            "node_accuracy": self.nodes.accuracy,
            "macro_f1": self.roots.macro_f1,
            "loss": self.total / max(1, self.roots.total),
        }


def _learn(s: TreeSettings, source: Trees) -> tuple[TreeCounts, Classes, Vocabulary]:
    """What the training file holds, the classes, and the vocabulary."""
    counts = TreeCounts(source)
    if s.classes is None:
        classes = Classes({label: [label] for label in sorted(counts.labels)})
    else:
        try:
            classes = Classes.joined(s.classes)
        except ValueError as error:
            raise SettingsError(str(error)) from error
        for name, of in classes.labels.items():
            for label in of:
                if label not in counts.labels:
                    known = ", ".join(sorted(counts.labels)[:20])
                    raise SettingsError(f"classes: {name} has {label!r}, but {s.train} has only {known}")
    texts = (s.read_text(word) for word in counts.words.elements())
    return counts, classes, s.make_vocabulary(texts)


def _store(
    s: TreeSettings, source: Trees, vocabulary: Vocabulary, classes: Classes, known: list[str], children: int
) -> ExampleStore:
    most = None if s.composition == "child-sum" else children
    return keep_examples(LabelledTrees(source, vocabulary, classes, known, most, s.lower), s.cache_folder)
