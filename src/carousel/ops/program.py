"""One direction of one layer whose cell is a program, in native calls, as a differentiable function.

The gradients of matrices are large products after the loop over time, and so is that of the input.
"""

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
from ..program.values import Product
from .backend import autograd_records, empty_from_pool, gradients_by_reference, load, unsupported_reason
from .kernels import addresses

KINDS = ("unit", "sequence", "step")


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
        sums = [width for _, _, width in plan.sums]
        self.plan = plan
        self.native = native.Program(tensors, plan.states, plan.saved, plan.kept, sums, forward, backward)
        single = dtype is torch.float32
        self.forward = native.program_forward32 if single else native.program_forward64
        self.backward = native.program_backward32 if single else native.program_backward64
        layout = self.native.layout32() if single else self.native.layout64()
        self.states, self.saved, self.kept, self.sums, self.saved_row, self.kept_row, self.sums_row = layout
        planes = [*zip(self.states, plan.states, strict=True), *zip(self.saved, plan.saved, strict=True)]
        ends = [(0, 0), *sorted((at, at + width) for at, width in planes if at >= 0), (self.saved_row, self.saved_row)]
        self.gaps = [(stop, start) for (_, stop), (start, _) in pairwise(ends) if stop < start]  # of a saved row
        self.groups = _groups(plan, self.kept)
        used = () if plan.backward is None else plan.backward.slots
        self.reads_input = any(slot.space == "input" and slot.plane == 0 for slot in used)  # W x + b, in backward

    def seen(self, output: Tensor, saved: Tensor) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """What `let` named, and the states: (T, B, S) views of what the forward step saved."""
        states = {name: Slot("new", k, 0, width) for k, (name, width) in enumerate(self.plan.program.states.items())}
        named = {name: self._view(slot, output, saved) for name, slot in self.plan.names.items()}
        return named, {name: self._view(slot, output, saved) for name, slot in states.items()}

    def gradients(self, kept: Tensor, d_own: Sequence[Any]) -> dict[str, Tensor]:
        """∂L/∂(what `let` named) and of the states, those that the derivative keeps: (T, B, S) views."""
        found = {}
        for name, slot in self.plan.gradients.items():
            whole, at = (kept, self.kept[slot.plane]) if slot.space == "kept" else (d_own[slot.plane], 0)
            found[name] = whole[..., at + slot.offset : at + slot.offset + slot.width]
        return found

    def _view(self, slot: Slot, output: Tensor, saved: Tensor) -> Tensor:
        at = self.saved[slot.plane] if slot.space == "saved" else self.states[slot.plane]
        return output if at < 0 else saved[..., at : at + slot.width]


@dataclass
class ProgramCall:
    """The arguments of one call, except the tensors."""

    compiled: Compiled
    reverse: bool
    lengths: Tensor | None  # (B) int64
    reset: Tensor | None  # (T, B) bool
    traced: bool  # what is saved is wanted
    projects: bool = False  # the first tensor is x (T, B, I), and weight_ih and bias_ih come after all others
    gradients: dict[str, Tensor] | None = None  # receives ∂L/∂(named value), (T, B, S), when the call is differentiated

    @property
    def states(self) -> int:
        return len(self.compiled.plan.states)


def run_program(
    call: ProgramCall,
    tensors: Sequence[Tensor],
    state: Sequence[Tensor],
    initial: Sequence[Tensor | None],
    projection: Sequence[Tensor | None] = (),
) -> tuple[Tensor, list[Tensor], Tensor | None]:
    """Output (T, B, P), final states (B, S), and what the plan saved, (T, B, ·), if the call is traced.

    `tensors` in the order of the plan's; `state` (B, S) before the first step, `initial` (S) after a reset. With
    `projection`, weight_ih and bias_ih, the first tensor is x in the place of W x + b.
    """
    given: list[Tensor | None] = [t.contiguous() for t in (*tensors, *state)]
    given += [None if s is None else s.contiguous() for s in (*initial, *projection)]
    call.projects = bool(projection)
    if autograd_records() and any(t is not None and t.requires_grad for t in given):
        output, *rest = ProgramLayer.apply(call, *given)
    else:
        (output, *rest), saved, _ = run_forward(call, given, call.traced)
        rest = rest if saved is None else [*rest, saved]
    return output, rest[: call.states], rest[-1] if call.traced else None


def _split(call: ProgramCall, tensors: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any], Sequence[Any]]:
    """Tensors of the plan, states before the first step, states after a reset."""
    n, states = len(call.compiled.plan.tensors), call.states
    return tensors[:n], tensors[n : n + states], tensors[n + states : n + 2 * states]


