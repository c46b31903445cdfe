"""The picture of a search against its record."""

import torch

from carousel.decoding import Beam, BeamTree, StepFunction, search
from carousel.pictures import tree


def recorded(width, longest=5, vocabulary=6):
    table = torch.randn(vocabulary, vocabulary, dtype=torch.float64).log_softmax(-1)
    lm = StepFunction(lambda tokens, state: (table[tokens], state), vocabulary)
    record = BeamTree()
    [[best]] = search(lm, 1, Beam(width), start=1, end=0, max_length=longest, record=record)
    return record, best


def words(drawn):
    """What stands at the nodes: (step, text)."""
    return sorted((x, t) for trace in drawn.data if trace.text is not None for x, t in zip(trace.x, trace.text))  # noqa: B905


def test_every_node_stands_at_its_step_with_its_total():
    record, best = recorded(3)
    drawn = tree(record, name="abcdef".__getitem__, best=best.tokens)
    nodes = record.nodes[0]
    expected = [
        (len(record.path(0, k)), f"{'abcdef'[node.token]} {node.total:.2f}".replace("-", "−"))
        for k, node in enumerate(nodes)
        if k
    ]
    assert words(drawn) == sorted(expected)
    kept = tree(record, name="abcdef".__getitem__, pruned=False)
    assert len(words(kept)) == sum(node.fate != "pruned" for node in nodes[1:])


def test_a_line_leads_from_each_node_to_its_parent_and_no_two_leaves_share_a_height():
    record, best = recorded(3)
    drawn = tree(record, best=best.tokens)
    at = {}
    for trace in drawn.data:
        if trace.text is not None:
            at |= {(x, y): text for x, y, text in zip(trace.x, trace.y, trace.text, strict=True)}
    assert len(at) == len(record.nodes[0]) - 1  # every node has a place of its own
    ends = set()
    for trace in drawn.data:
        if trace.mode == "lines":
            for k in range(0, len(trace.x), 4):
                assert trace.x[k] == trace.x[k + 1] == trace.x[k + 2] - 1
                ends.add((trace.x[k + 2], trace.y[k + 2]))
    assert ends == set(at)


def test_the_best_path_is_brought_out():
    record, best = recorded(2)
    line = next(trace for trace in tree(record, best=best.tokens).data if trace.name == "best")
    assert len(line.x) == 4 * len(best.tokens)
    assert not [trace for trace in tree(record, best=[0, 0]).data if trace.name == "best"]


def test_a_deep_tree_is_wider_than_a_page():
    record, _ = recorded(2, longest=14)
    depth = max(len(record.path(0, k)) for k in range(1, len(record.nodes[0])))
    drawn = tree(record)
    assert (drawn.layout.width or 0) == (100 * depth if depth > 9 else 0)
