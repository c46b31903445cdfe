"""Training: settings, the engine, checkpoints, the run directory and its report."""

from .run import Run, load
from .settings import ColumnName, Settings, key
from .task import Data, Loss, Meter, Task

__all__ = ["ColumnName", "Data", "Loss", "Meter", "Run", "Settings", "Task", "key", "load"]
