"""A stack of layers one step per call."""

from __future__ import annotations

import pytest
import torch
from helpers.harness import CELLS, layer

from carousel.cells import FullPeephole
from carousel.ops.layer import fused_layer
from carousel.ops.stream import Stream

names = pytest.mark.parametrize("name", CELLS)


@names
def test_stream_equals_sequence(name: str) -> None:
    first, second = layer(name, 3, 5), layer(name, 5, 5)
    x = torch.randn(7, 2, 3, dtype=torch.float64)
    y, [state_1], _ = fused_layer(first.cell, [first], x, [None])
    y, [state_2], _ = fused_layer(first.cell, [second], y, [None])
    stream = Stream(first.cell, [first, second])
    state = None
    for t in range(7):
        state = stream.step(x[t], state)
        torch.testing.assert_close(state[0][-1], y[t], rtol=1e-12, atol=1e-12)
    assert state is not None
    for got, one, two in zip(state, state_1, state_2, strict=True):
        torch.testing.assert_close(got, torch.stack((one, two)), rtol=1e-12, atol=1e-12)


def test_rows_that_branch_are_those_of_their_parents() -> None:
    """`inputs` says which row of x is read and `parents` which state is continued: as if rows had been copied."""
    w = layer("lstm")
    stream = Stream(w.cell, [w])
    x, words = torch.randn(3, 3, dtype=torch.float64), torch.randn(2, 3, dtype=torch.float64)
    state = stream.step(x, None)
    inputs, parents = torch.tensor([1, 0, 1, 1, 0]), torch.tensor([2, 2, 0, 1, 2])
    found = stream.step(words, state, inputs, parents)
    expected = stream.step(words[inputs], tuple(s[:, parents].contiguous() for s in state))
    torch.testing.assert_close(found, expected)


def test_what_cannot_be_streamed_is_named() -> None:
    w = layer("lstm")
    w.weight_hh = w.weight_hh.t().contiguous().t()
    with pytest.raises(ValueError, match="Stream: weight_hh must be contiguous"):
        Stream(w.cell, [w])
    full = FullPeephole()
    with pytest.raises(ValueError, match="Stream: there is no kernel for FullPeephole"):
        Stream(full, [w])
