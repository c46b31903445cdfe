"""Settings of the tagger."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from pydantic import field_validator, model_validator

from ...training.settings import MOST_LAYERS, ColumnName, Preset, ensemble_of, key, presets
from ..shared.settings import CharacterSettings, WordSettings

if TYPE_CHECKING:
    from ...data import Vocabulary
    from ...networks.characters import CharacterFeatures

SchemeName = Literal["auto", "none", "iob1", "iob2", "bioes"]


DEFAULTS = {
    "hidden": 200, "epochs": 10, "batch_size": 16, "lr": 0.004, "average": 0.99,
    "dropout": 0.5, "word_dropout": 0.2,
    # After a single gradient Adam's steps add up to about lr / √(1 − beta2) in each coordinate, however small the
    # gradient: 0.126 with beta2 0.999, each time that a rare word occurs, 0.018 with 0.95.
    "beta2": 0.95,
}  # fmt: skip
WITH_VECTORS = {"character_hidden": 50, "word_features": 32, "residual_layers": 1}  # words are known by their vectors
PRESETS = presets(
    fast=Preset({"epochs": 5, "hidden": 100, "characters": "cnn"}, "a fifth of the time"), best=ensemble_of(3)
)


class TagSettings(CharacterSettings, WordSettings, defaults=DEFAULTS, presets=PRESETS):
    """Keys of the tagger."""

    OTHER_DEFAULTS: ClassVar = {"--vectors": WITH_VECTORS}
    task: Literal["tag"] = key("tag", "the task", "data")
    column: ColumnName | None = key(
        None, "column of tags: upos or xpos of CoNLL-U, or a number; null: upos (.conllu), else the last",
        "data", metavar="COLUMN",
    )  # fmt: skip
    word_column: int = key(1, "number of the column of words", "data", ge=1)
    scheme: SchemeName = key("auto", "tagging scheme of the file; none: tags are not parts of spans", "data")
    train_scheme: Literal["iob2", "bioes"] = key("bioes", "tagging scheme of the model", "data")
    lower: bool = key(True, "lower-case words, but not their characters", "data")
    min_frequency: int = key(2, "minimum frequency of a word in the vocabulary", "data", ge=1)
    max_length: int = key(1000, "longer sentences are split into parts of this many words for training", "data", ge=1)

    word_features: int = key(
        64, "size of the embedding of hand-made word features (affixes, shape, case); 0: none", "model", ge=0
    )
    residual_layers: int = key(
        0, "recurrent layers above the others, the output of each of which is added to what it reads", "model",
        ge=0, le=MOST_LAYERS,
    )  # fmt: skip
    output: Literal["auto", "softmax", "crf"] = key(
        "auto", "output layer: softmax or CRF; auto: crf for spans", "model"
    )

    lm_loss: float = key(
        0.1, "weight of the auxiliary loss of predicting each word's neighbours (one layer, no embedder); 0: none",
        "model", {"layers": (1,), "embedder": (None,)}, ge=0,
    )  # fmt: skip

    @model_validator(mode="before")
    @classmethod
    def _defaults_with_vectors(cls, given: Any) -> Any:
        if not isinstance(given, dict) or given.get("vectors") is None:
            return given
        spelled = given.get("characters") != "none"
        defaults = {name: value for name, value in WITH_VECTORS.items() if spelled or name != "character_hidden"}
        return {**defaults, **given}

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

    @property
    def predicts_neighbours(self) -> bool:
        """Whether there is an auxiliary language model. What a layer below, or a bilm, has read in the other direction
        would tell it the word that it is to predict."""
        return self.lm_loss > 0 and self.layers == 1 and self.embedder is None

    @property
    def reads_characters(self) -> bool:
        return self.characters != "none" or self.word_features > 0

    def word_readers(self, known: Vocabulary | None, words: int) -> CharacterFeatures | None:
        """What reads the characters of words, of which these are `known`, for a vocabulary of so many `words`."""
        from ...networks.characters import CharacterFeatures
        from ...networks.word_features import WordFeatures

        encoder = self.character_features(known)
        if known is None or not self.word_features:
            return encoder
        if self.vectors is None:
            features = WordFeatures(known.tokens, self.word_features, words=words)
        else:  # words have vectors; what is learnt of them beside these is to be of their parts alone
            features = WordFeatures(
                known.tokens, self.word_features, words=words, whole=False, dropout=self.word_dropout
            )
        return CharacterFeatures(*([] if encoder is None else encoder.readers), features)
