"""The shapes people pass, made one: time-major (T, B, I) with lengths, and the way back.

Every complaint about an argument of a call is made here, before any arithmetic.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence

from ..cells.spec import State
from ..masks import length_mask
from ..ops.backend import has_values


@dataclass
class Batch:
    """One call's input in the layout the unroller wants, and what is needed to answer in the caller's layout."""

    x: Tensor  # (T, B, I); past a sequence's end anything may stand
    lengths: Tensor | None  # (B) int64; None where every sequence has all steps
    reset: Tensor | None  # (T, B) bool
    batch_first: bool
    batched: bool
    packed: PackedSequence | None = None
    side: tuple[Tensor, ...] = ()  # (T, B, *shape) for each of the cell's side inputs
    direct: bool | None = None  # by a native call, not through the registered operator; None: not known

    @property
    def size(self) -> int:
        return self.x.shape[1]

    @property
    def active(self) -> Tensor | None:
        """(T, B) bool: false past a sequence's end. The kernels do without."""
        if self.lengths is None:
            return None
        return length_mask(self.lengths, self.x.shape[0])

    def sort(self, value: Tensor, dim: int) -> Tensor:
        """`value` with its batch dimension `dim` put from the caller's order into that of `x`."""
        order = None if self.packed is None else self.packed.sorted_indices
        return value if order is None else value.index_select(dim, order)

    def unsort(self, value: Tensor, dim: int) -> Tensor:
        """`value` with its batch dimension `dim` put from the order of `x` into the caller's."""
        order = None if self.packed is None else self.packed.unsorted_indices
        return value if order is None else value.index_select(dim, order)

    def take_state(self, hx: Tensor) -> Tensor:
        """A caller's state, (L·D, B, S) or (L·D, S), as (L·D, B, S) in the order of `x`."""
        return self.sort(hx, 1) if self.batched else hx.unsqueeze(1)

    def give_state(self, state: Tensor) -> Tensor:
        """A final state (L·D, B, S) in the caller's order and rank."""
        return self.unsort(state, 1) if self.batched else state.squeeze(1)

    def give_output(self, output: Tensor) -> Any:
        """An output (T, B, ·) in the caller's layout: PackedSequence, unbatched, batch first or time first."""
        if self.packed is not None:
            return PackedSequence(
                output[self.active],
                self.packed.batch_sizes,
                self.packed.sorted_indices,
                self.packed.unsorted_indices,
            )
        if not self.batched:
            return output.squeeze(1)
        return output.transpose(0, 1) if self.batch_first else output


def read(layer: Any, input: Any, lengths: Any, reset: Any, side: Mapping[str, Any] | None = None) -> Batch:
    """Check `input`, `lengths`, `reset` and the side inputs of a call on `layer` and lay them out time-major."""
    side = known_side(layer, side or {})
    if isinstance(input, PackedSequence):
        return _read_packed(layer, input, lengths, reset, side)
    kind = type(layer).__name__
    if not isinstance(input, Tensor):
        raise TypeError(f"{kind}: input must be a Tensor or a PackedSequence, got {type(input).__name__}")
    if input.dim() not in (2, 3):
        raise ValueError(f"{kind}: Expected input to be 2D or 3D, got {input.dim()}D tensor instead")
    check_input(layer, input)
    batched = input.dim() == 3
    batch_first = layer.batch_first and batched
    x = input if batched else input.unsqueeze(1)
    x = x.transpose(0, 1) if batch_first else x
    steps, size = x.shape[:2]
    if steps == 0:
        raise RuntimeError(f"{kind}: Expected sequence length to be larger than 0, got input of {tuple(input.shape)}")
    if lengths is not None:
        lengths = read_lengths(lengths, steps, size, x.device, batched)
    if reset is not None:
        reset = _read_reset(reset, input, batch_first, batched)
    batch = Batch(x, lengths, reset, batch_first, batched)
    batch.side = tuple(read_side(layer, name, value, input, batch) for name, value in side.items())
    if lengths is not None and reset is not None:
        batch.reset = reset & batch.active
    return batch


def known_side(layer: Any, side: Mapping[str, Any]) -> dict[str, Any]:
    """`side` in the order of the cell's side inputs, refused if one is unknown, or missing and without a default."""
    kind, known = type(layer).__name__, layer.cell.side_inputs
    for name in side:
        if name not in known:
            takes = f"its side inputs are {', '.join(known)}" if known else "its cell has no side inputs"
            raise TypeError(f"{kind} got an unexpected keyword argument {name!r}; {takes}")
    for name, spec in known.items():
        if name not in side and spec.default is None:
            raise TypeError(f"{kind}: the cell reads {name!r} at every step; give it as {name}=")
    return {name: side.get(name, spec.default) for name, spec in known.items()}


