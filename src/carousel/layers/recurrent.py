"""Layers, directions, dropout, state, tracing: everything that turns a cell into a module, for every cell alike."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from ..cells.spec import PAST_INPUTS, Cell, CellTypeError, ParameterSpec, Sizes, State, Weights
from ..ops.dropout import dropout
from ..ops.views import Views
from . import arguments, native, onnx, programs, torch_operators
from .batch import Batch, read, read_state
from .module import CellModule
from .paths import ExecutionPath
from .trace import Clamp, Seen, Trace, Watch, assemble
from .unroll import Run, Unrolled, Zoneout, unroll

MERGES: dict[str, Callable[[list[Tensor]], Tensor]] = {
    "concat": lambda directions: torch.cat(directions, -1),
    "sum": lambda directions: directions[0] + directions[1],
    "mean": lambda directions: (directions[0] + directions[1]) / 2,
}

NO_DROPOUT = (
    "dropout option adds dropout after all but last recurrent layer, so non-zero dropout expects "
    "num_layers greater than 1, but got dropout={dropout} and num_layers=1"
)


class Recurrent(CellModule):
    """A stack of recurrent layers made from one cell.

    The positional arguments after `cell`, the parameter names and shapes, and the layout of input, output and
    state are those of `torch.nn.LSTM`. With H = hidden_size, P = proj_size or H, D = 2 if bidirectional else 1:

    * input (T, B, input_size), (B, T, input_size) with `batch_first`, (T, input_size), or a PackedSequence;
    * output the same with D·P (or P when `merge` is "sum" or "mean") features;
    * each state (num_layers·D, B, P) for the first of the cell's states and (num_layers·D, B, H) for the others,
      unless the cell gives them other shapes; a tensor if the cell has one state, a tuple if it has several;
    * side inputs, if the cell has any, by name in the call: in the layout of the input, their own shape in the place of
      its features.

    Keyword-only:

    * `merge`: how two directions join, in every layer: "concat", "sum" or "mean".
    * `variational`: `dropout` draws one mask for a whole sequence, not one for each step.
    * `recurrent_dropout`: probability that a unit of h₋ is hidden from all gates; one mask for a whole sequence.
    * `zoneout`: probability that a unit keeps its previous value, a number for all states or a dict by name; in
      evaluation its expectation.
    * `weight_drop`: probability that an entry of the recurrent weights is dropped; one mask for each call.
    * `forget_bias`: the bias of the gate that keeps the past (f of an LSTM, z of a GRU) at initialisation; None is the
      cell's own (1 for LSTM kinds).
    * `init`: "carousel", or "torch" for the very numbers that torch's layer has after the same seed: no forget bias.
    * `learn_initial_state`: the state before the first step is a parameter, not zero.

    >>> layer = Recurrent(carousel.cells.LSTM(), 10, 20, num_layers=2)
    >>> y, (h, c) = layer(torch.randn(5, 3, 10), lengths=[5, 0, 2])
    >>> y.shape, h.shape
    (torch.Size([5, 3, 20]), torch.Size([2, 3, 20]))
    """

    first_suffix = "_l0"

    def __init__(
        self,
        cell: Cell,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Any = None,
        dtype: Any = None,
        *,
        merge: str = "concat",
        variational: bool = False,
        recurrent_dropout: float = 0.0,
        zoneout: float | Mapping[str, float] = 0.0,
        weight_drop: float = 0.0,
        forget_bias: float | None = None,
        init: str = "carousel",
        learn_initial_state: bool = False,
        **unknown: Any,
    ) -> None:
        nn.Module.__init__(self)  # not super: a layer may be torch's as well, see drop_in.py
        arguments.check_known(type(self), unknown)
        rates = {"dropout": dropout, "recurrent_dropout": recurrent_dropout, "weight_drop": weight_drop}
        flags = {"bias": bias, "batch_first": batch_first, "bidirectional": bidirectional, "variational": variational,
                 "learn_initial_state": learn_initial_state}  # fmt: skip
        counts = {"input_size": input_size, "hidden_size": hidden_size, "num_layers": num_layers}
        arguments.check_layer(type(self).__name__, cell, counts, flags, rates, proj_size, forget_bias)
        arguments.check_choice("merge", merge, MERGES)
        arguments.check_dtype(dtype)
        if dropout > 0 and num_layers == 1:  # the warning is for the line that made the layer
            warnings.warn(NO_DROPOUT.format(dropout=dropout), stacklevel=2 if type(self) is Recurrent else 3)

        self.cell = cell
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = float(dropout)
        self.bidirectional = bidirectional
        self.proj_size = proj_size
        self.merge = merge
        self.variational = variational
        self.recurrent_dropout = float(recurrent_dropout)
        self.zoneout = arguments.zoneout_rates(cell, zoneout)
        self.weight_drop = float(weight_drop)
        self._choose_forget_bias(init, forget_bias)
        self.learn_initial_state = learn_initial_state
        self._names = tuple(specs := self._specs(0))  # of one layer and direction's parameters, without suffix
        self._complex = tuple(name for name, spec in specs.items() if spec.dtype == "complex")
        self._buffer_names = tuple(cell.buffers(self._sizes(0)))
        self._check_stack()
        for layer, direction in self._grid():
            self._register_set(suffix(layer, direction), self._specs(layer), self._sizes(layer), device, dtype)
        self._look_like_torch()
        self.reset_parameters()

    # ---- parameters ----

    @property
    def num_directions(self) -> int:
        return 2 if self.bidirectional else 1

    @property
    def output_size(self) -> int:
        """Features of the output: P for each direction, joined by `merge`."""
        size = self.proj_size or self.hidden_size
        return size * self.num_directions if self.merge == "concat" else size

    def join(self, directions: list[Tensor]) -> Tensor:
        """The outputs of both directions as `merge` says."""
        return MERGES[self.merge](directions)

    def state_shape(self, name: str) -> tuple[int, ...]:
        """The shape of the state `name` without layers and batch: (P) for the output, (H) or the cell's own."""
        sizes = self._sizes(0)
        shape = self.cell.states[name].shape
        return shape(sizes) if shape else (sizes.projected if name == self.cell.output else sizes.hidden,)

    def state_dtype(self, name: str, dtype: torch.dtype) -> torch.dtype:
        """The type of the state `name` in a layer of `dtype`."""
        return dtype.to_complex() if self.cell.states[name].dtype == "complex" else dtype

    def side_shape(self, name: str) -> tuple[int, ...]:
        """The shape of the side input `name` without steps and batch."""
        return self.cell.side_inputs[name].shape(self._sizes(0))

    def _sizes(self, layer: int) -> Sizes:
        """The sizes of one direction of `layer`."""
        inputs = self.output_size if layer else self.input_size
        return Sizes(inputs, self.hidden_size, self.proj_size or self.hidden_size, self.bias)

    def _check_stack(self) -> None:
        """Refuse a stack whose layers would need states or side inputs of different shapes."""
        if self.num_layers == 1:
            return
        first, above = self._sizes(0), self._sizes(1)
        shapes = {f"the state {name!r}": spec.shape for name, spec in self.cell.states.items() if spec.shape}
        shapes |= {f"the side input {name!r}": spec.shape for name, spec in self.cell.side_inputs.items()}
        for what, shape in shapes.items():
            if shape(first) != shape(above):
                raise ValueError(
                    f"num_layers={self.num_layers}: {what} of {self.cell!r} depends on the input size, which is "
                    f"{first.input} below and {above.input} above; stack layers of their own instead"
                )

    def _grid(self) -> Iterator[tuple[int, int]]:
        """(layer, direction) in the order of torch's states and parameters."""
        return ((layer, direction) for layer in range(self.num_layers) for direction in range(self.num_directions))

    def _specs(self, layer: int) -> dict[str, ParameterSpec]:
        """The parameters of one direction of `layer`, by name without suffix, in torch's order."""
        specs = {}
        declared = self.cell.parameters(self._sizes(layer))
        if "weight_ih" not in declared:
            name = repr(self.cell)
            raise CellTypeError(f"{name}.parameters has no weight_ih; extend it: super().parameters(sizes) | {{…}}")
        for name, given in declared.items():
            if name.startswith("initial_") or name in self.cell.buffers(self._sizes(layer)):
                raise ValueError(f"{self.cell!r}.parameters: {name!r} is the name of something else; choose another")
            specs[name] = given if isinstance(given, ParameterSpec) else ParameterSpec(tuple(given))
        if self.learn_initial_state:
            for name in self.cell.own_states:
                specs[f"initial_{name}"] = ParameterSpec(self.state_shape(name), self.cell.states[name].dtype)
        return specs

    def _parameters_of(self, layer: int, direction: int) -> dict[str, Tensor]:
        """The parameters of one layer and direction as they are stored, by name without suffix."""
        return self._parameters_at(suffix(layer, direction))

    def reset_parameters(self) -> None:
        """Initialise as torch does (the same seed gives the same numbers), then the forget bias.

        A cell's `initialise` sees a complex parameter as it is stored: (..., 2), real and imaginary part.
        """
        for layer, direction in self._grid():
            own = self._parameters_of(layer, direction)
            learned = {name: own.pop(name) for name in list(own) if name.startswith("initial_")}
            self.cell.initialise(own, self._sizes(layer), self.forget_bias)
            for name, value in learned.items():
                nn.init.zeros_(value)
                real = value[..., 0] if name in self._complex else value
                nn.init.constant_(real, self.cell.states[name.removeprefix("initial_")].initial)

    @property
    def all_weights(self) -> list[list[Tensor]]:
        """The parameters of each layer and direction, as `torch.nn.LSTM.all_weights`."""
        return [list(self._parameters_of(*at).values()) for at in self._grid()]

    def flatten_parameters(self) -> None:
        """For programs written for `torch.nn`; there is nothing to flatten here."""

    def __setattr__(self, name: str, value: Any) -> None:
        """Take a number for zoneout, as the constructor does."""
        if name == "zoneout" and not isinstance(value, dict):
            value = arguments.zoneout_rates(self.cell, value)
        super().__setattr__(name, value)

    # ---- running ----

    def forward(
        self, input: Any, hx: Any = None, lengths: Any = None, reset: Any = None, **side: Any
    ) -> tuple[Any, Any]:
        """Run over whole sequences; returns output and final state in torch's layout.

        `lengths` (B), in any order, zero allowed: outputs past a sequence's end are zero, its final state is that
        of its last real step, and its reverse direction starts there. `reset`, bool in the layout of `input`
        without its features: where true, a new sequence starts at that step, from the initial state (not `hx`).
        `side` has the cell's side inputs by name.
        """
        may_be_plain = reset is None and not side and not torch.compiler.is_compiling()
        call_plainly = (native if self.cell.kernel() else programs).call_plainly
        if may_be_plain and lengths is None:
            plain = call_plainly(self, input, hx)
            if plain is not None:
                return plain
        batch = read(self, input, lengths, reset, side)
        if may_be_plain and lengths is not None and batch.lengths is None:  # all sequences have all steps
            plain = call_plainly(self, input, hx)
            if plain is not None:
                return plain
        state = None if hx is None else read_state(self, hx, batch)
        path, _ = self._choose(batch, state)
        if path in ("cudnn", "torch"):
            output, final = torch_operators.run(self, batch.x, state or self._initial(batch))
        elif path == "onnx":
            output, final = onnx.run(self, batch, state or self._initial(batch))
        else:
            output, final, _ = self._run(batch, state, by=self._runner(path))
        return self._give(batch, output, final)

    def step(self, input: Tensor, state: Any = None, **side: Tensor) -> tuple[Tensor, Any]:
        """One step of a stream: input (B, input_size) or (input_size); returns the output and the new state.

        The numbers are those of the sequence call on the same inputs; `state` is in its layout, `side` has the cell's
        side inputs of this step, (B, *shape).
        """
        if not (torch.is_grad_enabled() or side or torch.compiler.is_compiling()) and isinstance(input, Tensor):
            stepped = (native if self.cell.kernel() else programs).step(self, input, state)
            if stepped is not None:
                return stepped
        if self.bidirectional:
            raise ValueError(f"{type(self).__name__}.step: a bidirectional layer needs the whole sequence")
        if self.training and (self.recurrent_dropout or self.weight_drop):
            raise ValueError(
                f"{type(self).__name__}.step: recurrent_dropout and weight_drop draw one mask for a whole sequence; "
                "call eval() first, or run the sequence in one call"
            )
        if not isinstance(input, Tensor) or input.dim() not in (1, 2):
            given = f"{input.dim()}D tensor" if isinstance(input, Tensor) else type(input).__name__
            raise ValueError(f"{type(self).__name__}.step: Expected input to be 1D or 2D, got {given} instead")
        time = 1 if self.batch_first and input.dim() == 2 else 0
        output, state = self(input.unsqueeze(time), state, **{n: v.unsqueeze(time) for n, v in side.items()})
        return output.squeeze(time), state

    def trace(
        self,
        input: Any,
        hx: Any = None,
        *,
        lengths: Any = None,
        reset: Any = None,
        gradients_of: Callable[..., Tensor] | None = None,
        **side: Any,
    ) -> Trace:
        """Run as a call would, and keep every gate and state: see :class:`Trace`.

        With `gradients_of=loss_fn`, where `loss_fn(output)` or `loss_fn(output, state)` is one number, the trace
        also has the total derivative of that loss with respect to every gate and state at every step.
        """
        return self._watched((), read(self, input, lengths, reset, side), hx, gradients_of)

    def intervene(
        self,
        input: Any,
        *clamps: Clamp,
        hx: Any = None,
        lengths: Any = None,
        reset: Any = None,
        gradients_of: Callable[..., Tensor] | None = None,
        **side: Any,
    ) -> Trace:
        """Run with some gates or states held at given values (see :class:`Clamp`), which all that follows depends on.

        >>> lstm = carousel.LSTM(4, 8)
        >>> t = lstm.intervene(torch.randn(30, 2, 4), carousel.Clamp("f", 0.0, steps=(10, 12), units=3))
        """
        for clamp in clamps:
            if not isinstance(clamp, Clamp):
                raise TypeError(f"intervene takes carousel.Clamp objects after the input, got {type(clamp).__name__}")
        return self._watched(clamps, read(self, input, lengths, reset, side), hx, gradients_of)

    def path(self, input: Any, hx: Any = None, *, lengths: Any = None, reset: Any = None, **side: Any) -> ExecutionPath:
        """Which code would run this call, `fused`, `cudnn`, `torch`, `onnx` or `reference`; `.why` has the reason."""
        batch = read(self, input, lengths, reset, side)
        state = None if hx is None else read_state(self, hx, batch)
        return ExecutionPath(*self._choose(batch, state))

    def _choose(self, batch: Batch, state: list[Tensor] | None) -> tuple[str, str]:
        """The path's name, and why."""
        if batch.x.is_cuda:
            reason = torch_operators.unsupported_reason(self, batch)
            return ("reference", reason) if reason else ("cudnn", "a standard cell on a CUDA device")
        if torch.jit._trace.is_tracing():  # what it keeps can be saved and exported
            reason = torch_operators.unsupported_reason(self, batch)
            return ("reference", f"torch.jit.trace: {reason}") if reason else ("torch", "torch.jit.trace")
        if onnx.is_exporting():
            reason = onnx.unsupported_reason(self, batch)
            return ("reference", f"torch.onnx.export: {reason}") if reason else ("onnx", "torch.onnx.export")
        if self.cell.kernel() is None:
            reason = programs.unsupported_reason(self, batch, state)
            return ("reference", reason) if reason else ("fused", programs.WHY)
        reason = native.unsupported_reason(self, batch, state)
        return ("reference", reason) if reason else ("fused", native.WHY)

    def _watched(
        self, clamps: tuple[Clamp, ...], batch: Batch, hx: Any, loss_fn: Callable[..., Tensor] | None
    ) -> Trace:
        for clamp in clamps:
            clamp.check(self, *batch.x.shape[:2])
        clamps = tuple(clamp.sorted(batch) for clamp in clamps)
        state = None if hx is None else read_state(self, hx, batch)
        kept: list[list[Views]] | None = None if loss_fn is None else [[] for _ in self._grid()]
        with torch.enable_grad() if loss_fn is not None else nullcontext():
            if loss_fn is not None:
                batch.x = batch.x.detach().requires_grad_()  # so that every value has a derivative to find
            differs = bool(clamps) or loss_fn is not None  # from what a kernel does, which has no place inside a step
            by = "program" if differs or self.cell.kernel() is None else "kernel"
            watch = (
                partial(programs.watch_plainly, clamps=clamps, kept=kept) if by == "program" else native.trace_plainly
            )
            plain = watch(self, batch, state)
            if plain is not None:
                output, final, seen = plain
                given = tuple(batch.give_state(s) for s in final)
                own = given if len(given) > 1 else given[0]
                path = ExecutionPath("fused", programs.WHY if by == "program" else native.WHY)
                return assemble(self.cell, batch, batch.give_output(output), own, seen, loss_fn, path, kept)
            path = ExecutionPath(*self._choose(batch, state))
            by = self._runner(path)
            if by == "program" and not batch.direct:
                by, path = "reference", ExecutionPath("reference", "a trace needs to see every operation")
            if by != "reference" and differs:
                reason = programs.unsupported_reason(self, batch, state, clamps)
                path = ExecutionPath("reference", reason) if reason else ExecutionPath("fused", programs.WHY)
                by = "reference" if reason else "program"
            kept = kept if by == "program" else None
            output, parts, seen = self._run(batch, state, clamps, kept, by=by)
            given_output, own = self._give(batch, output, parts)
            return assemble(self.cell, batch, given_output, own, seen, loss_fn, path, kept)

    def _runner(self, path: str) -> str:
        """What runs the layers on `path`: the cell's `kernel`, its `program`, or the `reference` path."""
        return "reference" if path != "fused" else "program" if self.cell.kernel() is None else "kernel"

    def _starts_at_zero(self) -> bool:
        """Whether zeros are the state before the first step, and nothing but the cell's step reads them."""
        own = not self.learn_initial_state and not self.cell.input_window
        return own and not any(spec.initial for spec in self.cell.states.values())

    def _initial(self, batch: Batch) -> list[Tensor]:
        """The state before the first step, (L·D, B, *shape) for each of the cell's states: the cell's initial value, or
        the learned one."""
        states = []
        for name, spec in self.cell.states.items():
            if self.learn_initial_state and name != PAST_INPUTS:
                parts = [self._parameters_of(*at)[f"initial_{name}"] for at in self._grid()]
                learned = torch.stack(parts)
                if spec.dtype == "complex":
                    learned = torch.view_as_complex(learned)
                states.append(learned.unsqueeze(1).expand(-1, batch.size, *learned.shape[1:]))
            else:
                shape = (self.num_layers * self.num_directions, batch.size, *self.state_shape(name))
                dtype = self.state_dtype(name, batch.x.dtype)
                states.append(batch.x.new_full(shape, spec.initial, dtype=dtype))
        return states

    def _run(
        self,
        batch: Batch,
        state: list[Tensor] | None,
        clamps: tuple[Clamp, ...] | None = None,
        kept: Sequence[list[Views]] | None = None,
        *,
        by: str,
    ) -> tuple[Tensor, list[State], list[Seen]]:
        """Layer over layer: output (T, B, ·), each direction's final state, and with `clamps` what was seen in each.

        `state` has (L·D, B, *shape) for each of the cell's states; None is the initial state. `by`: see `_runner`.
        `kept` receives, from a program that is differentiated, ∂L/∂(value) of each layer and direction.
        """
        x = batch.x
        fused = by == "kernel"
        active = None if fused else batch.active
        if active is not None:
            x = torch.where(active.unsqueeze(-1), x, 0)  # what stands in the padding, even NaN, stops here
        zero = fused and not self.learn_initial_state
        if by == "program" and batch.direct and batch.reset is None:
            zero = self._starts_at_zero()
        if state is None and not zero:  # to native code None is zeros
            state = self._initial(batch)
        fresh = self._initial(batch) if batch.reset is not None and not fused else state
        final: list[State] = []
        seen: list[Seen] = []
        for layer in range(self.num_layers):
            if layer > 0 and self.training:
                x = dropout(x, self.dropout, repeat=self.variational)
            weights, runs = self._directions(layer, batch, state, fresh, active)
            if fused:
                see = clamps is not None
                x, states, planes = native.run(self, weights, x, batch, runs, self._learned(layer, batch), see)
                if self.bidirectional and self.merge != "concat":
                    x = self.join(list(x.chunk(2, -1)))
                final += states
                seen += planes
                continue
            directions = []
            for direction, (w, run) in enumerate(zip(weights, runs, strict=True)):
                own = None if clamps is None else [c for c in clamps if c.applies(self, layer, direction)]
                if by == "program":
                    given = None if kept is None else kept[len(final)]
                    unrolled, values = programs.run(self, layer, w, x, batch, run, own, given)
                else:
                    unrolled, values = self._unrolled(w, x, run, own)
                seen += values
                directions.append(unrolled.output)
                final.append(unrolled.state)
            x = directions[0] if len(directions) == 1 else self.join(directions)
        return x, final, seen

    def _directions(
        self,
        layer: int,
        batch: Batch,
        state: list[Tensor] | None,
        fresh: list[Tensor] | None,
        active: Tensor | None,
    ) -> tuple[list[Weights], list[Run]]:
        """The weights of each direction of a layer, and what it runs with."""
        weights, runs = [], []
        for direction in range(self.num_directions):
            at = layer * self.num_directions + direction
            weights.append(self._weights(layer, direction, batch))
            runs.append(
                Run(
                    state=None if state is None else tuple(s[at] for s in state),
                    restart_state=None if fresh is None else tuple(s[at] for s in fresh),
                    reverse=direction == 1,
                    active=active,
                    restart=_restarts(batch.reset, reverse=direction == 1),
                    zoneout=self._draw_zoneout(batch),
                    side=batch.side,
                )
            )
        return weights, runs

    def _unrolled(self, w: Weights, x: Tensor, run: Run, clamps: Sequence[Clamp] | None) -> tuple[Unrolled, list[Seen]]:
        """One direction of one layer by the reference path, and with `clamps` what was seen of it."""
        if clamps is None:
            return unroll(self.cell, w, x, run), []
        watch = Watch(x.shape[0], clamps)
        unrolled = unroll(self.cell, w, x, replace(run, let_at=watch.let_at))
        return unrolled, [watch.seen(self.cell, unrolled)]

    def _learned(self, layer: int, batch: Batch) -> list[State] | None:
        """The vectors (S) that `layer`'s directions restart from, if they are learned and there are restarts."""
        if batch.reset is None or not self.learn_initial_state:
            return None
        return [
            tuple(self._parameters_of(layer, direction)[f"initial_{name}"] for name in self.cell.states)
            for direction in range(self.num_directions)
        ]

    def _weights(self, layer: int, direction: int, batch: Batch) -> Weights:
        """The parameters of one layer and direction, with the noise of this call."""
        parameters = self._values_at(suffix(layer, direction))
        if self.training and self.weight_drop:
            for name in self._names:
                if name.startswith("weight_hh"):
                    parameters[name] = dropout(parameters[name], self.weight_drop)
        mask = None
        if self.training and self.recurrent_dropout:
            mask = dropout(batch.x.new_ones(batch.size, *self.state_shape(self.cell.output)), self.recurrent_dropout)
        return Weights(self.cell, parameters, mask)

    def _draw_zoneout(self, batch: Batch) -> Zoneout | None:
        if not self.zoneout:
            return None
        if not self.training:
            return Zoneout(self.zoneout)
        steps, size = batch.x.shape[:2]
        keep = {
            name: torch.rand(steps, size, *self.state_shape(name), device=batch.x.device) < rate
            for name, rate in self.zoneout.items()
        }
        return Zoneout(self.zoneout, keep)

    def _give(self, batch: Batch, output: Tensor, final: list[State]) -> tuple[Any, Any]:
        """Output and final state in the caller's layout."""
        stacked = tuple(
            batch.give_state(torch.stack(parts) if len(parts) > 1 else parts[0].unsqueeze(0))
            for parts in zip(*final, strict=True)
        )
        return batch.give_output(output), stacked if len(stacked) > 1 else stacked[0]

    # ---- description ----

    def extra_repr(self) -> str:
        defaults = {
            "proj_size": 0,
            "num_layers": 1,
            "bias": True,
            "batch_first": False,
            "dropout": 0.0,
            "bidirectional": False,
            "merge": "concat",
            "variational": False,
            "recurrent_dropout": 0.0,
            "zoneout": {},
            "weight_drop": 0.0,
            "learn_initial_state": False,
        }
        return self._described(Recurrent, defaults)


def suffix(layer: int, direction: int) -> str:
    return f"_l{layer}_reverse" if direction else f"_l{layer}"


def _restarts(reset: Tensor | None, reverse: bool) -> Tensor | None:
    """Where a direction restarts, (T, B): a cut before step t parts t−1 from t, which the reverse meets before t−1."""
    if reset is None or not reverse:
        return reset
    return torch.cat((reset[1:], torch.zeros_like(reset[:1])))
