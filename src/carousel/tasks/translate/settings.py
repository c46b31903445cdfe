"""Settings of the translator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import AfterValidator, BeforeValidator, model_validator

from ...errors import ArgumentError
from ...training.settings import MOST_LAYERS, MOST_TOKENS, Preset, key, presets
from ...wording import setting
from ..shared.cell import CellName, DirectionSettings
from ..shared.held_out import HeldOutSettings
from ..shared.text import TOKENIZE, Tokenize, default_cache

if TYPE_CHECKING:
    from ...data.text.form import TextForm
    from ...networks.decoder import DecoderName


def _one_or_two(files: tuple[Path, ...]) -> tuple[Path, ...]:
    if len(files) not in (1, 2):
        raise ArgumentError("give two line-aligned files, or one TSV")
    return files


Files = Annotated[
    tuple[Path, ...],
    BeforeValidator(lambda given: (given,) if isinstance(given, str | Path) else given),
    AfterValidator(_one_or_two),
]


DEFAULTS = {"epochs": 12, "lr": 0.002, "clip": 1.0, "average": 0.998}
PRESETS = presets(
    fast=Preset({"epochs": 4}, "a third of the time"),
    best=Preset({"epochs": 24, "hidden": 320, "embedding": 320}, "4 times as long"),
)


class TranslateSettings(DirectionSettings, HeldOutSettings, defaults=DEFAULTS, presets=PRESETS):
    """Keys of the translator."""

    task: Literal["translate"] = key("translate", "the task", "data")
    train: Files = key(..., "source and target training text: two line-aligned files, or one TSV", "data")
    dev: Files | None = key(None, "source and target validation text", "data")
    source_column: int = key(1, "column of the source text in a TSV file, from 1", "data", ge=1)
    target_column: int = key(2, "column of the target text", "data", ge=1)
    lower: bool = key(False, "lower-case all text", "data")
    tokens: Literal["word", "bpe", "character"] = key("bpe", "tokenization", "data")
    tokenize: Tokenize = key("auto", TOKENIZE, "data")
    shared: bool = key(False, "one vocabulary for both languages", "data")
    min_frequency: int = key(1, "minimum frequency of a token in the vocabulary", "data", ge=1)
    vocabulary_size: int | None = key(
        None, "maximum vocabulary size; null: all words, or 8000 for bpe", "data", ge=5, le=MOST_TOKENS
    )
    max_length: int = key(
        200, "longer pairs are left out of training; longer texts are truncated in translation", "data", ge=1
    )
    batch_size: int = key(64, "pairs in a batch", "data", ge=1)
    batch_tokens: int | None = key(None, "maximum number of tokens of one language in a batch", "data", ge=1)
    cache: Path | None = key(None, "token cache; null: in the user's cache directory", "data", metavar="DIR")
    bleu_tokenize: Literal["13a", "none", "char", "intl", "zh"] = key(
        "13a", "sacrebleu's tokenizer; none: split at spaces, for tokenized text", "data"
    )
    dev_beam: int = key(1, "beam size for the dev set after each epoch", "data", ge=1)

    cell: CellName = key("lstm", "recurrent cell of encoder and decoder", "model")
    bidirectional: bool = key(True, "the encoder reads in both directions", "model")
    embedding: int = key(256, "embedding size", "model", ge=1)
    hidden: int = key(256, "hidden units per layer and direction of the encoder", "model", ge=1)
    layers: int = key(1, "layers of the encoder", "model", ge=1, le=MOST_LAYERS)
    decoder_hidden: int | None = key(
        None, "hidden units per layer of the decoder; null: the encoder's output size", "model", ge=1
    )
    decoder_layers: int | None = key(
        None, "layers of the decoder; null: the same as the encoder", "model", ge=1, le=MOST_LAYERS
    )
    init: Literal["bridge", "last", "zeros"] = key(
        "bridge", "the decoder's initial state: a map of the encoder's final state, that state, or zeros", "model"
    )
    attention: Literal["additive", "dot", "scaled-dot", "general", "content", "location", "none"] = key(
        "additive", "how the decoder attends to the source", "model"
    )
    attention_size: int | None = key(
        None, "units of additive attention; null: the decoder's size", "model", {"attention": ("additive",)}, ge=1
    )
    attention_bias: bool = key(
        True, "bias of additive attention, v · tanh(W q + U m + b)", "model", {"attention": ("additive",)}
    )
    decoder: Literal["luong", "bahdanau"] = key(
        "luong", "luong: attention after the step; bahdanau: before it, so that the step reads the context", "model"
    )
    input_feeding: bool = key(
        False, "input feeding: each step also reads the previous attentional vector", "model", {"decoder": ("luong",)}
    )
    tied: Literal["none", "output", "all"] = key(
        "output", "weight tying: target embedding and output, or both embeddings and output (needs shared)", "model"
    )
    dropout: float = key(0.3, "dropout of embeddings, between layers, and before the output", "model", ge=0, lt=1)
    label_smoothing: float = key(0.1, "label smoothing", "model", ge=0, lt=1)
    forget_bias: float | None = key(None, "initial bias of the forget gate; null: the cell's default (1)", "model")
    teacher_forcing: float = key(
        1.0, "fraction of steps that read the true previous token instead of the model's own", "model", ge=0, le=1
    )
    teacher_forcing_end: float | None = key(
        None,
        "the same at the end of training, changed linearly; null: constant",
        "model",
        ge=0,
        le=1,
    )

    @model_validator(mode="after")
    def _together(self) -> Self:
        bahdanau = setting("decoder", "bahdanau")
        if self.source_column == self.target_column:
            raise ValueError(
                f"{setting('target_column')}: {self.target_column} is {setting('source_column')} too; "
                "a text is not its translation"
            )
        if self.tied == "all" and not self.shared:
            raise ValueError(
                f"{setting('tied', 'all')} needs one vocabulary for both languages; give {setting('shared', True)}, or "
                f"{setting('tied', 'output')}"
            )
        if self.attention == "none" and self.input_feeding:
            raise ValueError(
                f"{setting('input_feeding')}: it feeds what attention found, and {setting('attention')} is none; "
                "choose one of them"
            )
        if self.decoder == "bahdanau" and self.attention == "none":
            raise ValueError(
                f"{bahdanau}: its step reads the context, and {setting('attention')} is none; choose one of them"
            )
        if self.decoder == "bahdanau" and self.input_feeding:
            raise ValueError(
                f"{setting('input_feeding')}: the step of {bahdanau} reads the context instead; choose one"
            )
        if self.attention == "none" and self.init == "zeros":
            raise ValueError(
                f"{setting('init', 'zeros')} without attention leaves the decoder blind to the source; "
                f"give {setting('init', 'bridge')}"
            )
        size = f"{setting('decoder_hidden')} to be {self.encoded}, as much as the encoder gives"
        if self.attention in ("dot", "scaled-dot", "content") and self.decoder_size != self.encoded:
            raise ValueError(
                f"{setting('attention', self.attention)} needs {size}; it is {self.decoder_size}. "
                "general and additive take any size"
            )
        if self.init == "last" and self.decoder_size != self.encoded:
            raise ValueError(f"{setting('init', 'last')} needs {size}")
        if self.init == "last" and (self.decoder_layers or 0) > self.layers:
            raise ValueError(f"{setting('init', 'last')} needs a decoder with no more layers than the encoder")
        return self

    @property
    def decoder_kind(self) -> DecoderName:
        return "input-feeding" if self.input_feeding else self.decoder

    @property
    def decoder_size(self) -> int:
        return self.decoder_hidden or self.encoded

    def read_text(self, text: str) -> str:
        """`text` as the model sees it."""
        return text.lower() if self.lower else text

    def readers(self, forms: Sequence[TextForm | None]) -> list[Callable[[str], str]]:
        """What is done to the training texts of each side."""

        def reader(form: TextForm | None) -> Callable[[str], str]:
            return self.read_text if form is None else lambda text: self.read_text(form.of_training(text))

        return [reader(form) for form in forms]

    @property
    def cache_folder(self) -> Path:
        return self.cache or default_cache()

    def teacher_share(self, progress: float) -> float:
        """The share of true tokens when `progress` of the training is done."""
        end = self.teacher_forcing if self.teacher_forcing_end is None else self.teacher_forcing_end
        return self.teacher_forcing + (end - self.teacher_forcing) * progress