def read_side(layer: Any, name: str, value: Any, input: Tensor, batch: Batch) -> Tensor:
    """One side input in the layout of `input`, its features replaced by its own shape, as (T, B, *shape)."""
    expected = (*input.shape[:-1], *layer.side_shape(name))
    if value is layer.cell.side_inputs[name].default:  # the call does not give it
        value = input.new_full(expected, value)
    if not isinstance(value, Tensor) or tuple(value.shape) != expected:
        given = tuple(value.shape) if isinstance(value, Tensor) else type(value).__name__
        raise ValueError(f"{type(layer).__name__}: {name} must be a Tensor of {expected}, like input, got {given}")
    value = value.to(batch.x.device)
    if value.is_floating_point() and not torch._C._is_any_autocast_enabled():
        value = value.to(batch.x.dtype)
    value = value if batch.batched else value.unsqueeze(1)
    return value.transpose(0, 1) if batch.batch_first else value


def _read_packed(layer: Any, input: PackedSequence, lengths: Any, reset: Any, side: dict[str, Any]) -> Batch:
    kind = type(layer).__name__
    for name, value in (("lengths", lengths), ("reset", reset)):
        if value is not None:
            raise ValueError(f"{kind}: {name} cannot be given with a PackedSequence; pass the padded tensor instead")
    if input.data.dim() != 2:
        raise RuntimeError(f"{kind}: a PackedSequence as input must have 2 dimensions, got {input.data.dim()}")
    check_input(layer, input.data)
    sizes = input.batch_sizes.to(input.data.device)
    rank = torch.arange(int(input.batch_sizes[0]), device=input.data.device)
    active = rank < sizes.unsqueeze(1)

    def padded(data: Tensor) -> Tensor:
        return data.new_zeros(*active.shape, *data.shape[1:]).index_put((active,), data)

    batch = Batch(padded(input.data), active.sum(0), None, False, True, input)
    for name, value in side.items():
        if value is layer.cell.side_inputs[name].default:
            batch.side += (read_side(layer, name, value, batch.x, batch),)
            continue
        if not isinstance(value, PackedSequence) or not torch.equal(value.batch_sizes, input.batch_sizes):
            raise ValueError(f"{kind}: {name} must be a PackedSequence with the batch sizes of input")
        batch.side += (read_side(layer, name, padded(value.data), batch.x, batch),)
    return batch


def check_input(layer: Any, x: Tensor) -> None:
    kind, weight = type(layer).__name__, getattr(layer, "weight_ih" + layer.first_suffix)
    if x.shape[-1] != layer.input_size:
        raise RuntimeError(
            f"{kind}: input.size(-1) must be equal to input_size. Expected {layer.input_size}, got {x.shape[-1]}"
        )
    if x.device != weight.device:
        raise RuntimeError(
            f"{kind}: Input and parameter tensors are not at the same device, found input tensor at {x.device} "
            f"and parameter tensor at {weight.device}"
        )
    if x.dtype != weight.dtype and not torch._C._is_any_autocast_enabled():
        raise ValueError(
            f"{kind}: RNN input dtype ({x.dtype}) does not match weight dtype ({weight.dtype}). "
            + f"Convert input: input.to({weight.dtype})"
            + (f", or convert model: model.to({x.dtype})" if x.is_floating_point() else "")
        )


def read_lengths(
    lengths: Any, steps: int, size: int, device: torch.device, batched: bool = True, of: str = "input"
) -> Tensor | None:
    """`lengths` as (B) int64, None if all of them are `steps`; `of` says what they are those of."""
    if not isinstance(lengths, Tensor):
        try:
            lengths = torch.as_tensor(lengths)
        except (TypeError, ValueError, RuntimeError):
            raise TypeError(f"lengths must be integers, one per sequence, got {lengths!r}") from None
    if lengths.dtype == torch.bool or lengths.is_floating_point() or lengths.is_complex():
        raise TypeError(f"lengths must be integers, got a tensor of {lengths.dtype}")
    if not batched and lengths.dim() == 0:
        lengths = lengths.unsqueeze(0)
    if lengths.shape != (size,):
        raise ValueError(f"lengths must have shape ({size},), one per sequence, got {tuple(lengths.shape)}")
    if type(lengths).__module__.startswith("torch.distributed"):
        raise TypeError(f"lengths must be a plain tensor or a list, got {type(lengths).__name__}")
    if not has_values(lengths):
        # without their number: in a program with dynamic sizes it is not known
        message = f"lengths must lie between 0 and the number of steps of the {of}"
        torch._assert_async(((lengths >= 0) & (lengths <= steps)).all(), message)
        return lengths.to(device, torch.int64)
    plain = _unwrapped(lengths)
    numbers = plain.tolist() if plain.dim() == 1 else plain.flatten().tolist()
    least = min(numbers, default=steps)
    if least < 0 or max(numbers, default=0) > steps:
        message = f"must lie between 0 and the {steps} steps of the {of}"
        at = ((plain < 0) | (plain > steps)).nonzero()[0]
        raise ValueError(f"lengths[{', '.join(map(str, at.tolist()))}] is {int(plain[tuple(at)])}, but {message}")
    return None if least == steps else lengths.to(device, torch.int64)


