"""Settings of the language model."""

from __future__ import annotations

from typing import Literal

from ...training.settings import key
from ..shared.cell import CellName
from ..shared.text import TextSettings


class LanguageSettings(TextSettings):
    """Keys of the language model."""

    task: Literal["lm"] = key("lm", "the task", "data")
    cell: CellName = key("lstm", "the recurrent cell", "model")
    embedding: int = key(256, "size of a token's vector", "model", ge=1)
    hidden: int = key(256, "units in a layer", "model", ge=1)
    layers: int = key(1, "recurrent layers", "model", ge=1)
    tied: bool = key(True, "output and embedding share one matrix", "model")
    forget_bias: float | None = key(None, "the forget gate's bias at the start; null: the cell's own (1)", "model")
    dropout: float = key(0.2, "dropout before, between and after the layers", "model", ge=0, lt=1)
    input_dropout: float | None = key(None, "before the layers; null: as dropout", "model", ge=0, lt=1)
    output_dropout: float | None = key(None, "after the layers; null: as dropout", "model", ge=0, lt=1)
    embedding_dropout: float = key(0.0, "share of the vocabulary hidden from each batch", "model", ge=0, lt=1)
    variational: bool = key(False, "one dropout mask for a whole sequence", "model")
    recurrent_dropout: float = key(0.0, "units of h hidden from the gates, one mask a sequence", "model", ge=0, lt=1)
    weight_drop: float = key(0.0, "share of the recurrent weights dropped", "model", ge=0, lt=1)
    zoneout: float = key(0.0, "share of units that keep their state at a step", "model", ge=0, lt=1)
    label_smoothing: float = key(0.0, "share of the probability given to all tokens alike", "model", ge=0, lt=1)
