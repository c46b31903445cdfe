"""Settings of the language model."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from ...training.settings import Preset, key, presets
from ...wording import setting
from ..shared.cell import CellSettings
from ..shared.text import TextSettings

DEFAULTS = {"epochs": 20, "lr": 0.004, "weight_decay": 0.05, "hidden": 512, "batch_size": 32}
RUNNING = {"hidden": 256, "dropout": 0.3, "batch_size": 64}  # with 512 units running text of 100 kB overfits
PRESETS = presets(
    fast=Preset({"epochs": 5, "hidden": 128, "embedding": 128, "dropout": 0.3}, "a tenth of the time"),
    best=Preset({"epochs": 24, "dropout": 0.6}, "a fifth longer; chosen on lines"),
)


class LanguageSettings(CellSettings, TextSettings, defaults=DEFAULTS, presets=PRESETS):
    """Keys of the language model."""

    OTHER_DEFAULTS: ClassVar = {"--layout running or sentences": RUNNING}

    task: Literal["lm"] = key("lm", "the task", "data")
    embedding: Annotated[int, Field(ge=1)] | Literal["one-hot"] = key(
        256, "embedding size; one-hot: the layers read one-hot vectors (with no-tied)", "model", metavar="N|one-hot"
    )
    tied: bool = key(True, "output and embedding share one matrix", "model")
    output: Literal["softmax", "adaptive"] = key(
        "softmax",
        "output layer; adaptive: small vectors for rare tokens, exact, for large vocabularies (with no-tied)",
        "model",
    )
    forget_bias: float | None = key(None, "initial bias of the forget gate; null: the cell's default (1)", "model")
    dropout: float = key(0.5, "dropout before, between and after the layers", "model", ge=0, lt=1)
    input_dropout: float | None = key(None, "dropout before the layers; null: the same as dropout", "model", ge=0, lt=1)
    output_dropout: float | None = key(None, "dropout after the layers; null: the same as dropout", "model", ge=0, lt=1)
    embedding_dropout: float = key(0.0, "fraction of the vocabulary dropped in each batch", "model", ge=0, lt=1)
    variational: bool = key(False, "variational dropout: one mask for all steps", "model")
    recurrent_dropout: float = key(
        0.0, "dropout of h in the recurrent products, one mask per sequence", "model", ge=0, lt=1
    )
    weight_drop: float = key(0.0, "fraction of recurrent weights dropped (DropConnect)", "model", ge=0, lt=1)
    zoneout: float = key(0.0, "fraction of units that keep their previous state", "model", ge=0, lt=1)
    label_smoothing: float = key(0.0, "label smoothing", "model", ge=0, lt=1)
    unknown_singletons: float = key(
        0.5,
        "probability that a token which occurs once in the training text is [UNK] in a batch, so that this is learned",
        "model",
        {"tokens": ("character", "word")},
        ge=0,
        lt=1,
    )

    @model_validator(mode="before")
    @classmethod
    def _defaults_of_running_text(cls, given: Any) -> Any:
        if not isinstance(given, dict) or given.get("layout", "lines") == "lines":
            return given
        return {**RUNNING, **given}

    @model_validator(mode="after")
    def _embedding_to_share(self) -> Self:
        if self.embedding == "one-hot" and self.tied:
            raise ValueError(
                f"{setting('tied')}: one-hot vectors are no matrix that the output could share; "
                f"give {setting('tied', False)}"
            )
        return self

    @model_validator(mode="after")
    def _adaptive_alone(self) -> Self:
        if self.output != "adaptive":
            return self
        adaptive = setting("output", "adaptive")
        if self.tied:
            raise ValueError(
                f"{adaptive} has matrices of its own, which nothing can share; give {setting('tied', False)}"
            )
        if self.label_smoothing:
            raise ValueError(f"{adaptive} has no label smoothing; leave out {setting('label_smoothing')}")
        if self.tokens == "bpe":
            remedy = f"give {setting('tokens', 'word')}"
            raise ValueError(f"{adaptive} needs tokens in order of frequency, which bpe does not have; {remedy}")
        return self
