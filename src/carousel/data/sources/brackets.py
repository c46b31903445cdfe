"""Trees with a label at every node: Penn brackets, and dependency trees of CoNLL-U.

    (3 (2 The) (4 (3 actors) (4 shine)))        a label, then one word or some nodes

A tree may go over several lines. A label `_`, or none at all, means that the label is not known. In CoNLL-U every word
is a node and its dependents are its children; `Label=…` in the tenth column is a node's label, and a comment
`# label = …` is the root's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ...errors import DataError
from ...wording import counted
from .lines import check_file, read_lines
from .split import Splittable

UNKNOWN = "_"
_PARTS = re.compile(r"[()]|[^ \t\r\n()]+")  # a word may hold a space that does not break
_HEAD = re.compile("[0-9]{1,9}")
_COMMENT = re.compile(r"#\s*label\s*=\s*(\S.*?)\s*")


@dataclass(frozen=True)
class Tree:
    """A tree's nodes, children before their parents, so that the root is the last.

    >>> tree = Tree.parse("(3 (2 The) (4 (3 actors) (4 shine)))")
    >>> tree.labels, tree.words, tree.parents
    (['2', '3', '4', '4', '3'], ['The', 'actors', 'shine', None, None], [4, 3, 3, 4, -1])
    >>> print(tree)
    (3 (2 The) (4 (3 actors) (4 shine)))
    """

    labels: list[str | None]
    words: list[str | None]
    parents: list[int]
    line: int = 1

    def __len__(self) -> int:
        return len(self.labels)

    @classmethod
    def parse(cls, text: str) -> Tree:
        """The one tree that `text` holds."""
        trees = list(read_brackets([(1, text)], None))
        if len(trees) != 1:
            raise DataError(None, None, f"{len(trees)} trees where there should be one", "write one tree")
        return trees[0]

    @property
    def children(self) -> list[list[int]]:
        """The children of each node, from left to right."""
        children: list[list[int]] = [[] for _ in self.labels]
        for node, parent in enumerate(self.parents):
            if parent >= 0:
                children[parent].append(node)
        return children

    @property
    def leaves(self) -> list[str]:
        """The words, in the order of the nodes; for a constituency tree, its sentence."""
        return [word for word in self.words if word is not None]

    @property
    def spans(self) -> list[str]:
        """What each node is: its word, or else the words below it.

        >>> Tree.parse("(3 (2 The) (4 (3 actors) (4 shine)))").spans
        ['The', 'actors', 'shine', 'actors shine', 'The actors shine']
        """
        spans: list[str] = []
        for word, below in zip(self.words, self.children, strict=True):  # children come before their parents
            spans.append(word if word is not None else " ".join(spans[child] for child in below))
        return spans

    def __str__(self) -> str:
        return self.written(lambda node: self.labels[node] or UNKNOWN)

    def written(self, label: Callable[[int], str]) -> str:
        """In brackets, with these labels. (A node of a dependency tree has its word before its children.)"""
        children, parts, todo = self.children, [], [("open", len(self) - 1)]
        while todo:
            what, node = todo.pop()
            if what == "close":
                parts.append(")")
                continue
            word = self.words[node]
            parts.append(f" ({label(node)}" + ("" if word is None else f" {word}"))
            todo.append(("close", node))
            todo += [("open", child) for child in reversed(children[node])]
        return "".join(parts).strip()

    def drawing(self, label: Callable[[int], str] | None = None) -> str:
        """The tree in lines of text, a node a line, its children below and to the right of it.

        >>> print(Tree.parse("(3 (2 The) (4 (3 actors) (4 shine)))").drawing())
        3
        ├─ 2 The
        └─ 4
           ├─ 3 actors
           └─ 4 shine
        """
        children, lines = self.children, []
        todo = [(len(self) - 1, "", "")]
        while todo:
            node, before, below = todo.pop()
            text = label(node) if label else self.labels[node] or UNKNOWN
            word = self.words[node]
            lines.append(f"{before}{text}" + ("" if word is None else f" {word}"))
            for child in reversed(children[node]):
                last = child == children[node][-1]
                todo.append((child, below + ("└─ " if last else "├─ "), below + ("   " if last else "│  ")))
        return "\n".join(lines)


class Trees(Splittable):
    """The trees of a file, checked as they stream past; iterating again reads it again. CoNLL-U by its ending."""

    def __init__(self, path: str | Path) -> None:
        self.path = check_file(path)
        self.dependencies = self.path.suffix.lower() == ".conllu"

    def __iter__(self) -> Iterator[Tree]:
        return self.selected(self._every(), lambda tree: " ".join(tree.leaves))

    def keys(self) -> Iterator[str]:
        return (" ".join(tree.leaves) for tree in self)

    def _every(self) -> Iterator[Tree]:
        read = read_dependencies if self.dependencies else read_brackets
        empty = True
        for tree in read(read_lines(self.path), self.path):
            empty = False
            yield tree
        if empty:
            remedy = "give sentences in CoNLL-U" if self.dependencies else "write trees such as (3 (2 good) (2 film))"
            raise DataError(self.path, None, "there is no tree in it", remedy)

    def __repr__(self) -> str:
        return f"Trees({str(self.path)!r})"


class _Open:
    """A node whose bracket is open."""

    def __init__(self, line: int) -> None:
        self.line = line
        self.label: str | None = None
        self.word: str | None = None
        self.children: list[int] = []


def read_brackets(lines: Iterable[tuple[int, str]], path: Path | None) -> Iterator[Tree]:
    """The trees in numbered lines of text."""
    stack: list[_Open] = []
    labels: list[str | None] = []
    words: list[str | None] = []
    parents: list[int] = []
    number = 0
    for number, text in lines:
        for part in _PARTS.findall(text):
            if part == "(":
                if stack and stack[-1].word is not None:
                    problem = f"the word {stack[-1].word!r} has a node beside it"
                    raise DataError(path, number, problem, "a node has one word, or nodes: give the word a node")
                stack.append(_Open(number))
            elif not stack:
                what = "a closing bracket too many" if part == ")" else f"{part!r} is outside all brackets"
                raise DataError(path, number, what, "write trees such as (3 (2 good) (2 film))")
            elif part != ")":
                top = stack[-1]
                if top.children or top.word is not None:
                    beside = "nodes" if top.children else f"the word {top.word!r}"
                    remedy = "a node has one word, or nodes: give each word a node of its own"
                    raise DataError(path, number, f"the word {part!r} is next to {beside}", remedy)
                if top.label is None:
                    top.label = part
                else:
                    top.word = part
            else:
                top = stack.pop()
                if top.word is None and not top.children:
                    inside = "" if top.label is None else top.label
                    remedy = "a node has a label and a word, or a label and nodes"
                    raise DataError(path, number, f"({inside}) has neither a word nor nodes", remedy)
                node = len(labels)
                labels.append(None if top.label in (None, UNKNOWN) else top.label)
                words.append(top.word)
                parents.append(-1)
                for child in top.children:
                    parents[child] = node
                if stack:
                    stack[-1].children.append(node)
                else:
                    yield Tree(labels, words, parents, top.line)
                    labels, words, parents = [], [], []
    if stack:
        problem = f"the tree that begins here lacks {counted(len(stack), 'closing bracket')}"
        raise DataError(path, stack[0].line, problem, "close all of its brackets")


def read_dependencies(lines: Iterable[tuple[int, str]], path: Path | None) -> Iterator[Tree]:
    """The trees in numbered lines of CoNLL-U."""
    rows: list[tuple[int, str, int, str | None]] = []  # line, word, head, label
    label: str | None = None
    for number, text in lines:
        if not text.strip():
            if rows:
                yield _dependency_tree(rows, label, path)
            rows, label = [], None
        elif text.startswith("#"):
            if comment := _COMMENT.fullmatch(text):
                label = comment[1]
        else:
            cells = text.split("\t")
            if len(cells) != 10:
                problem = f"{counted(len(cells), 'column')} with tabs between, where CoNLL-U has 10"
                raise DataError(path, number, problem, "fix the line")
            if "-" in cells[0] or "." in cells[0]:
                continue  # a multiword token, or an empty node
            if cells[0] != str(len(rows) + 1):
                remedy = "number words from 1, with a blank line between sentences"
                raise DataError(path, number, f"word {cells[0]!r} comes after {counted(len(rows), 'word')}", remedy)
            if not _HEAD.fullmatch(cells[6]):
                raise DataError(path, number, f"{cells[6]!r} is not the number of a head", "give the head in column 7")
            own = next((m.partition("=")[2] for m in cells[9].split("|") if m.startswith("Label=")), None)
            rows.append((number, cells[1], int(cells[6]), own))
    if rows:
        yield _dependency_tree(rows, label, path)


def _dependency_tree(rows: list[tuple[int, str, int, str | None]], label: str | None, path: Path | None) -> Tree:
    dependents: list[list[int]] = [[] for _ in range(len(rows) + 1)]
    for k, (line, word, head, _) in enumerate(rows, 1):
        if head > len(rows):
            problem = f"{word!r} has the head {head}, but the sentence has {counted(len(rows), 'word')}"
            raise DataError(path, line, problem, "correct the head in column 7")
        dependents[head].append(k)
    if len(dependents[0]) != 1:
        problem = f"the sentence has {len(dependents[0])} words with head 0"
        raise DataError(path, rows[0][0], problem, "a dependency tree has one root; give one word the head 0")
    order: list[int] = []  # a node, then its children from the right: backwards it has children first
    todo = [dependents[0][0]]
    while todo:
        node = todo.pop()
        order.append(node)
        todo += dependents[node]
    if len(order) < len(rows):
        lost = min(set(range(1, len(rows) + 1)) - set(order))
        line, word, _, _ = rows[lost - 1]
        raise DataError(path, line, f"the heads of {word!r} form a cycle", "correct the heads in column 7")
    order.reverse()
    place = {node: k for k, node in enumerate(order)}
    labels = [rows[node - 1][3] for node in order]
    labels[-1] = labels[-1] if label is None else label
    parents = [place.get(rows[node - 1][2], -1) for node in order]
    return Tree(labels, [rows[node - 1][1] for node in order], parents, rows[0][0])


def heights_of(parents: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """The height of every node, (n,): 0 for a leaf. Children must come before their parents.

    >>> heights_of(np.array([2, 2, 4, 4, -1]), np.array([5])).tolist()
    [0, 0, 1, 0, 2]
    """
    heights = [0] * len(parents)
    for node, parent in _edges(parents, lengths):
        if heights[parent] <= heights[node]:
            heights[parent] = heights[node] + 1
    return np.array(heights, np.int64)


def _edges(parents: np.ndarray, lengths: np.ndarray) -> Iterator[tuple[int, int]]:
    given = parents.tolist()
    first = 0
    for tree, length in enumerate(lengths.tolist()):
        for k in range(length):
            parent = given[first + k]
            if parent >= 0:
                if not k < parent < length:
                    raise ValueError(
                        f"tree {tree}: node {k} has the parent {parent}; a parent comes after its children"
                    )
                yield first + k, first + parent
        first += length
