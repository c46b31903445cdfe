"""The time loop: any cell, one direction, with lengths, restarts and zoneout. Written once, for every cell.

This is the reference path: plain torch operations, so that autograd, double backward, `torch.func` and
`torch.compile` all see through it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from ..cells.spec import PAST_INPUTS, Cell, CellTypeError, CellValueError, Let, State, Weights, unnamed

Steps = Tensor | list[Tensor]  # (T, B, *shape), whole or step by step


@dataclass
class Run:
    """Everything about one direction of one layer but its input: what the loop needs beside the cell."""

    state: (
        State | None
    )  # before the first step: (B, *shape) for each of the cell's states; None, zeros, to kernels only
    restart_state: State | None  # after a restart: (B, *shape) each
    reverse: bool = False
    active: Tensor | None = None  # (T, B) bool: false past a sequence's end
    restart: Tensor | None = None  # (T, B) bool: the state restarts before this step
    zoneout: Zoneout | None = None
    let_at: Callable[[int], Let] | None = None  # what names values at step t; None: nothing is recorded
    side: tuple[Tensor, ...] = ()  # the cell's side inputs: (T, B, *shape) each


@dataclass
class Zoneout:
    """Units that keep their previous value: drawn by `keep` in training, in expectation (`rate`) otherwise."""

    rate: dict[str, float]
    keep: dict[str, Tensor] = field(default_factory=dict)  # (T, B, *shape) bool for each state that has a rate

    def mix(self, t: int, name: str, new: Tensor, old: Tensor) -> Tensor:
        if name in self.keep:
            return torch.where(self.keep[name][t], old, new)
        rate = self.rate.get(name, 0.0)
        return new if rate == 0.0 else rate * old + (1 - rate) * new


@dataclass
class Unrolled:
    """What one direction of one layer gives."""

    output: Tensor  # (T, B, P), zero past a sequence's end
    state: State  # after each sequence's last step
    states: Mapping[str, Steps]  # the state of every step, by name


def unroll(cell: Cell, w: Weights, x: Tensor, run: Run) -> Unrolled:
    """Run `cell` over `x` (T, B, I), forwards or in reverse."""
    assert run.state is not None and run.restart_state is not None
    steps = range(x.shape[0])
    order = reversed(steps) if run.reverse else steps
    whole, past = project(cell, w, x, run)
    state, restart_state = (s[: len(cell.own_states)] for s in (run.state, run.restart_state))
    # unbind, not indexing: the gradient of x[t] is as large as x, and T of those would cost T² memory traffic
    projected = whole.unbind(0)
    sides = list(zip(*(side.unbind(0) for side in run.side), strict=True)) or [()] * len(steps)
    active, restart = (None if mask is None else mask.unbind(0) for mask in (run.active, run.restart))
    zoned = {} if run.zoneout is None else run.zoneout.rate
    made: list[State] = [()] * len(steps)
    for t in order:
        if restart is not None:
            state = where(restart[t], restart_state, state)
        let = unnamed if run.let_at is None else run.let_at(t)
        new = cell.step(cell.inputs(projected[t], sides[t]), state, w, except_for(zoned, let))
        new = checked(cell, new, state)
        if run.zoneout is not None:
            new = tuple(
                let(name, run.zoneout.mix(t, name, n, s)) if name in zoned else n
                for name, n, s in zip(cell.own_states, new, state, strict=True)
            )
        made[t] = new  # before lengths part it from what is carried: h is made from this c
        state = new if active is None else where(active[t], new, state)
    output = torch.stack([s[0] for s in made])
    if run.active is not None:
        output = torch.where(run.active.unsqueeze(-1), output, 0)
    states: dict[str, Steps] = {name: [s[k] for s in made] for k, name in enumerate(cell.own_states)}
    return Unrolled(output, state, states) if past is None else past.joined(Unrolled(output, state, states))


@dataclass
class Past:
    """The past inputs of a cell with an `input_window`: a state that is known before the loop."""

    steps: list[Tensor]  # after every step: (B, n, I)
    last: Tensor

    def joined(self, unrolled: Unrolled) -> Unrolled:
        """With this state after the others."""
        states = {**unrolled.states, PAST_INPUTS: self.steps}
        return Unrolled(unrolled.output, (*unrolled.state, self.last), states)


def project(cell: Cell, w: Weights, x: Tensor, run: Run) -> tuple[Tensor, Past | None]:
    """The input's part of every gate, (T, B, ·), and the past inputs, if the cell sees them."""
    if not cell.input_window:
        return cell.project_input(x, w), None
    assert run.state is not None and run.restart_state is not None
    x, steps, last = windows(x, run.state[-1], run.restart_state[-1], run)
    return cell.project_input(x, w), Past(steps, last)


def windows(x: Tensor, past: Tensor, restart: Tensor, run: Run) -> tuple[Tensor, list[Tensor], Tensor]:
    """x (T, B, I) with the n inputs before each, (T, B, 1 + n, I), latest first; the past after every step and at the
    end, (B, n, I). `past` and `restart`, (B, n, I), stand before the first step and after a restart."""
    steps, inputs = range(x.shape[0]), x.unbind(0)
    seen, after = [x] * len(steps), [past] * len(steps)
    for t in reversed(steps) if run.reverse else steps:
        if run.restart is not None:
            (past,) = where(run.restart[t], (restart,), (past,))
        seen[t] = torch.cat((inputs[t].unsqueeze(1), past), 1)
        after[t] = seen[t][:, :-1]
        past = after[t] if run.active is None else where(run.active[t], (after[t],), (past,))[0]
    return torch.stack(seen), after, past


def checked(cell: Cell, new: State, state: State) -> State:
    """What a cell's step returned, refused unless it is a state like the one before."""
    if not isinstance(new, tuple) or len(new) != len(state):
        given = f"a tuple of {len(new)}" if isinstance(new, tuple) else type(new).__name__
        raise CellTypeError(f"{cell!r}.step must return a tuple with every state, {cell.own_states}, got {given}")
    for name, n, s in zip(cell.own_states, new, state, strict=True):
        if n.shape != s.shape:
            raise CellValueError(
                f"{cell!r}.step returned {name} of shape {tuple(n.shape)} from one of {tuple(s.shape)}"
            )
        if n.is_complex() != s.is_complex():
            raise CellValueError(f"{cell!r}.step returned {name} as {n.dtype} from one of {s.dtype}")
    return new


def except_for(names: Collection[str], let: Let) -> Let:
    """`let` that leaves `names` alone: a zoned state gets its name when it is mixed, not as the cell proposes it."""
    return let if not names else lambda name, value: value if name in names else let(name, value)


def where(mask: Tensor, yes: State, no: State) -> State:
    """`yes` for the sequences of `mask` (B), `no` for the others; states are (B, *shape)."""
    return tuple(torch.where(_over(mask, y), y, n) for y, n in zip(yes, no, strict=True))


def _over(mask: Tensor, value: Tensor) -> Tensor:
    """`mask` with a dimension of 1 for each of `value` that it lacks."""
    return mask.reshape(*mask.shape, *[1] * (value.dim() - mask.dim()))
