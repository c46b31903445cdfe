"""The benchmark of programs measures what it says, on shapes too small to mean anything."""

import json

import pytest
import torch

from carousel.bench import cells
from carousel.bench.layers import loop_of
from carousel.layers import Recurrent
from carousel.ops import backend

pytestmark = pytest.mark.skipif(not backend.available(), reason=backend.why_not())
TINY = [(3, 2, 4, 5), (4, 1, 3, 8)]


def test_every_cell_and_shape_is_measured(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(cells, "SHAPES", TINY)
    monkeypatch.setattr(cells, "AT_JAX", TINY)
    result = cells.main(tmp_path, seconds=0.01, processor_time=True)
    assert [(row["cell"], row["shape"]) for row in result["built-in"]] == [(c, s) for c in cells.BUILT_IN for s in TINY]
    assert [row["cell"] for row in result["loops"]] == ["MGU"] * 2 + ["MinGRU"] * 2
    assert all(row["cost"] == row["program"] / row["kernel"] for row in result["built-in"])
    for row in result["claims"]:
        sign, bound = row["must"].split()
        assert row["holds"] == (row["found"] <= float(bound) if sign == "≤" else row["found"] >= float(bound))
    assert len(json.loads((tmp_path / "cells.json").read_text())["claims"]) == len(result["claims"])
    assert "MinGRU" in capsys.readouterr().out


def test_what_is_compared_computes_the_same():
    layer, x = Recurrent(cells.MinGRU(), 3, 5).double(), torch.randn(7, 2, 3, dtype=torch.float64)
    assert layer.path(x) == "fused"
    z, n = torch.nn.functional.linear(x, layer.weight_ih_l0, layer.bias_ih_l0).chunk(2, -1)
    for other in (cells.scan(torch.sigmoid(z), n), loop_of(layer)(x)):
        torch.testing.assert_close(layer(x)[0], other)
