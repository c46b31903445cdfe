"""What a cell declares: its gates, states, parameters and inputs, one step of equations, and that step's derivative.

A cell knows nothing of time, layers, directions, lengths or masks over batches; the unroller
(:mod:`carousel.layers.unroll`) brings those to every cell alike. Write one by subclassing :class:`Cell`::

    class MGU(carousel.Cell, name="mgu"):
        gates = {"f": Gate(role="keep"), "n": Gate("tanh", role="candidate")}    # or just ("f", "n")

        def step(self, x, state, w, let):
            (h,) = state
            f = let("f", torch.sigmoid(x.f + w.U(h, "f")))
            n = let("n", torch.tanh(x.n + w.U(f * h, "n")))
            return (let("h", (1 - f) * h + f * n),)

Shapes below use B for the batch (any leading shape will do), I for the input size, H for the hidden size, P for the
size of `h` (P = H unless the layer projects) and G for the number of gates.
"""

from __future__ import annotations

import keyword
from collections import namedtuple
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar, Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..errors import CarouselError


class CellTypeError(CarouselError, TypeError):
    """A cell whose step or parameters are not what a layer needs."""


class CellValueError(CarouselError, ValueError):
    """A cell whose step gives a state of another shape or kind of number."""


State = tuple[Tensor, ...]
Let = Callable[[str, Tensor], Tensor]
PAST_INPUTS = "past_inputs"  # the state that a cell with an `input_window` has besides its own
MAX_STATES = 8


class Sizes(NamedTuple):
    """The sizes of one layer and direction."""

    input: int  # I
    hidden: int  # H
    projected: int  # P, the size of h: H without projection
    bias: bool = True


class Gate(NamedTuple):
    """A block of H rows of `weight_ih`, and what is known of the value that comes of it."""

    activation: str = "sigmoid"  # "sigmoid": between 0 and 1; "tanh": between −1 and 1; any other name: unbounded
    recurrent: Literal["dense", "diagonal", "blocks", "none"] = "dense"  # how U connects it with h₋
    role: Literal["keep", "write", "read", "candidate"] | None = None  # what it does to the state
    label: str = ""  # "forget gate"


class StateSpec(NamedTuple):
    """One state: its shape without the batch, its kind of number, and its value before the first step."""

    shape: Callable[[Sizes], tuple[int, ...]] | None = None  # None: (P) for the first state, (H) for the others
    dtype: Literal["real", "complex"] = "real"
    initial: float = 0.0


class SideInput(NamedTuple):
    """What a step reads beside x: its shape at one step without the batch, and its value where a call gives none."""

    shape: Callable[[Sizes], tuple[int, ...]] = lambda sizes: ()
    default: float | None = None  # None: every call must give it


class ParameterSpec(NamedTuple):
    """A parameter that is not simply a shape of real numbers."""

    shape: tuple[int, ...]
    dtype: Literal["real", "complex"] = "real"  # a complex one is stored as real numbers, (..., 2)


def unnamed(name: str, value: Tensor) -> Tensor:
    """The `let` of a run that records nothing: the value passes through."""
    return value


