"""Settings of the sentence encoder."""

from __future__ import annotations

from typing import Literal

from ...training.settings import ColumnName, Preset, ensemble_of, key, presets
from ..shared.settings import PoolingName, WordSettings

DEFAULTS = {
    "lower": True, "epochs": 15, "lr": 0.002, "weight_decay": 0.05, "average": 0.99, "word_dropout": 0.1,
}  # fmt: skip
PRESETS = presets(fast=Preset({"epochs": 5, "hidden": 64}, "a quarter of the time"), best=ensemble_of(5))


class EncodeSettings(WordSettings, defaults=DEFAULTS, presets=PRESETS):
    """Keys of the sentence encoder."""

    task: Literal["encode"] = key("encode", "the task", "data")
    first_column: ColumnName | None = key(
        None, "column of first texts, by name or by number from 1; null: detected", "data", metavar="COLUMN"
    )
    second_column: ColumnName | None = key(None, "column of second texts; null: detected", "data", metavar="COLUMN")
    label_column: ColumnName | None = key(None, "column of labels or scores; null: detected", "data", metavar="COLUMN")
    target: Literal["class", "score"] | None = key(
        None,
        "target of a pair: a class (entailment) or a score (relatedness); null: detected",
        "data",
        metavar="COLUMN",
    )
    tokens: Literal["word", "character", "bpe"] = key("word", "tokenization", "data")
    pooling: PoolingName = key("max", "pooling of the token vectors; attention: self-attentive", "model")
    dropout: float = key(0.3, "dropout of the features of a pair, and between layers", "model", ge=0, lt=1)
    head: int = key(64, "hidden units of the classifier of pairs", "model", ge=1)
