"""Weights set by hand, gate by gate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import torch

from ..layers import Recurrent

Layer = TypeVar("Layer", bound=Recurrent)


def set_gates(layer: Layer, gates: Mapping[str, tuple[Any, Any, Any]]) -> Layer:
    """Give each gate of a layer its W (H, I), U (H, H) and b (H,); a number stands for all; other gates get zeros.

    >>> lstm = set_gates(LSTM(2, 1), {"f": (0, 0, 100), "i": (0, 0, -100)})       # it keeps what it has
    >>> lstm(torch.randn(50, 1, 2), (torch.zeros(1, 1, 1), torch.full((1, 1, 1), 3.0)))[1][1].item()
    3.0
    """
    names = ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0")
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.zero_()
        for gate, values in gates.items():
            at = layer.cell.gate_rows(gate, layer.hidden_size).start
            for name, value in zip(names, values, strict=True):
                parameter = layer.get_parameter(name)
                parameter[at : at + layer.hidden_size] = torch.as_tensor(value, dtype=parameter.dtype)
    return layer
