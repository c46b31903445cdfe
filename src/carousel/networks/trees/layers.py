"""Three ways to make a node's state from its children's, each with its derivative by hand.

`up` goes from the leaves to the roots, a level at a time, and keeps the gates; `down` goes back. The products for the
weights' gradients are made once, over all nodes, when the roots' derivative has reached the leaves. A node's input is
`W x + b`, made for all nodes in one product; nodes without an input (the inner ones of a constituency tree) have `b`.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from ...layers.trace import Clamp, clamp_planes
from ...masks import length_mask
from .forest import Forest, Level

Let = Callable[[str, "slice | Tensor", Tensor], Tensor]  # a name of the equations, the nodes, and a row for each


class Names(NamedTuple):
    """The names of a tree layer's equations, as `Clamp` asks a cell for them."""

    gates: tuple[str, ...]
    states: tuple[str, ...]


@dataclass(frozen=True)
class TreeTrace:
    """What a layer computes at every node, (n, hidden) each, by the names of its equations.

    `gates["f"]` of a node is the forget gate by which its parent reads it; a root has none, and zeros there.
    """

    gates: dict[str, Tensor]
    states: dict[str, Tensor]
    tokens: tuple[str, ...] = ()  # of each node, its word or the words below it

    def split(self, lengths: Sequence[int]) -> list[TreeTrace]:
        """Those of several trees, which have so many nodes each."""
        parts = {name: rows.split(lengths) for name, rows in (self.gates | self.states).items()}
        return [
            TreeTrace({name: parts[name][k] for name in self.gates}, {name: parts[name][k] for name in self.states})
            for k in range(len(lengths))
        ]

    def __repr__(self) -> str:
        gates = f"gates {' '.join(self.gates)}; " if self.gates else ""
        nodes, units = self.states["h"].shape
        return f"TreeTrace({gates}states {' '.join(self.states)}; {nodes}×{units}: node, unit)"


class TreeLayer(nn.Module):
    """A state for every node. `layer(x, forest)` gives h (n, hidden) in the order of the trees' nodes.

    x (n, input) has a row for each node, in the order the trees were given in. The states of the roots are
    `h[forest.order[forest.roots]]`; or call `layer.roots(h, forest)`.
    """

    cell: ClassVar[Names] = Names(("i", "o", "u", "f"), ("h", "c"))
    num_layers = num_directions = 1

    def __init__(self, input_size: int, hidden_size: int, gates: int) -> None:
        super().__init__()
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.weight = nn.Parameter(torch.empty(gates * hidden_size, input_size))
        self.bias = nn.Parameter(torch.zeros(gates * hidden_size))

    def reset_parameters(self) -> None:
        for parameter in self.parameters():
            if parameter.dim() > 1:
                bound = 1 / math.sqrt(self.hidden_size)
                nn.init.uniform_(parameter, -bound, bound)

    def forward(self, x: Tensor, forest: Forest) -> Tensor:
        """x (n, input) → h (n, hidden), both in the order in which the nodes were given."""
        h = _Climb.apply(self, forest, self._project(x, forest), *self.recurrent())
        return torch.empty_like(h).index_copy(0, forest.order, h)

    def trace(self, x: Tensor, forest: Forest) -> TreeTrace:
        """Every gate and state of every node, in the order in which the nodes were given."""
        return self.intervene(x, forest)

    @torch.no_grad()
    def intervene(self, x: Tensor, forest: Forest, *clamps: Clamp) -> TreeTrace:
        """As `trace`, with some gates or states held at given values; the nodes above depend on them. The `steps` of a
        `Clamp` are the nodes of a tree, its `sequences` the trees."""
        watch = _Watch(self, x, forest, clamps)
        projected = self._project(x, forest)
        h = x.new_zeros(forest.nodes + 1, self.hidden_size)
        c = torch.zeros_like(h)
        for level in forest.levels:
            self.up(level, projected[level.nodes], h, c, self.recurrent(), watch.let)
        return watch.result(forest)

    def state_shape(self, name: str) -> tuple[int]:
        """The shape of a state of one node."""
        return (self.hidden_size,)

    def _project(self, x: Tensor, forest: Forest) -> Tensor:
        """W x + b, in the order of the forest's nodes."""
        if x.dim() != 2 or tuple(x.shape) != (forest.nodes, self.input_size):
            raise ValueError(f"x must have the shape ({forest.nodes}, {self.input_size}), got {tuple(x.shape)}")
        self.check(forest)
        return nn.functional.linear(x, self.weight, self.bias)[forest.order]

    def roots(self, h: Tensor, forest: Forest) -> Tensor:
        """The rows of the roots, (trees, …)."""
        return h[forest.order[forest.roots]]

    def check(self, forest: Forest) -> None:
        """Complain of a shape that this layer cannot compute."""

    @abstractmethod
    def recurrent(self) -> tuple[Tensor, ...]:
        """The weights that see the children."""

    @abstractmethod
    def up(self, level: Level, x: Tensor, h: Tensor, c: Tensor, weights: tuple[Tensor, ...], let: Let) -> Any:
        """Compute this level's rows of h and c, (n + 1, H), from x, (level, gates · H); what the way back needs.

        `let` is given each value by the name that it has in the equations, with the nodes it belongs to (f to the
        child), and returns the value to continue with.
        """

    @abstractmethod
    def down(
        self, level: Level, kept: Any, c: Tensor, d_h: Tensor, d_c: Tensor, weights: tuple[Tensor, ...]
    ) -> tuple[Tensor, Any]:
        """∂L/∂x of this level; add what belongs to the children to d_h and d_c. Also what `gradients` needs."""

    @abstractmethod
    def gradients(self, forest: Forest, h: Tensor, d_x: Tensor, kept: list[Any], found: list[Any]) -> list[Tensor]:
        """The gradients of `recurrent()`."""

    def extra_repr(self) -> str:
        return f"{self.input_size}, {self.hidden_size}"


