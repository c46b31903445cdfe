"""What a cell is: names, one step of equations, and that step's derivative.

A cell knows nothing of time, layers, directions, lengths or masks over batches; the unroller
(:mod:`carousel.layers.unroll`) brings those to every cell alike. Write one by subclassing :class:`Cell`::

    class MGU(carousel.Cell):
        gates = ("f", "n")

        def step(self, x, state, w, let):
            (h,) = state
            f = let("f", torch.sigmoid(x.f + w.U(h, "f")))
            n = let("n", torch.tanh(x.n + w.U(f * h, "n")))
            return (let("h", (1 - f) * h + f * n),)

Shapes below use B for the batch (any leading shape will do), I for the input, H for the hidden size, P for the
size of `h` (P = H unless the layer projects) and G for the number of gates.
"""

from __future__ import annotations

import keyword
from collections import namedtuple
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

State = tuple[Tensor, ...]
Let = Callable[[str, Tensor], Tensor]


def unnamed(name: str, value: Tensor) -> Tensor:
    """The `let` of a plain run: nobody is watching, so the value simply passes through."""
    return value


class Weights:
    """The parameters of one layer and direction, and the two linear maps every cell shares.

    Each parameter is an attribute under its torch name without the layer suffix (`weight_ih`, `weight_hh`,
    `bias_ih`, `bias_hh`, `weight_hr`, a cell's own such as `weight_ch`; dots become underscores:
    `norm_c_weight`). Parameters the layer lacks (`bias=False`, no projection) are None.
    """

    weight_ih: Tensor  # (G·H, I)
    weight_hh: Tensor  # (G·H, P)
    bias_ih: Tensor | None  # (G·H)
    bias_hh: Tensor | None  # (G·H)
    weight_hr: Tensor | None  # (P, H)

    def __init__(self, cell: Cell, parameters: Mapping[str, Tensor], mask: Tensor | None = None):
        self.cell = cell
        self.mask = mask  # (B, P): recurrent dropout, one mask for a whole sequence
        self.bias_ih = self.bias_hh = self.weight_hr = None
        for name, value in parameters.items():
            setattr(self, name.replace(".", "_"), value)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"{type(self.cell).__name__} has no parameter '{name}'")

    def _rows(self, gates: tuple[str, ...]) -> slice:
        """Where the rows of `gates` stand in `weight_hh` and `bias_hh`."""
        names = self.cell.gates
        first = names.index(gates[0]) if gates[0] in names else -1
        if first < 0 or names[first : first + len(gates)] != gates:
            raise ValueError(f"U(v, {', '.join(gates)}): name one gate, or neighbours in the order of {names}")
        size = self.weight_hh.shape[0] // len(names)
        return slice(first * size, (first + len(gates)) * size)

    def U(self, v: Tensor, *gates: str) -> Any:
        """`U v + b`, from `v` (B, P).

        For all gates, a named tuple of (B, H); for one named gate, its (B, H) tensor; for several, a tuple.
        """
        if self.mask is not None:
            v = v * self.mask
        if not gates:
            return self.cell.split(F.linear(v, self.weight_hh, self.bias_hh))
        rows = self._rows(gates)
        out = F.linear(v, self.weight_hh[rows], None if self.bias_hh is None else self.bias_hh[rows])
        return out if len(gates) == 1 else out.chunk(len(gates), -1)

    def U_backward(self, d: State, v: Tensor, *gates: str) -> tuple[Tensor, dict[str, Tensor]]:
        """Derivative of :meth:`U`: from `d` = ∂L/∂(U v + b), ∂L/∂v (B, P) and the parameters' gradients."""
        rows = self._rows(gates) if gates else slice(None)
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


