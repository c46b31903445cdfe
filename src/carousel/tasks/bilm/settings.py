"""Settings of the bidirectional language model."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, Self

from pydantic import model_validator

from ...training.settings import MOST_LAYERS, Preset, key, presets
from ...wording import setting
from ..shared.settings import CharacterName, CharacterSettings

DEFAULTS = {"epochs": 8, "lr": 0.002, "batch_size": 16}
PRESETS = presets(fast=Preset({"epochs": 3}, "a third of the time"), best=Preset({"epochs": 16}, "twice as long"))


class BilmSettings(CharacterSettings, defaults=DEFAULTS, presets=PRESETS):
    """Keys of the bidirectional language model."""

    task: Literal["bilm"] = key("bilm", "the task", "data")
    train: Path = key(..., "training text: one sentence per line, or one word per line (.conllu, .conll)", "data")
    dev: Path | None = key(None, "validation text, which selects the best epoch", "data")
    word_column: int = key(1, "number of the column of words", "data", ge=1)
    min_frequency: int = key(2, "minimum frequency of a word in the vocabulary", "data", ge=1)
    max_length: int = key(1000, "longer sentences are split into parts of this many words for training", "data", ge=1)

    embedding: int = key(256, "size of word vectors and of each direction's output", "model", ge=1)
    hidden: int = key(
        256, "hidden units per layer and direction; if more than embedding, projected to it", "model", ge=1
    )
    layers: int = key(2, "recurrent layers in each direction", "model", ge=1, le=MOST_LAYERS)
    tied: bool = key(True, "output and word vectors share one matrix", "model")
    characters: CharacterName = key("cnn", "character encoder", "model")
    dropout: float = key(0.15, "dropout before, between and after the layers", "model", ge=0, lt=1)

    @model_validator(mode="after")
    def _widths(self) -> Self:
        if self.hidden < self.embedding:
            raise ValueError(
                f"{setting('hidden')}: {self.hidden} units are fewer than {setting('embedding')}, {self.embedding}; "
                "give at least as many"
            )
        if self.hidden > self.embedding and not _projects(self.cell):
            remedy = f"give {setting('hidden', self.embedding)}, the size of the embedding"
            raise ValueError(f"{setting('hidden')}: the cell {self.cell} does not project; {remedy}")
        return self


def _projects(cell: str) -> bool:
    from ...cells import registry

    return registry()[cell].projects
