"""The two sides of the tagging benchmark are the same network, and it says what it found."""

import json

import pytest
import torch

from carousel.bench import tag
from carousel.cli import main as cli


def copy(plain, ours):
    """Give the plain tagger our weights."""
    pairs = [(plain.words.weight, ours.embedder.embedder.weight), (plain.output, ours.output)]
    pairs += [(plain.characters.weight, ours.shapes.readers[0].embedder.weight)]
    pairs += [(plain.shapes, ours.shapes.readers[0].layer), (plain.layers, ours.layers)]
    if ours.crf is not None:
        pairs += [(getattr(plain, name), value) for name, value in ours.crf.scores()._asdict().items()]
    with torch.no_grad():
        for theirs, own in pairs:
            if isinstance(own, torch.nn.Module):
                theirs.load_state_dict(own.state_dict())
            else:
                theirs.copy_(own)


@pytest.mark.parametrize("setup", tag.SETUPS.values(), ids=list(tag.SETUPS))
@pytest.mark.parametrize("distinct", [False, True])
def test_both_sides_are_one_network(setup, distinct):
    vocabulary, batch = tag.make_batch(setup)
    ours = tag.make_network(setup, vocabulary)
    plain = tag.Plain(vocabulary, setup["output"], distinct)
    copy(plain, ours)
    theirs, own = plain.loss(batch), ours.loss(batch).mean
    torch.testing.assert_close(theirs, own, rtol=1e-4, atol=1e-5)
    theirs.backward()
    own.backward()
    for a, b in (
        (plain.words.weight, ours.embedder.embedder.weight),
        (plain.shapes.weight_hh_l0_reverse, ours.shapes.readers[0].layer.weight_hh_l0_reverse),
        (plain.layers.weight_ih_l0, ours.layers.weight_ih_l0),
        (plain.output.weight, ours.output.weight),
    ):
        torch.testing.assert_close(a.grad, b.grad, rtol=1e-3, atol=1e-5)


@pytest.mark.slow
def test_the_command(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(tag, "SIZES", dict.fromkeys(tag.SIZES, 8))
    monkeypatch.setattr(tag, "LONGEST", 12)
    with pytest.raises(SystemExit) as stopped:
        cli.main(["bench", "tag", "--out", str(tmp_path), "--seconds", "0.01"])
    assert stopped.value.code == 0
    found = json.loads((tmp_path / "tag.json").read_text())
    assert "names, CRF" in capsys.readouterr().out
    ratios = [row["carousel"] / row["torch"] for row in found["training"] if row["sentences"] == "as they come"]
    assert [claim["found"] for claim in found["claims"]] == pytest.approx(ratios)
    assert all(row["torch, distinct words"] > 0 for row in found["training"])
