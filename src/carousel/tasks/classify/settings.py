"""Settings of the classifier."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar, Literal, Self

from pydantic import model_validator

from ...training.settings import ClassWeights, ColumnName, Preset, ensemble_of, key, presets
from ..shared.settings import PoolingName, WordSettings

DEFAULTS = {
    "lower": True,
    "max_length": 1_000_000,
    "epochs": 6,
    "lr": 0.003,
    "average": 0.99,
    "dropout": 0.4,
    "word_dropout": 0.1,
}
# Defaults with pre-trained vectors: the smaller beta2 keeps Adam from moving the vectors of rare words far.
WITH_VECTORS = {"epochs": 8, "beta2": 0.95}
PRESETS = presets(fast=Preset({"epochs": 3, "hidden": 64}, "a third of the time"), best=ensemble_of(5))


class ClassifySettings(WordSettings, defaults=DEFAULTS, presets=PRESETS):
    """Keys of the classifier."""

    OTHER_DEFAULTS: ClassVar = {"--vectors": WITH_VECTORS}
    task: Literal["classify"] = key("classify", "the task", "data")
    text_column: ColumnName | None = key(
        None, "column of texts, by name or by number from 1; null: detected", "data", metavar="COLUMN"
    )
    label_column: ColumnName | None = key(
        None, "column of labels, by name or by number from 1; null: detected", "data", metavar="COLUMN"
    )
    extra: Path | None = key(None, "additional labelled training examples, such as phrases", "data")
    tokens: Literal["word", "character", "bpe"] = key("word", "tokenization", "data")
    target: Literal["class", "labels", "number"] = key(
        "class", "target: one class, any number of labels (multi-label), or a number (regression)", "data"
    )
    label_separator: str = key(
        ",", "separator of the labels of a text; the word none means no labels", "data",
        {"target": ("labels",)}, min_length=1,
    )  # fmt: skip
    chunk: int = key(
        1000, "texts longer than this many tokens are read in chunks of at most this length, which are pooled together",
        "model", ge=1,
    )  # fmt: skip
    linear: bool = key(
        True, "mix in a linear model of word and character n-grams, by a weight chosen on the dev set", "model",
        {"target": ("class",)},
    )  # fmt: skip
    pooling: PoolingName = key("max", "pooling of the token vectors", "model")
    class_weights: ClassWeights = key(
        "none", "weights of classes (or labels) in the loss", "model", {"target": ("class", "labels")},
        metavar="none|balanced|LABEL=WEIGHT,…",
    )  # fmt: skip

    @model_validator(mode="before")
    @classmethod
    def _defaults_with_vectors(cls, given: Any) -> Any:
        if not isinstance(given, dict) or given.get("vectors") is None:
            return given
        adam = given.get("optimizer", "adamw") in ("adam", "adamw")
        return {**{name: value for name, value in WITH_VECTORS.items() if adam or name != "beta2"}, **given}

    @property
    def mixes(self) -> bool:
        """Whether there is a linear model beside the network."""
        return self.linear and self.target == "class"

    @model_validator(mode="after")
    def _target_fits(self) -> Self:
        if self.target == "number" and self.class_weights != "none":
            raise ValueError("class_weights: numbers have no classes; leave it out, or set target to class")
        if self.target == "number" and self.label_smoothing:
            raise ValueError("label_smoothing: numbers have no labels; leave it out, or set target to class")
        return self