class Cell:
    """One step of a recurrent network.

    A subclass names its `gates` (the blocks of rows in `weight_ih` and `weight_hh`, in order) and `states`
    (the first is the output, `h`), and writes `step`. Everything else has a default.
    """

    gates: ClassVar[tuple[str, ...]]
    states: ClassVar[tuple[str, ...]] = ("h",)
    forget_gate: ClassVar[str | None] = None  # the gate that `forget_bias` opens
    forget_bias: ClassVar[float | None] = None  # its bias at initialisation, None: as any other
    projects: ClassVar[bool] = False  # whether `step` calls w.project, so that `proj_size` has a meaning

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for kind in ("gates", "states"):
            names = getattr(cls, kind, ())
            if not isinstance(names, tuple) or not names or len(set(names)) != len(names):
                raise TypeError(f"{cls.__name__}.{kind} must be a tuple of distinct names, got {names!r}")
            for name in names:
                if not str(name).isidentifier() or keyword.iskeyword(name) or name.startswith("_"):
                    raise TypeError(f"{cls.__name__}.{kind}: {name!r} is not usable as a name")
        if cls.forget_gate is not None and cls.forget_gate not in cls.gates:
            raise TypeError(f"{cls.__name__}.forget_gate: {cls.forget_gate!r} is not one of its gates {cls.gates}")
        cls.Gates = namedtuple("Gates", cls.gates)  # type: ignore[misc]

    Gates: ClassVar[Any]  # a named tuple with one field a gate

    def split(self, rows: Tensor) -> Any:
        """(B, G·H) → a named tuple with one (B, H) tensor for each gate."""
        return self.Gates(*rows.chunk(len(self.gates), -1))

    def extra_parameters(self, hidden_size: int) -> dict[str, tuple[int, ...]]:
        """Names and shapes of parameters beyond `weight_ih`, `weight_hh`, the biases and `weight_hr`."""
        return {}

    def initialise(self, parameters: Mapping[str, Tensor], hidden_size: int, forget_bias: float | None) -> None:
        """Set the parameters of one layer and direction: U(−1/√H, 1/√H) as torch does, then the forget bias."""
        bound = hidden_size**-0.5
        for value in parameters.values():
            nn.init.uniform_(value, -bound, bound)
        if forget_bias is not None and self.forget_gate is not None and "bias_ih" in parameters:
            at = self.gates.index(self.forget_gate) * hidden_size
            with torch.no_grad():
                parameters["bias_ih"][at : at + hidden_size] = forget_bias
                parameters["bias_hh"][at : at + hidden_size] = 0.0

    def drive(self, x: Tensor, w: Weights) -> Tensor:
        """What the input brings to every gate, `W x + b`: (T, B, I) → (T, B, G·H), for all steps in one product."""
        return F.linear(x, w.weight_ih, w.bias_ih)

    def drive_backward(self, d: Tensor, x: Tensor, w: Weights) -> tuple[Tensor, dict[str, Tensor]]:
        """Derivative of :meth:`drive`: ∂L/∂x (T, B, I) and the gradients of its parameters."""
        grads = {"weight_ih": outer(d, x)}
        if w.bias_ih is not None:
            grads["bias_ih"] = total(d)
        return d @ w.weight_ih, grads

    def step(self, x: Any, state: State, w: Weights, let: Let) -> State:
        """The cell's equations for one step.

        `x` has `W x + b` for each gate, (B, H), by name; `state` is the previous state in the order of `states`;
        `w.U(v)` gives `U v + b` by gate; `let(name, value)` names a gate or state as it is computed and returns
        the value to go on with: that is what traces record and interventions replace. Returns the new state.
        """
        raise TypeError(f"{type(self).__name__} must define step(self, x, state, w, let)")

    def backward(self, d: State, at: Any, previous: State, w: Weights) -> StepGradient:
        """The step's derivative, derived by hand.

        From `d` = ∂L/∂(new state), what `let` named at this step (`at.i`, `at.c`, …) and the previous state.
        Optional: layers train without it, by autograd on `step`.
        """
        raise TypeError(f"{type(self).__name__} has no hand-derived backward step")

    def __repr__(self) -> str:
        return type(self).__name__


@dataclass
class StepGradient:
    """What :meth:`Cell.backward` finds for one step."""

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
