"""Several trees as levels: all nodes whose children are done, whatever tree they belong to, are computed together.

A node's level is its height: leaves have 0, another node one more than the highest of its children. There are as many
steps as the highest tree has levels, and no recursion, so trees may have any depth.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ...data.sources.brackets import heights_of
from ...masks import row_positions


class Level(NamedTuple):
    """Nodes of one height, `first` to `last`, and the edges to their children."""

    nodes: slice  # of the forest's nodes
    edges: slice  # of the forest's edges
    parent: Tensor  # (edges of this level,): which of this level's nodes
    child: Tensor  # (edges of this level,): which of the forest's nodes
    children: Tensor  # (nodes of this level, most children): which of the forest's nodes; `nodes` where there is none


@dataclass(frozen=True)
class Forest:
    """The shape of a batch of trees. Nodes are counted level by level; `order` says which node of those given each is.

    >>> one = Forest.of([[2, 2, 4, 4, -1]])   # ((a b) c): the parent of each node, children before parents
    >>> len(one.levels), one.order.tolist(), one.roots.tolist()
    (3, [0, 1, 3, 2, 4], [4])
    """

    order: Tensor  # (n,): node k of the forest is node order[k] of the trees, end to end
    roots: Tensor  # (trees,): nodes of the forest
    levels: list[Level]
    child: Tensor  # (n - trees,): the edges, by the place of the parent, then from left to right
    children: Tensor  # (n, most children): n where there is none

    @property
    def nodes(self) -> int:
        return len(self.order)

    @property
    def lengths(self) -> Tensor:
        """(trees,): the nodes of each tree; its root is the last of them."""
        return self.order[self.roots].diff(prepend=self.order.new_tensor([-1]))

    @property
    def most_children(self) -> int:
        return self.children.shape[1]

    @classmethod
    def of(cls, parents: Sequence[Sequence[int]]) -> Forest:
        """From the parent of each node, for every tree; children come before their parent, and a root has parent -1."""
        lengths = np.array([len(one) for one in parents])
        flat = np.array([node for one in parents for node in one], np.int64)
        return cls.build(flat, heights_of(flat, lengths), lengths)

    @classmethod
    def build(cls, parents: np.ndarray, heights: np.ndarray, lengths: np.ndarray) -> Forest:
        """The same from arrays: `parents` (n,) within each tree, `heights` (n,), and the trees' `lengths`."""
        n = len(parents)
        first = np.repeat(np.cumsum(lengths) - lengths, lengths)
        parent = np.where(parents < 0, -1, parents + first)
        order = np.argsort(heights, kind="stable")
        place = np.empty(n, np.int64)
        place[order] = np.arange(n)
        child = np.flatnonzero(parent >= 0)
        above = place[parent[child]]
        by_parent = np.argsort(above, kind="stable")  # stable: children stay in their order
        child, above = place[child[by_parent]], above[by_parent]
        counts = np.bincount(above, minlength=n)
        before = np.cumsum(counts) - counts
        children = np.full((n, int(counts.max(initial=0))), n, np.int64)
        children[above, row_positions(counts)] = child
        bounds = np.searchsorted(heights[order], np.arange(int(heights.max(initial=-1)) + 2))
        edge_bounds = np.append(before, len(child))[bounds]
        child_, above_, children_ = (torch.from_numpy(part) for part in (child, above, children))
        levels = []
        for a, b, p, q in zip(bounds, bounds[1:], edge_bounds, edge_bounds[1:], strict=False):
            levels.append(Level(slice(a, b), slice(p, q), above_[p:q] - int(a), child_[p:q], children_[a:b]))
        roots = place[np.flatnonzero(parent < 0)]
        return cls(torch.from_numpy(order), torch.from_numpy(roots), levels, child_, children_)

    def to(self, device: torch.device | str, non_blocking: bool = False) -> Forest:
        """This forest on another device."""

        def move(*parts: Tensor) -> Iterator[Tensor]:
            return (part.to(device, non_blocking=non_blocking) for part in parts)

        order, roots, child, children = move(self.order, self.roots, self.child, self.children)
        levels = [Level(a, b, *move(*rest)) for a, b, *rest in self.levels]
        return Forest(order, roots, levels, child, children)

    def __repr__(self) -> str:
        return f"Forest({len(self.roots)} trees, {self.nodes} nodes, {len(self.levels)} levels)"