class _Climb(torch.autograd.Function):
    """All levels, in one buffer of states: linear in the nodes, however deep they lie."""

    @staticmethod
    def forward(ctx: Any, layer: TreeLayer, forest: Forest, drive: Tensor, *weights: Tensor) -> Tensor:
        h = drive.new_zeros(forest.nodes + 1, layer.hidden_size)  # the last row is the child that is not there
        c = torch.zeros_like(h)
        ctx.kept = [layer.up(level, drive[level.nodes], h, c, weights, _plain) for level in forest.levels]
        ctx.layer, ctx.forest, ctx.h, ctx.c = layer, forest, h, c
        ctx.save_for_backward(*weights)
        return h[:-1]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_out: Tensor) -> Any:
        layer, forest, weights = ctx.layer, ctx.forest, ctx.saved_tensors
        d_h = torch.cat((d_out, d_out.new_zeros(1, d_out.shape[1])))
        d_c = torch.zeros_like(d_h)
        d_x, gradients = [], []
        for level, kept in zip(reversed(forest.levels), reversed(ctx.kept), strict=True):
            down, more = layer.down(level, kept, ctx.c, d_h, d_c, weights)
            d_x.append(down)
            gradients.append(more)
        drive = torch.cat(d_x[::-1]) if d_x else d_out.new_zeros(0, len(layer.bias))
        return None, None, drive, *layer.gradients(forest, ctx.h, drive, ctx.kept, gradients[::-1])


