"""The levels of a batch of trees, against a loop over their nodes."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from carousel.networks.trees.forest import Forest


@st.composite
def trees(draw):
    """Parents of nodes, children before parents: each node but the last has a later one."""
    size = draw(st.integers(1, 12))
    return [draw(st.integers(k + 1, size - 1)) for k in range(size - 1)] + [-1]


@given(st.lists(trees(), min_size=1, max_size=4))
def test_levels_are_heights_and_edges_are_the_trees(parents):
    forest = Forest.of(parents)
    flat, heights = [], []
    for one in parents:
        first = len(flat)
        flat += [p if p < 0 else p + first for p in one]
        own = [0] * len(one)
        for node, parent in enumerate(one):
            if parent >= 0:
                own[parent] = max(own[parent], own[node] + 1)
        heights += own
    order = forest.order.tolist()
    assert sorted(order) == list(range(len(flat)))
    assert [order[root] for root in forest.roots] == [k for k, parent in enumerate(flat) if parent < 0]
    assert len(forest.levels) == max(heights) + 1
    for height, level in enumerate(forest.levels):
        nodes = order[level.nodes]
        assert nodes == [k for k, own in enumerate(heights) if own == height]
        edges = [(nodes[p], order[c]) for p, c in zip(level.parent.tolist(), level.child.tolist(), strict=True)]
        assert edges == [(node, k) for node in nodes for k, parent in enumerate(flat) if parent == node]
        for node, children in zip(nodes, level.children.tolist(), strict=True):
            assert [order[c] for c in children if c < len(flat)] == [k for k, p in enumerate(flat) if p == node]


def test_one_leaf():
    one = Forest.of([[-1]])
    assert (one.nodes, one.most_children, len(one.levels)) == (1, 0, 1)
    assert repr(Forest.of([[1, -1], [-1]])) == "Forest(2 trees, 3 nodes, 2 levels)"


def test_on_another_device():
    forest = Forest.of([[2, 2, -1]]).to("meta")
    assert forest.order.device == forest.levels[1].child.device == torch.device("meta")
    assert forest.levels[1].nodes == slice(2, 3)