class Weights:
    """The parameters and buffers of one layer and direction, and the two linear maps every cell shares.

    Each is an attribute under its torch name without the layer suffix (`weight_ih`, `weight_hh`, `bias_ih`, `bias_hh`,
    `weight_hr`, a cell's own such as `weight_ch`; dots become underscores: `norm_c_weight`). Of the shared ones, those
    that the layer lacks (`bias=False`, no projection) are None.
    """

    weight_ih: Tensor  # (G·H, I)
    weight_hh: Tensor  # (·H, P): rows of the gates with dense recurrence
    weight_hh_diagonal: Tensor  # (·H): of those with diagonal recurrence
    weight_hh_blocks: Tensor  # (·H, P / blocks): of those whose units see their own block of h₋
    bias_ih: Tensor | None  # (G·H)
    bias_hh: Tensor | None  # (·H): of all gates with a recurrence
    weight_hr: Tensor | None  # (P, H)

    def __init__(self, cell: Cell, parameters: Mapping[str, Tensor], mask: Tensor | None = None):
        self.cell = cell
        self.mask = mask  # (B, P): recurrent dropout, one mask for a whole sequence
        self.bias_ih = self.bias_hh = self.weight_hr = None
        for name, value in parameters.items():
            setattr(self, name.replace(".", "_"), value)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"{type(self.cell).__name__} has no parameter '{name}'")

    def U(self, v: Tensor, *gates: str) -> Any:
        """`U v + b`, from `v` (B, P).

        For all gates that have a recurrence, a named tuple of (B, H); for one named gate, its (B, H) tensor; for
        several, a tuple.
        """
        if self.mask is not None:
            v = v * self.mask
        if not gates:
            cell = self.cell
            if cell.all_dense:
                return cell.Recurrent(*F.linear(v, self.weight_hh, self.bias_hh).chunk(len(cell.gates), -1))
            return cell.Recurrent(*(self._recurrent(v, (gate,)) for gate in cell.Recurrent._fields))
        out = self._recurrent(v, gates)
        return out if len(gates) == 1 else out.chunk(len(gates), -1)

    def _recurrent(self, v: Tensor, gates: tuple[str, ...]) -> Tensor:
        """`U v + b` of neighbouring gates with one kind of recurrence: (B, P) → (B, ·H)."""
        cell = self.cell
        kind, rows, bias_rows = cell.recurrent_rows(gates)
        bias = None if self.bias_hh is None else self.bias_hh[_scaled(bias_rows, self.hidden_size)]
        at = _scaled(rows, self.hidden_size)
        if kind == "dense":
            return F.linear(v, self.weight_hh[at], bias)
        if kind == "diagonal":
            product = (v.unsqueeze(-2) * self.weight_hh_diagonal[at].unflatten(0, (len(gates), -1))).flatten(-2)
        else:  # row u of a gate sees the part of v that belongs to the block of u
            weight = self.weight_hh_blocks[at].unflatten(0, (len(gates), cell.blocks, -1))  # (gates, blocks, H/n, P/n)
            product = torch.einsum("...np,gnhp->...gnh", v.unflatten(-1, (cell.blocks, -1)), weight).flatten(-3)
        return product if bias is None else product + bias

    @property
    def hidden_size(self) -> int:
        """H, from the rows of a parameter that has them for each gate."""
        return self.weight_ih.shape[0] // len(self.cell.gates)

    def U_backward(self, d: State, v: Tensor, *gates: str) -> tuple[Tensor, dict[str, Tensor]]:
        """Derivative of :meth:`U`, dense: from `d` = ∂L/∂(U v + b), ∂L/∂v (B, P) and the parameters' gradients."""
        rows = _scaled(self.cell.recurrent_rows(gates)[1], self.hidden_size) if gates else slice(None)
        delta = torch.cat(d, -1)
        dv = delta @ self.weight_hh[rows]
        if self.mask is not None:
            v, dv = v * self.mask, dv * self.mask
        grads = {"weight_hh": torch.zeros_like(self.weight_hh)}
        grads["weight_hh"][rows] = outer(delta, v)
        if self.bias_hh is not None:
            grads["bias_hh"] = torch.zeros_like(self.bias_hh)
            grads["bias_hh"][rows] = total(delta)
        return dv, grads

    def project(self, m: Tensor) -> Tensor:
        """`W_hr m`, (B, H) → (B, P), or `m` itself in a layer without projection."""
        return m if self.weight_hr is None else F.linear(m, self.weight_hr)

    def project_backward(self, dh: Tensor, m: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """Derivative of :meth:`project`: ∂L/∂m (B, H) and the gradient of `weight_hr`."""
        if self.weight_hr is None:
            return dh, {}
        return dh @ self.weight_hr, {"weight_hr": outer(dh, m)}


def _scaled(rows: slice, size: int) -> slice:
    return slice(rows.start * size, rows.stop * size)


class Cell:
    """One step of a recurrent network.

    A subclass declares

    * `gates`: the blocks of rows of `weight_ih`, in order; names, or names with a :class:`Gate` each;
    * `states`: names, or names with a :class:`StateSpec` each; the first is the output, `h`;
    * `side_inputs`: what a step reads beside x, such as the time since the last observation: names, or names with
      a :class:`SideInput` each;
    * `input_window`: how many past inputs `project_input` sees beside the present one;

    and writes `step`. Everything else has a default. `class MGU(Cell, name="mgu")` registers the cell under a name: it
    is then a choice wherever a cell is chosen, and `carousel.layers.named("mgu")` is its layer.
    """

    gates: Any = {}
    states: Any = ("h",)
    side_inputs: Any = ()
    input_window: ClassVar[int] = 0
    blocks: int = 1  # of the gates whose recurrence is "blocks"
    forget_bias: ClassVar[float | None] = None  # the bias of the gate that keeps, at initialisation; None: as any other
    projects: ClassVar[bool] = False  # whether `step` calls w.project, so that `proj_size` has a meaning
    extends: ClassVar[str | None] = None  # the cell of torch that it is where parameters of its own are 0
    name: ClassVar[str | None] = None  # in the registry
    layer_name: ClassVar[str | None] = None  # of the class that `carousel.layers` makes of it
    label: str = ""  # the cell's name in figures and tables; empty: that of its layer
    year: ClassVar[int] = 9999  # of publication: the order of the registry

    trace_step: ClassVar[Callable[..., Any] | None] = None  # set by carousel.program, which is written on top of cells
    all_dense: ClassVar[bool]  # every gate's recurrence is dense
    Inputs: ClassVar[Any]  # a named tuple: W x + b of each gate, then the side inputs
    Recurrent: ClassVar[Any]  # a named tuple: U v + b of each gate that has a recurrence

    def __init_subclass__(
        cls, *, name: str | None = None, layer: str | None = None, year: int = 9999, **kwargs: Any
    ) -> None:
        super().__init_subclass__(**kwargs)
        cls.gates = _declared(cls, "gates", Gate)
        cls.states = _declared(cls, "states", StateSpec)
        cls.side_inputs = _declared(cls, "side_inputs", SideInput, needed=False)
        _check(cls)
        if PAST_INPUTS not in cls.states and cls.input_window:
            window = cls.input_window
            past = StateSpec(lambda sizes: (window, sizes.input))
            cls.states = MappingProxyType({**cls.states, PAST_INPUTS: past})
        recurrent = [gate for gate, spec in cls.gates.items() if spec.recurrent != "none"]
        cls.Inputs = namedtuple("Inputs", (*cls.gates, *cls.side_inputs))  # type: ignore[misc]
        cls.Recurrent = namedtuple("Recurrent", recurrent)  # type: ignore[misc]
        cls.Inputs.__getattr__ = _no_gate("the gates are", cls.Inputs._fields)
        cls.Recurrent.__getattr__ = _no_gate("the gates with a recurrence are", recurrent)
        cls.all_dense = all(spec.recurrent == "dense" for spec in cls.gates.values())
        for method in ("kernel", "torch_mode"):  # a subclass may compute something else than its parent
            if method not in cls.__dict__:
                setattr(cls, method, getattr(Cell, method))
        cls.name, cls.layer_name, cls.year = name, layer, year
        if "label" not in cls.__dict__:
            cls.label = layer or cls.__name__
        if name is not None:
            register(cls, name)

    # ---- what is declared ----

    @property
    def output(self) -> str:
        """The name of the state that is the layer's output."""
        return next(iter(self.states))

    @property
    def own_states(self) -> tuple[str, ...]:
        """The states that `step` receives and returns."""
        return tuple(name for name in self.states if name != PAST_INPUTS)

    def gates_of(self, recurrent: str) -> tuple[str, ...]:
        """The gates with this kind of recurrence."""
        return tuple(name for name, gate in self.gates.items() if gate.recurrent == recurrent)

    def gate_with(self, role: str) -> str | None:
        """The name of the first gate with `role`, None if there is none."""
        return next((name for name, gate in self.gates.items() if gate.role == role), None)

    def gate_rows(self, gate: str, hidden_size: int) -> slice:
        """Where the rows of `gate` stand in `weight_ih` and `bias_ih`."""
        at = list(self.gates).index(gate)
        return slice(at * hidden_size, (at + 1) * hidden_size)

    def recurrent_rows(self, gates: tuple[str, ...]) -> tuple[str, slice, slice]:
        """The kind of recurrence that `gates` share, and their places among the gates of that kind (rows of its weight)
        and among all gates with a recurrence (rows of `bias_hh`), counted in gates."""
        biased = self.Recurrent._fields
        kind = self.gates[gates[0]].recurrent if gates[0] in biased else "none"
        same = tuple(gate for gate in biased if self.gates[gate].recurrent == kind)
        places = []
        for names in (same, biased):
            first = names.index(gates[0]) if gates[0] in names else 0
            if names[first : first + len(gates)] != gates:
                raise ValueError(f"U(v, {', '.join(gates)}): name one gate, or neighbours in the order of {biased}")
            places.append(slice(first, first + len(gates)))
        return kind, places[0], places[1]

    def kernel(self) -> str | None:
        """The name of the native kernel that computes this cell; None: the reference path runs it."""
        return None

    def torch_mode(self) -> str | None:
        """torch's name of this cell ("LSTM", "GRU", "RNN_TANH", "RNN_RELU"), None if torch does not have it."""
        return None

    # ---- parameters ----

    def parameters(self, sizes: Sizes) -> dict[str, tuple[int, ...] | ParameterSpec]:
        """Names and shapes of the parameters of one layer and direction.

        Extend it with `super().parameters(sizes) | {"weight_ch": (sizes.hidden,)}`.
        """
        hidden, kinds = sizes.hidden, [gate.recurrent for gate in self.gates.values()]
        columns = {
            "weight_hh": ("dense", (sizes.projected,)),
            "weight_hh_diagonal": ("diagonal", ()),
            "weight_hh_blocks": ("blocks", (sizes.projected // self.blocks,)),
        }
        shapes: dict[str, tuple[int, ...] | ParameterSpec] = {"weight_ih": (len(kinds) * hidden, sizes.input)}
        for name, (kind, width) in columns.items():
            if kind in kinds:
                shapes[name] = (kinds.count(kind) * hidden, *width)
        if sizes.bias:
            shapes["bias_ih"] = (len(kinds) * hidden,)
            if self.Recurrent._fields:
                shapes["bias_hh"] = (len(self.Recurrent._fields) * hidden,)
        if sizes.projected != hidden:
            shapes["weight_hr"] = (sizes.projected, hidden)
        return shapes

    def buffers(self, sizes: Sizes) -> dict[str, Tensor]:
        """Tensors that the step reads (`w.name`) and that are not trained, for one layer and direction."""
        return {}

    def initialise(self, parameters: Mapping[str, Tensor], sizes: Sizes, forget_bias: float | None) -> None:
        """Set the parameters of one layer and direction: U(−1/√H, 1/√H) as torch does, then the forget bias."""
        bound = sizes.hidden**-0.5
        for value in parameters.values():
            nn.init.uniform_(value, -bound, bound)
        keep = self.gate_with("keep")
        if forget_bias is None or keep is None or "bias_ih" not in parameters:
            return
        with torch.no_grad():
            parameters["bias_ih"][self.gate_rows(keep, sizes.hidden)] = forget_bias
            if keep in self.Recurrent._fields:
                rows = _scaled(self.recurrent_rows((keep,))[2], sizes.hidden)
                parameters["bias_hh"][rows] = 0.0

    # ---- equations ----

    def project_input(self, x: Tensor, w: Weights) -> Tensor:
        """The input's part of every gate, `W x + b`: (T, B, I) → (T, B, G·H), for all steps in one product.

        With an `input_window` of n, x is (T, B, 1 + n, I): the present input, then the n before it, latest first.
        """
        return F.linear(x, w.weight_ih, w.bias_ih)

    def project_input_backward(self, d: Tensor, x: Tensor, w: Weights) -> tuple[Tensor, dict[str, Tensor]]:
        """Derivative of :meth:`project_input`: ∂L/∂x (T, B, I) and the gradients of its parameters."""
        grads = {"weight_ih": outer(d, x)}
        if w.bias_ih is not None:
            grads["bias_ih"] = total(d)
        return d @ w.weight_ih, grads

    def inputs(self, projected: Tensor, side: tuple[Tensor, ...] = ()) -> Any:
        """What `step` receives as `x`: of projected (B, G·H) a (B, H) tensor for each gate, then the side inputs."""
        return self.Inputs(*projected.chunk(len(self.gates), -1), *side)

    def step(self, x: Any, state: State, w: Weights, let: Let) -> State:
        """The cell's equations for one step.

        `x` has `W x + b` for each gate, (B, H), and the side inputs, by name; `state` is the previous state in the
        order of `states`; `w.U(v)` gives `U v + b` by gate; `let(name, value)` names a gate or state as it is computed
        and returns the value to continue with: traces record it, and interventions replace it. Returns the new state.
        """
        raise CellTypeError(f"{type(self).__name__} must define step(self, x, state, w, let)")

    def backward(self, d: State, at: Any, previous: State, w: Weights) -> StepGradient:
        """The step's derivative, derived by hand.

        From `d` = ∂L/∂(new state), what `let` named at this step (`at.i`, `at.c`, …) and the previous state.
        Optional: layers train without it, by autograd on `step`.
        """
        raise TypeError(f"{type(self).__name__} has no hand-derived backward step")

    def program(self, hidden_size: int = 4, input_size: int = 3, proj_size: int = 0, bias: bool = True) -> Any:
        """The step as a program (`carousel.program.Program`): `print` shows its equations, `.latex()` typesets them,
        `.derivative()` is its backward step. The sizes are those of the layer that it is traced for."""
        if Cell.trace_step is None:
            raise RuntimeError("a cell's program needs carousel.program: import it, or carousel.layers")
        return Cell.trace_step(self, Sizes(input_size, hidden_size, proj_size or hidden_size, bias))

    def __repr__(self) -> str:
        return type(self).__name__


# ---- the registry ----

_registry: dict[str, type[Cell]] = {}


def register(cell: type[Cell], name: str) -> None:
    """Make `cell` a choice under `name`; done by `class MyCell(Cell, name=...)`."""
    known = _registry.get(name)
    if known is not None and (known.__module__, known.__qualname__) != (cell.__module__, cell.__qualname__):
        raise TypeError(f"cell {name!r} is already registered by {known.__module__}.{known.__qualname__}")
    _registry[name] = cell


def registry() -> dict[str, type[Cell]]:
    """The registered cells by name, in the order of their publication."""
    return dict(sorted(_registry.items(), key=lambda item: item[1].year))


# ---- checks where a class is written ----


def _declared(cls: type[Cell], kind: str, spec: type[Any], needed: bool = True) -> Mapping[str, Any]:
    """`gates`, `states` or `side_inputs` as a read-only mapping from name to `spec`."""
    given = getattr(cls, kind)
    if isinstance(given, tuple):
        named = dict.fromkeys(given, spec())
        if len(named) != len(given):
            raise TypeError(f"{cls.__name__}.{kind} must have distinct names, got {given!r}")
    elif isinstance(given, Mapping):
        named = dict(given)
    else:
        raise TypeError(
            f"{cls.__name__}.{kind} must be a tuple of names or a dict from name to {spec.__name__}, got {given!r}"
        )
    if needed and not named:
        raise TypeError(f"{cls.__name__}.{kind} must have at least one name")
    for name, value in named.items():
        _check_name(cls, kind, name)
        if not isinstance(value, spec):
            raise TypeError(f"{cls.__name__}.{kind}: {name!r} must have a {spec.__name__}, got {value!r}")
    return MappingProxyType(named)


def _check_name(cls: type[Cell], kind: str, name: Any) -> None:
    if not str(name).isidentifier() or keyword.iskeyword(name) or name.startswith("_"):
        raise TypeError(f"{cls.__name__}.{kind}: {name!r} is not usable as a name")


def _no_gate(known: str, names: Sequence[str]) -> Callable[[Any, str], Any]:
    """The `__getattr__` of what `step` has by gate: of a name that is none of `names`."""

    def missing(self: Any, name: str) -> Any:
        raise AttributeError(f"there is no gate {name}; {known} {', '.join(names)}", name=name, obj=None)

    return missing


def _check(cls: type[Cell]) -> None:
    """Refuse declarations that a layer could not hold."""
    kinds = ("dense", "diagonal", "blocks", "none")
    for gate, spec in cls.gates.items():
        if spec.recurrent not in kinds:
            raise TypeError(f"{cls.__name__}.gates: {gate!r} is {spec.recurrent!r}; accepted: {', '.join(kinds)}")
    output, first = next(iter(cls.states.items()))
    if first != StateSpec(initial=first.initial):
        raise TypeError(f"{cls.__name__}.states: {output!r} is the output, which is real and has the layer's own shape")
    if PAST_INPUTS in cls.states and not cls.input_window:
        raise TypeError(f"{cls.__name__}.states: {PAST_INPUTS!r} is the state of a cell with an input_window")
    if len(cls.states) > MAX_STATES:
        raise TypeError(f"{cls.__name__}.states: at most {MAX_STATES} states, got {len(cls.states)}")
    for side in cls.side_inputs:
        if side in cls.gates or side in ("input", "hx", "state", "lengths", "reset", "gradients_of"):
            raise TypeError(f"{cls.__name__}.side_inputs: {side!r} is the name of a gate or of an argument")


@dataclass
class StepGradient:
    """The result of :meth:`Cell.backward` for one step."""

    values: dict[str, Tensor]  # ∂L/∂(gate or state), by name: (B, H)
    x: State  # ∂L/∂(W x + b), gate by gate: (B, H)
    state: State  # ∂L/∂(previous state)
    weights: dict[str, Tensor] = field(default_factory=dict)  # gradients of the recurrent parameters


def d_sigmoid(y: Tensor) -> Tensor:
    """σ′ in terms of y = σ(a): y (1 − y)."""
    return y * (1 - y)


def d_tanh(y: Tensor) -> Tensor:
    """tanh′ in terms of y = tanh(a): 1 − y²."""
    return 1 - y * y


def outer(d: Tensor, v: Tensor) -> Tensor:
    """Σ over the leading dimensions of d vᵀ: the gradient of a weight from (…, M) and (…, N), (M, N)."""
    return d.flatten(0, -2).mT @ v.flatten(0, -2)


def total(d: Tensor) -> Tensor:
    """Σ over the leading dimensions: the gradient of a bias from (…, M)."""
    return d.flatten(0, -2).sum(0)


def add_gradients(*parts: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Gradients by parameter name, summed where several parts have one."""
    out: dict[str, Tensor] = {}
    for part in parts:
        for name, grad in part.items():
            out[name] = out[name] + grad if name in out else grad
    return out
