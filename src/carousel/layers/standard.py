"""The layers by name: each is :class:`Recurrent` with its cell, and for three of them a way from and to torch."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, TypeVar

from torch import Tensor, nn

# torch's own classes by names of our own: a program may put ours in their place in torch.nn
from torch.nn.modules.rnn import GRU as TorchGRU
from torch.nn.modules.rnn import LSTM as TorchLSTM
from torch.nn.modules.rnn import RNN as TorchRNN

from .. import cells
from ..errors import ArgumentError, did_you_mean
from .module import CellModule, share_parameters, with_weights_of
from .recurrent import Recurrent, suffix


def signature(base: type[CellModule], *own: inspect.Parameter, at: int | None = None) -> inspect.Signature:
    """The arguments of `base` without the cell, with a named class's `own` ones at position `at` or last."""
    arguments = [p for n, p in inspect.signature(base).parameters.items() if n not in ("cell", "unknown")]
    at = len(arguments) if at is None else at
    return inspect.Signature([*arguments[:at], *own, *arguments[at:]])


NONLINEARITY = inspect.Parameter("nonlinearity", inspect.Parameter.POSITIONAL_OR_KEYWORD, default="tanh")


def take_nonlinearity(args: tuple[Any, ...], options: dict[str, Any], *, name: str) -> tuple[Any, ...]:
    """`args` without the fourth one, which torch's RNN and RNNCell call `nonlinearity`; it becomes an option."""
    if len(args) < 4:
        return args
    if "nonlinearity" in options:
        raise TypeError(f"{name} got multiple values for argument 'nonlinearity'")
    options["nonlinearity"] = args[3]
    return args[:3] + args[4:]


OPTIONS = ("input_size", "hidden_size", "num_layers", "bias", "batch_first", "dropout", "bidirectional")


class TorchTwin(Recurrent):
    """A layer that torch has too: the same parameters, so that weights go both ways, and the methods of `nn.RNNBase`.

    What `nn.RNNBase` keeps beside the parameters (`_flat_weights` and its kin) is made from them when it is asked for.
    """

    twin: ClassVar[type[nn.RNNBase]]
    options: ClassVar[tuple[str, ...]] = OPTIONS

    @property
    def mode(self) -> str:
        """torch's word for the cell: "LSTM", "GRU", "RNN_TANH" or "RNN_RELU"."""
        return self.cell.torch_mode() or f"RNN_{self.cell.nonlinearity.upper()}"  # type: ignore[attr-defined]

    def to_torch(self) -> nn.RNNBase:
        """The torch layer with these weights; refused if an option in use has no counterpart there."""
        unknown = [
            name
            for name in ("variational", "recurrent_dropout", "zoneout", "weight_drop", "learn_initial_state")
            if getattr(self, name)
        ]
        if self.bidirectional and self.merge != "concat":
            unknown.append("merge")
        if self.cell.torch_mode() is None:
            unknown.append("nonlinearity")
        if unknown:
            names = ", ".join(f"{name}={getattr(self, name)!r}" for name in unknown)
            raise ValueError(f"{type(self).__name__}.to_torch: torch.nn has nothing like {names}")
        options = {name: getattr(self, name) for name in self.options}
        module = self.twin(**options, device=self.weight_ih_l0.device, dtype=self.weight_ih_l0.dtype)
        return with_weights_of(self, module)

    def __prepare_scriptable__(self) -> nn.Module:
        """torch's layer, with the same parameters."""
        return share_parameters(self, self.to_torch())

    # ---- what nn.RNNBase has: programs that prune, share or drop weights use it ----

    @property
    def _all_weights(self) -> list[list[str]]:
        """The names of the parameters of each layer and direction."""
        return [[name + suffix(*at) for name in self._names] for at in self._grid()]

    @property
    def _flat_weights_names(self) -> list[str]:
        return [name for names in self._all_weights for name in names]

    @property
    def _flat_weights(self) -> list[Tensor]:
        """All weights in one list; what is assigned to it is what the layer uses from then on."""
        return [getattr(self, name) for name in self._flat_weights_names]

    @_flat_weights.setter
    def _flat_weights(self, values: Sequence[Tensor]) -> None:
        for name, value in zip(self._flat_weights_names, values, strict=True):
            if value is not getattr(self, name):
                self._parameters.pop(name, None)
                setattr(self, name, value)

    def _init_flat_weights(self) -> None:
        """Nothing to do: see `_flat_weights`."""

    def _update_flat_weights(self) -> None:
        """Nothing to do: see `_flat_weights`."""

    check_input = nn.RNNBase.check_input
    check_hidden_size = nn.RNNBase.check_hidden_size
    check_forward_args: Any = nn.RNNBase.check_forward_args
    get_expected_hidden_size = nn.RNNBase.get_expected_hidden_size
    permute_hidden: Any = nn.RNNBase.permute_hidden


