"""Trees as examples: words, labels, parents and heights as integers; and batches of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...data.batches.base import TensorBatch, int_tensor
from ...data.batches.bucketed import Bucketed
from ...data.sources.brackets import Tree, Trees, heights_of
from ...data.sources.lines import chunks
from ...data.stores.examples import NO_LABEL, Column, ExampleSource, ExampleStore, rows_of
from ...data.text.tokenizers import PAD
from ...data.text.vocabulary import Vocabulary
from ...errors import ArgumentError, DataError
from ...wording import setting

if TYPE_CHECKING:  # data is read without torch
    from torch import Tensor

    from ...networks.trees import Forest


class Classes:
    """The classes of a model and what labels belong to them; other labels do not count.

    `Classes.joined("negative=0,1;positive=3,4")` joins labels; `Classes({"a": ["a"], "b": ["b"]})` keeps them apart.
    """

    def __init__(self, labels: Mapping[str, Sequence[str]]) -> None:
        self.labels = {name: list(of) for name, of in labels.items()}
        self.names = list(labels)
        self._number = {label: k for k, of in enumerate(labels.values()) for label in of}

    @classmethod
    def joined(cls, given: str) -> Classes:
        """From `name=label,label;name=label`."""
        by_class: dict[str, list[str]] = {}
        for part in given.split(";"):
            name, _, labels = part.partition("=")
            by_class[name.strip()] = [label.strip() for label in labels.split(",") if label.strip()]
        every = [label for labels in by_class.values() for label in labels]
        if len(by_class) < 2 or not all(by_class) or not all(by_class.values()) or len(set(every)) < len(every):
            raise ArgumentError(
                f"{setting('classes')}: write, say, negative=0,1;positive=3,4, each label once; got {given!r}"
            )
        return cls(by_class)

    def number(self, label: str | None) -> int:
        """The number of a label's class; NO_LABEL if it has none."""
        return NO_LABEL if label is None else self._number.get(label, NO_LABEL)

    def __len__(self) -> int:
        return len(self.names)


class TreeCounts:
    """What a file to train on holds: words, labels, how many children a node has."""

    def __init__(self, source: Trees, whole: Trees | None = None) -> None:
        """Where some of the file is held out, labels and children are those of the `whole` file."""
        self.words: Counter[str] = Counter()
        self.labels: Counter[str] = Counter()
        self.roots: Counter[str] = Counter()
        self.trees = self.nodes = self.most_children = 0
        for tree in source:
            self.trees += 1
            self.nodes += len(tree)
            self.words.update(tree.leaves)
        for tree in whole or source:
            self.labels.update(label for label in tree.labels if label is not None)
            if tree.labels[-1] is not None:
                self.roots[tree.labels[-1]] += 1
            arity = Counter(parent for parent in tree.parents if parent >= 0)
            self.most_children = max(self.most_children, max(arity.values(), default=0))
        if len(self.labels) < 2:
            what = f"every label is {next(iter(self.labels))!r}" if self.labels else "no node has a label"
            raise DataError(source.path, None, what, "give trees with at least two different labels")
        if len(self.labels) > 20 and 2 * len(self.labels) > self.labels.total():
            problem = f"{len(self.labels):,} different labels on {self.labels.total():,} nodes"
            raise DataError(source.path, None, problem, "a node is written (LABEL word) or (LABEL node node)")


