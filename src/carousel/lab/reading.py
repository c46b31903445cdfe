"""The recurrent layers of a model of one's own, and what they read: one way for every lab that takes `--run`.

The model is let loose on a file, as `carousel eval` would, and stopped when its layers are first called: by then the
file is read, cut into tokens and turned into vectors, whatever the task.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import ArgumentError, DataError
from ..layers import Recurrent
from ..masks import length_mask
from ..wording import an

TEXTS, STEPS = 64, 200  # how much of what is read is looked at, at most; a random input has so many steps


@dataclass(frozen=True)
class Reading:
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


class _Enough(Exception):
    """The layers have been called."""


def read(model: nn.Module, data: str | Path | Sequence[str | Path] | None = None) -> Reading:
    """What the layers of `model` read of the file `data`: of the longest sequences in it.

    Without `data`, that is the file by which a run's best epoch was chosen, or the one that it was trained on. A module
    that is no task of this package reads random numbers.
    """
    from ..training import Task

    name, layer = _layers(model)
    if not isinstance(model, Task):
        if data is not None:
            raise ArgumentError(f"data: only a model of a run can read a file; this is {an(type(model).__name__)}")
        x = torch.randn(STEPS, 1, layer.input_size)
        return Reading(name, layer, x, torch.tensor([len(x)]), f"{STEPS} random inputs")
    given = data if data is not None else model.settings.dev or model.settings.train
    files = [given] if isinstance(given, str | Path) else list(given)
    missing = [file for file in files if not Path(file).is_file()]
    if missing:
        raise DataError(missing[0], None, "no such file, and the model must read something", "give it with --data")
    seen: list[tuple[Tensor, Any]] = []
    ids: list[Tensor] = []

    def called(module: nn.Module, args: tuple[Any, ...], options: dict[str, Any]) -> None:
        seen.append((args[0], options.get("lengths")))
        raise _Enough

    hooks = [layer.register_forward_pre_hook(called, with_kwargs=True)]
    hooks += [m.register_forward_pre_hook(lambda _, args: ids.append(args[0])) for m in _embedders(model)]
    try:
        with torch.no_grad():
            model.eval().evaluate(*files)  # type: ignore[operator]
    except _Enough:
        pass
    finally:
        for hook in hooks:
            hook.remove()
    if not seen:
        raise DataError(files[0], None, "the model's layers were not called", "give a file with text in it")
    x, lengths = seen[0]
    x = x[:, :TEXTS].detach()
    count = torch.full((x.shape[1],), len(x)) if lengths is None else torch.as_tensor(lengths)[:TEXTS].cpu()
    tokens = next((found[:, :TEXTS] for found in reversed(ids) if found.shape == seen[0][0].shape[:2]), None)
    named = " and ".join(str(file) for file in files)
    which = f"the {len(count)} longest sequences" if len(count) > 1 else "the longest sequence"
    return Reading(name, layer, x, count, f"{which} of {named}", _words(model, tokens, count))


def _layers(model: nn.Module) -> tuple[str, Recurrent]:
    """The layers that read what the model reads: those a task calls `layers` or `encoder`, or the first there are."""
    found = {name: module for name, module in model.named_modules() if isinstance(module, Recurrent)}
    if not found:
        raise ArgumentError("the model has no recurrent layer")
    name = next((name for name in ("layers", "encoder") if name in found), next(iter(found)))
    return name, found[name]


def _embedders(model: nn.Module) -> list[nn.Module]:
    from ..models.embedder import Embedder

    return [module for module in model.modules() if isinstance(module, Embedder)]


def _words(model: Any, ids: Tensor | None, lengths: Tensor) -> tuple[tuple[str, ...], ...]:
    """Tokens by their ids (T, B)."""
    lexicon = getattr(model, "lexicon", None)
    known = getattr(model, "vocabulary", None) or getattr(model, "source_vocabulary", None)
    vocabulary = known if lexicon is None else lexicon.words
    if ids is None or vocabulary is None:
        return ()
    columns = zip(ids.T.tolist(), lengths.tolist(), strict=True)
    return tuple(tuple(vocabulary.token(int(k)) for k in column[:length]) for column, length in columns)
