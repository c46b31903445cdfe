"""The two sides of the benchmark of trees are the same network, and it says what it found."""

import json

import pytest
import torch

from carousel.bench import tree
from carousel.cli import main as cli


def test_both_sides_are_one_network():
    setup = tree.Setup(3)
    wanted = [setup.x, *setup.layer.parameters(), *setup.output.parameters()]
    ours, theirs = setup.by_levels(), setup.node_by_node()
    torch.testing.assert_close(ours, theirs)
    for a, b in zip(torch.autograd.grad(ours, wanted), torch.autograd.grad(theirs, wanted), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-6)
    assert (setup.x.detach().abs().sum(1) > 0).sum() == 3 * tree.WORDS  # words stand at the leaves alone


def test_it_is_written_and_said(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(tree, "TREES", 2)
    with pytest.raises(SystemExit) as stop:
        cli.main(["bench", "tree", "--out", str(tmp_path / "b"), "--seconds", "0.01"])
    assert not stop.value.code
    found = json.loads((tmp_path / "b" / "tree.json").read_text())
    assert found["ratio"] == pytest.approx(found["nodes a second"]["carousel"] / found["nodes a second"]["torch"])
    assert [row["nodes"] for row in found["growth"]] == [k * found["nodes"] for k in (1, 2, 4, 8)]
    assert "against node by node" in capsys.readouterr().out
