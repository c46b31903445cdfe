"""Settings of the forecaster."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from ...training.settings import MOST_LAYERS, ColumnName, EnsembleSettings, key
from ..shared.cell import CellName

DEFAULTS = {"lr": 0.002, "average": 0.99}


class ForecastSettings(EnsembleSettings, defaults=DEFAULTS):
    """Keys of the forecaster."""

    task: Literal["forecast"] = key("forecast", "the task", "data")
    train: Path = key(..., "a CSV file with a time and some numbers in each row", "data")
    dev: Path | None = key(None, "a file that continues where train ends; null: the end of train is held out", "data")
    holdout: float = key(
        0.2, "held-out part of train if there is no dev: a fraction, or a number of rows", "data", ge=0
    )
    time_column: ColumnName | None = key(
        None, "the column of times, by name or by number from 1; null: the first of ISO times, or of years", "data"
    )
    columns: ColumnName | None = key(None, "the variables, as a,b,c; null: every column but that of times", "data")
    gaps: Literal["fill", "error"] = key("fill", "missing rows: filled with missing values, or an error", "data")
    missing: Literal["interpolate", "forward", "error"] = key(
        "interpolate",
        "missing values: interpolated (the last value until the next is known), last, or an error",
        "data",
    )
    horizon: int = key(12, "steps to forecast", "data", ge=1)
    context: int | None = key(None, "input steps; null: the larger of two seasons and two horizons", "data", ge=2)
    season: int | None = key(None, "season length in steps, 1: none; null: from the time step (12 months, 24 hours …)",
                             "data", ge=1)  # fmt: skip
    batch_size: int = key(32, "windows in a batch", "data", ge=1)

    decoding: Literal["direct", "autoregressive"] = key(
        "direct", "all steps at once (direct), or one after the other (autoregressive)", "model"
    )
    around: Literal["season", "last", "none"] = key(
        "season",
        "what the network's input, and without linear its forecast, is a change from: the value one season before, the "
        "last value, or the mean",
        "model",
    )
    logarithm: bool = key(False, "model the logarithm, for series whose variation grows with their level", "model")
    interval: float = key(0.8, "nominal coverage of the bounds", "model", gt=0, lt=1)
    calibration: int = key(100, "preceding origins whose errors calibrate the bounds; 0: no calibration", "model",
                           ge=0)  # fmt: skip
    linear: bool = key(
        True,
        "forecast a change from a linear autoregression that is fitted first; shares of both chosen on the dev set",
        "model",
        {"decoding": ("direct",)},
    )
    cell: CellName = key("lstm", "recurrent cell", "model")
    hidden: int = key(32, "hidden units per layer", "model", ge=1)
    layers: int = key(1, "recurrent layers", "model", ge=1, le=MOST_LAYERS)
    dropout: float = key(0.2, "dropout between and after the layers", "model", ge=0, lt=1)
    forget_bias: float | None = key(None, "initial bias of the forget gate; null: the cell's default (1)", "model")

    @property
    def direct(self) -> bool:
        """Whether all steps ahead are forecast at once."""
        return self.decoding == "direct"
