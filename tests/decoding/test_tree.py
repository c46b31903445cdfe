"""The record of a search against what the search found and what the model says."""

import pytest
from helpers.toys import Toy

from carousel.decoding import Beam, BeamTree, Greedy, Sample, search


@pytest.mark.parametrize("strategy", [Beam(3, n_best=3), Beam(1), Greedy(), Sample(copies=2)], ids=repr)
@pytest.mark.parametrize("seed", range(4))
def test_it_holds_what_was_found(strategy, seed):
    toy = Toy(6, seed)
    prompts, ask = [[], [2, 3, 4], [5]], {"start": 1, "end": 0, "max_length": 7, "seed": 3}
    tree = BeamTree()
    found = search(toy.stepper(), prompts, strategy, record=tree, **ask)
    assert found == search(toy.stepper(), prompts, strategy, **ask)
    for item, (prompt, hypotheses) in enumerate(zip(prompts, found, strict=True)):
        paths = {}
        for node in range(1, len(tree.nodes[item])):
            path, one = tree.path(item, node), tree.nodes[item][node]
            parts = toy.score_tokens([1, *prompt], path)
            assert one.total == pytest.approx(sum(parts))
            assert one.log_prob == pytest.approx(parts[-1])
            assert (one.fate == "completed") <= (path[-1] == 0)
            paths.setdefault(tuple(path), one.fate)
        for h in hypotheses:
            assert paths[h.tokens] == ("completed" if h.finished else "live")
        if isinstance(strategy, Beam):
            for depth in range(1, 8):
                live = [p for p, fate in paths.items() if len(p) == depth and fate == "live"]
                assert len(live) <= strategy.width


def test_as_text():
    toy = Toy(4, seed=1)
    tree = BeamTree()
    search(toy.stepper(), 1, Beam(2), start=1, end=0, max_length=3, record=tree)
    lines = tree.show(0, name="abcd".__getitem__).splitlines()
    assert lines[0] == "·" and len(lines) == 1 + sum(n.fate != "pruned" for n in tree.nodes[0][1:])
    assert len(tree.show(0, pruned=True).splitlines()) == len(tree.nodes[0])
