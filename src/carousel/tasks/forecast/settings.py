"""Settings of the forecaster."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from ...training.settings import ColumnName, Settings, key
from ..shared.cell import CellName


class ForecastSettings(Settings):
    """Keys of the forecaster."""

    task: Literal["forecast"] = key("forecast", "the task", "data")
    train: Path = key(..., "a CSV file with a time and some numbers in each row", "data")
    dev: Path | None = key(None, "a file that continues where train ends; null: the end of train is held out", "data")
    holdout: float = key(0.2, "what is held out of train without dev: a share, or a number of rows", "data", ge=0)
    time_column: ColumnName | None = key(
        None, "the column of times, by name or by number from 1; null: the first of ISO times, or of years", "data"
    )
    columns: ColumnName | None = key(None, "the variables, as a,b,c; null: every column but that of times", "data")
    gaps: Literal["fill", "error"] = key(
        "fill", "rows that are left out: filled with missing values, or an error", "data"
    )
    missing: Literal["interpolate", "forward", "error"] = key(
        "interpolate",
        "missing values: on a line between readings (the last one until the next is known), the last one, an error",
        "data",
    )
    horizon: int = key(12, "steps to forecast", "data", ge=1)
    context: int | None = key(
        None, "steps that are read; null: the larger of two seasons and two horizons", "data", ge=2
    )
    season: int | None = key(None, "steps of a season, 1 for none; null: by the step of time (12 months, 24 hours …)",
                             "data", ge=1)  # fmt: skip
    batch_size: int = key(32, "windows in a batch", "data", ge=1)

    decoding: Literal["direct", "autoregressive"] = key(
        "direct", "all steps ahead at once, or one after the other, each reading the previous one", "model"
    )
    around: Literal["season", "last", "none"] = key(
        "season", "what a forecast is a change from: the value a season before, the last one, or the mean", "model"
    )
    logarithm: bool = key(False, "learn logarithms, for series whose swings grow with them", "model")
    interval: float = key(0.8, "share of values that should lie between the bounds", "model", gt=0, lt=1)
    calibration: int = key(100, "origins just before, whose errors set how wide the bounds are; 0: as learnt", "model",
                           ge=0)  # fmt: skip
    linear: bool = key(True, "a linear autoregression beside the network (direct)", "model", {"decoding": ("direct",)})
    cell: CellName = key("lstm", "the recurrent cell", "model")
    hidden: int = key(32, "units in a layer", "model", ge=1)
    layers: int = key(1, "recurrent layers", "model", ge=1)
    dropout: float = key(0.2, "dropout between and after the layers", "model", ge=0, lt=1)
    forget_bias: float | None = key(None, "the forget gate's bias at the start; null: the cell's own (1)", "model")

    @property
    def direct(self) -> bool:
        """Whether all steps ahead are forecast at once."""
        return self.decoding == "direct"