class ChildSumTreeLSTM(TreeLayer):
    """Any number of children, whose order does not matter: gates see the sum of their h, each has its own f.

    i, o = σ(W x + U Σ h_k + b),  u = tanh(W x + U Σ h_k + b),  f_k = σ(W x + U h_k + b)
    c = i ∘ u + Σ f_k ∘ c_k,  h = o ∘ tanh(c)

    Parameters: `weight` (4·H, I) and `bias` in the order i o u f, `weight_sum` (3·H, H), `weight_each` (H, H).
    """

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__(input_size, hidden_size, 4)
        self.weight_sum = nn.Parameter(torch.empty(3 * hidden_size, hidden_size))
        self.weight_each = nn.Parameter(torch.empty(hidden_size, hidden_size))
        self.reset_parameters()
        with torch.no_grad():
            self.bias[3 * hidden_size :] = 1

    def recurrent(self) -> tuple[Tensor, ...]:
        return self.weight_sum, self.weight_each

    def up(self, level: Level, x: Tensor, h: Tensor, c: Tensor, weights: tuple[Tensor, ...], let: Let) -> Any:
        H, (of_sum, of_each) = self.hidden_size, weights
        x_f = x[:, 3 * H :]
        total = f = None
        iou = x[:, : 3 * H]
        if len(level.child):
            below = h[level.child]
            total = x.new_zeros(len(x), H).index_add_(0, level.parent, below)
            iou = torch.addmm(iou, total, of_sum.T)
            f = let("f", level.child, torch.addmm(x_f[level.parent], below, of_each.T).sigmoid_())
        i, o, u = _own_gates(level, iou, let)
        new = i * u
        if f is not None:
            new.index_add_(0, level.parent, f * c[level.child])
        return i, o, u, f, total, _set_states(level, h, c, new, o, let)

    def down(
        self, level: Level, kept: Any, c: Tensor, d_h: Tensor, d_c: Tensor, weights: tuple[Tensor, ...]
    ) -> tuple[Tensor, Any]:
        H, (of_sum, of_each) = self.hidden_size, weights
        i, o, u, f, _, tanh_c = kept
        from_h = d_h[level.nodes]
        from_c = d_c[level.nodes] + from_h * o * (1 - tanh_c * tanh_c)
        d_x = torch.empty(len(i), 4 * H, dtype=i.dtype, device=i.device)
        d_x[:, :H] = from_c * u * i * (1 - i)
        d_x[:, H : 2 * H] = from_h * tanh_c * o * (1 - o)
        d_x[:, 2 * H : 3 * H] = from_c * i * (1 - u * u)
        d_x[:, 3 * H :] = 0
        if f is None:
            return d_x, None
        above = from_c[level.parent]
        d_f = above * c[level.child] * f * (1 - f)
        d_x[:, 3 * H :].index_add_(0, level.parent, d_f)
        d_total = d_x[:, : 3 * H] @ of_sum
        d_h[level.child] += torch.addmm(d_total[level.parent], d_f, of_each)  # a node has one parent: no two meet
        d_c[level.child] += above * f
        return d_x, d_f

    def gradients(self, forest: Forest, h: Tensor, d_x: Tensor, kept: list[Any], found: list[Any]) -> list[Tensor]:
        H = self.hidden_size
        inner = [level for level, more in zip(forest.levels, found, strict=True) if more is not None]
        if not inner:
            return [torch.zeros_like(self.weight_sum), torch.zeros_like(self.weight_each)]
        totals = torch.cat([of_level[4] for of_level, more in zip(kept, found, strict=True) if more is not None])
        d_gates = d_x[inner[0].nodes.start :, : 3 * H]  # the levels above the leaves follow one another
        d_f = torch.cat([more for more in found if more is not None])
        return [d_gates.T @ totals, d_f.T @ h[forest.child]]


