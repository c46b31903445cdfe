"""Trees by levels against trees node by node in plain PyTorch: `carousel bench tree`.

What is measured is forward and backward of a binary Tree-LSTM with a class at every node, on random binary trees. The
plain side visits each tree from its leaves to its root, a node at a time, as the equations are usually written; both
have the same weights. How our time grows with the number of nodes is measured too.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..networks.trees import Forest, NaryTreeLSTM
from .claims import measured, print_claims
from .layers import race

TREES, WORDS, INPUT, HIDDEN, CLASSES = 32, 19, 150, 150, 5  # the sizes of docs/trees.md; 19 words have 37 nodes
LEAST, LINEAR = 15.0, 1.25


def random_tree(words: int, draw: np.random.Generator) -> list[int]:
    """The parents of a binary tree's nodes, children first; neighbours are joined at random."""
    parents: list[int] = []
    waiting: list[int] = []
    left = words
    while left or len(waiting) > 1:
        join = len(waiting) > 1 and (not left or draw.random() < 0.5)
        if join:
            for _ in range(2):
                parents[waiting.pop()] = len(parents)
        else:
            left -= 1
        waiting.append(len(parents))
        parents.append(-1)
    return parents


class Setup:
    """Some trees, what stands at their nodes, and a network."""

    def __init__(self, trees: int, seed: int = 0) -> None:
        torch.manual_seed(seed)
        draw = np.random.default_rng(seed)
        self.parents = [random_tree(WORDS, draw) for _ in range(trees)]
        self.nodes = sum(map(len, self.parents))
        self.layer = NaryTreeLSTM(INPUT, HIDDEN)
        self.output = nn.Linear(HIDDEN, CLASSES)
        inner = torch.tensor([node in one for one in map(set, self.parents) for node in range(2 * WORDS - 1)])
        self.x = torch.randn(self.nodes, INPUT).masked_fill(inner.unsqueeze(1), 0).requires_grad_()
        self.labels = torch.randint(CLASSES, (self.nodes,))

    def by_levels(self) -> Tensor:
        """The mean loss of a node."""
        return F.cross_entropy(self.output(self.layer(self.x, Forest.of(self.parents))), self.labels)

    def node_by_node(self) -> Tensor:
        """The same, as a user writes it."""
        layer, states = self.layer, []
        first = 0
        for parents in self.parents:
            below: list[list[tuple[Tensor, Tensor]]] = [[] for _ in parents]
            for node, parent in enumerate(parents):
                x = self.x[first + node]
                gates = F.linear(x, layer.weight, layer.bias)
                i, o, u, f = gates.chunk(4)
                kept = torch.zeros(HIDDEN)
                if children := below[node]:
                    seen = F.linear(torch.cat([h for h, _ in children]), layer.weight_children)
                    di, do, du, *df = seen.chunk(5)
                    i, o, u = i + di, o + do, u + du
                    for d, (_, own) in zip(df, children, strict=True):
                        kept = kept + torch.sigmoid(f + d) * own
                c = torch.sigmoid(i) * torch.tanh(u) + kept
                h = torch.sigmoid(o) * torch.tanh(c)
                states.append(h)
                if parent >= 0:
                    below[parent].append((h, c))
            first += len(parents)
        return F.cross_entropy(self.output(torch.stack(states)), self.labels)

    def step_of(self, loss: Callable[[], Tensor]) -> Callable[[], None]:
        wanted = [self.x, *self.layer.parameters(), *self.output.parameters()]

        def step() -> None:
            torch.autograd.grad(loss(), wanted)

        return step


def measure(seconds: float, trees: int) -> dict[str, Any]:
    """Both sides, in nodes a second; and the time a node of ours takes as trees become more."""
    setup = Setup(trees)
    times = race({"torch": setup.step_of(setup.node_by_node), "carousel": setup.step_of(setup.by_levels)}, seconds, 2)
    rates = {side: setup.nodes / time for side, time in times.items()}
    growth = []
    for factor in (1, 2, 4, 8):
        many = Setup(trees * factor)
        time = race({"t": many.step_of(many.by_levels)}, seconds / 8)["t"]
        growth.append({"nodes": many.nodes, "microseconds a node": time / many.nodes * 1e6})
    return {
        "nodes": setup.nodes,
        "nodes a second": rates,
        "ratio": rates["carousel"] / rates["torch"],
        "growth": growth,
    }


def claims(found: dict[str, Any]) -> list[dict[str, Any]]:
    """What the project holds itself to, and what was found."""
    first, last = (found["growth"][k]["microseconds a node"] for k in (0, -1))
    return [
        {"what": "training, against node by node", "found": found["ratio"], "must": f"≥ {LEAST:g}",
         "holds": found["ratio"] >= LEAST},
        {"what": "time a node, eight times the trees beside once", "found": last / first, "must": f"≤ {LINEAR:g}",
         "holds": last / first <= LINEAR},
    ]  # fmt: skip


def main(out: Path, seconds: float = 5.0) -> dict[str, Any]:
    """Measure, print what was found, write tree.json."""
    from rich.console import Console

    result = measured(out / "tree.json", lambda: measure(seconds, TREES), claims)
    console = Console(highlight=False)
    rates = result["nodes a second"]
    console.print(f"{TREES} trees of {2 * WORDS - 1} nodes, nodes a second: node by node {rates['torch']:,.0f}, "
                  f"carousel {rates['carousel']:,.0f}")  # fmt: skip
    for row in result["growth"]:
        console.print(f"{row['nodes']:>7,} nodes: {row['microseconds a node']:.2f} µs a node")
    print_claims(console, result["claims"])
    return result
