"""Settings of the forecaster."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator

from ...parsing import parse_number
from ...training.settings import ColumnName, EnsembleSettings, Preset, ensemble_of, key, presets
from ..shared.cell import CellSettings

MOST_QUANTILES = 99


def _joined(given: Any) -> Any:
    """Levels as one text, as a command gives them."""
    if isinstance(given, int | float):
        return str(given)
    return ",".join(map(str, given)) if isinstance(given, list | tuple) else given


def _levels(text: str) -> str:
    levels = [parse_number(part.strip()) for part in text.split(",")]
    numbers = [level for level in levels if level is not None and 0 < level < 1]
    if len(numbers) < len(levels) or sorted(set(numbers)) != numbers:
        raise ValueError("should be numbers between 0 and 1 that rise, such as 0.1,0.5,0.9")
    if not 3 <= len(numbers) <= MOST_QUANTILES or 0.5 not in numbers:
        raise ValueError(f"should be 3 to {MOST_QUANTILES} levels, 0.5 (the median) among them, such as 0.1,0.5,0.9")
    if not all(math.isclose(low + high, 1) for low, high in zip(numbers, numbers[::-1], strict=True)):
        raise ValueError("should have 1 - p with each p, such as 0.1,0.5,0.9")
    return text


Levels = Annotated[str, BeforeValidator(_joined), AfterValidator(_levels)]
DEFAULTS = {"lr": 0.002, "average": 0.99, "hidden": 32}
PRESETS = presets(fast=Preset({"epochs": 3, "hidden": 16}, "a third of the time"), best=ensemble_of(5))


class ForecastSettings(CellSettings, EnsembleSettings, defaults=DEFAULTS, presets=PRESETS):
    """Keys of the forecaster."""

    task: Literal["forecast"] = key("forecast", "the task", "data")
    train: Path = key(..., "a CSV file with a time and some numbers in each row", "data")
    dev: Path | None = key(None, "a file that continues where train ends; null: the end of train is held out", "data")
    holdout: float = key(
        0.2, "held-out part of train if there is no dev: a fraction, or a number of rows", "data", ge=0
    )
    time_column: ColumnName | None = key(
        None,
        "the column of times, by name or by number from 1; null: the first of ISO times, or of years",
        "data",
        metavar="COLUMN",
    )
    columns: ColumnName | None = key(None, "the variables, as a,b,c; null: every other column", "data", metavar="A,B,…")
    series_id: ColumnName | None = key(
        None,
        "the column of ids, if the file has several series, one row for each id and time; null: one series",
        "data",
        metavar="COLUMN",
    )
    future: ColumnName | None = key(
        None, "columns known ahead of time, such as planned promotions, as a,b,c: read for the steps to forecast too",
        "data", metavar="A,B,…",
    )  # fmt: skip
    calendar: bool = key(
        True, "use the position of each step in the day, week and year, those that train covers three times",
        "data",
    )  # fmt: skip
    gaps: Literal["fill", "error"] = key("fill", "missing rows: filled with missing values, or an error", "data")
    missing: Literal["interpolate", "forward", "error"] = key(
        "interpolate",
        "missing values: interpolated (the last value until the next is known), the last value, or an error",
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
        "reference of which the network's input (without linear also its forecast) is the difference: the value one "
        "season before, the last value, or the mean",
        "model",
    )
    logarithm: bool = key(False, "model the logarithm, for series whose variation grows with their level", "model")
    quantiles: Levels = key(
        "0.1,0.25,0.5,0.75,0.9",
        "quantile levels to forecast, in rising order, symmetric around 0.5",
        "model",
        metavar="P,Q,…",
    )
    calibrate: bool = key(
        True, "widen or narrow the bounds so that they cover as much of the dev set as their levels say", "model"
    )
    linear: bool = key(
        True,
        "add the network's forecast to a linear autoregression fitted first, with weights chosen on the dev set",
        "model",
        {"decoding": ("direct",)},
    )
    dropout: float = key(0.2, "dropout between and after the layers", "model", ge=0, lt=1)
    forget_bias: float | None = key(None, "initial bias of the forget gate; null: the cell's default (1)", "model")

    @property
    def levels(self) -> list[float]:
        """The levels of the quantiles, rising; the one in the middle is 0.5."""
        return [float(level) for level in self.quantiles.split(",")]

    @property
    def direct(self) -> bool:
        """Whether all steps ahead are forecast at once."""
        return self.decoding == "direct"
