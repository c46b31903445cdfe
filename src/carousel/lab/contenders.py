"""The cells a lab compares: what each is called on the command line and in a figure, and its colour in every figure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches

from ..layers import GRU, LSTM, RNN, CoupledLSTM, LayerNormLSTM, PeepholeLSTM, Recurrent, ResetBeforeGRU


@dataclass(frozen=True)
class Contender:
    layer: Callable[..., Recurrent]  # its class
    label: str
    colour: str
    dash: str = "solid"  # where lines of two cells may coincide, one lets the other show through


# Colours that remain apart for colour-blind readers (after Okabe and Ito).
CELLS = {
    "rnn": Contender(RNN, "RNN (tanh)", "#d55e00"),
    "lstm": Contender(LSTM, "LSTM", "#0072b2"),
    "peephole": Contender(PeepholeLSTM, "Peephole LSTM", "#56b4e9", "dash"),
    "coupled": Contender(CoupledLSTM, "Coupled LSTM", "#009e73", "dashdot"),
    "layernorm": Contender(LayerNormLSTM, "Layer-norm LSTM", "#cc79a7"),
    "gru": Contender(GRU, "GRU", "#e69f00"),
    "gru-reset-before": Contender(ResetBeforeGRU, "Reset-before GRU", "#7f6000", "dash"),
}


def contender(name: str) -> Contender:
    """The cell called `name`; a name that is none of them is an error that lists them."""
    if name not in CELLS:
        near = get_close_matches(str(name), CELLS, 1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise ValueError(f"unknown cell {name!r}: {hint}the cells are {', '.join(CELLS)}")
    return CELLS[name]
