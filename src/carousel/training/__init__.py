"""Training: settings, the trainer, checkpoints, the run directory and its report."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .data import Data
    from .network import Loss, Metric, Network, SummedMetric
    from .run import Run
    from .settings import ColumnName, Settings, key

__all__ = ["ColumnName", "Data", "Loss", "Metric", "Network", "Run", "Settings", "SummedMetric", "key"]
_HOMES = {"Data": "data", "Run": "run", "ColumnName": "settings", "Settings": "settings", "key": "settings"}


def __getattr__(name: str) -> Any:
    """Import a name when it is first asked for: settings alone need no torch."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES.get(name, 'network')}"), name)
