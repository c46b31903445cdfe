"""Looking inside: what every gate and state was at every step, and changing it on the way."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from ..cells.spec import Cell, Let
from ..errors import ArgumentError
from ..ops.backend import empty_from_pool
from ..ops.views import Views
from .batch import Batch
from .paths import ExecutionPath
from .unroll import Steps, Unrolled

Seen = Mapping[str, Steps]  # what was seen in one direction of one layer, by name


@dataclass(repr=False)
class Trace:
    """One run of a layer, all of it in view.

    `output` and `state` are what the layer's call returns, `cell` is the layer's. `gates` and `states` hold, by the
    names in the cell's equations, one (layers·directions, T, B, H) tensor each (a matrix state has its own shape after
    B), time first whatever `batch_first` says, zero past a sequence's end; index 2·k is layer k's forward direction and
    2·k + 1 its reverse in a bidirectional layer. A state is also an attribute: `trace.c`. `gradients`, if they were
    asked for, has ∂L/∂(value) under the same names. `path` says which code ran, as `layer.path` does.
    """

    output: Any
    state: Any
    gates: Mapping[str, Tensor]
    states: Mapping[str, Tensor]
    gradients: Mapping[str, Tensor] = field(default_factory=lambda: NoGradients())
    loss: Tensor | None = None
    cell: Cell | None = None
    path: ExecutionPath | None = None
    tokens: tuple[tuple[str, ...], ...] = ()  # the steps of each sequence, in a trace of a text model

    def __getattr__(self, name: str) -> Tensor:
        states = self.__dict__.get("states", {})
        if name in states:
            return states[name]
        raise AttributeError(f"this trace has no '{name}'; its states are {', '.join(states)}")

    def __repr__(self) -> str:
        shape = "×".join(map(str, next(iter(self.states.values())).shape))
        names = [f"{kind} {' '.join(d)}" for kind in ("gates", "states", "gradients") if (d := getattr(self, kind))]
        return f"Trace({'; '.join(names)}; {shape}: layer·direction, step, sequence, unit)"


Choice = int | tuple[int, int] | slice | Sequence[int] | Tensor | None


@dataclass(frozen=True)
class Clamp:
    """Hold a gate or state at `value` for some units of some sequences over some steps.

    `steps`, `units` and `sequences` (positions in the batch) are an index, a (start, stop) tuple, a slice, a list or
    tensor of indices, a bool tensor that is true at those that are held, or None for all; `layer` and `direction`
    (0 forward, 1 reverse) are an index or None for all. `value` is a number, or a tensor that broadcasts to
    (steps, sequences, units) as they are chosen, such as a piece of another trace.

    >>> Clamp("f", 1.0, steps=(10, 20))            # forget nothing from step 10 to 19
    Clamp(name='f', value=1.0, steps=(10, 20), units=None, sequences=None, layer=None, direction=None)
    >>> clamp = Clamp("c", 0.0, units=[3, 17, 40], sequences=1)     # three units, in the second sequence alone
    """

    name: str
    value: float | Tensor
    steps: Choice = None
    units: Choice = None
    sequences: Choice = None
    layer: int | None = None
    direction: int | None = None

    def check(self, layer: Any, steps: int, size: int) -> None:
        """Refuse a clamp that means nothing in `layer` on `size` sequences of `steps` steps."""
        names = (*layer.cell.states, *(g for g in layer.cell.gates if g not in layer.cell.states))
        if self.name not in names:
            raise ArgumentError(f"Clamp: {type(layer).__name__} has no gate or state {self.name!r}; it has {names}")
        shape = layer.state_shape(self.name) if self.name in layer.cell.states else (layer.hidden_size,)
        for what, chosen, available in (("layer", self.layer, layer.num_layers),
                                        ("direction", self.direction, layer.num_directions)):  # fmt: skip
            if not isinstance(chosen, int | None) or isinstance(chosen, bool):
                raise TypeError(f"Clamp: {what} must be an index or None, got {chosen!r}")
            _indices(what, chosen, available)
        room = (
            len(_indices("steps", self.steps, steps)),
            len(_indices("sequences", self.sequences, size)),
            *shape[:-1],
            len(_indices("units", self.units, shape[-1])),
        )
        if not isinstance(self.value, int | float | Tensor):
            raise TypeError(f"Clamp: value must be a number or a Tensor, got {self.value!r}")
        if isinstance(self.value, Tensor):
            try:
                self.value.expand(room)
            except RuntimeError:
                given = tuple(self.value.shape)
                raise ArgumentError(
                    f"Clamp: value must broadcast to (steps, sequences, units) {room}, got {given}"
                ) from None

    @property
    def alike(self) -> bool:
        """Whether it holds the same for all sequences, at what is not differentiated."""
        if not isinstance(self.value, Tensor):
            return self.sequences is None
        one = self.value.dim() < 2 or self.value.shape[-2] == 1
        return self.sequences is None and one and not self.value.requires_grad

    @property
    def is_block(self) -> bool:
        """Whether it holds a block of steps and units, of all sequences, at one number."""
        spans = (self.steps, self.units)
        return self.alike and not isinstance(self.value, Tensor) and all(_is_span(span) for span in spans)

    def block(self, steps: int, units: int) -> tuple[int, int, int, int]:
        """First and last step and unit of a block, the last ones not included."""
        at, of = _indices("steps", self.steps, steps), _indices("units", self.units, units)
        return at[0], at[-1] + 1, of[0], of[-1] + 1

    def sorted(self, batch: Batch) -> Clamp:
        """This clamp with its sequences counted in the order of `batch`."""
        order = None if batch.packed is None else batch.packed.unsorted_indices
        if order is None or (self.sequences is None and not isinstance(self.value, Tensor)):
            return self
        return replace(self, sequences=order[list(_indices("sequences", self.sequences, batch.size))].tolist())

    def applies(self, owner: Any, layer: int, direction: int) -> bool:
        """Whether this clamp concerns `layer` and `direction` of `owner`."""
        return layer in _indices("layer", self.layer, owner.num_layers) and direction in _indices(
            "direction", self.direction, owner.num_directions
        )

    def apply(self, t: int, steps: int, value: Tensor) -> Tensor:
        """`value` (B, S) at step `t`, with this clamp's units replaced if `t` is one of its steps."""
        span = _indices("steps", self.steps, steps)
        if t not in span:
            return value
        rows, units = (
            torch.tensor(_indices(what, chosen, value.shape[dim]), device=value.device)
            for what, chosen, dim in (("sequences", self.sequences, 0), ("units", self.units, -1))
        )
        held = torch.as_tensor(self.value, dtype=value.dtype, device=value.device)
        held = held.expand(len(span), len(rows), *value.shape[1:-1], len(units))[span.index(t)]
        return value.index_copy(0, rows, value.index_select(0, rows).index_copy(-1, units, held))


