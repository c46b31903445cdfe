"""Carousel: every recurrent network in the textbook, at fused speed, with glass walls."""

from . import cells
from .cells import Cell
from .layers import (
    GRU,
    LSTM,
    RNN,
    Clamp,
    CoupledLSTM,
    LayerNormLSTM,
    Path,
    PeepholeLSTM,
    Recurrent,
    ResetBeforeGRU,
    Trace,
)

__version__ = "0.1.0.dev0"

__all__ = [
    "GRU",
    "LSTM",
    "RNN",
    "Cell",
    "Clamp",
    "CoupledLSTM",
    "LayerNormLSTM",
    "Path",
    "PeepholeLSTM",
    "Recurrent",
    "ResetBeforeGRU",
    "Trace",
    "cells",
]
