"""Recurrent layers by the name of their cell, and the dropout around them."""

from __future__ import annotations

import warnings
from typing import Any

from torch import Tensor, nn

from .. import layers
from ..ops.dropout import dropout


def encoder(cell: str, input_size: int, hidden_size: int, **options: Any) -> layers.Recurrent:
    """The layers of `cell`; `options` are the layer's own."""
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
