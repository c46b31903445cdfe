"""`carousel::program` and `carousel::program_backward`: a layer whose cell is a program, one direction, as torch
operators, for those who watch torch's operators: see layer_operator.py."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from ..program.lowering import plan_from_text
from .program import Compiled, ProgramCall, differentiate, run_forward

# The code itself stands in the graph, which torch keeps on disk for other processes, and so does the length of the rows
# that are saved, which differs between instruction sets. `present`: which of the full list of tensors are there.
_ARGUMENTS = (
    "Tensor[] tensors, int[] present, str code, int row, bool reverse, bool projects, Tensor? lengths, Tensor? reset"
)
torch.library.define("carousel::program", f"({_ARGUMENTS}, bool save) -> Tensor[]")
torch.library.define(
    "carousel::program_backward", f"({_ARGUMENTS}, Tensor[] saved, Tensor[] grads, int[] grads_present) -> Tensor[]"
)


@lru_cache(256)
def _compiled(code: str, dtype: torch.dtype) -> Compiled:
    return Compiled(plan_from_text(code), dtype)


def program_operator(
    code: str,
    row: int,
    reverse: bool,
    lengths: Tensor | None,
    reset: Tensor | None,
    tensors: Sequence[Tensor | None],
    states: int,
    projects: bool,
    save: bool,
) -> tuple[Tensor, list[Tensor]]:
    """As `run_program`, by the operator: output and final states. `tensors` are those of the plan, states before the
    first step and after a reset, weight_ih and bias_ih if it `projects`; `code` and `row` are the plan's."""
    some, present = [t for t in tensors if t is not None], [int(t is not None) for t in tensors]
    output, *rest = torch.ops.carousel.program(some, present, code, row, reverse, projects, lengths, reset, save)
    return output, rest[:states]


def _gaps(tensors: Sequence[Tensor], present: Sequence[int]) -> list[Tensor | None]:
    left = iter(tensors)
    return [next(left).contiguous() if p else None for p in present]


def _call(code: str, tensors: Sequence[Tensor], reverse: bool, projects: bool, *rows: Tensor | None) -> ProgramCall:
    lengths, reset = (None if t is None else t.contiguous() for t in rows)
    return ProgramCall(_compiled(code, tensors[0].dtype), reverse, lengths, reset, True, projects)


@torch.library.impl("carousel::program", "CPU")
def _program_cpu(
    tensors: list[Tensor], present: list[int], code: str, row: int, reverse: bool, projects: bool,
    lengths: Tensor | None, reset: Tensor | None, save: bool,
) -> list[Tensor]:  # fmt: skip
    call = _call(code, tensors, reverse, projects, lengths, reset)
    found, saved, _ = run_forward(call, _gaps(tensors, present), save, zero=True)
    return [*found, found[0].new_empty(0) if saved is None else saved]


@torch.library.register_fake("carousel::program")
def _program_fake(
    tensors: list[Tensor], present: list[int], code: str, row: int, reverse: bool, projects: bool,
    lengths: Tensor | None, reset: Tensor | None, save: bool,
) -> list[Tensor]:  # fmt: skip
    plan = _compiled(code, tensors[0].dtype).plan
    x = tensors[0]
    steps, batch = x.shape[:2]
    final = [x.new_empty(batch, width) for width in plan.states]
    saved = x.new_empty(steps, batch, row) if save else x.new_empty(0)
    return [x.new_empty(steps, batch, plan.states[0]), *final, saved]


@torch.library.impl("carousel::program_backward", "CPU")
def _program_backward_cpu(
    tensors: list[Tensor], present: list[int], code: str, row: int, reverse: bool, projects: bool,
    lengths: Tensor | None, reset: Tensor | None, saved: list[Tensor], grads: list[Tensor], grads_present: list[int],
) -> list[Tensor]:  # fmt: skip
    call, full = _call(code, tensors, reverse, projects, lengths, reset), _gaps(tensors, present)
    output, kept = saved
    found = differentiate(call, full, (output, kept, None), _gaps(grads, grads_present), [True] * len(full))
    pairs = [(t, g) for t, g in zip(full, found, strict=True) if t is not None]
    return [torch.zeros_like(t) if g is None else g for t, g in pairs]


@torch.library.register_fake("carousel::program_backward")
def _program_backward_fake(tensors: list[Tensor], *rest: Any) -> list[Tensor]:
    return [torch.empty_like(t, memory_format=torch.contiguous_format) for t in tensors]


def _keep(ctx: Any, inputs: tuple[Any, ...], output: list[Tensor]) -> None:
    tensors, present, code, row, reverse, projects, lengths, reset, _ = inputs
    ctx.described = present, code, row, reverse, projects
    ctx.counts = len(tensors), lengths is not None, reset is not None
    ctx.save_for_backward(*tensors, *(t for t in (lengths, reset) if t is not None), output[0], output[-1])


def _backward(ctx: Any, grads: list[Tensor | None]) -> tuple[Any, ...]:
    count, has_lengths, has_reset = ctx.counts
    *given, output, saved = ctx.saved_tensors
    tensors, extra = given[:count], given[count:]
    lengths, reset = extra[0] if has_lengths else None, extra[-1] if has_reset else None
    some, there = [g for g in grads[:-1] if g is not None], [int(g is not None) for g in grads[:-1]]
    found = torch.ops.carousel.program_backward(tensors, *ctx.described, lengths, reset, [output, saved], some, there)
    return found, *[None] * 8


torch.library.register_autograd("carousel::program", _backward, setup_context=_keep)
