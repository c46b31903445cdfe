"""Carousel: every recurrent network in the textbook, at fused speed, with glass walls."""

from __future__ import annotations

import importlib

from .version import __version__ as __version__

TYPE_CHECKING = False  # as type checkers read it; importing `typing` takes longer than all else here
if TYPE_CHECKING:
    from typing import Any

    from . import cells, data, decoding, functional, lab, layers, metrics, networks, pictures
    from .acceleration import accelerate, accelerated, patch, restore
    from .api import baseline, check, compare, evaluate, load, sweep, train
    from .cells import Cell
    from .decoding.config import GenerationConfig
    from .errors import CarouselError
    from .layers import (
        GRU,
        LSTM,
        RNN,
        Clamp,
        CoupledLSTM,
        CoupledLSTMCell,
        ExecutionPath,
        GRUCell,
        LayerNormLSTM,
        LayerNormLSTMCell,
        LSTMCell,
        PeepholeLSTM,
        PeepholeLSTMCell,
        Recurrent,
        RecurrentCell,
        ResetBeforeGRU,
        ResetBeforeGRUCell,
        RNNCell,
        Trace,
    )
    from .ops.cross_entropy import linear_cross_entropy

__all__ = [
    "GRU",
    "LSTM",
    "RNN",
    "CarouselError",
    "Cell",
    "Clamp",
    "CoupledLSTM",
    "CoupledLSTMCell",
    "ExecutionPath",
    "GRUCell",
    "GenerationConfig",
    "LSTMCell",
    "LayerNormLSTM",
    "LayerNormLSTMCell",
    "PeepholeLSTM",
    "PeepholeLSTMCell",
    "RNNCell",
    "Recurrent",
    "RecurrentCell",
    "ResetBeforeGRU",
    "ResetBeforeGRUCell",
    "Trace",
    "accelerate",
    "accelerated",
    "baseline",
    "cells",
    "check",
    "compare",
    "data",
    "decoding",
    "evaluate",
    "functional",
    "lab",
    "layers",
    "linear_cross_entropy",
    "load",
    "metrics",
    "networks",
    "patch",
    "pictures",
    "restore",
    "sweep",
    "train",
]
_HOMES = {
    "CarouselError": "errors",
    "Cell": "cells",
    "GenerationConfig": "decoding.config",
    "linear_cross_entropy": "ops.cross_entropy",
    "accelerate": "acceleration",
    "accelerated": "acceleration",
    "patch": "acceleration",
    "restore": "acceleration",
    "baseline": "api",
    "check": "api",
    "compare": "api",
    "evaluate": "api",
    "load": "api",
    "sweep": "api",
    "train": "api",
}  # of the names that are not in layers


def __getattr__(name: str) -> Any:
    """Import a public name when it is first asked for: `carousel --help` should not wait for torch."""
    if name in ("cells", "Cell"):
        importlib.import_module(f"{__name__}.program")  # cells have a method of it
    if name in ("cells", "data", "decoding", "functional", "lab", "layers", "metrics", "networks", "pictures"):
        return importlib.import_module(f"{__name__}.{name}")
    if name in __all__:
        return getattr(importlib.import_module(f"{__name__}.{_HOMES.get(name, 'layers')}"), name)
    raise AttributeError(f"module 'carousel' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
