"""What there is to know of trees before training on them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ...data.sources.brackets import Trees, heights_of
from ...wording import counted, setting
from ..shared.checks import FilesCheck, table_of_files
from .examples import Classes

if TYPE_CHECKING:
    from rich.table import Table as RichTable


@dataclass(frozen=True)
class TreeFacts:
    """One file, as a vocabulary sees it."""

    file: str
    trees: int
    nodes: int
    words: int
    unknown: int  # words that are [UNK]
    median: float  # nodes of a tree
    largest: int
    largest_line: int
    highest: int  # levels of the highest tree
    children: int  # the most of a node
    unlabelled: int  # roots without a label that counts
    repeated: int  # trees that stood in the file before
    strange: dict[str, int]  # labels that are not in the training file, and where each is first
    roots: dict[str, int]
    labels: dict[str, int]  # of all nodes

    @property
    def unknown_rate(self) -> float:
        return self.unknown / max(1, self.words)


@dataclass(frozen=True)
class TreeCheck(FilesCheck[TreeFacts]):
    """What is in files of trees."""

    vocabulary_size: int

    @property
    def warnings(self) -> list[str]:
        warnings = []
        for info in self.files:
            for label, line in info.strange.items():
                warnings.append(f"{info.file}:{line}: the label {label!r} is not in {self.train.file}")
            if info.unlabelled:
                many = counted(info.unlabelled, "root has", "roots have")
                warnings.append(f"{info.file}: {many} no label that counts; not measured")
            if info.repeated > 0.05 * info.trees:
                warnings.append(f"{info.file}: {info.repeated:,} of {info.trees:,} trees repeat an earlier one")
        if self.dev and self.dev.children > self.train.children:
            remedy = f"set {setting('children')}, or give {setting('composition', 'child-sum')}"
            most = f"in {self.train.file} at most {self.train.children}"
            warnings.append(f"{self.dev.file}: a node has {self.dev.children} children, {most}; {remedy}")
        return warnings + self.shared_warning("trees", 0.05)

    def __rich__(self) -> RichTable:
        rows = {
            "trees": "{f.trees:,}",
            "nodes": "{f.nodes:,}",
            "words": "{f.words:,}",
            "unknown words": "{f.unknown:,} ({f.unknown_rate:.2%})",
            "median nodes": "{f.median:g}",
            "largest": "{f.largest:,} nodes (line {f.largest_line:,})",
            "most levels": "{f.highest:,}",
            "most children": "{f.children:,}",
            "repeated trees": "{f.repeated:,}",
        }
        table = table_of_files(f"vocabulary of {self.vocabulary_size:,} words", self.files, rows, self.shared)
        table.add_section()
        names = sorted(set().union(*(f.labels for f in self.files)), key=lambda n: (-self.train.labels.get(n, 0), n))
        for name in names[:40]:
            table.add_row(f"label {name[:40]}: roots / nodes",
                          *(f"{f.roots.get(name, 0):,} / {f.labels.get(name, 0):,}" for f in self.files))  # fmt: skip
        return table


def check_trees(
    train: Trees, dev: Trees | None, words: Collection[str], labels: Sequence[str], classes: Classes, lower: bool
) -> TreeCheck:
    """Read `train` and `dev` (or None) and say what is in them; `words` are those of the vocabulary."""
    info, seen = _read(train, words, labels, classes, lower)
    dev_info = shared = None
    if dev is not None:
        dev_info, there = _read(dev, words, labels, classes, lower)
        shared = sum(count for tree, count in there.items() if tree in seen)
    reading = "dependency trees in CoNLL-U" if train.dependencies else "trees in Penn brackets"
    return TreeCheck(info, dev_info, shared, reading, len(words))


def _read(
    source: Trees, words: Collection[str], labels: Sequence[str], classes: Classes, lower: bool
) -> tuple[TreeFacts, Counter[int]]:
    """The info of a file, and how often each tree is in it, by a hash."""
    sizes, lines, seen = [], [], Counter[int]()
    roots, every, strange = Counter[str](), Counter[str](), dict[str, int]()
    count = unknown = highest = most = unlabelled = 0
    for tree in source:
        sizes.append(len(tree))
        lines.append(tree.line)
        seen[hash((tuple(tree.words), tuple(tree.parents)))] += 1
        leaves = tree.leaves
        count += len(leaves)
        unknown += sum((word.lower() if lower else word) not in words for word in leaves)
        highest = max(highest, 1 + int(heights_of(np.array(tree.parents), np.array([len(tree)])).max()))
        most = max(most, max(Counter(p for p in tree.parents if p >= 0).values(), default=0))
        unlabelled += classes.number(tree.labels[-1]) < 0
        for label in tree.labels:
            if label is not None:
                every[label] += 1
                if label not in labels:
                    strange.setdefault(label, tree.line)
        if tree.labels[-1] is not None:
            roots[tree.labels[-1]] += 1
    size = np.array(sizes)
    return TreeFacts(
        file=str(source.path), trees=len(size), nodes=int(size.sum()), words=count, unknown=unknown,
        median=float(np.median(size)), largest=int(size.max()), largest_line=lines[int(size.argmax())],
        highest=highest, children=most, unlabelled=unlabelled, repeated=len(size) - len(seen), strange=strange,
        roots=dict(roots), labels=dict(every),
    ), seen  # fmt: skip
