"""The native kernels, for the layers and calls they can run."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor
from torch.autograd import forward_ad

from .. import kernels
from ..cells.base import State, Weights
from ..kernels.ops import Stream, fused_layer, kernel_of
from .batch import Batch
from .unroll import Run, unroll

ISA, MISSING = kernels.isa(), kernels.why_not()  # the instruction set in use; what is missing if there is none


def obstacle(layer: Any, x: Tensor) -> str | None:
    """Why the kernels cannot run `layer` on `x`, or None if they can."""
    if kernel_of(layer.cell) is None:
        return f"there is no kernel for the cell {layer.cell!r}"
    if x.device.type != "cpu":
        return f"the kernels run on CPUs, the input is on {x.device}"
    if x.dtype not in (torch.float32, torch.float64):
        return f"the kernels take float32 and float64, not {x.dtype}"
    if MISSING:
        return MISSING
    if torch._C._is_any_autocast_enabled():
        return "autocast is on"
    if torch.compiler.is_compiling():
        return None
    if torch._C._functorch.peek_interpreter_stack() is not None:
        return "torch.func transforms need to see every operation"
    if forward_ad._current_level >= 0:
        return "forward-mode differentiation needs to see every operation"
    return None


def run(
    layer: Any, weights: list[Weights], x: Tensor, batch: Batch, runs: list[Run], initial: list[State] | None, see: bool
) -> tuple[Tensor, list[State], list[dict[str, Tensor]]]:
    """One layer: output (T, B, D·P), final states, and with `see` each direction's gates and states (T, B, S)."""

    def again(x: Tensor, weights: list[Weights], state: list[State], initial: Any) -> tuple[Tensor, list[State]]:
        """The same by the reference path, for gradients that are differentiated again."""
        if batch.active is not None:
            x = torch.where(batch.active.unsqueeze(-1), x, 0)
        parts = []
        for run, w, s, restart in zip(runs, weights, state, initial, strict=True):
            fresh = run.restart_state
            if restart[0] is not None:
                fresh = tuple(vector.expand_as(old) for vector, old in zip(restart, fresh, strict=True))
            parts.append(unroll(layer.cell, w, x, run.starting(s, fresh)))
        return torch.cat([p.output for p in parts], -1), [p.state for p in parts]

    training = any(run.zoneout is not None and run.zoneout.keep for run in runs)
    output, final, seen = fused_layer(
        layer.cell,
        weights,
        x,
        [run.state for run in runs],
        lengths=batch.lengths,
        reset=batch.reset,
        initial=initial,
        zoneout=layer.zoneout,
        zone_masks=[run.zoneout.keep for run in runs if run.zoneout is not None] if training else None,
        want_trace=see,
        reference=again,
    )
    return output, final, seen or []


# Where the native code finds a layer's parameters. Beside the layers, not in them: a layer is copied and pickled.
_streams: WeakKeyDictionary[Any, Stream] = WeakKeyDictionary()


def stream(layer: Any) -> Stream:
    """The native stepper of a unidirectional `layer`, made anew when its parameters have moved."""
    found = _streams.get(layer)
    if found is None or not found.current():
        weights = [Weights(layer.cell, layer._parameters_of(k, 0)) for k in range(layer.num_layers)]
        found = _streams[layer] = Stream(layer.cell, weights, layer.zoneout)
    return found