class LabelledTrees(ExampleSource):
    """The trees of a file as integers, for an `ExampleStore`. A node without a word has `[PAD]`."""

    per_token = True

    def __init__(
        self,
        source: Trees,
        vocabulary: Vocabulary,
        classes: Classes,
        known: Sequence[str],
        most: int | None,
        lower: bool,
    ) -> None:
        """`known` are the labels of the training file; `most` is how many children a node may have."""
        self.source, self.vocabulary, self.classes = source, vocabulary, classes
        self.known, self.most, self.lower = frozenset(known), most, lower
        dtypes = {"tokens": np.uint32, "labels": np.int32, "parents": np.int32, "heights": np.int32}
        super().__init__([source.path], dtypes)

    @property
    def made_by(self) -> dict[str, Any]:
        return {
            "reader": "trees", "vocabulary": self.vocabulary.fingerprint, "classes": self.classes.labels,
            "lower": self.lower, "known": sorted(self.known), "most": self.most, **self.source.part_mark,
        }  # fmt: skip

    def chunks(self) -> Iterator[Mapping[str, Column]]:
        self.counts = {"unlabelled": 0}
        for trees in chunks(self.source, lambda tree: 8 * len(tree)):
            for tree in trees:
                self._check(tree)
            columns = encode_trees(trees, self.vocabulary, self.lower)
            labels = np.array([self.classes.number(label) for tree in trees for label in tree.labels], np.int64)
            lengths = columns["tokens"].lengths
            self.counts["unlabelled"] += int((labels[np.cumsum(lengths) - 1] == NO_LABEL).sum())
            lines = Column(np.array([tree.line for tree in trees]), np.ones(len(trees), np.int64))
            yield {**columns, "labels": Column(labels, lengths), "lines": lines}

    def _check(self, tree: Tree) -> None:
        for label in tree.labels:
            if label is not None and label not in self.known:
                named = ", ".join(sorted(self.known)[:20]) + (", …" if len(self.known) > 20 else "")
                problem = f"the label {label!r} is not in the training data, whose labels are {named}"
                raise DataError(self.source.path, tree.line, problem, "fix it, or train on trees that have it")
        check_children(tree, self.most, self.source.path)


def check_children(tree: Tree, most: int | None, path: Path | None) -> None:
    """A DataError if a node has more than `most` children."""
    arity = Counter(parent for parent in tree.parents if parent >= 0)
    if most is not None and arity and max(arity.values()) > most:
        problem = f"a node has {max(arity.values())} children, and the model takes at most {most}"
        raise DataError(
            path,
            tree.line,
            problem,
            f"train with higher {setting('children')}, or with {setting('composition', 'child-sum')}",
        )


def encode_trees(trees: Sequence[Tree], vocabulary: Vocabulary, lower: bool) -> dict[str, Column]:
    """Words, parents and heights of some trees."""
    lengths = np.array([len(tree) for tree in trees], np.int64)
    words = [word for tree in trees for word in tree.words]
    tokens = np.full(len(words), PAD, np.int64)
    places = [k for k, word in enumerate(words) if word is not None]
    tokens[places] = vocabulary.word_ids([words[k] or "" for k in places], lower)
    parents = np.array([parent for tree in trees for parent in tree.parents], np.int64)
    heights = heights_of(parents, lengths)
    return {
        "tokens": Column(tokens, lengths), "parents": Column(parents, lengths), "heights": Column(heights, lengths),
    }  # fmt: skip


@dataclass(frozen=True)
class TreeBatch(TensorBatch):
    """Some trees, their nodes end to end, children before parents."""

    tokens: Tensor  # (n,) int64; [PAD] for a node without a word
    forest: Forest
    lengths: Tensor  # (trees,): how many nodes each has
    labels: Tensor | None  # (n,) int64; NO_LABEL where there is none
    rows: Tensor  # (trees,): which trees of the store these are

    @property
    def roots(self) -> Tensor:
        """(trees,): which nodes are roots."""
        return self.lengths.cumsum(0) - 1

    def __repr__(self) -> str:
        return f"TreeBatch({len(self.rows)} trees, {len(self.tokens)} nodes)"


class TreeBatches(Bucketed):
    """Each tree of a store once an epoch, trees of similar size together; as in `Bucketed`."""

    def __init__(self, store: ExampleStore, *, trees: int, shuffle: bool = True, seed: int = 0) -> None:
        super().__init__(store, sequences=trees, shuffle=shuffle, seed=seed)

    def _of(self, chosen: np.ndarray) -> TreeBatch:
        return collate_trees({name: rows_of(column, chosen) for name, column in self.store.columns.items()}, chosen)


def collate_trees(columns: Mapping[str, Column], rows: np.ndarray | None = None) -> TreeBatch:
    """The batch of these rows."""
    from ...networks.trees import Forest

    values, lengths = columns["tokens"]
    lengths = np.asarray(lengths, np.int64)
    forest = Forest.build(columns["parents"].values.astype(np.int64), columns["heights"].values, lengths)
    labels = int_tensor(columns["labels"].values) if "labels" in columns else None
    rows = np.arange(len(lengths)) if rows is None else rows
    return TreeBatch(int_tensor(values), forest, int_tensor(lengths), labels, int_tensor(rows))
