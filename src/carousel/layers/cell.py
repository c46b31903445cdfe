"""One step of a cell as a module, as `torch.nn.LSTMCell` is one: for programs that write their own loop over time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

# torch's own classes by names of our own: a program may put ours in their place in torch.nn
from torch.nn.modules.rnn import GRUCell as TorchGRUCell
from torch.nn.modules.rnn import LSTMCell as TorchLSTMCell
from torch.nn.modules.rnn import RNNCell as TorchRNNCell
from torch.nn.modules.rnn import RNNCellBase

from .. import cells
from ..cells.spec import ParameterSpec, Sizes, State, Weights
from ..ops import backend
from . import arguments, native
from .batch import Batch, check_input, known_side, read_side
from .module import CellModule, share_parameters, with_weights_of
from .standard import NONLINEARITY, class_of, find_cell, signature, take_nonlinearity
from .unroll import Run, unroll

TORCH_OPERATORS: dict[str, Any] = {
    "LSTM": torch._VF.lstm_cell,
    "GRU": torch._VF.gru_cell,
    "RNN_TANH": torch._VF.rnn_tanh_cell,
    "RNN_RELU": torch._VF.rnn_relu_cell,
}


class RecurrentCell(CellModule):
    """One step of one layer, made from a cell.

    The positional arguments after `cell`, the parameter names and shapes, and the layout of input and state are those
    of `torch.nn.LSTMCell`: input (B, input_size) or (input_size), each state (B, hidden_size) or (hidden_size), unless
    the cell gives it another shape. A call returns the new state: a tensor if the cell has one state, a tuple if it has
    several, of which the first is the output. Side inputs of the cell by name in the call, (B, *shape).

    `forget_bias` and `init` as in :class:`Recurrent`.

    >>> cell = RecurrentCell(carousel.cells.LSTM(), 10, 20)
    >>> h, c = cell(torch.randn(3, 10))
    >>> h, c = cell(torch.randn(3, 10), (h, c))
    """

    first_suffix = ""
    # to the kernels it is a stack of one layer
    num_layers: ClassVar[int] = 1
    bidirectional: ClassVar[bool] = False
    learn_initial_state: ClassVar[bool] = False
    dropout: ClassVar[float] = 0.0
    zoneout: ClassVar[Mapping[str, float]] = {}
    recurrent_dropout: ClassVar[float] = 0.0
    weight_drop: ClassVar[float] = 0.0

    def __init__(
        self,
        cell: cells.Cell,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        forget_bias: float | None = None,
        init: str = "carousel",
        **unknown: Any,
    ) -> None:
        nn.Module.__init__(self)  # not super: a cell may be torch's as well, see drop_in.py
        arguments.check_known(type(self), unknown)
        if not isinstance(cell, cells.Cell) or type(cell) is cells.Cell:
            raise TypeError(f"cell must be a carousel.Cell instance with gates and a step of its own, got {cell!r}")
        arguments.check_size("input_size", input_size)
        arguments.check_size("hidden_size", hidden_size)
        arguments.check_flag("bias", bias)
        arguments.check_recurrence(cell, hidden_size, hidden_size, {})
        arguments.check_dtype(dtype)
        arguments.check_forget_bias(type(self).__name__, cell, forget_bias, bias)
        self.cell = cell
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.bias = bias
        self._choose_forget_bias(init, forget_bias)
        sizes = self._sizes()
        specs = {
            name: given if isinstance(given, ParameterSpec) else ParameterSpec(tuple(given))
            for name, given in cell.parameters(sizes).items()
        }
        self._names = tuple(specs)
        self._complex = tuple(name for name, spec in specs.items() if spec.dtype == "complex")
        self._buffer_names = tuple(cell.buffers(sizes))
        self._register_set("", specs, sizes, device, dtype)
        self._look_like_torch()
        if not bias:
            self.bias_ih = self.bias_hh = None  # as in torch; not registered, so that the layer's code finds none
        self.reset_parameters()

    def _sizes(self) -> Sizes:
        return Sizes(self.input_size, self.hidden_size, self.hidden_size, self.bias)

    def _parameters_of(self, layer: int, direction: int) -> dict[str, Tensor]:
        return self._parameters_at("")

    def reset_parameters(self) -> None:
        """Initialise as torch does (the same seed gives the same numbers), then the forget bias."""
        self.cell.initialise(self._parameters_at(""), self._sizes(), self.forget_bias)

    def state_shape(self, name: str) -> tuple[int, ...]:
        """The shape of the state `name` without the batch."""
        shape = self.cell.states[name].shape
        return shape(self._sizes()) if shape else (self.hidden_size,)

    def side_shape(self, name: str) -> tuple[int, ...]:
        """The shape of the side input `name` without the batch."""
        return self.cell.side_inputs[name].shape(self._sizes())

    def forward(self, input: Tensor, hx: Any = None, **side: Tensor) -> Any:
        """One step: input (B, input_size) or (input_size), `hx` the state before it (None: the cell's initial one).

        Returns the state after it, of which the first tensor is the output.
        """
        if not side and not torch.compiler.is_compiling():
            if not torch.is_grad_enabled():
                stepped = native.step_cell(self, input, hx)
            else:
                stepped = native.train_cell(self, input, hx)
                if stepped is None:
                    stepped = self._step_by_torch(input, hx)
            if stepped is not None:
                return stepped
        batch = self._read(input, side)
        state = None if hx is None else self._read_state(hx, batch)
        new = self._run(batch, state)
        if not batch.batched:
            new = tuple(s.squeeze(0) for s in new)
        return new if len(new) > 1 else new[0]

    def _step_by_torch(self, input: Any, hx: Any) -> Any:
        """The new state from torch's operator, or None: the general way then runs it, or says what is wrong.

        For one step of many rows with gradients: a kernel would pack the weights for this one product.
        """
        mode, own = self.cell.torch_mode(), self._parameters
        if mode is None or hx is None or not isinstance(input, Tensor) or input.dim() != 2:
            return None
        given = (hx,) if len(self.cell.states) == 1 else hx
        expected = (input.shape[0], self.hidden_size)
        if (
            not isinstance(given, (tuple, list))
            or len(given) != len(self.cell.states)
            or input.shape[1] != self.input_size
            or not input.shape[0]
        ):
            return None
        if any(not isinstance(s, Tensor) or s.shape != expected for s in given):
            return None
        weight, recurrent = own.get("weight_ih"), own.get("weight_hh")
        if weight is None or recurrent is None:  # computed from others
            return None
        biases = own.get("bias_ih"), own.get("bias_hh")
        if self.bias and any(bias is None for bias in biases):
            return None
        if any(p is not None and p.shape != self._shapes[name] for name, p in own.items()):
            return None
        if backend.unsupported_reason("step", input, *given, weight, recurrent, *biases) is not None:
            return None
        return TORCH_OPERATORS[mode](input, hx, weight, recurrent, *biases)

    def _run(self, batch: Batch, state: State | None) -> State:
        """The states (B, *shape) after the step `batch.x` (1, B, I)."""
        reason = self._needs_torch(batch) or native.unsupported_reason(self, batch, state)
        mode = self.cell.torch_mode()
        # one step of many rows with gradients: a kernel would pack the weights for this one product
        if mode is not None and (self._needs_torch(batch) or (batch.direct and torch.is_grad_enabled())):
            before = state or self._initial(batch)
            hx = before if len(before) > 1 else before[0]
            parameters = [self._parameters_at("").get(n) for n in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]
            new = TORCH_OPERATORS[mode](batch.x[0], hx, *parameters)
            return new if isinstance(new, tuple) else (new,)
        weights = Weights(self.cell, self._values_at(""))
        if reason is None:
            return native.run(self, [weights], batch.x, batch, [Run(state, None)], None, False)[1][0]
        before = state or self._initial(batch)
        return unroll(self.cell, weights, batch.x, Run(before, before, side=batch.side)).state

    @staticmethod
    def _needs_torch(batch: Batch) -> str | None:
        """Why only torch's own operations will do: on a GPU, to be traced and saved, to be exported."""
        if batch.x.is_cuda:
            return "on a CUDA device"
        if torch.jit._trace.is_tracing():
            return "torch.jit.trace"
        return "torch.onnx.export" if torch.onnx.is_in_onnx_export() else None

    def _initial(self, batch: Batch) -> State:
        """The cell's initial state, (B, *shape) each."""
        states = []
        for name, spec in self.cell.states.items():
            dtype = batch.x.dtype.to_complex() if spec.dtype == "complex" else batch.x.dtype
            states.append(batch.x.new_full((batch.size, *self.state_shape(name)), spec.initial, dtype=dtype))
        return tuple(states)

    def _read(self, input: Any, side: Mapping[str, Any]) -> Batch:
        """Check the input and lay it out as one step of a sequence, (1, B, I)."""
        kind = type(self).__name__
        given = known_side(self, side)
        if not isinstance(input, Tensor):
            raise TypeError(f"{kind}: input must be a Tensor, got {type(input).__name__}")
        if input.dim() not in (1, 2):
            raise ValueError(f"{kind}: Expected input to be 1D or 2D, got {input.dim()}D instead")
        check_input(self, input)
        batched = input.dim() == 2
        step = input.unsqueeze(0)
        batch = Batch(step if batched else step.unsqueeze(0), None, None, False, batched)
        batch.side = tuple(
            read_side(self, name, value.unsqueeze(0) if isinstance(value, Tensor) else value, step, batch)
            for name, value in given.items()
        )
        return batch

    def _read_state(self, hx: Any, batch: Batch) -> State:
        """Check the caller's state; (B, *shape) for each of the cell's states."""
        kind, names = type(self).__name__, tuple(self.cell.states)
        given = (hx,) if len(names) == 1 else hx
        if not isinstance(given, tuple | list) or len(given) != len(names):
            got = type(hx).__name__ + (f" of {len(hx)}" if isinstance(hx, tuple | list) else "")
            raise TypeError(f"{kind}: hx must be a tuple of {len(names)} Tensors ({', '.join(names)}), got {got}")
        states = []
        for k, (name, s) in enumerate(zip(names, given, strict=True)):
            which = "hidden" if len(names) == 1 else f"hx[{k}]"
            if not isinstance(s, Tensor):
                raise TypeError(f"{kind}: {which} ({name}) must be a Tensor, got {type(s).__name__}")
            shape = self.state_shape(name)
            expected = (batch.size, *shape) if batch.batched else shape
            if tuple(s.shape) != expected:
                raise RuntimeError(f"{kind}: Expected {which} ({name}) of size {expected}, got {tuple(s.shape)}")
            if s.device != batch.x.device:
                raise RuntimeError(f"{kind}: {which} is on {s.device}, input on {batch.x.device}; move one of them")
            dtype = batch.x.dtype.to_complex() if self.cell.states[name].dtype == "complex" else batch.x.dtype
            if s.dtype != dtype and not torch._C._is_any_autocast_enabled():
                raise RuntimeError(
                    f"{kind}: {which} has dtype {s.dtype}, expected {dtype} as input has {batch.x.dtype}"
                )
            states.append(s if batch.batched else s.unsqueeze(0))
        return tuple(states)

    def extra_repr(self) -> str:
        return self._described(RecurrentCell, {"bias": True})


class TorchCell(RecurrentCell):
    """A step that torch has too: the same parameters, so that weights go both ways."""

    twin: ClassVar[type[RNNCellBase]]
    options: ClassVar[tuple[str, ...]] = ("input_size", "hidden_size", "bias")

    def to_torch(self) -> RNNCellBase:
        """The torch cell with these weights."""
        if self.cell.torch_mode() is None:
            raise ValueError(f"{type(self).__name__}.to_torch: torch.nn has nothing like {self.cell.label}")
        options: dict[str, Any] = {name: getattr(self, name) for name in self.options}
        return with_weights_of(self, self.twin(**options, device=self.weight_ih.device, dtype=self.weight_ih.dtype))

    def __prepare_scriptable__(self) -> nn.Module:
        """torch's cell, with the same parameters."""
        return share_parameters(self, self.to_torch())


class RNNCell(TorchCell):
    """One step of an Elman network. Drop-in for `torch.nn.RNNCell`; `nonlinearity` "tanh", "relu" or "sigmoid", fourth
    as in torch. The rest as :class:`RecurrentCell`.

    >>> h = carousel.RNNCell(10, 20, nonlinearity="relu")(torch.randn(3, 10))
    """

    cell_class = cells.Elman
    twin = TorchRNNCell
    options = (*TorchCell.options, "nonlinearity")
    __signature__ = signature(RecurrentCell, NONLINEARITY, at=3)

    def __init__(self, *args: Any, **options: Any) -> None:
        args = take_nonlinearity(args, options, name="RNNCell")
        RecurrentCell.__init__(self, cells.Elman(options.pop("nonlinearity", "tanh")), *args, **options)

    @property
    def nonlinearity(self) -> str:
        assert isinstance(self.cell, cells.Elman)
        return self.cell.nonlinearity


class LSTMCell(TorchCell):
    """One step of an LSTM. Drop-in for `torch.nn.LSTMCell`; arguments and shapes as :class:`RecurrentCell`.

    >>> h, c = carousel.LSTMCell(10, 20)(torch.randn(3, 10))
    """

    cell_class = cells.LSTM
    twin = TorchLSTMCell
    __signature__ = signature(RecurrentCell)

    def __init__(self, *args: Any, **options: Any) -> None:
        RecurrentCell.__init__(self, cells.LSTM(), *args, **options)


class GRUCell(TorchCell):
    """One step of a GRU. Drop-in for `torch.nn.GRUCell`; arguments and shapes as :class:`RecurrentCell`.

    >>> h = carousel.GRUCell(10, 20)(torch.randn(3, 10))
    """

    cell_class = cells.GRU
    twin = TorchGRUCell
    __signature__ = signature(RecurrentCell)

    def __init__(self, *args: Any, **options: Any) -> None:
        RecurrentCell.__init__(self, cells.GRU(), *args, **options)


# ---- every other registered cell ----


def named_cell(name: str) -> Callable[..., RecurrentCell]:
    """The step of the registered cell `name`: `named_cell("peephole")` is `carousel.PeepholeLSTMCell`.

    Its arguments are those of :class:`RecurrentCell` without the cell, then the cell's own as keywords.
    """
    cell = find_cell(name)
    if cell not in _classes:
        twin = next((made for made in (RNNCell, LSTMCell, GRUCell) if made.cell_class.name == cell.extends), None)
        _classes[cell] = class_of(cell, RecurrentCell, _name_of(cell), __name__, twin)
    return _classes[cell]


def _name_of(cell: type[cells.Cell]) -> str:
    return f"{cell.layer_name or cell.__name__}Cell"


_classes: dict[type[cells.Cell], type[RecurrentCell]] = {made.cell_class: made for made in (RNNCell, LSTMCell, GRUCell)}

for _name, _cell in cells.registry().items():  # in this module by name, so that they can be pickled
    globals().setdefault(_name_of(_cell), named_cell(_name))