def _projected(call: ProgramCall, tensors: Sequence[Any], keep: bool) -> tuple[Any, list[int]]:
    """Memory for W x + b (T, B, G·H), or what was given in its place, and what makes it; None: it is not kept."""
    x = tensors[0]
    if not call.projects:
        return x, [0, 0, 0, 0]
    weight, bias = tensors[-2:]
    projected = empty_from_pool(x, *x.shape[:2], weight.shape[0]) if keep else None
    return projected, [*addresses((x, weight, bias)), weight.shape[1]]


def _multiply(a: Tensor, b: Tensor, turned: bool, out: Tensor | None = None) -> Tensor:
    """a (M, K) b (K, N), or aᵀ b of a (K, M), on the kernels' threads; added to `out` (M, N) if that is given."""
    a, b = (m if m.stride(1) == 1 else m.contiguous() for m in (a, b))
    if turned and len(a) > 1024 and a.shape[1] >= 4 * b.shape[1]:  # the narrower of the two is turned over: bᵀ a
        found = _multiply(b, a, True).t()
        return found.contiguous() if out is None else out.add_(found)
    rows, depth = a.shape[::-1] if turned else a.shape
    to = a.new_empty(rows, b.shape[1]) if out is None else out
    native: Any = load()[0]
    run = native.large_product32 if a.dtype is torch.float32 else native.large_product64
    sizes = (rows, b.shape[1], depth, a.stride(0), b.stride(0), to.stride(0), turned, out is not None)
    run((*sizes, torch.get_num_threads()), a.data_ptr(), b.data_ptr(), to.data_ptr())
    return to


def _shared(call: ProgramCall, output: Tensor, saved: Tensor | None) -> list[int]:
    return addresses((call.lengths, call.reset, output, saved))


def _sizes(call: ProgramCall, state: Tensor, first: Tensor) -> tuple[int, int, int, int]:
    return first.shape[0], state.shape[0], torch.get_num_threads(), int(call.reverse)


