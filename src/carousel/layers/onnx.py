"""ONNX's own LSTM, GRU and RNN operators, for the layers they can run while `torch.onnx.export` records a program.

The dynamo exporter (`dynamo=True`) is meant here; the one on TorchScript traces torch's operator, which it knows.
"""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..cells.spec import State
from .batch import Batch

OPSET = 18  # what torch's exporter writes; the recurrent operators have been the same since 14


class Operator(NamedTuple):
    """How ONNX writes a cell."""

    name: str
    gates: str  # ONNX's order, by the names of our gates; upper case: negated, as 1 − σ(a) = σ(−a)
    attributes: dict[str, Any] = {}
    peepholes: str = ""  # the order of P


# an ONNX LSTM with input_forget has rows for f that nothing reads
OPERATORS = {
    "lstm": Operator("LSTM", "iofg"),
    "peephole": Operator("LSTM", "iofg", peepholes="iof"),
    "coupled": Operator("LSTM", "Fofg", {"input_forget": 1}),
    "coupled-peephole": Operator("LSTM", "Fofg", {"input_forget": 1}, peepholes="Fof"),
    "gru": Operator("GRU", "zrn", {"linear_before_reset": 1}),
    "gru-reset-before": Operator("GRU", "zrn", {"linear_before_reset": 0}),
    "elman-tanh": Operator("RNN", "h", {"activations": ["Tanh"]}),
    "elman-relu": Operator("RNN", "h", {"activations": ["Relu"]}),
    "elman-sigmoid": Operator("RNN", "h", {"activations": ["Sigmoid"]}),
}


def is_exporting() -> bool:
    """Whether the dynamo exporter is recording this call."""
    if "torch.onnx" not in sys.modules:  # which torch imports when it is asked for
        return False
    return torch.onnx.is_in_onnx_export() and torch._C._get_tracing_state() is None


def unsupported_reason(layer: Any, batch: Batch) -> str | None:
    """Why ONNX's operators cannot run this call, or None if they can."""
    if layer.cell.kernel() not in OPERATORS:
        return f"ONNX has no operator for the cell {layer.cell!r}"
    if layer.proj_size:
        return "ONNX's LSTM has no projection"
    if batch.reset is not None:
        return "ONNX's operators have no reset"
    if layer.zoneout or (layer.training and (layer.dropout or layer.recurrent_dropout or layer.weight_drop)):
        return "ONNX's operators have no dropout and no zoneout"
    return None


def run(layer: Any, batch: Batch, state: list[Tensor]) -> tuple[Tensor, list[State]]:
    """x (T, B, I) and states (L·D, B, H) → output (T, B, ·) and each layer and direction's final state."""
    operator, count = OPERATORS[layer.cell.kernel()], layer.num_directions
    x, final = batch.x, []
    steps, size, hidden = *x.shape[:2], layer.hidden_size
    shapes = [(steps, count, size, hidden), *((count, size, hidden) for _ in state)]
    attributes = operator.attributes | {
        "hidden_size": hidden,
        "direction": "bidirectional" if layer.bidirectional else "forward",
    }
    if "activations" in attributes:
        attributes["activations"] = attributes["activations"] * count
    lengths = None if batch.lengths is None else batch.lengths.to(torch.int32)
    for k in range(layer.num_layers):
        own = [layer._parameters_of(k, direction) for direction in range(count)]
        inputs = [x, *_weights(layer, operator, own), lengths, *(s[k * count : (k + 1) * count] for s in state)]
        if operator.peepholes:
            order = [gate for gate in layer.cell.gates if gate != "g"]
            inputs.append(torch.stack([_rows(w["weight_ch"], order, operator.peepholes) for w in own]))
        y, *last = torch.onnx.ops.symbolic_multi_out(
            operator.name, inputs, attributes, dtypes=[x.dtype] * len(shapes), shapes=shapes, version=OPSET
        )
        x = y.transpose(1, 2).flatten(2)
        if layer.bidirectional and layer.merge != "concat":
            x = layer.join(list(x.chunk(2, -1)))
        final += [tuple(s[direction] for s in last) for direction in range(count)]
    return x, final


def _weights(layer: Any, operator: Operator, own: list[dict[str, Tensor]]) -> list[Tensor | None]:
    """W, R and B of all directions, (D, G·H, ·)."""
    order = list(layer.cell.gates)

    def stacked(name: str) -> Tensor:
        return torch.stack([_rows(w[name], order, operator.gates) for w in own])

    bias = torch.cat([stacked("bias_ih"), stacked("bias_hh")], 1) if layer.bias else None
    return [stacked("weight_ih"), stacked("weight_hh"), bias]


def _rows(value: Tensor, ours: list[str], theirs: str) -> Tensor:
    """Rows by gate in our order, put into ONNX's."""
    size = value.shape[0] // len(ours)

    def part(gate: str) -> Tensor:  # by slices: the exporter computes those of constants, and not what chunk gives
        return value[ours.index(gate) * size : (ours.index(gate) + 1) * size]

    return torch.cat([-part(gate.lower()) if gate.isupper() else part(gate) for gate in theirs])
