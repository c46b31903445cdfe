"""PyTorch's own recurrent operators, which are cuDNN's on a CUDA device, for the layers they can run."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .. import cells
from ..cells.base import State
from .batch import Batch


def operator(cell: cells.Cell) -> Any:
    """The torch operator that computes `cell`, or None."""
    if type(cell) is cells.LSTM:
        return torch._VF.lstm
    if type(cell) is cells.GRU:
        return torch._VF.gru
    if type(cell) is cells.Elman:
        return {"tanh": torch._VF.rnn_tanh, "relu": torch._VF.rnn_relu}.get(cell.nonlinearity)
    return None


def obstacle(layer: Any, batch: Batch) -> str | None:
    """Why torch's operator cannot run this call, or None if it can."""
    if operator(layer.cell) is None:
        return f"cuDNN has no {layer.cell!r} cell"
    if batch.lengths is not None or batch.reset is not None:
        return "cuDNN knows no unsorted lengths and no reset"
    if layer.bidirectional and layer.merge != "concat":
        return f"cuDNN cannot merge directions by {layer.merge}"
    if layer.zoneout or (layer.training and (layer.variational or layer.recurrent_dropout or layer.weight_drop)):
        return "cuDNN knows no variational dropout, recurrent dropout, zoneout or weight drop"
    return None


def run(layer: Any, x: Tensor, state: list[Tensor]) -> tuple[Tensor, list[State]]:
    """x (T, B, I) and states (L·D, B, S) → output (T, B, D·P) and each layer and direction's final state."""
    learned = ("initial_",)
    weights = [
        value
        for at in layer._grid()
        for name, value in layer._parameters_of(*at).items()
        if not name.startswith(learned)
    ]
    hx: Any = [s.contiguous() for s in state] if len(state) > 1 else state[0].contiguous()
    output, *final = operator(layer.cell)(
        x,
        hx,
        weights,
        layer.bias,
        layer.num_layers,
        layer.dropout,
        layer.training,
        layer.bidirectional,
        False,
    )
    return output, list(zip(*(s.unbind(0) for s in final), strict=True))
