"""Recurrent layers by the name of their cell, and the dropout around them."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn

from .. import layers

CELLS = {
    "lstm": layers.LSTM,
    "peephole": layers.PeepholeLSTM,
    "coupled": layers.CoupledLSTM,
    "layernorm": layers.LayerNormLSTM,
    "gru": layers.GRU,
    "gru-reset-before": layers.ResetBeforeGRU,
    "rnn": layers.RNN,
}
CellName = Literal["lstm", "peephole", "coupled", "layernorm", "gru", "gru-reset-before", "rnn"]


def encoder(cell: CellName, input_size: int, hidden_size: int, **options: Any) -> layers.Recurrent:
    """The layers of `cell`; `options` are the layer's own."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="dropout option adds dropout after all but last")
        return CELLS[cell](input_size, hidden_size, **options)


def keep_mask(shape: Sequence[int], rate: float, like: Tensor) -> Tensor:
    """0 for a share `rate` of the places, and for the others what keeps the mean as it was.

    A place takes 16 random bits, where `F.dropout` draws 64; their drawing is what dropout costs, and it has but one
    thread. So the rate is one of 65,536.
    """
    dropped = min(round(rate * 65536), 65535)
    places = math.prod(shape)
    drawn = torch.empty(-(-places // 4), dtype=torch.int64, device=like.device).random_(-(2**63), None)
    kept = drawn.view(torch.int16)[:places].view(shape) >= dropped - 32768
    return kept.to(like.dtype).mul_(65536 / (65536 - dropped))


class SequenceDropout(nn.Module):
    """Dropout for sequences (T, B, F): with `variational`, a unit that is dropped is dropped at all steps."""

    def __init__(self, rate: float, variational: bool = False) -> None:
        super().__init__()
        self.rate = rate
        self.variational = variational

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or not self.rate:
            return x
        return x * keep_mask((1, *x.shape[1:]) if self.variational else x.shape, self.rate, x)

    def extra_repr(self) -> str:
        return f"{self.rate}, variational={self.variational}"
