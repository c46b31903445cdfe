"""Settings of the sentence encoder."""

from __future__ import annotations

from typing import Literal

from ...training.settings import ColumnName, key
from ..shared.settings import PoolingName, WordSettings


class EncodeSettings(WordSettings):
    """Keys of the sentence encoder."""

    task: Literal["encode"] = key("encode", "the task", "data")
    first_column: ColumnName | None = key(
        None, "the column of first texts, by name or by number from 1; null: found", "data"
    )
    second_column: ColumnName | None = key(None, "the column of second texts; null: found", "data")
    label_column: ColumnName | None = key(None, "the column of labels or scores; null: found", "data")
    target: Literal["class", "score"] | None = key(
        None, "what is predicted of a pair: a class (entailment) or a score (relatedness); null: found", "data"
    )
    tokens: Literal["word", "character", "bpe"] = key("word", "what a token is", "data")
    pooling: PoolingName = key("max", "how the vectors of all tokens become one; attention: self-attentive", "model")
    dropout: float = key(0.3, "dropout of the features of a pair, and between layers", "model", ge=0, lt=1)
    head: int = key(64, "units between the vectors of a pair and its class or score", "model", ge=1)
