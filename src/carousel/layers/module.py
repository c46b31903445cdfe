"""A cell's parameters as those of a module: what a stack of layers and a single step have in common."""

from __future__ import annotations

import inspect
from typing import Any, ClassVar, Self, TypeVar

import torch
from torch import Tensor, nn

from ..cells.spec import Cell, ParameterSpec, Sizes

INITS = ("carousel", "torch")
M = TypeVar("M", bound=nn.Module)
# what the parameters were made for
FIXED = frozenset(
    ("input_size", "hidden_size", "num_layers", "bias", "bidirectional", "proj_size", "merge", "learn_initial_state")
)


class CellModule(nn.Module):
    """A module made from one cell, which may hold its parameters several times, each time with a suffix of their names:
    `weight_ih_l0_reverse` in a stack, plain `weight_ih` in a single step."""

    cell_class: ClassVar[type[Cell] | None] = None  # of a module by name
    first_suffix: ClassVar[str]  # of the parameters that read the module's input
    twin: ClassVar[type[nn.Module] | None] = None  # torch's module, which this is if parameters of its own are zero
    options: ClassVar[tuple[str, ...]] = ()  # the constructor's arguments that torch's module has as attributes

    cell: Cell
    input_size: int
    hidden_size: int
    init: str
    forget_bias: float | None
    _names: tuple[str, ...]  # of one set of parameters, without suffix
    _complex: tuple[str, ...]  # those of them that are complex
    _buffer_names: tuple[str, ...]
    _shapes: dict[str, tuple[int, ...]]  # of the parameters as they are stored, by name

    def __setattr__(self, name: str, value: Any) -> None:
        if name in FIXED and vars(self).get(name, value) != value:
            raise AttributeError(
                f"{type(self).__name__}: {name} is {vars(self)[name]!r} and cannot be changed, because the parameters "
                "were made for it; construct another layer"
            )
        super().__setattr__(name, value)

    @classmethod
    def from_torch(cls, module: nn.Module, **own: Any) -> Self:
        """The same network as one of torch's: its arguments, weights, dtype, device and mode.

        Parameters that torch's has not, such as peepholes, start at zero, so that outputs are equal. `own` are options
        of the cell.

        >>> layer = carousel.GRU.from_torch(torch.nn.GRU(10, 20, bidirectional=True))
        """
        name, given = cls.__name__, type(module).__name__
        if cls.twin is None:
            raise TypeError(f"{name}.from_torch: no module of torch.nn computes the same as {name}, got {given}")
        if not isinstance(module, cls.twin) or isinstance(module, CellModule):
            whose = "Carousel's " if isinstance(module, CellModule) else ""
            raise TypeError(f"{name}.from_torch takes a torch.nn.{cls.twin.__name__}, got {whose}{given}")
        weight = getattr(module, "weight_ih" + cls.first_suffix)
        options = {name: getattr(module, name) for name in cls.options} | own
        with torch.random.fork_rng(devices=[]):  # its initial weights are not used
            layer = cls(**options, init="torch", device=weight.device, dtype=weight.dtype)
        return with_weights_of(module, layer)

    def _look_like_torch(self) -> None:
        """`torch.fx` keeps modules whose `__module__` is in torch.nn as one node, and asks the instance."""
        vars(self)["__module__"] = "torch.nn.carousel"

    def _choose_forget_bias(self, init: str, forget_bias: float | None) -> None:
        """Take `init` and `forget_bias` as they were given to the constructor."""
        if init not in INITS:
            raise ValueError(f"init must be one of {', '.join(map(repr, INITS))}, got {init!r}")
        if init == "torch" and forget_bias is not None:
            raise ValueError(
                f"init='torch' sets no forget bias, but forget_bias={forget_bias} was given; give one of them"
            )
        self.init = init
        own = None if init == "torch" else self.cell.forget_bias
        self.forget_bias = own if forget_bias is None else float(forget_bias)

    def _register_set(self, at: str, specs: dict[str, ParameterSpec], sizes: Sizes, device: Any, dtype: Any) -> None:
        """Add parameters by `specs` and the cell's buffers, all with the suffix `at`."""
        shapes = {name: stored(spec) for name, spec in specs.items()}
        self._shapes = vars(self).get("_shapes", {}) | {name + at: shape for name, shape in shapes.items()}
        for name, shape in shapes.items():
            self._register(name, at, torch.empty(shape, device=device, dtype=dtype))
        for name, value in self.cell.buffers(sizes).items():
            self.register_buffer(name + at, value.to(device, dtype if value.is_floating_point() else None))

    def _register(self, name: str, at: str, value: Tensor) -> None:
        """`weight_ih` → `weight_ih_l0_reverse`; `norm_c.weight` → a group `norm_c_l0_reverse` with a `weight`."""
        group, dot, member = name.partition(".")
        if not dot:
            self.register_parameter(name + at, nn.Parameter(value))
            return
        if not hasattr(self, group + at):
            self.add_module(group + at, Group())
        getattr(self, group + at).register_parameter(member, nn.Parameter(value))

    def _parameters_at(self, at: str) -> dict[str, Tensor]:
        """The parameters with the suffix `at` as they are stored, by name without it. Kernels read memory as these
        shapes say, so one that was replaced by another of another shape is an error."""
        found = {}
        for name in self._names:
            group, dot, member = name.partition(".")
            value = getattr(getattr(self, group + at), member) if dot else getattr(self, name + at)
            if value.shape != self._shapes[name + at]:
                raise RuntimeError(
                    f"{type(self).__name__}: {group}{at}{dot}{member} must have shape {self._shapes[name + at]}, "
                    f"got {tuple(value.shape)}"
                )
            found[name] = value
        return found

    def _values_at(self, at: str) -> dict[str, Tensor]:
        """What the step reads: the parameters with the suffix `at`, complex ones as complex, and buffers."""
        values = self._parameters_at(at)
        for name in self._complex:
            values[name] = torch.view_as_complex(values[name])
        for name in self._buffer_names:
            values[name] = getattr(self, name + at)
        return values

    # ---- torch.jit.script ----

    def __prepare_scriptable__(self) -> nn.Module:
        """What `torch.jit.script` compiles in place of this module."""
        raise RuntimeError(
            f"torch.jit.script cannot compile {type(self).__name__}, which torch does not have; use torch.jit.trace, "
            "torch.export or torch.onnx.export"
        )

    # ---- copies and files ----

    def __getstate__(self) -> dict[str, Any]:
        """The state of a module. A named layer has its cell as options and its norms as plain parameters, so that
        `torch.load` with `safe_globals([carousel.LSTM])` needs no other class of ours."""
        state = self.__dict__.copy()
        if self.cell_class is not None and type(self.cell) is self.cell_class:
            names = inspect.signature(self.cell_class).parameters
            state["cell"] = {name: getattr(self.cell, name) for name in names}
        groups = {name: module for name, module in self._modules.items() if isinstance(module, Group)}
        state["_modules"] = {name: module for name, module in self._modules.items() if name not in groups}
        state["groups"] = {name: dict(group._parameters) for name, group in groups.items()}
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        groups = state.pop("groups", {})
        if isinstance(state["cell"], dict):
            assert self.cell_class is not None
            state["cell"] = self.cell_class(**state["cell"])
        nn.Module.__setstate__(self, state)
        for name, parameters in groups.items():
            group = Group()
            for member, parameter in parameters.items():
                group.register_parameter(member, parameter)
            self.add_module(name, group.train(self.training))

    # ---- description ----

    def _described(self, generic: type[CellModule], defaults: dict[str, Any]) -> str:
        """The cell, unless the class is named after it, sizes, and what differs from the `defaults`."""
        parts = [] if type(self) is not generic else [repr(self.cell)]
        parts += [str(self.input_size), str(self.hidden_size)]
        forget_bias = self.cell.forget_bias if self.init == "carousel" else None
        defaults = defaults | {"forget_bias": forget_bias, "init": "carousel"}
        own = inspect.signature(type(self)).parameters  # a named layer's own options, such as nonlinearity
        parts += [f"{n}={v!r}" for n, v in vars(self.cell).items() if n in own and v != own[n].default]
        parts += [f"{n}={getattr(self, n)!r}" for n, default in defaults.items() if getattr(self, n) != default]
        return ", ".join(parts)


def share_parameters(source: nn.Module, target: nn.Module) -> nn.Module:
    """`target` with the very parameters of `source`, whose names are the same."""
    for name, parameter in source._parameters.items():
        setattr(target, name, parameter)
    return target


def with_weights_of(source: nn.Module, target: M) -> M:
    """`target` with the weights, requires_grad and mode of `source`; what `source` has not is zero."""
    for name, parameter in target.named_parameters():
        value = getattr(source, name, None)  # not from state_dict: a parametrized or pruned weight is not in it
        with torch.no_grad():
            parameter.zero_() if value is None else parameter.copy_(value)
        parameter.requires_grad_(value is None or value.requires_grad)
    return target.train(source.training)


class Group(nn.Module):
    """Parameters that share a name before the dot, such as `norm_c_l0.weight` and `norm_c_l0.bias`."""

    def extra_repr(self) -> str:
        return ", ".join(f"{name}: {'×'.join(map(str, p.shape))}" for name, p in self.named_parameters())


def stored(spec: ParameterSpec) -> tuple[int, ...]:
    """The shape in which a parameter is kept: a complex one as pairs of real numbers, so that `.double()`, optimizers
    and files treat it like any other."""
    return (*spec.shape, 2) if spec.dtype == "complex" else spec.shape