def clamp_planes(clamps: Sequence[Clamp], shape: tuple[int, int, int], like: Tensor) -> tuple[Tensor, Tensor]:
    """Where values (T, B, S) are held by `clamps`, as 1 and 0, and at what: (T, B, S) each, of the type of `like`."""
    mask, held = empty_from_pool(like, *shape).zero_(), empty_from_pool(like, *shape)  # read only where it is held
    for clamp in clamps:
        chosen = (
            _indices(what, choice, available)
            for what, choice, available in zip(
                ("steps", "sequences", "units"), (clamp.steps, clamp.sequences, clamp.units), shape, strict=True
            )
        )
        at = _block(tuple(chosen))
        mask[at] = 1.0
        held[at] = torch.as_tensor(clamp.value, dtype=like.dtype, device=like.device)
    return mask, held


def _is_span(chosen: Choice) -> bool:
    """Whether it chooses indices that follow one another."""
    if isinstance(chosen, slice):
        return chosen.step is None or chosen.step == 1
    return chosen is None or isinstance(chosen, int | tuple)


def _block(chosen: tuple[Sequence[int], ...]) -> tuple[Any, ...]:
    """Indices of each dimension as one index into a tensor: slices where that is possible."""
    if all(isinstance(span, range) and span.step > 0 for span in chosen):
        return tuple(slice(span.start, span.stop, span.step) for span in chosen if isinstance(span, range))
    return tuple(
        torch.tensor(span).reshape(*[1] * k, -1, *[1] * (len(chosen) - 1 - k)) for k, span in enumerate(chosen)
    )


