"""Baselines of the classifier: the most frequent class, and a linear SVC of word and character n-grams."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ...data.sources.tables import Table
from ...training import Data
from ..shared.baselines import text_baselines
from .data import ClassifyAssets, open_data, training_tables
from .settings import ClassifySettings


def baselines(settings: ClassifySettings, assets: ClassifyAssets, data: Data) -> dict[str, Callable[[], float]]:
    """By accuracy."""
    sources = open_data(settings)

    def read(tables: Iterable[Table]) -> list[tuple[str, str]]:
        return [(settings.read_text(row.text), row.label) for table in tables for row in table]

    assert sources.dev is not None
    return text_baselines(read(training_tables(settings, sources.train)), read([sources.dev]))
