"""The language-model benchmark compares the same network, and says which claims hold."""

import json

import pytest
import torch

from carousel.bench import lm

SMALL = {"steps": 5, "batch": 3, "vocabulary": 20, "embedding": 6, "hidden": 4, "layers": 2, "lr": 0.1,
         "optimizer": "sgd", "least": 1.0}  # fmt: skip


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(lm, "SIZES", {"poems": SMALL})


def test_both_sides_are_one_network():
    plain = lm.Plain(20, 6, 4, 2)
    ours = lm.make_network(SMALL)
    with torch.no_grad():
        ours.embedder.weight.copy_(plain.embedding.weight)
        ours.output.copy_(plain.output.weight)
        ours.bias.copy_(plain.output.bias)
    ours.layers.load_state_dict(plain.layers.state_dict())
    batch = lm.make_batch(SMALL)
    expected = torch.nn.functional.cross_entropy(plain(batch.inputs).flatten(0, 1), batch.targets.flatten())
    torch.testing.assert_close(ours.loss(batch).mean, expected)
    assert ours.size == sum(p.numel() for p in plain.parameters())


def test_it_measures_and_writes(tmp_path, monkeypatch, capsys):
    from carousel.bench import generation

    row = {"batch": 1, "poems": 1000, "torch": 4.0, "carousel": 2.0, "ratio": 2.0, "least": 3.0}
    monkeypatch.setattr(generation, "compare_generation", lambda **_: [row])
    result = lm.main(tmp_path / "out", seconds=0.01)
    assert json.loads((tmp_path / "out" / "lm.json").read_text()) == result
    (training,) = result["training"]
    assert training["ratio"] == pytest.approx(training["carousel"] / training["torch"])
    assert result["engine"]["engine"] > 0
    missed = [claim["what"] for claim in result["claims"] if not claim["holds"]]
    assert "generating, batch 1, ratio" in missed
    assert "missed" in capsys.readouterr().out
