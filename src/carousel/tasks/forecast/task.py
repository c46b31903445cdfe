"""The task `forecast`: the next steps of a series."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..base import PackagedTask
from .settings import ForecastSettings


class Forecast(PackagedTask):
    name = "forecast"
    contents = ("a time series",)
    help = """Train a forecaster on a time series in CSV: a time and one or more numbers per row.

    \b
    # the last fifth is held out
    carousel train forecast flights.csv --horizon 12 --out run
    carousel train forecast load.csv --columns OT --season 24 --horizon 24 \\
        --out run
    carousel train forecast sales.csv --logarithm --decoding autoregressive \\
        --out run
    # one row for each shop and day; promotions are planned ahead
    carousel train forecast shops.csv --series-id shop --future promotion \\
        --out run

    Then: carousel eval run flights.csv, carousel predict run flights.csv."""
    Settings = ForecastSettings
    predict_extensions = (".csv", ".tsv", ".txt")
    assets, network, predictor = "ForecastAssets", "ForecasterNetwork", "Forecaster"
    ensemble = "ForecasterEnsemble"

    @classmethod
    def write_data(cls, data: Any, stem: Path, settings: Mapping[str, Any]) -> Path:
        """An array (T,) or (T, V), columns, or a DataFrame or Series with its times."""
        from ...data.sources.memory import write_series

        return write_series(data, stem)
