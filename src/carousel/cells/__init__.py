"""The cells: one file for each family of equations. All modules are imported, so that their cells register."""

import importlib
import pkgutil
from typing import Any

from .spec import Cell, Gate, ParameterSpec, SideInput, Sizes, StateSpec, StepGradient, Weights, registry

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")


def __getattr__(name: str) -> Any:
    """A registered cell by the name of its class: `cells.LSTM`."""
    for cell in registry().values():
        if cell.__name__ == name and cell.__module__.startswith(f"{__name__}."):
            return cell
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "Cell",
    "Gate",
    "ParameterSpec",
    "SideInput",
    "Sizes",
    "StateSpec",
    "StepGradient",
    "Weights",
    "registry",
    *(cell.__name__ for cell in registry().values()),
]
