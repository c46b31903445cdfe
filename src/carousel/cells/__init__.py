"""The cells: one file an equation."""

from .base import Cell, StepGradient, Weights
from .coupled import Coupled
from .elman import Elman
from .gru import GRU, ResetBeforeGRU
from .layernorm import LayerNorm
from .lstm import LSTM
from .peephole import Peephole

__all__ = [
    "GRU",
    "LSTM",
    "Cell",
    "Coupled",
    "Elman",
    "LayerNorm",
    "Peephole",
    "ResetBeforeGRU",
    "StepGradient",
    "Weights",
]