def _indices(what: str, chosen: Choice, available: int) -> Sequence[int]:
    """The indices below `available` that are chosen; an error if there are none, or one does not exist."""
    if chosen is None:
        return range(available)
    if isinstance(chosen, tuple):
        if len(chosen) != 2:
            raise TypeError(f"Clamp: {what}={chosen!r}: a tuple is (start, stop); give indices as a list")
        if any(edge is not None and abs(edge) > available for edge in chosen):
            raise ArgumentError(f"Clamp: {what}={chosen!r} is out of range 0..{available - 1}")
    if isinstance(chosen, slice | tuple):
        span = range(*(chosen if isinstance(chosen, slice) else slice(*chosen)).indices(available))
        if not span:
            raise ArgumentError(f"Clamp: {what}={chosen!r} chooses nothing among 0..{available - 1}")
        return span
    numbers: Any = chosen
    if isinstance(chosen, Tensor) and chosen.dtype == torch.bool:
        if chosen.shape != (available,):
            raise ArgumentError(
                f"Clamp: {what} as a bool tensor must be of shape ({available},), got {tuple(chosen.shape)}"
            )
        numbers = chosen.nonzero().flatten()
    try:
        given = [operator.index(n) for n in ([numbers] if isinstance(numbers, int) else numbers)]
    except TypeError:
        given = [True]
    if isinstance(chosen, bool) or any(isinstance(n, bool) for n in given):
        raise TypeError(
            f"Clamp: {what} must be an index, a (start, stop) pair, a slice, or a list or tensor of indices, "
            f"got {chosen!r}"
        )
    at = [n + available if n < 0 else n for n in given]
    if not at or not all(0 <= n < available for n in at):
        problem = "is out of range" if at else "chooses nothing among"
        raise ArgumentError(f"Clamp: {what}={chosen!r} {problem} 0..{available - 1}")
    if len(set(at)) < len(at):
        raise ArgumentError(f"Clamp: {what}={chosen!r} has an index twice")
    return at


class Watch:
    """Records what `let` names in one direction of one layer, and applies the clamps that concern it."""

    def __init__(self, steps: int, clamps: Sequence[Clamp]):
        self.steps = steps
        self.clamps = clamps
        self.named: dict[str, list[Tensor]] = {}  # T tensors (B, S) each

    def let_at(self, t: int) -> Let:
        def let(name: str, value: Tensor) -> Tensor:
            value = value.view_as(
                value
            )  # its derivative is that of what follows, not of an earlier use of the same tensor
            for clamp in self.clamps:
                if clamp.name == name:
                    value = clamp.apply(t, self.steps, value)
            self.named.setdefault(name, [value] * self.steps)[t] = value
            return value

        return let

    def seen(self, cell: Cell, unrolled: Unrolled) -> Seen:
        """What was named, and the states: T tensors (B, S) each."""
        for clamp in self.clamps:
            if clamp.name not in self.named:
                raise ArgumentError(f"Clamp: {cell!r}.step never names {clamp.name!r} with let")
        return {**self.named, **unrolled.states}


class NoGradients(dict[str, Tensor]):
    """The gradients of a trace that was not asked for them."""

    def __missing__(self, name: str) -> Tensor:
        raise KeyError(f"{name!r}: this trace has no gradients; ask for them with trace(..., gradients_of=loss)")