def run_forward(
    call: ProgramCall, tensors: Sequence[Any], save: bool, zero: bool = False, keep: bool = False
) -> tuple[list[Tensor], Tensor | None, Tensor | None]:
    """Output and final states; what is saved; and with `keep` W x + b. With `zero`, what lies between the rows of what
    is saved is 0, not what was in memory."""
    own, state, initial = _split(call, tensors)
    projected, projection = _projected(call, tensors, keep)
    compiled = call.compiled
    sizes = steps, batch, _, _ = _sizes(call, state[0], tensors[0])
    output = tensors[0].new_empty(steps, batch, compiled.plan.states[0])
    final = [output.new_empty(batch, width) for width in compiled.plan.states]
    saved = empty_from_pool(output, steps, batch, compiled.saved_row) if save else None
    if saved is not None and zero:
        saved.zero_()  # steps past the ends of sequences
    compiled.forward(
        compiled.native, sizes, _shared(call, output, saved), addresses((projected, *own[1:])), addresses(state),
        addresses(initial), addresses(final), projection,
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
        needed = projected if call.projects else None
        ctx.save_for_backward(
            *tensors, output.data, saved, needed
        )  # see ops/layer.py: the output may be changed in place
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
    if projected is None and compiled.reads_input:
        projected = run_forward(call, tensors, False, keep=True)[2]
    read = (projected if call.projects else own[0], *own[1:])
    sizes = steps, batch, _, _ = _sizes(call, state[0], own[0])
    d_output, *d_final = (None if g is None else g.contiguous() for g in grads)
    steps_of = [t.kind == "step" and t.what[0] not in ("zone", "clamp") for t in plan.tensors]
    shapes = [(*t.shape[:2], spec.row) for t, spec in zip(own, plan.tensors, strict=True)]
    d_own: list[Tensor | None] = [
        empty_from_pool(output, *shape) if of_a_step else None
        for shape, of_a_step in zip(shapes, steps_of, strict=True)
    ]
    kept = empty_from_pool(output, steps, batch, compiled.kept_row)
    sums = output.new_empty(compiled.sums_row)
    d_state = [torch.empty_like(s) for s in state]
    d_initial = [None if s is None else torch.empty_like(s) for s in initial]
    compiled.backward(
        compiled.native, sizes, _shared(call, output, saved), addresses(read), addresses(state), addresses(initial),
        addresses((d_output, kept, sums)), addresses(d_final), addresses(d_own), addresses(d_state),
        addresses(d_initial),
    )  # fmt: skip
    if call.gradients is not None:
        call.gradients |= compiled.gradients(kept, d_own)
    totals = _unit_gradients(compiled, own, d_own, kept, sums, wanted)
    d_projection: Sequence[Tensor | None] = ()
    if call.projects:
        d_own[0], *d_projection = _projection_gradients(d_own[0], tensors[0], tensors[-2], tensors[-1], totals, wanted)
    found = (*d_own, *d_state, *d_initial, *d_projection)
    return [g if w else None for g, w in zip(found, wanted, strict=True)]


def _projection_gradients(
    d: Any, x: Tensor, weight: Tensor, bias: Tensor | None, totals: dict[Any, Tensor], wanted: Any
) -> list[Tensor | None]:
    """The gradients of x, weight_ih and bias_ih from that of W x + b."""
    rows, width = d.flatten(0, 1), weight.shape[0]
    d_x = _multiply(rows, weight, False).view(x.shape) if wanted[0] else None
    d_weight = _multiply(rows, x.flatten(0, 1), True) if wanted[-2] else None
    d_bias = None
    if bias is not None and wanted[-1]:  # often bias_hh's too, and then known
        known = totals.get(("d_input", 0, 0, width))
        d_bias = rows.sum(0) if known is None else known.clone()
    return [d_x, d_weight, d_bias]


@dataclass
class Group:
    """Products of one matrix with one argument, whose rows follow one another and so do their δ."""

    matrix: int  # tensor of the plan
    row: int
    rows: int
    delta: tuple[str, int, int]  # space, tensor, column
    argument: tuple[str, int, int, int]  # and its width
    blocks: int
    bias: tuple[int, int] | None  # tensor of the plan, and of its first number


def _groups(plan: Plan, kept: Sequence[int]) -> list[Group]:
    """The products of a plan as large products over all steps."""
    position = {t.what: k for k, t in enumerate(plan.tensors)}

    def column(slot: Slot) -> tuple[str, int, int]:
        return (slot.space, 0, kept[slot.plane] + slot.offset) if slot.space == "kept" else slot[:3]

    def one(p: Product, delta: Slot, argument: Slot) -> Group:
        bias = None if p.bias is None else (position["hoisted", p.bias[0]], p.bias[1])
        matrix = position["hoisted", p.matrix]
        return Group(matrix, p.row, p.rows, column(delta), (*column(argument), argument.width), p.blocks, bias)

    groups: list[Group] = []
    for g in sorted((one(*each) for each in plan.products), key=lambda g: (g.matrix, g.argument, g.row)):
        last = groups[-1] if groups else None
        if last is not None and _follows(last, g):
            last.rows += g.rows
        else:
            groups.append(g)
    return groups


def _follows(last: Group, g: Group) -> bool:
    biased = last.bias is None and g.bias is None
    if last.bias is not None and g.bias is not None:
        biased = g.bias == (last.bias[0], last.bias[1] + last.rows)
    same = (last.matrix, last.argument, last.blocks, last.row + last.rows) == (g.matrix, g.argument, 1, g.row)
    return same and biased and (*last.delta[:2], last.delta[2] + last.rows) == g.delta


def _unit_gradients(
    compiled: Compiled, own: Sequence[Tensor], d_own: list[Tensor | None], kept: Tensor, sums: Tensor, wanted: Any
) -> dict[Any, Tensor]:
    """The gradients of what all sequences share: from the loop's sums, and from δ and the arguments of products.

    Returns the sums of δ over rows that were needed on the way, by where δ is.
    """
    totals: dict[Any, Tensor] = {}

    def rows(space: str, tensor: int, column: int, width: int) -> Tensor:
        whole = kept if space == "kept" else d_own[tensor]
        assert whole is not None
        return whole.flatten(0, 1)[:, column : column + width]

    def gradient(tensor: int) -> Tensor:
        found = d_own[tensor]
        if found is None:
            found = d_own[tensor] = torch.zeros_like(own[tensor])
        return found

    for (tensor, start, width), at in zip(compiled.plan.sums, compiled.sums, strict=True):
        if wanted[tensor]:
            gradient(tensor).view(-1)[start : start + width] += sums[at : at + width]
    for g in compiled.groups:
        δ = rows(*g.delta, g.rows)
        if wanted[g.matrix]:
            argument = rows(*g.argument)
            if g.blocks == 1:
                whole = d_own[g.matrix] is None and own[g.matrix].shape[0] == g.rows
                if whole:
                    d_own[g.matrix] = _multiply(δ, argument, True)
                else:
                    _multiply(δ, argument, True, gradient(g.matrix)[g.row : g.row + g.rows])
            else:
                blocks = (m.unflatten(1, (g.blocks, -1)) for m in (δ, argument))
                gradient(g.matrix)[g.row : g.row + g.rows] += torch.einsum("rnm,rnk->nmk", *blocks).flatten(0, 1)
        if g.bias is not None and wanted[g.bias[0]]:
            total = totals[*g.delta, g.rows] = δ.sum(0)
            gradient(g.bias[0]).view(-1)[g.bias[1] : g.bias[1] + g.rows] += total
    return totals


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
    old, outputs = list(state), [state[0]] * steps
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
        if what == "projected":
            parts = tensor[t].split(list(program.gates.values()), -1)
            leaves |= {("input", gate): part for gate, part in zip(program.gates, parts, strict=True)}
        elif what in ("side", "zone", "clamp", "held"):
            leaves[what, name] = tensor[t]
        elif what == "mask":
            leaves["mask", None] = tensor
    return leaves
