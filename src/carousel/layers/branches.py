"""The steps of a search, where sequences branch: several go on from one, and many read the same word."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from . import fused
from .recurrent import Recurrent


class Branches(NamedTuple):
    """The state of a search's rows: row j goes on from row `parents[j]` of `state`; without parents from row j.

    Nothing is copied when a search keeps some rows and doubles others. The next step sees who has the same parent.
    """

    state: Any = None  # as the layer has it, (layers, ·, H) each; None: its own initial state
    parents: Tensor | None = None  # (N,)

    def select(self, rows: Tensor) -> Branches:
        """The rows `rows` (N,), in order and with repeats."""
        if self.state is None:
            return self
        return Branches(self.state, rows if self.parents is None else self.parents.index_select(0, rows))


class Steps:
    """A layer, one way, a step at a time, with the parameters as they are now: they are packed once for all steps.

    Rows that read the same word share its product, and so do rows with the same parent. No gradient flows.

    >>> lstm, words = carousel.LSTM(8, 16).eval(), torch.randn(50, 8)
    >>> with torch.no_grad():
    ...     steps = Steps(lstm)
    ...     y, rows = steps.step(words, Branches(), torch.tensor([3, 7]))
    ...     y, rows = steps.step(words, rows.select(torch.tensor([0, 0, 1])), torch.tensor([5, 9, 5]))
    >>> y.shape
    torch.Size([3, 16])
    """

    def __init__(self, layer: Recurrent) -> None:
        self.layer = layer
        self.native = fused.keep(layer)  # None: the layer has no native step

    def step(self, x: Tensor, rows: Branches, inputs: Tensor | None = None) -> tuple[Tensor, Branches]:
        """x (N, I), or (·, I) of which each row reads the one that `inputs` (N,) names → output (N, P), and the rows
        after it."""
        state, parents = rows
        if inputs is not None:
            inputs = inputs.to(torch.int64).contiguous()
        made = None if self.native is None else self.native.step(x, state, inputs, parents)
        if made is None:
            if parents is not None:
                whole = isinstance(state, Tensor)
                parts = [part.index_select(1, parents) for part in ((state,) if whole else state)]
                state = parts[0] if whole else tuple(parts)
            made = self.layer.step(x if inputs is None else x.index_select(0, inputs), state)
        y, new = made
        return y, Branches(new)
