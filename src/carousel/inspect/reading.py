"""The recurrent layers of a trained model, and what they read of a file: for every lab that takes `--run`.

A model gives the batches of a file and what its layers read of a batch: `Model.batches`, `Model.layer_input`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import ArgumentError, DataError
from ..layers import Recurrent, from_torch
from ..masks import length_mask
from ..wording import an, setting

TEXTS, STEPS = 64, 200  # how much of what is read is looked at, at most; a random input has so many steps


@dataclass(frozen=True)
class LayerReading:
    """`layer` with all its layers and directions; `x` (T, B, I) is what it reads, `lengths` (B)."""

    name: str
    layer: Recurrent
    x: Tensor
    lengths: Tensor
    source: str  # what was read, in words
    tokens: tuple[tuple[str, ...], ...] = ()  # of each sequence, step by step, if it is text

    @property
    def real(self) -> Tensor:
        """(T, B): the steps that a sequence has."""
        return length_mask(self.lengths, len(self.x))

    def first(self) -> tuple[Recurrent, Tensor]:
        """The first layer alone, forward, in float64, and the longest of what it reads (T, 1, I)."""
        whole = self.layer
        alone = Recurrent(whole.cell, whole.input_size, whole.hidden_size, bias=whole.bias, proj_size=whole.proj_size)
        own = alone.state_dict()
        alone.load_state_dict({key: value for key, value in whole.state_dict().items() if key in own})
        longest = int(self.lengths.argmax())
        return alone.double(), self.x[: int(self.lengths[longest]), longest : longest + 1].double()


def read_layers(model: Any, data: str | Path | Sequence[str | Path] | None = None) -> LayerReading:
    """What the layers of `model` read of the file `data`: of the longest sequences in it.

    Without `data`, that is the file by which a run's best epoch was chosen, or the one that it was trained on. Any
    other module reads random numbers.
    """
    from ..tasks.base import Model
    from ..training.modes import evaluating

    if not isinstance(model, Model):
        name, layer = _layers(model)
        if data is not None:
            raise ArgumentError(f"data: only a model of a run can read a file; this is {an(type(model).__name__)}")
        x = torch.randn(STEPS, 1, layer.input_size)
        return LayerReading(name, layer, x, torch.tensor([len(x)]), f"{STEPS} random inputs")
    given = data if data is not None else model.settings.dev or model.settings.train
    files = [given] if isinstance(given, str | Path) else list(given)
    missing = [file for file in files if not Path(file).is_file()]
    if missing:
        raise DataError(
            missing[0], None, "no such file, and the model must read something", f"give it with {setting('data')}"
        )
    with torch.no_grad(), evaluating(model):
        batch = next(iter(model.batches(*files)), None)
        if batch is None:
            raise ArgumentError(f"{files[0]}: there is nothing to read in it; give a file with text")
        layer_input = model.layer_input(batch)
    assert isinstance(layer_input.layer, Recurrent)
    lengths = layer_input.lengths[:TEXTS].cpu()
    named = " and ".join(str(file) for file in files)
    which = f"the {len(lengths)} longest sequences" if len(lengths) > 1 else "the longest sequence"
    x, tokens = layer_input.x[:, :TEXTS].detach(), layer_input.tokens[:TEXTS]
    return LayerReading(layer_input.name, layer_input.layer, x, lengths, f"{which} of {named}", tokens)


def _layers(model: nn.Module) -> tuple[str, Recurrent]:
    """The layers that read what the model reads: those a task calls `layers` or `encoder`, or the first there are."""
    if not isinstance(model, nn.Module):
        raise ArgumentError(f"model must be a model of a run or a torch module, got {type(model).__name__}")
    layers: dict[str, Any] = {n: m for n, m in model.named_modules() if isinstance(m, Recurrent | nn.RNNBase)}
    if not layers:
        raise ArgumentError("the model has no recurrent layer, neither Carousel's nor torch's")
    name = next((name for name in ("layers", "encoder") if name in layers), next(iter(layers)))
    layer = layers[name]
    return name or type(layer).__name__, layer if isinstance(layer, Recurrent) else from_torch(layer)
