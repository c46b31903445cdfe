"""Training: settings, the trainer, checkpoints, the run directory and its report."""

from .network import Data, Loss, Metric, Network
from .run import Run
from .settings import ColumnName, Settings, key

__all__ = ["ColumnName", "Data", "Loss", "Metric", "Network", "Run", "Settings", "key"]
