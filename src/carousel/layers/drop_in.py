"""torch's recurrent modules turned into ours where they stand, and back.

A module keeps its identity: only its class changes, and the attributes that one class has and the other does not.
Parameters, buffers, hooks, parametrizations, mode, and whatever a program has set on it, stay the same objects.

The classes here are torch's and ours at once, so that programs that ask `isinstance(m, nn.LSTM)` find what they expect.
`torch.compile` leaves them out of its graphs, as it does torch's own; `carousel.LSTM` it compiles in one graph.
"""

from __future__ import annotations

import operator
import threading
from typing import Any

import torch
from torch import nn

# torch's own classes by names of our own, as in standard.py
from torch.nn.modules.rnn import GRU as TorchGRU
from torch.nn.modules.rnn import LSTM as TorchLSTM
from torch.nn.modules.rnn import RNN as TorchRNN
from torch.nn.modules.rnn import GRUCell as TorchGRUCell
from torch.nn.modules.rnn import LSTMCell as TorchLSTMCell
from torch.nn.modules.rnn import RNNBase, RNNCellBase
from torch.nn.modules.rnn import RNNCell as TorchRNNCell
from torch.nn.utils import parametrize

from . import cell, standard
from .module import CellModule

FLOATS = (torch.float32, torch.float64)


class _LikeTorch:
    """Constructed as torch's: after the same seed the same weights."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **{"init": "torch"} | options)


class LSTM(_LikeTorch, standard.LSTM, TorchLSTM):  # type: ignore[misc, override]
    """`torch.nn.LSTM`, run by Carousel."""


class GRU(_LikeTorch, standard.GRU, TorchGRU):  # type: ignore[misc, override]
    """`torch.nn.GRU`, run by Carousel."""


class RNN(_LikeTorch, standard.RNN, TorchRNN):  # type: ignore[misc, override]
    """`torch.nn.RNN`, run by Carousel."""


class LSTMCell(_LikeTorch, cell.LSTMCell, TorchLSTMCell):  # type: ignore[misc]
    """`torch.nn.LSTMCell`, run by Carousel."""


class GRUCell(_LikeTorch, cell.GRUCell, TorchGRUCell):  # type: ignore[misc]
    """`torch.nn.GRUCell`, run by Carousel."""


class RNNCell(_LikeTorch, cell.RNNCell, TorchRNNCell):  # type: ignore[misc, override]
    """`torch.nn.RNNCell`, run by Carousel."""


TWINS: dict[type[nn.Module], type[Any]] = {made.twin: made for made in (LSTM, GRU, RNN, LSTMCell, GRUCell, RNNCell)}
NAMES = frozenset(twin.__name__ for twin in TWINS)
thread = threading.local()
_ORIGIN = "_torch_class"  # the class of an accelerated module before, if it was a subclass of torch's


def is_recurrent(module: nn.Module) -> bool:
    """Whether `module` is a recurrent layer or cell of torch, in any of its forms, or of ours."""
    if isinstance(module, RNNBase | RNNCellBase | CellModule):
        return True
    if isinstance(module, torch.jit.ScriptModule):
        return getattr(module, "original_name", "") in NAMES
    return type(module).__name__ in NAMES and type(module).__module__.startswith("torch.")


def is_accelerated(module: nn.Module) -> bool:
    """Whether `module` was torch's and runs as ours."""
    return isinstance(module, _LikeTorch)


def unsupported_reason(module: nn.Module) -> str | None:
    """Why a recurrent module is to be left as it is, or None if it can be ours."""
    if isinstance(module, CellModule):
        return "already Carousel's"
    if isinstance(module, torch.jit.ScriptModule):
        return "compiled by torch.jit"
    kind = parametrize.type_before_parametrizations(module)
    torch_class = next((c for c in kind.__mro__ if c in TWINS), None)
    if torch_class is None:
        return "quantized" if "quant" in kind.__module__ else f"{kind.__name__} is no layer of torch.nn"
    own = _own_code(kind, torch_class)
    if own:
        return f"the subclass {kind.__name__} has code of its own: {', '.join(own)}"
    if "forward" in vars(module):
        return "its forward was replaced"
    first = next(module.parameters(), None)
    if first is None or first.device.type not in ("cpu", "meta"):
        return "no parameters" if first is None else f"on {first.device}; the kernels run on CPUs"
    if first.dtype not in FLOATS:
        return f"its dtype is {first.dtype}; the kernels take float32 and float64"
    ours = TWINS[torch_class]
    small = {"input_size": 1, "hidden_size": 1}
    more = vars(_blank(ours, **small)).keys() - vars(_blank(torch_class, **small)).keys()
    clash = sorted(more & (vars(module).keys() | module._modules.keys()))
    if clash:
        return f"it has attributes with names of ours: {', '.join(clash)}"
    try:
        _blank(ours, **_options(module, ours))
    except (TypeError, ValueError) as error:
        return str(error)
    return None


