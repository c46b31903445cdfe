"""The data of the task on trees: trees to examples, the words and classes that a run keeps."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

from ...data import UNK, Vocabulary
from ...data.sources.brackets import Trees
from ...data.stores.examples import ExampleStore, build_store
from ...data.text.vectors import Vectors
from ...errors import SettingsError
from ...files import write_json
from ...training import Data
from ...training.run import read_json
from ..shared.held_out import Sources, open_sources
from ..shared.vectors import load_vocabulary, save_vocabulary
from .check import TreeCheck, check_trees
from .examples import Classes, LabelledTrees, TreeBatches, TreeCounts
from .settings import TreeSettings


@dataclass
class KeptLabels:
    """labels.json: the classes and the labels of each, the labels of the training data, the most children of a node."""

    classes: dict[str, list[str]]
    labels: list[str]
    children: int


@dataclass
class TreeAssets:
    """What a run keeps: words, classes, the labels that the training data has, and the most children of a node."""

    vocabulary: Vocabulary
    classes: Classes
    labels: list[str]
    children: int
    vectors: Vectors | None = None  # that the words of a new network begin with

    def save(self, folder: Path) -> None:
        save_vocabulary(folder, self.vocabulary)
        kept = KeptLabels(self.classes.labels, self.labels, self.children)
        write_json(folder / "labels.json", asdict(kept))

    @classmethod
    def load(cls, settings: TreeSettings, folder: Path) -> Self:
        kept = read_json(folder / "labels.json", KeptLabels)
        return cls(load_vocabulary(settings, folder), Classes(kept.classes), kept.labels, kept.children)


def store_trees(settings: TreeSettings, assets: TreeAssets, source: Trees) -> ExampleStore:
    most = None if settings.composition == "child-sum" else assets.children
    examples = LabelledTrees(source, assets.vocabulary, assets.classes, assets.labels, most, settings.lower)
    return build_store(examples, settings.cache_folder)


def open_data(settings: TreeSettings) -> Sources[Trees]:
    """The trees to train on and for validation."""
    return open_sources(settings, Trees, "trees")


def reading_batches(store: ExampleStore) -> TreeBatches:
    """All trees once, in an order that does not change."""
    return TreeBatches(store, trees=128, shuffle=False)


def prepare(settings: TreeSettings, assets: TreeAssets | None = None) -> tuple[TreeAssets, Data]:
    """The assets of a new run, or those given, and the batches of its data."""
    s = settings
    sources = open_data(s)  # files are checked first
    counts = TreeCounts(sources.train, sources.whole)
    assets = assets or learn_assets(s, counts)
    store = store_trees(s, assets, sources.train)
    total = sum(counts.words.values())
    info = {
        "training trees": f"{s.train}: {counts.trees:,} trees, {counts.nodes:,} nodes, {total:,} words",
        "classes": _describe(s, assets.classes, counts),
        "vocabulary": f"{len(assets.vocabulary):,} words; {store.unknown / total:.2%} unknown",
        "children": f"{counts.most_children} at most",
    }
    dev = None
    if sources.dev is not None:
        held_out = store_trees(s, assets, sources.dev)
        dev = reading_batches(held_out)
        info["dev trees"] = f"{sources.name}: {len(held_out):,} trees, {held_out.tokens:,} nodes"
    info |= s.describe_vectors(assets.vocabulary, assets.vectors)
    return assets, sources.describe(Data(TreeBatches(store, trees=s.batch_size, seed=s.seed), dev, info))


def learn_assets(s: TreeSettings, counts: TreeCounts) -> TreeAssets:
    """Words, classes and labels of the training file, whose counts are given."""
    classes, vocabulary = learn_classes(s, counts)
    children = s.children or max(1, counts.most_children)
    return TreeAssets(vocabulary, classes, sorted(counts.labels), children, s.read_vectors(vocabulary))


def learn_classes(s: TreeSettings, counts: TreeCounts) -> tuple[Classes, Vocabulary]:
    """The classes and the vocabulary of the training file."""
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
    return classes, s.make_vocabulary(texts)


def check(settings: TreeSettings) -> TreeCheck:
    """What is in the files that `settings` name."""
    s = settings
    source = Trees(s.train)
    counts = TreeCounts(source)
    classes, vocabulary = learn_classes(s, counts)
    dev = None if s.dev is None else Trees(s.dev)
    return check_trees(source, dev, set(vocabulary.tokens[UNK + 1 :]), sorted(counts.labels), classes, s.lower)


def _describe(s: TreeSettings, classes: Classes, counts: TreeCounts) -> str:
    if s.classes:
        return ", ".join(f"{name} ({', '.join(of)})" for name, of in classes.labels.items())
    total = counts.labels.total()
    return ", ".join(f"{name} ({counts.labels[name] / total:.1%})" for name in classes.names[:50])