class RNN(TorchTwin):
    """Elman layer, `h = φ(W x + U h₋ + b)` with φ = `nonlinearity`: "tanh", "relu" or "sigmoid".

    Drop-in for `torch.nn.RNN`; arguments and shapes as :class:`Recurrent`, with `nonlinearity` fourth as in torch.
    """

    cell_class = cells.Elman
    twin = TorchRNN
    options = (*TorchTwin.options, "nonlinearity")
    __signature__ = signature(Recurrent, NONLINEARITY, at=3)

    def __init__(self, *args: Any, **options: Any) -> None:
        args = take_nonlinearity(args, options, name="RNN")
        Recurrent.__init__(self, cells.Elman(options.pop("nonlinearity", "tanh")), *args, **options)

    @property
    def nonlinearity(self) -> str:
        assert isinstance(self.cell, cells.Elman)
        return self.cell.nonlinearity


class LSTM(TorchTwin):
    """Long short-term memory, gates i f g o. Drop-in for `torch.nn.LSTM`; arguments and shapes as :class:`Recurrent`.

    >>> lstm = carousel.LSTM(10, 20)
    >>> y, (h, c) = lstm(torch.randn(5, 3, 10), lengths=[2, 5, 0])
    """

    cell_class = cells.LSTM
    twin = TorchLSTM
    options = (*TorchTwin.options, "proj_size")
    check_forward_args = TorchLSTM.check_forward_args
    get_expected_cell_size = TorchLSTM.get_expected_cell_size
    permute_hidden = TorchLSTM.permute_hidden
    __signature__ = signature(Recurrent)

    def __init__(self, *args: Any, **options: Any) -> None:
        Recurrent.__init__(self, cells.LSTM(), *args, **options)


class GRU(TorchTwin):
    """Gated recurrent unit, gates r z n, reset after the product. Drop-in for `torch.nn.GRU`; as :class:`Recurrent`."""

    cell_class = cells.GRU
    twin = TorchGRU
    __signature__ = signature(Recurrent)

    def __init__(self, *args: Any, **options: Any) -> None:
        Recurrent.__init__(self, cells.GRU(), *args, **options)


def from_torch(module: nn.RNNBase) -> Recurrent:
    """The layer of ours that is the same network as a `torch.nn.RNN`, `LSTM` or `GRU`."""
    for layer in (RNN, LSTM, GRU):
        if isinstance(module, layer.twin):
            return layer.from_torch(module)
    raise TypeError(f"from_torch takes a torch.nn.RNN, LSTM or GRU, got {type(module).__name__}")


# ---- every other registered cell ----


def find_cell(name: str) -> type[cells.Cell]:
    """The registered cell `name`."""
    known = cells.registry()
    if name not in known:
        hint = " ".join((did_you_mean(name, known), f"the cells are {', '.join(known)}")).strip()
        raise ArgumentError(f"unknown cell {name!r}: {hint}")
    return known[name]


def named(name: str) -> Callable[..., Recurrent]:
    """The layer of the registered cell `name`: `named("peephole")` is `carousel.PeepholeLSTM`.

    Its arguments are those of :class:`Recurrent` without the cell, then the cell's own as keywords.
    """
    cell = find_cell(name)
    if cell not in _classes:
        twin = next((made for made in (RNN, LSTM, GRU) if made.cell_class.name == cell.extends), None)
        _classes[cell] = class_of(cell, Recurrent, cell.layer_name or cell.__name__, __name__, twin)
    return _classes[cell]


_classes: dict[type[cells.Cell], type[Recurrent]] = {layer.cell_class: layer for layer in (RNN, LSTM, GRU)}
C = TypeVar("C", bound=CellModule)


def class_of(cell: type[cells.Cell], base: type[C], name: str, module: str, twin: type[C] | None) -> type[C]:
    """A class `name` that is `base` with `cell`, whose options it takes as keywords, and `from_torch` of `twin`."""
    given = list(inspect.signature(cell).parameters.values())
    own = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=inspect.Parameter.empty) for p in given]

    def __init__(self: C, *args: Any, **options: Any) -> None:
        chosen = {p.name: options.pop(p.name) for p in own if p.name in options}
        base.__init__(self, cell(**chosen), *args, **options)

    doc = f"{inspect.getdoc(cell)}\n\nArguments and shapes as :class:`{base.__name__}`"
    doc += f", and {', '.join(f'`{p.name}`' for p in own)}." if own else "."
    body: dict[str, Any] = {"__init__": __init__, "__signature__": signature(base, *own), "__doc__": doc}
    if twin is not None:
        body |= {"twin": twin.twin, "options": twin.options}
    return type(name, (base,), body | {"__module__": module, "cell_class": cell})


for _name, _cell in cells.registry().items():  # in this module by name, so that they can be pickled
    globals().setdefault(_cell.layer_name or _cell.__name__, named(_name))
