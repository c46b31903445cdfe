"""Settings of the task on trees."""

from __future__ import annotations

from typing import Literal

from ...training.settings import key
from ..shared.settings import VectorSettings


class TreeSettings(VectorSettings):
    """Keys of the task on trees."""

    task: Literal["tree"] = key("tree", "the task", "data")
    classes: str | None = key(None, "join labels, as negative=0,1;positive=3,4; nodes with others do not count", "data")
    composition: Literal["n-ary", "child-sum", "recursive"] = key(
        "n-ary", "how a node comes of its children: two kinds of Tree-LSTM, or the plain recursive network", "model"
    )
    children: int | None = key(
        None, "the most children of a node (not for child-sum); null: as in train", "model",
        {"composition": ("n-ary", "recursive")}, ge=1,
    )  # fmt: skip
    activation: Literal["tanh", "sigmoid"] = key(
        "tanh", "of the recursive network", "model", {"composition": ("recursive",)}
    )
    hidden: int = key(150, "units of a node's state", "model", ge=1)
    train_on: Literal["all", "root"] = key("all", "the nodes whose labels are learnt", "model")
