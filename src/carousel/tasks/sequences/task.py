"""The task `sequences`: a label, or a number, for each sequence of numbers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..base import PackagedTask
from .settings import SequenceSettings


class Sequences(PackagedTask):
    name = "sequences"
    contents = ("sequences of numbers",)
    help = """Train a classifier of number sequences: CSV, TSV or NumPy arrays.

    \b
    # one sequence per row; the column label has the labels
    carousel train sequences gestures.csv --label-column label --out run
    # one step per row, and several variables: an id says which sequence
    carousel train sequences walks.csv --id-column walk \\
        --label-column person --out run
    # arrays x (N, T) or (N, T, V) and y (N,)
    carousel train sequences windows.npz --dev dev.npz --out run
    carousel train sequences engines.csv --id-column engine \\
        --label-column hours_left --target number --out run

    Then: carousel eval run dev.csv, carousel predict run new.csv."""
    Settings = SequenceSettings
    extensions = (".npz",)
    predict_extensions = (".npz", ".csv", ".tsv", ".tab")
    assets, network, predictor = "SequenceAssets", "SequenceNetwork", "SequenceClassifier"

    @classmethod
    def write_data(cls, data: Any, stem: Path, settings: Mapping[str, Any]) -> Path:
        """Pairs (array, label), a mapping with x and y, or a DataFrame with the columns that the settings name."""
        from ...data.sources.memory import write_series
        from ...data.sources.sequences import ARRAYS, write_sequences

        if hasattr(data, "columns"):
            return write_series(data, stem)
        return write_sequences(data, stem.with_suffix(ARRAYS))
