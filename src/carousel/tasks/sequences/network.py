"""The network over number sequences: layers → pooling → classes, or a number."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from ..classify.network import LabelNetwork
from .batches import SequenceBatch
from .data import SequenceAssets
from .settings import SequenceSettings


class SequenceNetwork(LabelNetwork):
    """Sequences (T, B, I) to scores of the classes (B, classes)."""

    unit = "sequences"

    def __init__(self, settings: SequenceSettings, assets: SequenceAssets) -> None:
        super().__init__()
        self.layers = settings.encoder(assets.scale.inputs)
        self.make_output(settings, assets.target, assets.weights)

    def read(self, batch: SequenceBatch) -> Tensor:
        return batch.x

    def row_names(self, assets: SequenceAssets) -> dict[str, tuple[Sequence[str], ...]]:
        labels = (assets.labels or ["number"],)
        return {"output.weight": labels, "output.bias": labels}
