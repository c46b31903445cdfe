"""Every operation that has an opcode: its value and its derivative."""

import pytest
import torch
from helpers.drawn_cells import BINARY, UNARY, I, TwoStates, check
from helpers.references import draw, randomise

from carousel import Recurrent
from carousel.ops import backend

pytestmark = pytest.mark.skipif(not backend.available(), reason="no kernels")


@pytest.mark.parametrize("name", [*UNARY, *BINARY])
def test_every_operation(monkeypatch, name):
    """One cell for each: forward, gradients, and those against finite differences."""
    kind = "unary" if name in UNARY else "binary"
    cell = TwoStates([("product", "a", 2, 0), (kind, name, -1, 1), ("binary", "add", -1, 3)])
    layer = randomise(Recurrent(cell, I, 4, dtype=torch.float64))
    x = draw(3, 2, I).requires_grad_()
    check(monkeypatch, layer, x)
    if name not in ("relu", "clamp", "detach", "greatest"):  # kinks, and what has no derivative on purpose
        assert torch.autograd.gradcheck(lambda x: layer(x)[0], x, rtol=1e-3, atol=1e-6)
