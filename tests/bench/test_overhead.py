"""The parts of a small call are measured, and what is replayed is the call itself."""

import json
from functools import partial

import pytest
import torch

import carousel
from carousel.bench import overhead
from carousel.cells.spec import Weights
from carousel.ops import backend
from carousel.ops.layer import fused_layer

pytestmark = pytest.mark.skipif(not backend.available(), reason=backend.why_not())


def test_replaying_the_native_call_gives_its_numbers_again():
    layer, x = carousel.LSTM(4, 8), torch.randn(3, 2, 4)
    with torch.no_grad():
        weights = Weights(layer.cell, layer._parameters_of(0, 0))
        run = partial(fused_layer, layer.cell, [weights], x, [None])
        (output, [(h, c)], _), again = overhead.recorded(["forward32"], run)
        expected = [t.clone() for t in (output, h, c)]
        for t in (output, h, c):
            t.zero_()
        again()
    for found, right in zip((output, h, c), expected, strict=True):
        assert torch.equal(found, right)
    assert backend.load()[0].forward32.__class__.__name__ == "nb_func"  # put back


def test_every_case_has_its_parts(monkeypatch, tmp_path):
    monkeypatch.setattr(overhead, "SHAPES", [(1, 1, 8, 8), (3, 2, 4, 5)])
    result = overhead.main(tmp_path, seconds=0.0, num_threads=1)
    assert json.loads((tmp_path / "overhead.json").read_text())["claim"]["bound"] == 40
    calls = [(row["layer"], row["call"]) for row in result["rows"]]
    each = ["forward", "step", "cell", "train", "forward", "train"]
    assert calls == [(name, call) for name in overhead.LAYERS for call in each]
    for row in result["rows"]:
        parts = sum(row.get(part, 0.0) for part in overhead.PARTS)
        assert row["Python"] == pytest.approx(max(0.0, row["whole"] - parts))
        assert 0 < row["native"] < row["whole"]
        assert ("autograd" in row) == (row["call"] == "train")


def test_without_kernels_it_is_one_line(monkeypatch):
    monkeypatch.setattr(backend, "available", lambda: False)
    monkeypatch.setattr(backend, "why_not", lambda: "no kernels here")
    with pytest.raises(carousel.errors.CarouselError, match="bench overhead: no kernels here"):
        overhead.measure()