class NaryTreeLSTM(TreeLayer):
    """At most N children, each with its own weights: a constituency tree's left and right are not the same.

    i, o = σ(W x + Σ U_k h_k + b),  u = tanh(W x + Σ U_k h_k + b),  f_k = σ(W x + Σ U_kl h_l + b)
    c = i ∘ u + Σ f_k ∘ c_k,  h = o ∘ tanh(c)

    Parameters: `weight` (4·H, I) and `bias` in the order i o u f, `weight_children` ((3 + N)·H, N·H) in the order
    i o u f_1 … f_N. Children that are not there have h = c = 0.
    """

    def __init__(self, input_size: int, hidden_size: int, children: int = 2) -> None:
        super().__init__(input_size, hidden_size, 4)
        self.most = children
        self.weight_children = nn.Parameter(torch.empty((3 + children) * hidden_size, children * hidden_size))
        self.reset_parameters()
        with torch.no_grad():
            self.bias[3 * hidden_size :] = 1

    def check(self, forest: Forest) -> None:
        _check_children(forest, self.most)

    def recurrent(self) -> tuple[Tensor, ...]:
        return (self.weight_children,)

    def up(self, level: Level, x: Tensor, h: Tensor, c: Tensor, weights: tuple[Tensor, ...], let: Let) -> Any:
        H = self.hidden_size
        gates, f = x[:, : 3 * H], None
        if len(level.child):
            pre = _below(level, h, self.most) @ weights[0].T
            gates = gates + pre[:, : 3 * H]
            f = (pre[:, 3 * H :].view(-1, self.most, H) + x[:, None, 3 * H :]).sigmoid_()
            f = let("f", _places(level, self.most, len(h) - 1), f)
        i, o, u = _own_gates(level, gates, let)
        new = i * u
        if f is not None:
            new += (f * _below(level, c, self.most).view_as(f)).sum(1)
        return i, o, u, f, _set_states(level, h, c, new, o, let)

    def down(
        self, level: Level, kept: Any, c: Tensor, d_h: Tensor, d_c: Tensor, weights: tuple[Tensor, ...]
    ) -> tuple[Tensor, Any]:
        H, N = self.hidden_size, self.most
        i, o, u, f, tanh_c = kept
        from_h = d_h[level.nodes]
        from_c = d_c[level.nodes] + from_h * o * (1 - tanh_c * tanh_c)
        delta = torch.empty(len(i), (3 + N) * H, dtype=i.dtype, device=i.device)
        delta[:, :H] = from_c * u * i * (1 - i)
        delta[:, H : 2 * H] = from_h * tanh_c * o * (1 - o)
        delta[:, 2 * H : 3 * H] = from_c * i * (1 - u * u)
        if f is None:
            delta[:, 3 * H :] = 0
            return delta[:, : 4 * H], None
        d_f = from_c[:, None] * _below(level, c, N).view_as(f) * f * (1 - f)
        delta[:, 3 * H :] = d_f.view(len(i), N * H)
        _add_below(level, d_h, delta @ weights[0])
        _add_below(level, d_c, (from_c[:, None] * f).view(len(i), N * H))
        return torch.cat((delta[:, : 3 * H], d_f.sum(1)), 1), delta

    def gradients(self, forest: Forest, h: Tensor, d_x: Tensor, kept: list[Any], found: list[Any]) -> list[Tensor]:
        return [_over_all(forest, h, found, self.weight_children, self.most)]


class RecursiveNet(TreeLayer):
    """The recursive network: h = φ(W x + Σ U_k h_k + b), at most N children, φ the hyperbolic tangent or σ.

    Parameters: `weight` (H, I), `bias`, and `weight_children` (H, N·H).
    """

    cell = Names((), ("h",))

    def __init__(
        self, input_size: int, hidden_size: int, children: int = 2, activation: Literal["tanh", "sigmoid"] = "tanh"
    ) -> None:
        super().__init__(input_size, hidden_size, 1)
        if activation not in ("tanh", "sigmoid"):
            raise ValueError(f"activation must be 'tanh' or 'sigmoid', got {activation!r}")
        self.most = children
        self.activation = activation
        self.weight_children = nn.Parameter(torch.empty(hidden_size, children * hidden_size))
        self.reset_parameters()

    def check(self, forest: Forest) -> None:
        _check_children(forest, self.most)

    def recurrent(self) -> tuple[Tensor, ...]:
        return (self.weight_children,)

    def up(self, level: Level, x: Tensor, h: Tensor, c: Tensor, weights: tuple[Tensor, ...], let: Let) -> Any:
        if len(level.child):
            x = torch.addmm(x, _below(level, h, self.most), weights[0].T)
        h[level.nodes] = y = let("h", level.nodes, x.tanh() if self.activation == "tanh" else x.sigmoid())
        return y

    def down(
        self, level: Level, kept: Any, c: Tensor, d_h: Tensor, d_c: Tensor, weights: tuple[Tensor, ...]
    ) -> tuple[Tensor, Any]:
        y = kept
        slope = 1 - y * y if self.activation == "tanh" else y * (1 - y)
        delta = d_h[level.nodes] * slope
        if not len(level.child):
            return delta, None
        _add_below(level, d_h, delta @ weights[0])
        return delta, delta

    def gradients(self, forest: Forest, h: Tensor, d_x: Tensor, kept: list[Any], found: list[Any]) -> list[Tensor]:
        return [_over_all(forest, h, found, self.weight_children, self.most)]


