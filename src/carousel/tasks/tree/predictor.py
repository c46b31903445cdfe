"""The task on trees in use: a label for every node."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, overload

import torch
from torch import Tensor

from ...data import UNK
from ...data.sources.brackets import Tree, Trees, read_brackets
from ...data.sources.memory import read_texts
from ...data.stores.examples import ExampleStore
from ...layers import Clamp
from ...networks.trees import TreeTrace
from ...training.modes import in_eval_mode
from ..base import Model
from ..shared.ensemble import with_members
from .data import TreeAssets, reading_batches, store_trees
from .examples import TreeBatch, TreeBatches, check_children, collate_trees, encode_trees
from .network import NodeAccuracy, TreeNetwork


class TreeModel(Model[TreeNetwork, TreeAssets]):
    """A model of trees.

    >>> import tempfile, carousel
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     trees = ["(1 (1 fine) (0 film))", "(0 (0 dull) (0 film))"]
    ...     model = carousel.train("tree", trees, out=folder + "/run", hidden=4, epochs=1, quiet=True)
    >>> model.predict("(_ (_ fine) (_ film))").label in ("0", "1")
    True
    """

    name = "tree"
    kind = "tree classifier"
    item_types = (str, Tree)
    columns = ("label", "confidence", "tree")

    @property
    def info(self) -> dict[str, Any]:
        return {"words": self.assets.vocabulary, "labels": self.assets.classes.names}

    @overload
    def predict(self, trees: str | Tree) -> LabelledTree: ...  # type: ignore[overload-overlap]
    @overload
    def predict(self, trees: Iterable[str | Tree]) -> list[LabelledTree]: ...
    def predict(self, trees: str | Tree | Iterable[str | Tree]) -> LabelledTree | list[LabelledTree]:
        """The label of every node of a tree, or of each of several; trees are given in brackets, labels ignored."""
        if isinstance(trees, str | Tree):
            return next(self.predictions([Tree.parse(trees) if isinstance(trees, str) else trees]))
        given = read_texts(trees, (Tree,), "trees")
        return list(self.predictions(Tree.parse(tree) if isinstance(tree, str) else tree for tree in given))

    def _run_traced(self, items: Sequence[str | Tree], clamps: Sequence[Clamp], part: str) -> list[TreeTrace]:
        """A `TreeTrace` of each tree; `tokens` names the nodes by their words. The `steps` of a `Clamp` are the nodes
        of a tree, in the order of `tokens`, its `sequences` the trees."""
        trees = [Tree.parse(tree) if isinstance(tree, str) else tree for tree in items]
        batch = self._batch(trees)
        lengths = batch.lengths.tolist()
        whole = self.network.layer.intervene(self.network.read(batch), batch.forest, *clamps)
        unknown = (batch.tokens == UNK).split(lengths)
        return [
            replace(
                trace, tokens=tuple(f"{span} [UNK]" if k else span for span, k in zip(tree.spans, own, strict=True))
            )
            for tree, trace, own in zip(trees, whole.split(lengths), unknown, strict=True)
        ]

    def _batch(self, trees: Sequence[Tree], path: Path | None = None) -> TreeBatch:
        most = None if self.settings.composition == "child-sum" else self.assets.children
        for tree in trees:
            check_children(tree, most, path)
        return collate_trees(encode_trees(trees, self.assets.vocabulary, self.settings.lower))

    @in_eval_mode
    @torch.no_grad()
    def predictions(
        self, trees: Iterable[Tree], batch_size: int = 128, path: Path | None = None
    ) -> Iterator[LabelledTree]:
        """As `predict`, for a stream of trees, `batch_size` at a time."""
        waiting = iter(trees)
        while group := list(islice(waiting, batch_size)):
            batch = self._batch(group, path)
            probabilities = self.network.scores(batch).softmax(1)
            for tree, rows in zip(group, probabilities.split(batch.lengths.tolist()), strict=True):
                yield LabelledTree(tree, self.assets.classes.names, rows)

    def predict_lines(self, lines: Iterable[str], *, draw: bool = False) -> Iterator[dict[str, Any]]:
        trees = read_brackets(enumerate(lines, 1), None)
        return (prediction.as_dict(draw) for prediction in self.predictions(trees))

    def predict_file(self, path: Path, *, draw: bool = False) -> Iterator[dict[str, Any]]:
        """As `predict_lines`, for a file of brackets or of CoNLL-U."""
        return (prediction.as_dict(draw) for prediction in self.predictions(Trees(path), path=path))

    def header(self, *, draw: bool = False, **options: Any) -> str:
        return "" if draw else super().header()

    def format(self, result: dict[str, Any], *, draw: bool = False, **options: Any) -> str:
        return result["drawing"] + "\n" if draw else super().format(result)

    @with_members
    def evaluate(self, path: str | Path) -> dict[str, Any]:
        """Accuracy at the roots and at all nodes; precision, recall and F1 of each class of a root."""
        metric, store = self.measure(path)
        return {
            **metric.result(),
            "trees": len(store),
            "unlabelled": store.info["unlabelled"],
            "nodes": store.tokens,
            "unknown": store.unknown,
            "classes": metric.roots.classes(),
            "confusion": metric.roots.table(),
        }

    @in_eval_mode
    def measure(self, path: str | Path | Trees) -> tuple[NodeAccuracy, ExampleStore]:
        """The metric of a file, and its examples."""
        metric, store = self.network.metric(), store_trees(self.settings, self.assets, _open(path))
        for batch in reading_batches(store):
            metric.add(batch)
        return metric, store

    def batches(self, path: str | Path) -> TreeBatches:
        return reading_batches(store_trees(self.settings, self.assets, _open(path)))


def _open(path: str | Path | Trees) -> Trees:
    return path if isinstance(path, Trees) else Trees(path)


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
