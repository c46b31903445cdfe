"""Settings of the tagger."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import field_validator, model_validator

from ...training.settings import ColumnName, key
from ..shared.settings import CharacterSettings, WordSettings

SchemeName = Literal["auto", "none", "iob1", "iob2", "bioes"]


class TagSettings(CharacterSettings, WordSettings):
    """Keys of the tagger."""

    task: Literal["tag"] = key("tag", "the task", "data")
    column: ColumnName | None = key(
        None, "where the tags are: upos or xpos of CoNLL-U, or a column's number; null: upos (.conllu), else the last",
        "data",
    )  # fmt: skip
    word_column: int = key(1, "the column of the words, where columns are numbered", "data", ge=1)
    scheme: SchemeName = key("auto", "how the file writes spans as tags; none: its tags are not parts of spans", "data")
    train_scheme: Literal["iob2", "bioes"] = key("bioes", "how spans are written while the model is trained", "data")
    lower: bool = key(True, "words in lower case; their characters keep theirs", "data")
    min_frequency: int = key(2, "how often a word must occur to have a vector of its own", "data", ge=1)
    max_length: int = key(1000, "longer sentences are cut into parts of so many words for training", "data", ge=1)

    output: Literal["auto", "softmax", "crf"] = key(
        "auto", "each tag by itself (softmax), or all tags of a sentence together (crf); auto: crf for spans", "model"
    )

    hidden: int = key(200, "units in a layer and direction", "model", ge=1)
    dropout: float = key(0.4, "dropout before, between and after the layers", "model", ge=0, lt=1)
    word_dropout: float = key(0.2, "share of the words read as [UNK] in training", "model", ge=0, lt=1)
    lr: float = key(0.003, "learning rate at its highest", "training", gt=0)
    schedule: Literal["constant", "linear", "cosine", "step", "plateau"] = key(
        "cosine", WordSettings.model_fields["schedule"].description or "", "training"
    )

    @field_validator("column")
    @classmethod
    def _column(cls, given: str | None) -> str | None:
        from ...data.sources.conll import check_column

        return check_column(given)

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.output == "crf" and self.label_smoothing:
            raise ValueError("label_smoothing is for output softmax; a crf has no use for it")
        return self
