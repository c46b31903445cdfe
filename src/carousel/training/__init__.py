"""Training: settings, the engine, checkpoints, the run directory and its report."""

from .run import Run
from .settings import ColumnName, Settings, key
from .task import Data, LayerInput, Loss, Meter, Option, Task

__all__ = ["ColumnName", "Data", "LayerInput", "Loss", "Meter", "Option", "Run", "Settings", "Task", "key"]
