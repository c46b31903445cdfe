"""The cells a lab compares: the registered ones, each with its label, and its colour in every figure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from ..cells import Cell, registry
from ..errors import ArgumentError
from ..layers import RNN, Recurrent, named


@dataclass(frozen=True)
class LabCell:
    cell: Cell
    layer: Callable[..., Recurrent]  # its class
    label: str
    colour: str
    dash: str = "solid"  # where lines of two cells may coincide, one lets the other show through


# In the registry's order; colours that remain apart for colour-blind readers (after Okabe and Ito).
COLOURS = (
    ("#d55e00", "solid"),
    ("#0072b2", "solid"),
    ("#56b4e9", "dash"),
    ("#e69f00", "solid"),
    ("#7f6000", "dash"),
    ("#009e73", "dashdot"),
    ("#cc79a7", "solid"),
)


# Without a kernel, and too slow for training over thousands of steps: only where it is chosen by name.
ON_REQUEST = ("peephole-full",)


def _runnable() -> dict[str, type[Cell]]:
    """The registered cells that need nothing but a sequence of inputs."""
    needs = {name: [s for s in cell.side_inputs.values() if s.default is None] for name, cell in registry().items()}
    return {name: cell for name, cell in registry().items() if not needs[name]}


class LabCells(Mapping[str, LabCell]):
    """The registry as a lab sees it, by name; a cell that registers later is there too. Those of `ON_REQUEST` can be
    looked up, and are not among the names."""

    def __getitem__(self, name: str) -> LabCell:
        known = _runnable()
        if name not in known:
            raise KeyError(name)
        place = list(known).index(name)
        colour, dash = COLOURS[place % len(COLOURS)]
        cell = known[name]()
        return LabCell(cell, named(name), cell.label, colour, dash if place < len(COLOURS) else "dot")

    def __iter__(self) -> Iterator[str]:
        return (name for name in _runnable() if name not in ON_REQUEST)

    def __len__(self) -> int:
        return len(list(iter(self)))


CELLS = LabCells()


def sigmoid_rnn() -> LabCell:
    """The notes' RNN, h = σ(W h₋ + U x + b): not a cell of its own in the registry."""
    layer = partial(RNN, nonlinearity="sigmoid")
    cell = layer(1, 1).cell
    return LabCell(cell, layer, cell.label, "#8c564b", "dot")


def plain_cells() -> dict[str, LabCell]:
    """The three cells that most texts compare, by the names that they give them."""
    return {"RNN": CELLS["rnn"], "GRU": CELLS["gru"], "LSTM": CELLS["lstm"]}


def carrying_state(cell: Cell) -> str:
    """The state that carries the past: the one beside the output (c of an LSTM), or the output itself."""
    return cell.own_states[min(1, len(cell.own_states) - 1)]


def lab_cell(name: str) -> LabCell:
    """The cell called `name`; any other name is an error that lists them."""
    named(name)
    if name not in CELLS:
        raise ArgumentError(f"cell {name!r}: it has side inputs without a default, and a lab has none to give")
    return CELLS[name]
