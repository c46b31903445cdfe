"""The benchmark measures what it says, on shapes too small to mean anything."""

import json
import math

import pytest
import torch
from torch import nn

from carousel.bench import layers
from carousel.ops import backend

pytestmark = pytest.mark.skipif(not backend.available(), reason=backend.why_not())
TINY = [(3, 2, 4, 5), (4, 1, 3, 6)]


@pytest.fixture(scope="module")
def result():
    """All measurements, each on tiny shapes and for no time; the number of threads is put back."""
    threads = torch.get_num_threads()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(layers, "SHAPES", TINY)
        patch.setattr(layers, "SMALL", [])
        patch.setattr(layers, "matmul_gflops", lambda seconds: 50.0)
        rows = [{"steps": t, "microseconds a step": 1.0} for t in (1, 2, 3)]
        patch.setattr(layers, "growth", lambda seconds: rows)
        found = layers.measure(seconds=0.0, say=lambda line: None)
    assert torch.get_num_threads() == threads
    return found


def test_every_layer_and_shape_is_measured(result):
    assert [(row["layer"], row["shape"]) for row in result["standard"]] == [
        (name, shape) for name in ("LSTM", "GRU", "RNN") for shape in TINY
    ]
    for row in result["standard"]:
        for kind in ("forward", "train"):
            assert row[kind]["ratio"] == row[kind]["torch"] / row[kind]["carousel"] > 0


def test_a_claim_holds_when_its_bound_is_kept(result):
    for claim in result["claims"]:
        kept = claim["found"] >= claim["bound"] if claim["least"] else claim["found"] <= claim["bound"]
        assert claim["holds"] == kept
    ratios = [row["train"]["ratio"] for row in result["standard"] if row["layer"] == "GRU"]
    found = {claim["claim"]: claim["found"] for claim in result["claims"]}
    assert found["torch.nn.GRU, forward+backward, slowest shape"] == min(ratios)
    assert found["torch.nn.GRU, forward+backward, geometric mean"] == pytest.approx(math.sqrt(math.prod(ratios)))


def test_the_share_of_the_matmul_limit_is_the_products_at_the_best_rate(result):
    columns, rows = layers.ratios(result)
    assert columns[-1] == "LSTM, of the matmul limit"
    row = result["standard"][0]
    T, B, I, H = row["shape"]
    forward = 2 * T * B * (4 * H) * (I + H)  # W x and U h; backward by inputs and by weights is twice that
    limit = 3 * forward / 50e9
    assert rows[0][-1] == f"{limit / row['train']['carousel']:.2f}"


def test_the_matmul_rate_is_that_of_a_product():
    assert 0.1 < layers.matmul_gflops(0.0) < 100_000


def test_against_onnxruntime(result):
    """The operator computes what our layer computes; `onnx` raises otherwise."""
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    assert [row["shape"] for row in result["onnx"]] == TINY
    for row in result["onnx"]:
        assert row["ratio"] == row["onnxruntime"] / row["carousel"] > 0
    torch.manual_seed(0)
    mine, x = layers.layers.LSTM(4, 5), torch.randn(3, 2, 4)
    theirs = nn.LSTM(4, 5)
    theirs.load_state_dict(mine.state_dict())
    y, h, c = layers.onnx_lstm(mine, 1)(x)
    expected, (h_n, c_n) = theirs(x)
    for found, right in ((y[:, 0], expected), (h, h_n), (c, c_n)):
        torch.testing.assert_close(torch.from_numpy(found), right.detach())


def test_without_onnxruntime_there_are_no_rows(monkeypatch):
    monkeypatch.setattr(layers.importlib.util, "find_spec", lambda name: None)
    assert layers.onnx(0.0, TINY) == []


def test_what_is_written(result, monkeypatch, tmp_path):
    monkeypatch.setattr(layers, "measure", lambda *args, **options: result)
    layers.main(tmp_path / "new")
    assert json.loads((tmp_path / "new/layers.json").read_text())["claims"] == result["claims"]
    page = (tmp_path / "new/layers.html").read_text()
    assert all(claim["claim"].split(",")[0] in page for claim in result["claims"])
