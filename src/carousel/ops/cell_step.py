"""One step of a single cell on a few rows, with gradients: one native call forwards and one back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from .backend import gradients_by_reference, unsupported_reason


class CellStep(torch.autograd.Function):
    """The step as one node of the graph.

    `plan` is the native plan of the cell, `new` what its `train_cell` returned for `tensors`: x (B, I), the parameters
    by slot and the states before the step (B, S), None for those that are absent. `reference(tensors)` computes the new
    states with torch operations, for a gradient that is differentiated again.
    """

    @staticmethod
    def forward(
        ctx: Any,
        plan: Any,
        new: Sequence[Tensor],
        reference: Callable[..., tuple[Tensor, ...]],
        *tensors: Tensor | None,
    ) -> tuple[Tensor, ...]:
        *states, values, held = new
        ctx.save_for_backward(*tensors, values, held)
        ctx.plan, ctx.reference = plan, reference
        ctx.set_materialize_grads(False)
        return tuple(states)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        *tensors, values, held = ctx.saved_tensors
        wanted, found = ctx.needs_input_grad[3:], None
        if not torch.is_grad_enabled() and unsupported_reason("layer_backward", *grads) is None:
            given = tuple(None if g is None else g.contiguous() for g in grads)
            found = ctx.plan.cell_backward(tuple(tensors), (values, held), given, wanted, torch.get_num_threads())
        if found is None:
            found = gradients_by_reference(ctx.reference, tensors, grads, wanted)
        return None, None, None, *found
