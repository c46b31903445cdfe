"""What C++ says of its kernels against the cells in Python."""

from __future__ import annotations

import math
from typing import Any

import pytest
from helpers.harness import CELLS

from carousel.cells.spec import Sizes
from carousel.ops.backend import load
from carousel.ops.kernels import KERNELS


@pytest.mark.parametrize("name", CELLS)
def test_a_kernel_has_what_its_cell_has(name: str) -> None:
    cell, kernel = CELLS[name], KERNELS[CELLS[name].kernel() or ""]
    assert kernel.gates == tuple(cell.gates) and kernel.states == tuple(cell.states)
    assert kernel.parameters[:5] == ("weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr")
    shapes = {n.replace(".", "_"): shape for n, shape in cell.parameters(Sizes(3, 7, 7)).items()}
    own = {n: math.prod(shapes[n]) for n in shapes if n not in kernel.parameters[:5]}
    assert {n: 7 * vectors for n, vectors in kernel.own.items()} == own
    assert set(kernel.parameters[5:]) == set(own)
    assert list(kernel.saved)[: len(kernel.gates)] == list(kernel.gates)
    assert sorted(kernel.saved.values()) == list(range(len(kernel.saved)))
    assert kernel.projects == cell.projects


def test_every_kernel_is_some_cells() -> None:
    assert set(KERNELS) == {cell.kernel() for cell in CELLS.values()}


def test_a_wrong_call_is_refused() -> None:
    native: Any = load()[0]
    with pytest.raises(ValueError, match="there is no kernel 'lsmt'"):
        native.describe("lsmt")
    with pytest.raises(ValueError, match="2 addresses for 10 slots"):
        native.forward32("lstm", (1, 1, 1, 1, 1, 1, 1), [0, 0], [], [], 0, 0, True, [0] * 5)
    with pytest.raises(ValueError, match="no projection"):
        native.forward32("gru", (1, 1, 1, 1, 1, 1, 1), [0, 0, 0, 0, 0, 1, 0, 0], [], [], 0, 0, True, [0] * 4)
    with pytest.raises(TypeError):
        native.attend32(query=0)
