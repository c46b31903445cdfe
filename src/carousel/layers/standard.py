"""The layers by name: each is :class:`Recurrent` with its cell, and for three of them a way from and to torch."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable
from typing import Any, ClassVar, Self

from torch import Tensor, nn

from .. import cells
from .recurrent import Recurrent


def _signature(*own: inspect.Parameter, at: int | None = None) -> inspect.Signature:
    """Recurrent's arguments without the cell, with a layer's `own` ones at position `at` or last."""
    arguments = [p for n, p in inspect.signature(Recurrent).parameters.items() if n not in ("cell", "unknown")]
    at = len(arguments) if at is None else at
    return inspect.Signature([*arguments[:at], *own, *arguments[at:]])


def _option(name: str, default: Any, kind: Any = inspect.Parameter.KEYWORD_ONLY) -> inspect.Parameter:
    return inspect.Parameter(name, kind, default=default)


class TorchTwin(Recurrent):
    """A layer that torch has too: the same parameters, so that weights go both ways."""

    twin: ClassVar[type[nn.RNNBase]]

    @property
    def mode(self) -> str:
        """torch's word for the cell: "LSTM", "GRU", "RNN_TANH" or "RNN_RELU"."""
        return self.cell.torch_mode() or f"RNN_{self.cell.nonlinearity.upper()}"  # type: ignore[attr-defined]

    @property
    def _flat_weights(self) -> list[Tensor]:
        """All weights in one list. Private in torch, but code for pruning and weight norm looks here."""
        return [weight for weights in self.all_weights for weight in weights]

    @classmethod
    def from_torch(cls, module: nn.RNNBase) -> Self:
        """This layer with the arguments, weights, dtype, device and mode of a torch one.

        >>> layer = carousel.GRU.from_torch(torch.nn.GRU(10, 20, bidirectional=True))
        """
        if not isinstance(module, cls.twin):
            raise TypeError(f"{cls.__name__}.from_torch takes a torch.nn.{cls.twin.__name__}, got {module!r}")
        options = {name: getattr(module, name) for name in _shared(cls.twin)}
        layer = cls(**options, device=module.weight_ih_l0.device, dtype=module.weight_ih_l0.dtype)
        layer.load_state_dict(module.state_dict())
        for name, parameter in layer.named_parameters():
            parameter.requires_grad_(getattr(module, name).requires_grad)
        return layer.train(module.training)

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
            says = ", ".join(f"{name}={getattr(self, name)!r}" for name in unknown)
            raise ValueError(f"{type(self).__name__}.to_torch: torch.nn has nothing like {says}")
        options = {name: getattr(self, name) for name in _shared(self.twin)}
        module = self.twin(**options, device=self.weight_ih_l0.device, dtype=self.weight_ih_l0.dtype)
        module.load_state_dict(self.state_dict())
        for name, parameter in module.named_parameters():
            parameter.requires_grad_(getattr(self, name).requires_grad)
        return module.train(self.training)


def _shared(twin: type[nn.RNNBase]) -> list[str]:
    """The constructor arguments of a torch layer that are also its attributes."""
    names = ["input_size", "hidden_size", "num_layers", "bias", "batch_first", "dropout", "bidirectional"]
    return names + {nn.LSTM: ["proj_size"], nn.RNN: ["nonlinearity"]}.get(twin, [])


class RNN(TorchTwin):
    """Elman layer, `h = φ(W x + U h₋ + b)` with φ = `nonlinearity`: "tanh", "relu" or "sigmoid".

    Drop-in for `torch.nn.RNN`; arguments and shapes as :class:`Recurrent`, with `nonlinearity` fourth as in torch.
    """

    twin = nn.RNN
    __signature__ = _signature(_option("nonlinearity", "tanh", inspect.Parameter.POSITIONAL_OR_KEYWORD), at=3)

    def __init__(self, *args: Any, **options: Any) -> None:
        if len(args) > 3:
            if "nonlinearity" in options:
                raise TypeError("RNN got multiple values for argument 'nonlinearity'")
            options["nonlinearity"], args = args[3], args[:3] + args[4:]
        nonlinearity = options.pop("nonlinearity", "tanh")
        super().__init__(cells.Elman(nonlinearity), *args, **options)

    @property
    def nonlinearity(self) -> str:
        assert isinstance(self.cell, cells.Elman)
        return self.cell.nonlinearity


class LSTM(TorchTwin):
    """Long short-term memory, gates i f g o. Drop-in for `torch.nn.LSTM`; arguments and shapes as :class:`Recurrent`.

    >>> lstm = carousel.LSTM(10, 20)
    >>> y, (h, c) = lstm(torch.randn(5, 3, 10), lengths=[2, 5, 0])
    """

    twin = nn.LSTM
    __signature__ = _signature()

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(cells.LSTM(), *args, **options)


class GRU(TorchTwin):
    """Gated recurrent unit, gates r z n, reset after the product. Drop-in for `torch.nn.GRU`; as :class:`Recurrent`."""

    twin = nn.GRU
    __signature__ = _signature()

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(cells.GRU(), *args, **options)


# ---- every other registered cell ----


def named(name: str) -> Callable[..., Recurrent]:
    """The layer of the registered cell `name`: `named("peephole")` is `carousel.PeepholeLSTM`.

    Its arguments are those of :class:`Recurrent` without the cell, then the cell's own as keywords.
    """
    known = cells.registry()
    if name not in known:
        near = difflib.get_close_matches(str(name), known, 1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise ValueError(f"unknown cell {name!r}: {hint}the cells are {', '.join(known)}")
    cell = known[name]
    if cell not in _classes:
        _classes[cell] = _made(cell)
    return _classes[cell]


_classes: dict[type[cells.Cell], type[Recurrent]] = {cells.Elman: RNN, cells.LSTM: LSTM, cells.GRU: GRU}


def _made(cell: type[cells.Cell]) -> type[Recurrent]:
    """A layer class for `cell`."""
    given = list(inspect.signature(cell).parameters.values())
    own = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=inspect.Parameter.empty) for p in given]

    def __init__(self: Recurrent, *args: Any, **options: Any) -> None:
        chosen = {p.name: options.pop(p.name) for p in own if p.name in options}
        Recurrent.__init__(self, cell(**chosen), *args, **options)

    doc = f"{inspect.getdoc(cell)}\n\nArguments and shapes as :class:`Recurrent`"
    doc += f", and {', '.join(f'`{p.name}`' for p in own)}." if own else "."
    body = {"__init__": __init__, "__signature__": _signature(*own), "__doc__": doc, "__module__": __name__}
    return type(cell.layer_name or cell.__name__, (Recurrent,), body)


for _name, _cell in cells.registry().items():  # in this module by name, so that they can be pickled
    globals().setdefault(_cell.layer_name or _cell.__name__, named(_name))
