"""The task `forecast`: the next steps of a series."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..base import Task
from .settings import ForecastSettings

if TYPE_CHECKING:
    from ...report import Page
    from ...training import Data
    from .check import SeriesCheck
    from .data import ForecastAssets
    from .network import ForecasterNetwork
    from .predictor import Forecaster


class Forecast(Task):
    name = "forecast"
    help = """Train a forecaster on a series in CSV: a time and some numbers in every row.

    \b
    carousel train forecast flights.csv --horizon 12 --out run       # the last fifth is held out
    carousel train forecast load.csv --columns OT --season 24 --horizon 24 --out run
    carousel train forecast sales.csv --logarithm --decoding autoregressive --out run

    Then: carousel eval run flights.csv, carousel predict run flights.csv."""
    Settings = ForecastSettings
    predict_extensions = (".csv", ".tsv", ".txt")

    @classmethod
    def prepare(cls, settings: ForecastSettings, assets: ForecastAssets | None = None) -> tuple[ForecastAssets, Data]:
        from .data import prepare

        return prepare(settings, assets)

    @classmethod
    def load_assets(cls, settings: ForecastSettings, folder: Path) -> ForecastAssets:
        from .data import ForecastAssets

        return ForecastAssets.load(settings, folder)

    @classmethod
    def make_network(cls, settings: ForecastSettings, assets: ForecastAssets) -> ForecasterNetwork:
        from .network import ForecasterNetwork

        return ForecasterNetwork(settings, assets)

    @classmethod
    def make_model(cls, network: ForecasterNetwork, assets: ForecastAssets) -> Forecaster:
        from .predictor import Forecaster

        return Forecaster(network, assets)

    @classmethod
    def report(cls, model: Forecaster, page: Page) -> None:
        from .report import report

        report(model, page)

    @classmethod
    def write_data(cls, data: Any, stem: Path, settings: Mapping[str, Any]) -> Path:
        """An array (T,) or (T, V), columns, or a DataFrame or Series with its times."""
        from ...data.sources.memory import write_series

        return write_series(data, stem)

    @classmethod
    def check(cls, settings: ForecastSettings) -> SeriesCheck:
        """What is in the files that `settings` name, before training on them."""
        from .data import check

        return check(settings)
