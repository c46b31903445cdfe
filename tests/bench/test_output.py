"""The benchmark of the output layer measures what it says, on shapes too small to mean anything."""

import json

import pytest
import torch

from carousel.bench import output
from carousel.ops import backend

pytestmark = pytest.mark.skipif(not backend.available(), reason=backend.why_not())
TINY = [((6, 3, 5), torch.float32, 0.0), ((4, 2, 7), torch.float64, None), ((5, 2, 3), torch.float32, 1e9)]


@pytest.fixture
def result(monkeypatch):
    """All measurements on tiny shapes, for no time; the number of threads is put back."""
    threads = torch.get_num_threads()
    monkeypatch.setattr(output, "SHAPES", TINY)
    monkeypatch.setattr(output, "SIZES", (200,))
    found = output.measure(seconds=0.0, say=lambda line: None)
    assert torch.get_num_threads() == threads
    return found


def test_every_shape_is_measured_against_the_best_of_torch(result):
    assert [(row["shape"], row["dtype"]) for row in result["output"]] == [(s, str(d)[6:]) for s, d, _ in TINY]
    for row in result["output"]:
        for kind in ("train", "forward"):
            found = row[kind]
            theirs = [t for name, t in found.items() if name.endswith("cross_entropy")]
            assert found["torch"] == min(theirs) and found["ratio"] == found["torch"] / found["carousel"] > 0


def test_the_adaptive_softmax_is_measured_beside_the_full_one(result):
    [row] = result["adaptive"]
    rates = row["tokens per second"]
    assert row["cutoffs"] == [8, 40]
    assert row["ratio"] == pytest.approx(rates["adaptive"] / rates["full"])
    assert output.adaptive_rates(result)[1][0][:2] == ["200", "8 40"]


def test_everybody_computes_the_same_loss():
    hidden, weight, bias = torch.randn(6, 3), torch.randn(5, 3), torch.randn(5)
    losses = [call() for call in output.contenders(hidden, weight, bias, torch.randint(5, (6,))).values()]
    for loss in losses[1:]:
        torch.testing.assert_close(loss, losses[0])


def test_a_claim_holds_when_its_bound_is_kept(result):
    assert [(claim["bound"], claim["holds"]) for claim in result["claims"]] == [(0.0, True), (1e9, False)]


def test_what_is_written(result, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(output, "measure", lambda *args, **options: result)
    output.main(tmp_path / "new")
    assert json.loads((tmp_path / "new/output.json").read_text())["claims"] == result["claims"]
    assert "6 3 5" in capsys.readouterr().out
