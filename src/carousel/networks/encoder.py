"""Recurrent layers by the name of their cell, and the dropout around them."""

from __future__ import annotations

import warnings
from typing import Any

from torch import Tensor, nn

from .. import layers
from ..ops.dropout import dropout


def encoder(
    cell: str, input_size: int, hidden_size: int, *, nonlinearity: str = "tanh", **options: Any
) -> layers.Recurrent:
    """The layers of `cell`; `nonlinearity` is that of the cell rnn, which alone has a choice; `options` are the layer's
    own."""
    if cell == "rnn":
        options["nonlinearity"] = nonlinearity
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="dropout option adds dropout after all but last")
        return layers.named(cell)(input_size, hidden_size, **options)


class SequenceDropout(nn.Module):
    """Dropout for sequences (T, B, F): with `variational`, a unit that is dropped is dropped at all steps."""

    def __init__(self, rate: float, variational: bool = False) -> None:
        super().__init__()
        self.rate = rate
        self.variational = variational

    def forward(self, x: Tensor) -> Tensor:
        return dropout(x, self.rate, repeat=self.variational) if self.training else x

    def extra_repr(self) -> str:
        return f"{self.rate}, variational={self.variational}"
