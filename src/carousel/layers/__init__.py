"""Cells made into layers. Every registered cell of this package has a layer here, by the name it declares."""

from typing import Any

from .. import cells
from . import cell as cell_modules
from . import standard
from .cell import GRUCell, LSTMCell, RecurrentCell, RNNCell, named_cell
from .generate import RecurrentStepper
from .packed import BeamState, PackedStepper
from .paths import ExecutionPath
from .recurrent import Recurrent
from .standard import GRU, LSTM, RNN, from_torch, named
from .stepwise import StepwiseLayer
from .trace import Clamp, Trace

NAMES = tuple(cell.layer_name for cell in cells.registry().values() if cell.layer_name)
CELL_NAMES = tuple(f"{name}Cell" for name in NAMES)


def __getattr__(name: str) -> Any:
    """A layer or a single step by its name."""
    if name in NAMES:
        return getattr(standard, name)
    if name in CELL_NAMES:
        return getattr(cell_modules, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), *NAMES, *CELL_NAMES]


__all__ = [
    "GRU",
    "LSTM",
    "RNN",
    "BeamState",
    "Clamp",
    "ExecutionPath",
    "GRUCell",
    "LSTMCell",
    "RNNCell",
    "Recurrent",
    "RecurrentCell",
    "RecurrentStepper",
    "PackedStepper",
    "Trace",
    "StepwiseLayer",
    "from_torch",
    "named",
    "named_cell",
    *(name for name in (*NAMES, *CELL_NAMES) if name.removesuffix("Cell") not in ("GRU", "LSTM", "RNN")),
]
