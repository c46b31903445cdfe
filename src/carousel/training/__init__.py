"""Training: settings, the engine, checkpoints, the run directory and its report."""

from .run import Run, RunError, load
from .settings import ColumnName, Settings, SettingsError, key
from .task import Data, Loss, Meter, Task

__all__ = ["ColumnName", "Data", "Loss", "Meter", "Run", "RunError", "Settings", "SettingsError", "Task", "key", "load"]
