"""Settings of the classifier."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from ...training.settings import ColumnName, key
from ..shared.settings import PoolingName, WordSettings


class ClassifySettings(WordSettings):
    """Keys of the classifier."""

    task: Literal["classify"] = key("classify", "the task", "data")
    text_column: ColumnName | None = key(None, "the column of texts, by name or by number from 1; null: found", "data")
    label_column: ColumnName | None = key(
        None, "the column of labels, by name or by number from 1; null: found", "data"
    )
    extra: Path | None = key(None, "more labelled examples to train on, such as the phrases of sentences", "data")
    tokens: Literal["word", "character", "bpe"] = key("word", "what a token is", "data")
    pooling: PoolingName = key("max", "how the vectors of all tokens become one", "model")
    class_weights: str = key(
        "none", "how much an example counts: none (all the same), balanced (classes do), or LABEL=WEIGHT,…", "model"
    )