class _Watch:
    """Keeps what `let` names in a run of a tree layer, and applies clamps; nodes are counted as in the forest."""

    def __init__(self, layer: TreeLayer, x: Tensor, forest: Forest, clamps: Sequence[Clamp]) -> None:
        lengths, size = forest.lengths, layer.hidden_size
        most = int(lengths.max()) if len(lengths) else 0
        there = length_mask(lengths, most, batch_first=True)
        self.held: dict[str, tuple[Tensor, Tensor]] = {}
        for clamp in clamps:
            if not isinstance(clamp, Clamp):
                raise TypeError(f"intervene takes carousel.Clamp objects after the trees, got {type(clamp).__name__}")
            clamp.check(layer, most, len(lengths))
        for name in {clamp.name for clamp in clamps}:
            own = [clamp for clamp in clamps if clamp.name == name]
            planes = (plane.transpose(0, 1)[there] for plane in clamp_planes(own, (most, len(lengths), size), x))
            mask, held = (torch.cat((plane[forest.order], plane.new_zeros(1, size))) for plane in planes)
            self.held[name] = mask.bool(), held
        self.gates, self.states = ({name: x.new_zeros(forest.nodes + 1, size) for name in n} for n in layer.cell)

    def let(self, name: str, rows: slice | Tensor, value: Tensor) -> Tensor:
        if name in self.held:
            mask, held = self.held[name]
            value = torch.where(mask[rows], held[rows], value)
        (self.gates if name in self.gates else self.states)[name][rows] = value
        return value

    def result(self, forest: Forest) -> TreeTrace:
        """What was named, in the order in which the nodes were given."""
        place = torch.empty_like(forest.order)
        place[forest.order] = torch.arange(forest.nodes, device=place.device)
        gates, states = ({name: rows[place] for name, rows in one.items()} for one in (self.gates, self.states))
        return TreeTrace(gates, states)


def _plain(name: str, rows: slice | Tensor, value: Tensor) -> Tensor:
    return value


def _own_gates(level: Level, iou: Tensor, let: Let) -> tuple[Tensor, Tensor, Tensor]:
    """i, o and u of a level's nodes, (level, H) each."""
    H = iou.shape[1] // 3
    i, o = iou[:, : 2 * H].sigmoid().split(H, 1)
    return let("i", level.nodes, i), let("o", level.nodes, o), let("u", level.nodes, iou[:, 2 * H :].tanh())


def _set_states(level: Level, h: Tensor, c: Tensor, new: Tensor, o: Tensor, let: Let) -> Tensor:
    """Write the level's rows of c and h; tanh(c), which the way back needs."""
    c[level.nodes] = new = let("c", level.nodes, new)
    tanh_c = new.tanh()
    h[level.nodes] = let("h", level.nodes, o * tanh_c)
    return tanh_c


def _places(level: Level, most: int, none: int) -> Tensor:
    """The children of each node, (level, N); `none` for those it does not have."""
    missing = most - level.children.shape[1]
    return nn.functional.pad(level.children, (0, missing), value=none) if missing else level.children


def _below(level: Level, states: Tensor, most: int) -> Tensor:
    """The states of each node's children, side by side, (level, N·H); zeros for those it does not have."""
    n, have = level.children.shape
    below = states[level.children.reshape(-1)].view(n, -1)
    return below if have == most else nn.functional.pad(below, (0, (most - have) * states.shape[1]))


def _add_below(level: Level, states: Tensor, given: Tensor) -> None:
    """Add `given` (level, N·H) to the rows of the children."""
    n, have = level.children.shape
    width = states.shape[1]
    states.index_add_(0, level.children.reshape(-1), given[:, : have * width].reshape(n * have, width))
    states[-1] = 0  # what fell to children that are not there


def _over_all(forest: Forest, h: Tensor, found: list[Any], weight: Tensor, most: int) -> Tensor:
    """δᵀ · (children's h), over every node that has some."""
    deltas = [delta for delta in found if delta is not None]
    if not deltas:
        return torch.zeros_like(weight)
    first = forest.nodes - sum(map(len, deltas))
    inner = Level(slice(0), slice(0), forest.child, forest.child, forest.children[first:])
    return torch.cat(deltas).T @ _below(inner, h, most)


def _check_children(forest: Forest, most: int) -> None:
    if forest.most_children > most:
        raise ValueError(f"a node has {forest.most_children} children, and the layer takes at most {most}")
