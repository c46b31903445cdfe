"""The benchmark measures what it says, on shapes too small to mean anything."""

import json
import math

import pytest
import torch

from carousel.bench import layers
from carousel.ops import backend

pytestmark = pytest.mark.skipif(not backend.available(), reason=backend.why_not())
TINY = [(3, 2, 4, 5), (4, 1, 3, 6)]


@pytest.fixture
def result(monkeypatch):
    """All measurements, each on tiny shapes and for no time."""
    monkeypatch.setattr(layers, "SHAPES", TINY)
    monkeypatch.setattr(layers, "growth", lambda seconds: [{"steps": t, "microseconds a step": 1.0} for t in (1, 2, 3)])
    return layers.measure(seconds=0.0, say=lambda line: None)


def test_every_layer_and_shape_is_measured(result):
    assert [(row["layer"], row["shape"]) for row in result["standard"]] == [
        (name, shape) for name in ("LSTM", "GRU", "RNN") for shape in TINY
    ]
    for row in result["standard"]:
        for kind in ("forward", "train"):
            assert row[kind]["ratio"] == row[kind]["torch"] / row[kind]["carousel"] > 0
    assert torch.get_num_threads() == 1  # put back


def test_a_claim_holds_when_its_bound_is_kept(result):
    for claim in result["claims"]:
        kept = claim["found"] >= claim["bound"] if claim["least"] else claim["found"] <= claim["bound"]
        assert claim["holds"] == kept
    ratios = [row["train"]["ratio"] for row in result["standard"] if row["layer"] == "GRU"]
    found = {claim["claim"]: claim["found"] for claim in result["claims"]}
    assert found["torch.nn.GRU, forward+backward, slowest shape"] == min(ratios)
    assert found["torch.nn.GRU, forward+backward, geometric mean"] == pytest.approx(math.sqrt(math.prod(ratios)))


def test_what_is_written(result, monkeypatch, tmp_path):
    monkeypatch.setattr(layers, "measure", lambda *args, **options: result)
    layers.main(tmp_path / "new")
    assert json.loads((tmp_path / "new/layers.json").read_text())["claims"] == result["claims"]
    page = (tmp_path / "new/layers.html").read_text()
    assert all(claim["claim"].split(",")[0] in page for claim in result["claims"])
