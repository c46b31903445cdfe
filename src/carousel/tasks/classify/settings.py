"""Settings of the classifier."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from ...training.settings import DEFAULT, ColumnName, Preset, key
from ..shared.settings import PoolingName, WordSettings

DEFAULTS = {"lower": True, "epochs": 6, "average": 0.99, "dropout": 0.4, "word_dropout": 0.1}
PRESETS = {
    "fast": Preset({"epochs": 3, "hidden": 64}, "a third of the time"),
    "default": DEFAULT,
    "best": Preset({"seeds": 5}, "an ensemble of 5: 5 times as long"),
}


class ClassifySettings(WordSettings, defaults=DEFAULTS, presets=PRESETS):
    """Keys of the classifier."""

    task: Literal["classify"] = key("classify", "the task", "data")
    text_column: ColumnName | None = key(None, "column of texts, by name or by number from 1; null: detected", "data")
    label_column: ColumnName | None = key(None, "column of labels, by name or by number from 1; null: detected", "data")
    extra: Path | None = key(None, "additional labelled training examples, such as phrases", "data")
    tokens: Literal["word", "character", "bpe"] = key("word", "tokenization", "data")
    linear: bool = key(
        True, "mix in a linear model of word and character n-grams, by a weight chosen on the dev set", "model"
    )
    pooling: PoolingName = key("max", "pooling of the token vectors", "model")
    class_weights: str = key("none", "weights of the classes in the loss: none, balanced, or LABEL=WEIGHT,…", "model")
