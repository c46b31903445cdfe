"""Cells made into layers. Every registered cell of this package has a layer here, by the name it declares."""

from typing import Any

from .. import cells
from . import standard
from .branches import Branches, Steps
from .generate import RecurrentStepper
from .paths import ExecutionPath
from .recurrent import Recurrent
from .standard import GRU, LSTM, RNN, named
from .trace import Clamp, Trace
from .walk import Walker

NAMES = tuple(cell.layer_name for cell in cells.registry().values() if cell.layer_name)


def __getattr__(name: str) -> Any:
    """A layer by its name."""
    if name in NAMES:
        return getattr(standard, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), *NAMES]


__all__ = [
    "GRU",
    "LSTM",
    "RNN",
    "Branches",
    "Clamp",
    "ExecutionPath",
    "Recurrent",
    "RecurrentStepper",
    "Steps",
    "Trace",
    "Walker",
    "named",
    *(name for name in NAMES if name not in ("GRU", "LSTM", "RNN")),
]
