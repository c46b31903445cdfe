"""What the gates of a trained model do while it reads: how often they are shut or wide open, and at which tokens."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from statistics import fmean

import torch

from ..cells import Cell
from ..inspect import LayerReading
from ..pictures.gates import opens, title

SHUT = 0.1  # a gate is shut below this, and open above 1 − this
OFTEN = 5  # times that a token must occur to be judged


@dataclass(frozen=True)
class GateUse:
    """One gate of one layer and direction: of every unit, the share of steps at which it is shut, and open."""

    layer: str
    gate: str
    title: str  # "forget gate f"
    shut: tuple[float, ...]
    open: tuple[float, ...]
    mean: float


def keeping_gate(cell: Cell) -> str | None:
    """The gate that keeps the past: f of an LSTM, z of a GRU, none of an RNN."""
    return cell.gate_with("keep")


def label(name: str, layer: int, direction: int) -> str:
    """
    >>> label("encoder", 1, 1)
    'encoder.l1_reverse'
    """
    return f"{name}.l{layer}{'_reverse' if direction else ''}".strip(".")


def gate_use(reading: LayerReading) -> list[GateUse]:
    """Of every gate between 0 and 1."""
    layer, real, found = reading.layer, reading.real, []
    with torch.no_grad():
        trace = layer.eval().trace(reading.x, lengths=reading.lengths)
    for k in range(layer.num_layers * layer.num_directions):
        name = label(reading.name, *divmod(k, layer.num_directions))
        for gate in [gate for gate in trace.gates if opens(layer.cell, gate)]:
            values = trace.gates[gate][k][real]  # (steps, units)
            shut, wide = ((values < SHUT).float().mean(0), (values > 1 - SHUT).float().mean(0))
            found.append(
                GateUse(
                    name,
                    gate,
                    title(layer.cell, gate),
                    tuple(shut.tolist()),
                    tuple(wide.tolist()),
                    float(values.mean()),
                )
            )
    return found


def by_token(reading: LayerReading) -> list[tuple[str, float, int]]:
    """Tokens with the mean of the first layer's keeping gate when they are read, and how often they are; lowest first.

    Empty if it is no text that was read, or if no token occurs often.
    """
    gate = keeping_gate(reading.layer.cell)
    if gate is None or not reading.tokens:
        return []
    with torch.no_grad():
        values = reading.layer.eval().trace(reading.x, lengths=reading.lengths).gates[gate][0].mean(-1)  # (T, B)
    by = defaultdict(list)
    for k, tokens in enumerate(reading.tokens):
        for token, value in zip(tokens, values[: len(tokens), k].tolist(), strict=True):
            by[token].append(value)
    rows = [(token, fmean(each), len(each)) for token, each in by.items() if len(each) >= OFTEN]
    return sorted(rows, key=lambda row: row[1])
