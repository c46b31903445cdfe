"""Baselines of the classifier: the most frequent class, and a linear SVC of word and character n-grams."""

from __future__ import annotations

from collections.abc import Callable

from ...training import Data
from ..shared.baselines import text_baselines
from .data import ClassifyAssets, open_table, training_tables
from .settings import ClassifySettings


def baselines(settings: ClassifySettings, assets: ClassifyAssets, data: Data) -> dict[str, Callable[[], float]]:
    """By accuracy."""
    s = settings
    if s.dev is None:
        return {}
    train, dev = training_tables(s), open_table(s, s.dev)
    rows = [(s.read_text(row.text), row.label) for table in train for row in table]
    return text_baselines(rows, [(s.read_text(row.text), row.label) for row in dev])
