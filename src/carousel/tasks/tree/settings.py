"""Settings of the task on trees."""

from __future__ import annotations

from typing import Literal

from ...training.settings import EnsembleSettings, Preset, ensemble_of, key, presets
from ..shared.settings import VectorSettings

DEFAULTS = {
    "lower": True, "epochs": 8, "lr": 0.002, "weight_decay": 0.05, "average": 0.998, "word_dropout": 0.1,
    "embedding": 150,
}  # fmt: skip
PRESETS = presets(fast=Preset({"epochs": 3}, "a third of the time"), best=ensemble_of(5))


class TreeSettings(VectorSettings, EnsembleSettings, defaults=DEFAULTS, presets=PRESETS):
    """Keys of the task on trees."""

    task: Literal["tree"] = key("tree", "the task", "data")
    classes: str | None = key(
        None,
        "merge labels, as negative=0,1;positive=3,4; nodes with other labels are ignored",
        "data",
        metavar="NAME=A,B;…",
    )
    composition: Literal["n-ary", "child-sum", "recursive"] = key(
        "n-ary", "composition function: n-ary or child-sum Tree-LSTM, or a recursive network", "model"
    )
    children: int | None = key(
        None, "maximum number of children of a node (not for child-sum); null: as in the training data", "model",
        {"composition": ("n-ary", "recursive")}, ge=1,
    )  # fmt: skip
    activation: Literal["tanh", "sigmoid"] = key(
        "tanh", "activation of the recursive network", "model", {"composition": ("recursive",)}
    )
    hidden: int = key(150, "hidden units of a node", "model", ge=1)
    train_on: Literal["all", "root"] = key("all", "nodes whose labels are learned", "model")
