"""One direction of one layer whose cell is a program, as a differentiable function: one native call each way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from ..masks import length_mask
from ..program.lowering import Plan, Slot
from ..program.program import Program, evaluate
from .backend import autograd_records, empty_from_pool, gradients_by_reference, load, unsupported_reason
from .kernels import addresses
from .views import Views

KINDS = ("unit", "sequence", "step", "time")


@lru_cache(None)
def _opcodes() -> dict[str, int]:
    native: Any = load()[0]
    return {name: k for k, name in enumerate(native.opcodes())}


class Compiled:
    """A plan as the native module has it."""

    def __init__(self, plan: Plan, dtype: torch.dtype):
        native: Any = load()[0]
        tensors = [(KINDS.index(t.kind), t.row) for t in plan.tensors]
        forward = plan.forward.encoded(_opcodes())
        backward = None if plan.backward is None else plan.backward.encoded(_opcodes())
        self.plan = plan
        self.native = native.Program(
            tensors, plan.gate, plan.states, plan.saved, plan.kept, plan.sums, plan.targets, forward, backward
        )
        single = dtype is torch.float32
        self.forward = native.program_forward32 if single else native.program_forward64
        self.backward = native.program_backward32 if single else native.program_backward64
        layout = self.native.layout32() if single else self.native.layout64()
        self.states, self.saved, self.kept, self.saved_row, self.kept_row, self.projected_row = layout
        planes = [*zip(self.states, plan.states, strict=True), *zip(self.saved, plan.saved, strict=True)]
        ends = [(0, 0), *sorted((at, at + width) for at, width in planes if at >= 0), (self.saved_row, self.saved_row)]
        self.gaps = [(stop, start) for (_, stop), (start, _) in pairwise(ends) if stop < start]  # of a saved row
        used = () if plan.backward is None else plan.backward.slots
        self.reads_input = any(slot.space == "input" and slot.plane == 0 for slot in used)  # W x + b, in backward
        states = {} if plan.program is None else plan.program.states
        seen = plan.names | {n: Slot("new", k, 0, width) for k, (n, width) in enumerate(states.items())}
        places = {"saved": self.saved, "new": self.states}
        self._seen = {name: (places[slot.space][slot.plane], slot.width) for name, slot in seen.items()}

    def seen(self, output: Tensor, saved: Tensor) -> Views:
        """What `let` named, and the states, (T, B, S), as the forward step saved them."""
        places = self._seen.items()
        return Views({n: (output, 0, width) if at < 0 else (saved, at, width) for n, (at, width) in places})

    def gradients(self, kept: Tensor, d_own: Sequence[Any]) -> Views:
        """∂L/∂(what `let` named) and of the states, (T, B, S), those that the derivative keeps."""
        parts = {}
        for name, slot in self.plan.gradients.items():
            whole, at = (kept, self.kept[slot.plane]) if slot.space == "kept" else (d_own[slot.plane], 0)
            parts[name] = whole, at + slot.offset, slot.width
        return Views(parts)


@dataclass
class ProgramCall:
    """The arguments of one call, except the tensors."""

    compiled: Compiled
    reverse: bool
    lengths: Tensor | None  # (B) int64
    reset: Tensor | None  # (T, B) bool
    traced: bool  # what is saved is wanted
    projects: bool = False  # the first tensor is x (T, B, I), and weight_ih and bias_ih come after all others
    gradients: list[Views] | None = None  # receives ∂L/∂(named value) when the call is differentiated

    @property
    def states(self) -> int:
        return len(self.compiled.plan.states)


def run_program(
    call: ProgramCall,
    tensors: Sequence[Tensor],
    state: Sequence[Tensor | None],
    initial: Sequence[Tensor | None],
    projection: Sequence[Tensor | None] = (),
) -> tuple[Tensor, list[Tensor], Tensor | None]:
    """Output (T, B, P), final states (B, S), and what the plan saved, (T, B, ·), if the call is traced.

    `tensors` in the order of the plan's; `state` (B, S) before the first step, `initial` (S) after a reset, None for
    zeros. With `projection`, weight_ih and bias_ih, the first tensor is x in the place of W x + b.
    """
    given = [None if t is None else t.contiguous() for t in (*tensors, *state, *initial, *projection)]
    call.projects = bool(projection)
    if autograd_records() and any(t is not None and t.requires_grad for t in given):
        output, *rest = ProgramLayer.apply(call, *given)
    else:
        (output, *rest), saved, _ = run_forward(call, given, call.traced)
        rest = rest if saved is None else [*rest, saved]
    return output, rest[: call.states], rest[-1] if call.traced else None


def differentiable(
    compiled: Compiled, tensors: Sequence[Tensor | None], weight: Tensor, bias: Tensor | None
) -> tuple[Tensor, ...]:
    """Output (T, B, P) and final states (B, S) of a whole batch.

    `tensors`: the plan's, the first of which is x; the states before the first step, None for zeros; and those after a
    reset; all contiguous.
    """
    call = ProgramCall(compiled, False, None, None, False, projects=True)
    return ProgramLayer.apply(call, *tensors, weight, bias)


def _split(call: ProgramCall, tensors: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any], Sequence[Any]]:
    """Tensors of the plan, states before the first step, states after a reset."""
    n, states = len(call.compiled.plan.tensors), call.states
    return tensors[:n], tensors[n : n + states], tensors[n + states : n + 2 * states]


def _projection(call: ProgramCall, tensors: Sequence[Any], projected: Tensor | None) -> list[int]:
    """What makes W x + b, and the memory that keeps it, if any."""
    if not call.projects:
        return [0] * 5
    x, weight, bias = tensors[0], *tensors[-2:]
    x, weight, bias, kept = addresses((x, weight, bias, projected))
    return [x, weight, bias, tensors[0].shape[-1], kept]


def _shared(call: ProgramCall, output: Tensor, saved: Tensor | None) -> list[int]:
    return addresses((call.lengths, call.reset, output, saved))


def _given(call: ProgramCall, own: Sequence[Any]) -> list[int]:
    """The tensors of the plan; the first is made by the call where it projects."""
    return addresses((None if call.projects else own[0], *own[1:]))


def _sizes(call: ProgramCall, first: Tensor) -> tuple[int, int, int, int]:
    return first.shape[0], first.shape[1], torch.get_num_threads(), int(call.reverse)


def run_forward(
    call: ProgramCall, tensors: Sequence[Any], save: bool, zero: bool = False, keep: bool = False
) -> tuple[list[Tensor], Tensor | None, Tensor | None]:
    """Output and final states; what is saved; and with `keep` W x + b. With `zero`, what lies between the rows of what
    is saved is 0, not what was in memory."""
    own, state, initial = _split(call, tensors)
    compiled = call.compiled
    sizes = steps, batch, _, _ = _sizes(call, tensors[0])
    projected = empty_from_pool(tensors[0], steps, batch, compiled.projected_row) if keep and call.projects else None
    output = tensors[0].new_empty(steps, batch, compiled.plan.states[0])
    final = [output.new_empty(batch, width) for width in compiled.plan.states]
    saved = empty_from_pool(output, steps, batch, compiled.saved_row) if save else None
    if saved is not None and zero:
        saved.zero_()  # steps past the ends of sequences
    compiled.forward(
        compiled.native, sizes, _shared(call, output, saved), _given(call, own), addresses(state), addresses(initial),
        addresses(final), _projection(call, tensors, projected),
    )  # fmt: skip
    if saved is not None and zero:
        for start, stop in compiled.gaps:
            saved[..., start:stop] = 0
    return [output, *final], saved, projected


class ProgramLayer(torch.autograd.Function):
    """One direction of one layer as one node of the graph."""

    @staticmethod
    def forward(ctx: Any, call: ProgramCall, *tensors: Tensor | None) -> tuple[Tensor, ...]:
        (output, *final), saved, projected = run_forward(call, tensors, True, keep=call.compiled.reads_input)
        assert saved is not None
        ctx.call = call
        ctx.save_for_backward(*tensors, output.data, saved, projected)  # the output may be changed: see ops/layer.py
        ctx.counter = output.detach()
        ctx.counter.data = torch.empty(0, device="cpu")
        ctx.version = output._version
        ctx.set_materialize_grads(False)
        if not call.traced:
            return output, *final
        ctx.mark_non_differentiable(saved)
        return output, *final, saved

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        *tensors, output, saved, projected = ctx.saved_tensors
        call: ProgramCall = ctx.call
        wanted, grads = ctx.needs_input_grad[1:], grads[: 1 + call.states]
        if torch.is_grad_enabled() or unsupported_reason("layer_backward", *grads) is not None:
            return None, *gradients_by_reference(lambda own: run_by_torch(call, own), tensors, grads, wanted)
        if ctx.counter._version != ctx.version:  # changed since: computed again, to the same bits
            output = run_forward(call, tensors, True)[0][0]
        return None, *differentiate(call, tensors, (output, saved, projected), grads, wanted)


def differentiate(
    call: ProgramCall,
    tensors: Sequence[Any],
    kept_forward: tuple[Tensor, Tensor, Tensor | None],
    grads: Sequence[Tensor | None],
    wanted: Any,
) -> list[Tensor | None]:
    """The gradients of `tensors`, those `wanted`; `kept_forward`: output, what was saved, and W x + b if kept."""
    own, state, initial = _split(call, tensors)
    compiled, plan = call.compiled, call.compiled.plan
    output, saved, projected = kept_forward
    sizes = steps, batch, _, _ = _sizes(call, own[0])
    d_output, *d_final = (None if g is None else g.contiguous() for g in grads)
    named = call.gradients is not None  # nothing else is wanted then
    d_own: list[Tensor | None] = []
    for k, (given, spec) in enumerate(zip(own, plan.tensors, strict=True)):
        if spec.kind == "step" and spec.what[0] not in ("zone", "clamp"):
            full = k or named or not call.projects
            d_own.append(empty_from_pool(output, steps, batch, spec.row) if full else None)
        else:
            d_own.append(torch.empty_like(given) if wanted[k] and spec.kind == "unit" else None)
    kept = empty_from_pool(output, steps, batch, compiled.kept_row) if named else None
    d_state = [None if s is None else torch.empty_like(s) for s in state]
    d_initial = [None if s is None else torch.empty_like(s) for s in initial]
    d_projection: list[Tensor | None] = []
    if call.projects:  # the first tensor is x
        parts = zip((own[0], *tensors[-2:]), (wanted[0], *wanted[-2:]), strict=True)
        d_projection = [torch.empty_like(t) if t is not None and w else None for t, w in parts]
    compiled.backward(
        compiled.native, sizes, _shared(call, output, saved), _given(call, own), addresses(state), addresses(initial),
        addresses((d_output, kept)), addresses(d_final), addresses(d_own), addresses(d_state), addresses(d_initial),
        _projection(call, tensors, projected), addresses(d_projection or (None,) * 3),
    )  # fmt: skip
    if call.gradients is not None and kept is not None:
        call.gradients[:] = [compiled.gradients(kept, d_own)]  # of the last time, if there are several
    if call.projects:
        d_own[0], *d_projection = d_projection
    found = (*d_own, *d_state, *d_initial, *d_projection)
    return [g if w else None for g, w in zip(found, wanted, strict=True)]


def run_by_torch(call: ProgramCall, tensors: Sequence[Any]) -> list[Tensor]:
    """The same with torch's operations, for gradients that are differentiated again: output and final states."""
    own, state, initial = _split(call, tensors)
    if call.projects:
        own = (torch.nn.functional.linear(tensors[0], *tensors[-2:]), *own[1:])
    plan = call.compiled.plan
    program = plan.program
    steps = own[0].shape[0]
    hoisted: list[Any] = [None] * len(program.hoisted)
    for spec, tensor in zip(plan.tensors, own, strict=True):
        if spec.what[0] == "hoisted":
            hoisted[spec.what[1]] = tensor
    active = None if call.lengths is None else length_mask(call.lengths, steps).unsqueeze(-1)
    zeros = (own[0].new_zeros(own[0].shape[1], width) for width in plan.states)
    old = [zero if s is None else s for s, zero in zip(state, zeros, strict=True)]
    outputs = [old[0]] * steps
    for t in reversed(range(steps)) if call.reverse else range(steps):
        restart = _restart(call.reset, t, call.reverse)
        if restart is not None:
            old = [torch.where(restart, i if i is not None else 0.0, s) for i, s in zip(initial, old, strict=True)]
        new = list(evaluate(program.results, _leaves(program, plan, own, old, t), hoisted).values())
        new = [n.expand_as(s) for n, s in zip(new, old, strict=True)]
        outputs[t] = new[0]
        old = new if active is None else [torch.where(active[t], n, s) for n, s in zip(new, old, strict=True)]
    output = torch.stack(outputs)
    return [output if active is None else torch.where(active, output, 0), *old]


def _restart(reset: Tensor | None, t: int, reverse: bool) -> Tensor | None:
    """(B, 1) bool: which sequences restart before step t; in reverse a cut before t + 1 is what parts them."""
    if reset is None or (reverse and t + 1 == reset.shape[0]):
        return None
    return reset[t + 1 if reverse else t].unsqueeze(-1)


def _leaves(program: Program, plan: Plan, own: Sequence[Tensor], old: list[Tensor], t: int) -> dict[Any, Tensor]:
    leaves: dict[Any, Tensor] = {("state", name): s for name, s in zip(program.states, old, strict=True)}
    for spec, tensor in zip(plan.tensors, own, strict=True):
        what, name = spec.what
        if what == "projected" and program.projects:
            leaves["input", None] = tensor[t]
        elif what == "projected":
            parts = tensor[t].split(list(program.gates.values()), -1)
            leaves |= {("input", gate): part for gate, part in zip(program.gates, parts, strict=True)}
        elif what in ("side", "zone", "clamp", "held"):
            leaves[what, name] = tensor[t]
        elif what == "mask":
            leaves["mask", None] = tensor
    return leaves