def _options(module: nn.Module, ours: Any) -> dict[str, Any]:
    """What a module was made with, as the types that our constructors want: torch takes 1 for True."""
    values = {name: getattr(module, name) for name in ours.options}
    for name, value in values.items():
        if name in ("bias", "batch_first", "bidirectional"):
            values[name] = bool(value)
        elif name.endswith("_size") or name == "num_layers":
            values[name] = operator.index(value)
    return values


def _own_code(kind: type, torch_class: type) -> list[str]:
    """The attributes that a subclass of torch's layer and its other bases have, the constructor aside."""
    own = [c for c in kind.__mro__ if c is not object and c not in torch_class.__mro__]
    nothing = {*vars(type("Empty", (), {})), "__annotations__", "__init__"}
    return sorted({name for c in own for name in vars(c)} - nothing)


def to_ours(module: nn.Module) -> None:
    """Turn one of torch's modules, for which `unsupported_reason` is None, into ours."""
    kind = parametrize.type_before_parametrizations(module)
    torch_class = next(c for c in kind.__mro__ if c in TWINS)
    become(module, torch_class, TWINS[torch_class])
    if kind is not torch_class:
        vars(module)[_ORIGIN] = kind


def to_torch(module: nn.Module) -> None:
    """Turn one of ours with a twin in torch into torch's: the class it had, if it was accelerated."""
    ours = parametrize.type_before_parametrizations(module)
    origin = vars(module).pop(_ORIGIN, ours.twin)  # type: ignore[attr-defined]
    become(module, ours, ours.twin)  # type: ignore[attr-defined]
    if origin is not ours.twin:  # type: ignore[attr-defined]
        _change_class(module, origin)


def become(module: nn.Module, old: type[Any], new: type[Any]) -> None:
    """Make `module`, of the class `old` as far as its attributes go, one of `new`; one is torch's, one ours."""
    ours: Any = old if issubclass(old, CellModule) else new
    options = _options(module, ours)
    before, after = _blank(old, **options), _blank(new, **options)
    attributes = vars(module)
    for name in vars(before).keys() - vars(after).keys():
        attributes.pop(name, None)
    for name, value in vars(after).items():
        attributes.setdefault(name, value)
    # a cell without biases: torch's registers None, which ours has as a plain attribute
    absent = {name: None for name, value in after._parameters.items() if value is None}
    for name in [name for name, value in module._parameters.items() if value is None and name not in absent]:
        del module._parameters[name]
    module._parameters.update(absent)
    _change_class(module, new)
    if isinstance(module, RNNBase):
        module._init_flat_weights()  # of torch's: what they are now; ours has nothing to do


def _blank(kind: type[Any], dropout: float = 0.0, **options: Any) -> Any:
    """A module without memory, for its attributes. Dropout is set afterwards: the constructor may warn about it."""
    thread.converting = True  # a patched constructor is not to convert this one
    try:
        blank = kind(**options, device="meta")
    finally:
        thread.converting = False
    if dropout:
        blank.dropout = dropout
    return blank


def converting() -> bool:
    """Whether the module under construction in this thread is a blank of a conversion."""
    return getattr(thread, "converting", False)


def _change_class(module: nn.Module, kind: type[nn.Module]) -> None:
    """Assign the class, with the properties of its parametrizations if it has any."""
    names = list(module.parametrizations) if parametrize.is_parametrized(module) else []  # type: ignore[arg-type]
    module.__class__ = kind
    if names:
        parametrize._inject_new_class(module)
        for name in names:
            parametrize._inject_property(module, name)
