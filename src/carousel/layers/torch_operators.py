"""PyTorch's own recurrent operators, for the layers they can run: cuDNN's on a CUDA device, and the ones that
`torch.jit.trace` and its exporters know."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..cells.spec import State
from .batch import Batch


def unsupported_reason(layer: Any, batch: Batch) -> str | None:
    """Why torch's operator cannot run this call, or None if it can."""
    if layer.cell.torch_mode() is None:
        return f"torch has no operator for the cell {layer.cell!r}"
    if batch.lengths is not None or batch.reset is not None:
        return "torch's operators have neither unsorted lengths nor reset"
    if layer.proj_size and torch.onnx.is_in_onnx_export():
        return "ONNX's LSTM has no projection"
    if layer.bidirectional and layer.merge != "concat":
        return f"torch's operators cannot merge directions by {layer.merge}"
    if layer.zoneout or (layer.training and (layer.variational or layer.recurrent_dropout or layer.weight_drop)):
        return "torch's operators have no variational dropout, recurrent dropout, zoneout or weight drop"
    return None


def run(layer: Any, x: Tensor, state: list[Tensor]) -> tuple[Tensor, list[State]]:
    """x (T, B, I) and states (L·D, B, S) → output (T, B, D·P) and each layer and direction's final state."""
    operator = getattr(torch._VF, layer.cell.torch_mode().lower())
    weights = [
        value
        for at in layer._grid()
        for name, value in layer._parameters_of(*at).items()
        if not name.startswith("initial_")
    ]
    hx: Any = [s.contiguous() for s in state] if len(state) > 1 else state[0].contiguous()
    output, *final = operator(
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
