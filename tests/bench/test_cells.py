"""The benchmark of programs measures what it says, on shapes too small to mean anything."""

import json

import numpy as np
import pytest
import torch

from carousel.bench import cells
from carousel.bench.layers import loop_of
from carousel.cells import registry
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
    assert len(result["watched"]) == 3 * len(TINY) and [row["cell"] for row in result["steps"]] == ["lstm", "gru"]
    assert not result["compile"] and not result["jax"]  # processor time is that of one thread, and jax has its own
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


def test_jax_computes_the_same(monkeypatch):
    jax = pytest.importorskip("jax")
    for name, cell in (("MGU", cells.MGU()), ("LSTM", registry()["lstm"]())):
        x, layer = torch.randn(3, 2, 4, requires_grad=True), Recurrent(cell, 4, 5)
        p = {"W": layer.weight_ih_l0, "U": layer.weight_hh_l0, "b": layer.bias_ih_l0 + layer.bias_hh_l0}
        p = {key: jax.numpy.asarray(value.detach().numpy()) for key, value in p.items()}
        gradient = cells._jax_gradient(jax, name, len(cell.states))
        value, (_, d_x) = gradient(p, jax.numpy.asarray(x.detach().numpy()))
        loss = layer(x)[0].sum()
        assert float(value) == pytest.approx(loss.item(), rel=1e-5)
        (expected,) = torch.autograd.grad(loss, x)
        torch.testing.assert_close(torch.from_numpy(np.array(d_x)), expected, rtol=1e-4, atol=1e-5)
    monkeypatch.setattr(cells.importlib.util, "find_spec", lambda name: None)
    assert cells.against_jax(0.01) == []