class Planes(Mapping[str, Tensor]):
    """What was seen, by name; a (layers·directions, T, B, S) tensor is put together when it is first asked for.

    Until then it costs nothing: the parts are what the run computed anyway.
    """

    def __init__(self, batch: Batch, names: Sequence[str], seen: Sequence[Seen]):
        self._batch = batch
        self._names = names
        self._seen = seen  # layer·direction → name → (T, B, S)
        self._whole: dict[str, Tensor] = {}

    def __getitem__(self, name: str) -> Tensor:
        if name not in self._names:
            raise KeyError(f"{name!r}: there are only {', '.join(map(repr, self._names))}")
        if name not in self._whole:
            steps = (own[name] for own in self._seen)
            parts = [s if isinstance(s, Tensor) else torch.stack(s) for s in steps]
            whole = parts[0].unsqueeze(0) if len(parts) == 1 else torch.stack(parts)
            active = self._batch.active
            if active is not None:
                whole = torch.where(active.reshape(*active.shape, *[1] * (whole.dim() - 3)), whole, 0)
            self._whole[name] = self._batch.unsort(whole, 2).detach()
        return self._whole[name]

    def __or__(self, other: Mapping[str, Tensor]) -> dict[str, Tensor]:
        return {**self, **other}

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def assemble(
    cell: Cell,
    batch: Batch,
    output: Any,
    state: Any,
    seen: Sequence[Seen],
    loss_fn: Callable[..., Tensor] | None,
    path: ExecutionPath,
    kept: Sequence[list[Views]] | None = None,
) -> Trace:
    """Put what was seen in each layer and direction into one Trace, differentiating `loss_fn` if there is one.

    `seen` has, for each layer and direction, the steps of each value by name; to differentiate, one tensor a step, or
    else `kept` has what receives ∂L/∂(value) by name when the input is differentiated by.
    """
    gates = [name for name in seen[0] if name not in cell.states]
    states = Planes(batch, tuple(cell.states), seen)
    trace = Trace(output, state, Planes(batch, gates, seen), states, cell=cell, path=path)
    if loss_fn is not None:
        loss = _loss(loss_fn, output, state)
        gradients: Sequence[Mapping[str, Any]]
        gradients = _by_steps(loss, seen) if kept is None else _by_nodes(loss, batch, seen, kept)
        trace = replace(
            trace,
            output=_detach(output),
            state=_detach(state),
            gradients=Planes(batch, tuple(seen[0]), gradients),
            loss=loss.detach(),
        )
    return trace


def _by_steps(loss: Tensor, seen: Sequence[Seen], also: Sequence[Tensor] = ()) -> list[Seen]:
    """∂L/∂(value) of values that are tensors of a graph, one a step; the graph is followed down to `also` too."""
    flat = [step for own in seen for steps in own.values() for step in steps if step.requires_grad]
    found = iter(torch.autograd.grad(loss, [*flat, *also], allow_unused=True, materialize_grads=True))
    return [  # what depends on nothing that is differentiated has none
        {name: [next(found) if s.requires_grad else torch.zeros_like(s) for s in steps] for name, steps in own.items()}
        for own in seen
    ]


def _by_nodes(loss: Tensor, batch: Batch, seen: Sequence[Seen], kept: Sequence[list[Views]]) -> list[Mapping[str, Any]]:
    """The same of values inside the nodes of a graph, which hand them out into `kept` as they are differentiated.

    What is given step by step (past inputs) is outside of the nodes.
    """
    outside: list[Seen] = [
        {} if isinstance(own, Views) else {name: steps for name, steps in own.items() if isinstance(steps, list)}
        for own in seen
    ]
    beside = _by_steps(loss, outside, [batch.x])
    return [Found(own, [more, *held]) for own, held, more in zip(seen, kept, beside, strict=True)]


class Found(Mapping[str, Any]):
    """Gradients of what was seen, as they were found; zeros where there is none."""

    def __init__(self, seen: Seen, found: Sequence[Mapping[str, Any]]):
        self._seen, self._found = seen, found

    def __getitem__(self, name: str) -> Any:
        for each in self._found:
            if name in each:
                return each[name]
        return torch.zeros_like(self._seen[name])  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[str]:
        return iter(self._seen)

    def __len__(self) -> int:
        return len(self._seen)


def _loss(loss_fn: Callable[..., Tensor], output: Any, state: Any) -> Tensor:
    """loss_fn(output), or loss_fn(output, state) if it needs two arguments."""
    if not callable(loss_fn):
        raise TypeError(f"gradients_of must be a function of the output (and state), got {type(loss_fn).__name__}")
    try:
        given = inspect.signature(loss_fn).parameters.values()
        positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        takes_state = sum(p.kind in positional and p.default is p.empty for p in given) > 1
    except ValueError:  # a builtin such as torch.sum does not tell
        takes_state = False
    loss = loss_fn(output, state) if takes_state else loss_fn(output)
    if not isinstance(loss, Tensor) or loss.numel() != 1:
        got = f"a Tensor of shape {tuple(loss.shape)}" if isinstance(loss, Tensor) else type(loss).__name__
        raise ArgumentError(f"gradients_of must return one number as a Tensor, a loss; it returned {got}")
    if not loss.requires_grad:
        raise ArgumentError("gradients_of: the loss does not depend on the layer's output or state")
    return loss


def _detach(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.detach()
    if hasattr(value, "_replace"):  # PackedSequence
        return value._replace(data=value.data.detach())
    return tuple(v.detach() for v in value)