def _unwrapped(value: Tensor) -> Tensor:
    """What is inside the wrappers that torch.func puts around a tensor: there the numbers can be looked at."""
    while torch._C._functorch.is_functorch_wrapped_tensor(value):
        value = torch._C._functorch.get_unwrapped(value)
    return value


def _read_reset(reset: Any, input: Tensor, batch_first: bool, batched: bool) -> Tensor:
    if not isinstance(reset, Tensor) or reset.dtype != torch.bool:
        given = reset.dtype if isinstance(reset, Tensor) else type(reset).__name__
        raise TypeError(f"reset must be a bool tensor, got {given}")
    if reset.shape != input.shape[:-1]:
        layout = ("(batch, steps)" if batch_first else "(steps, batch)") if batched else "(steps,)"
        raise ValueError(f"reset must be {layout} like input, {tuple(input.shape[:-1])}, got {tuple(reset.shape)}")
    reset = reset.to(input.device)
    if not batched:
        return reset.unsqueeze(1)
    return reset.transpose(0, 1) if batch_first else reset


def read_state(layer: Any, hx: Any, batch: Batch) -> list[Tensor]:
    """Check a caller's state and return one (L·D, B, S) tensor for each of the cell's states."""
    kind, names = type(layer).__name__, tuple(layer.cell.states)
    if len(names) == 1:
        if not isinstance(hx, Tensor):
            raise TypeError(f"{kind}: hx must be one Tensor ({names[0]}), got {type(hx).__name__}")
        given: State = (hx,)
    else:
        if not isinstance(hx, tuple | list) or len(hx) != len(names) or not all(isinstance(s, Tensor) for s in hx):
            got = type(hx).__name__
            if isinstance(hx, tuple | list):
                got += f" of {len(hx)}: {', '.join(type(s).__name__ for s in hx)}"
            raise TypeError(f"{kind}: hx must be a tuple of {len(names)} Tensors ({', '.join(names)}), got {got}")
        given = tuple(hx)
    rank, word = (3, "batched 3-D") if batch.batched else (2, "unbatched 2-D")
    ranks = [f"{s.dim()}-D" for s in given]
    vectors = all(len(layer.state_shape(name)) == 1 for name in names)
    if vectors and any(s.dim() != rank for s in given):
        each = " and ".join(f"{name}x" for name in names)  # hx and cx, as torch says it
        got = f"{ranks[0]} tensor" if len(ranks) == 1 else f"({', '.join(ranks)}) tensors"
        raise RuntimeError(f"{kind}: For {word} input, {each} should also be {rank}-D but got {got}")
    out = []
    for k, (name, s) in enumerate(zip(names, given, strict=True)):
        which = "hidden" if len(names) == 1 else f"hidden[{k}]"
        rows, shape = layer.num_layers * layer.num_directions, layer.state_shape(name)
        expected: tuple[int, ...] = (rows, batch.size, *shape) if batch.batched else (rows, *shape)
        dtype = layer.state_dtype(name, batch.x.dtype)
        if tuple(s.shape) != expected:
            raise RuntimeError(f"{kind}: Expected {which} size {expected}, got {list(s.shape)}")
        if s.device != batch.x.device:
            raise RuntimeError(
                f"{kind}: Input and hidden tensors are not at the same device, found input tensor at "
                f"{batch.x.device} and {which} tensor at {s.device}"
            )
        if s.dtype != dtype and not torch._C._is_any_autocast_enabled():
            raise RuntimeError(
                f"{kind}: Input and hidden tensors are not the same dtype, found input tensor with {batch.x.dtype} "
                f"and {which} tensor with {s.dtype}" + (f", expected {dtype}" if dtype.is_complex else "")
            )
        out.append(batch.take_state(s))
    return out
