"""Settings of the classifier of number sequences."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal, Self

from pydantic import model_validator

from ...training.settings import ClassWeights, ColumnName, Preset, key, presets
from ...wording import setting
from ..shared.cell import DirectionSettings
from ..shared.held_out import HeldOutSettings
from ..shared.settings import PoolingName

if TYPE_CHECKING:  # help does not wait for torch
    from ...layers import Recurrent

DEFAULTS = {"epochs": 30, "lr": 0.002, "average": 0.99, "hidden": 64}
PRESETS = presets(fast=Preset({"epochs": 10, "hidden": 32}, "a fifth of the time"))


class SequenceSettings(DirectionSettings, HeldOutSettings, defaults=DEFAULTS, presets=PRESETS):
    """Keys of the classifier of number sequences."""

    task: Literal["sequences"] = key("sequences", "the task", "data")
    train: Path = key(..., "labelled sequences: a table (CSV, TSV), or NumPy arrays (.npz)", "data")
    dev: Path | None = key(None, "validation sequences, which select the best epoch", "data")
    label_column: ColumnName | None = key(None, "column of labels, by name or by number from 1; null: detected", "data")
    id_column: ColumnName | None = key(
        None,
        "column of ids, if a row is a step: rows with the same id are a sequence; null: a row is a sequence",
        "data",
    )
    columns: ColumnName | None = key(None, "the columns of numbers, as a,b,c; null: every other column", "data")
    target: Literal["class", "number"] = key(
        "class", "what a sequence is given: a class, or a number (regression)", "data"
    )
    batch_size: int = key(32, "sequences in a batch", "data", ge=1)

    pooling: PoolingName = key("max", "pooling of the steps", "model")
    chunk: int = key(
        1000, "sequences of more steps than this are read in chunks of at most this length, pooled together",
        "model", ge=1,
    )  # fmt: skip
    dropout: float = key(0.2, "dropout between and after the layers", "model", ge=0, lt=1)
    variational: bool = key(True, "variational dropout: one mask for all steps", "model")
    label_smoothing: float = key(0.0, "label smoothing", "model", {"target": ("class",)}, ge=0, lt=1)
    class_weights: ClassWeights = key(
        "none", "weights of classes in the loss: none, balanced, or LABEL=WEIGHT,…", "model", {"target": ("class",)}
    )

    mixes: ClassVar[bool] = False  # there is no linear model beside the network
    label_separator: ClassVar[str] = ","

    @model_validator(mode="after")
    def _target_fits(self) -> Self:
        for name in ("class_weights", "label_smoothing") if self.target == "number" else ():
            if getattr(self, name) not in ("none", 0):
                remedy = f"leave it out, or give {setting('target', 'class')}"
                raise ValueError(f"{setting(name)}: numbers have no classes; {remedy}")
        return self

    def encoder(self, input_size: int) -> Recurrent:
        """(T, B, input_size) → (T, B, encoded)."""
        return self.recurrent(
            input_size, num_layers=self.layers, bidirectional=self.bidirectional, dropout=self.dropout,
            variational=self.variational,
        )  # fmt: skip
