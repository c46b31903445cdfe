"""A search recorded as a tree."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

PRUNED, LIVE, COMPLETED = "pruned", "live", "completed"


@dataclass
class Node:
    """A token that a search considered after the path to `parent`.

    `log_prob` is its own, `total` that of the path to it. Its `fate` is `live` (extended), `completed` (the end token)
    or `pruned`.

    >>> Node(parent=0, token=7, log_prob=-0.5, total=-1.5, fate="live").token
    7
    """

    parent: int
    token: int
    log_prob: float
    total: float
    fate: str


class BeamTree:
    """A record of one search, for its argument `record`: the nodes of each item, in the order considered.

    Node 0 of an item is its root, the end of its prompt. Recording slows a search down, but does not change it.

    >>> from carousel.decoding import Beam, StepFunction, search
    >>> table = torch.tensor([[0.1, 0.5, 0.4], [0.6, 0.3, 0.1], [0.1, 0.8, 0.1]]).log()
    >>> tree = BeamTree()
    >>> lm = StepFunction(lambda tokens, state: (table[tokens], state), 3)
    >>> _ = search(lm, 1, Beam(2), start=2, end=0, max_length=2, record=tree)
    >>> print(tree.show(0))
    ·
    ├─ 1 -0.22
    │  ├─ 0 -0.73 ■
    │  ├─ 1 -1.43
    │  └─ 2 -2.53
    ├─ 0 -2.30 ■
    └─ 2 -2.30
    """

    def __init__(self) -> None:
        self.nodes: list[list[Node]] = []
        self._at: list[int] = []  # the node of each row

    def begin(self, items: int) -> None:
        """Create a root for each item, with one row each."""
        self.nodes = [[Node(-1, -1, 0.0, 0.0, LIVE)] for _ in range(items)]
        self._at = [0] * items

    def repeat(self, rows: np.ndarray) -> None:
        """Row `rows[j]` becomes row j."""
        self._at = [self._at[row] for row in rows.tolist()]

    def grow(
        self,
        items: np.ndarray,
        parents: np.ndarray,
        tokens: np.ndarray,
        log_probs: np.ndarray,
        totals: np.ndarray,
        fates: np.ndarray,
        forced: np.ndarray,
        rows: np.ndarray,
    ) -> None:
        """Add one step's candidates, (M,) each.

        `parents` are rows of the previous step. `forced` tokens are of the prompt and have no node. Row j of the next
        step continues candidate `rows[j]`.
        """
        grown = []
        columns = (items, parents, tokens, log_probs, totals, fates, forced)
        for item, parent, token, log_prob, total, fate, by_prompt in zip(*(c.tolist() for c in columns), strict=True):
            if by_prompt:
                grown.append(self._at[parent])
                continue
            self.nodes[item].append(Node(self._at[parent], token, log_prob, total, fate))
            grown.append(len(self.nodes[item]) - 1)
        self._at = [grown[row] for row in rows.tolist()]

    def path(self, item: int, node: int) -> list[int]:
        """The tokens from the root to `node`."""
        tokens: list[int] = []
        while node > 0:
            tokens.append(self.nodes[item][node].token)
            node = self.nodes[item][node].parent
        return tokens[::-1]

    def show(self, item: int, name: Callable[[int], str] = str, pruned: bool = False) -> str:
        """The tree as text: each token with its path's total, ■ where a hypothesis was completed, × where pruned."""
        children: dict[int, list[int]] = {}
        for index, node in enumerate(self.nodes[item]):
            if index and (pruned or node.fate != PRUNED):
                children.setdefault(node.parent, []).append(index)
        lines = ["·"]
        mark = {LIVE: "", COMPLETED: " ■", PRUNED: " ×"}
        stack = [(child, "") for child in reversed(children.get(0, []))]
        while stack:
            index, indent = stack.pop()
            node = self.nodes[item][index]
            last = children[node.parent][-1] == index
            lines.append(f"{indent}{'└' if last else '├'}─ {name(node.token)} {node.total:.2f}{mark[node.fate]}")
            indent += "   " if last else "│  "
            stack += [(child, indent) for child in reversed(children.get(index, []))]
        return "\n".join(lines)
