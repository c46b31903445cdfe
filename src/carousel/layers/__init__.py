"""Cells made into layers."""

from .branches import Branches, Steps
from .generate import RecurrentStepper
from .path import Path
from .recurrent import Recurrent
from .standard import GRU, LSTM, RNN, CoupledLSTM, LayerNormLSTM, PeepholeLSTM, ResetBeforeGRU
from .trace import Clamp, Trace
from .walk import Walker

__all__ = [
    "GRU",
    "LSTM",
    "RNN",
    "Branches",
    "Clamp",
    "CoupledLSTM",
    "LayerNormLSTM",
    "Path",
    "PeepholeLSTM",
    "Recurrent",
    "RecurrentStepper",
    "ResetBeforeGRU",
    "Steps",
    "Trace",
    "Walker",
]
