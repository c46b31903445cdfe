"""The values of a program: what each is computed from, and by which operation.

A value is one row of numbers for each sequence of a batch: `width` of them, or one number (width 1). Values form a
graph; a value is made after its arguments, so they can be computed in the order in which they were made.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor


class Op(NamedTuple):
    """An element-wise operation."""

    evaluate: Callable[..., Tensor]
    text: str  # how an equation shows it; {0}, {1}, … are the arguments
    latex: str
    level: int = 9  # how tightly it binds: 1 sums, 2 products, 3 signs, 9 a name or a call
    cheap: bool = True  # computed again in the backward step rather than saved


def _mask(compare: Callable[..., Tensor]) -> Callable[..., Tensor]:
    return lambda a, b: compare(a, b).to(a.dtype)


OPS: dict[str, Op] = {
    "add": Op(torch.add, "{0} + {1}", "{0} + {1}", 1),
    "sub": Op(torch.sub, "{0} − {1}", "{0} - {1}", 1),
    "mul": Op(torch.mul, "{0}∘{1}", r"{0} \circ {1}", 2),
    "div": Op(torch.div, "{0}/{1}", r"\frac{{{0}}}{{{1}}}", 2),
    "neg": Op(torch.neg, "−{0}", "-{0}", 3),
    "sigmoid": Op(torch.sigmoid, "σ({0})", r"\sigma\left({0}\right)", cheap=False),
    "tanh": Op(torch.tanh, "tanh({0})", r"\tanh\left({0}\right)", cheap=False),
    "relu": Op(torch.relu, "relu({0})", r"\mathrm{{relu}}\left({0}\right)"),
    "exp": Op(torch.exp, "exp({0})", r"\exp\left({0}\right)", cheap=False),
    "log": Op(torch.log, "log({0})", r"\log\left({0}\right)", cheap=False),
    "log1p": Op(torch.log1p, "log1p({0})", r"\log\left(1 + {0}\right)", cheap=False),
    "expm1": Op(torch.expm1, "expm1({0})", r"\left(e^{{{0}}} - 1\right)", cheap=False),
    "softplus": Op(torch.nn.functional.softplus, "softplus({0})", r"\mathrm{{softplus}}\left({0}\right)", cheap=False),
    "sqrt": Op(torch.sqrt, "√({0})", r"\sqrt{{{0}}}", cheap=False),
    "rsqrt": Op(torch.rsqrt, "1/√({0})", r"\frac{{1}}{{\sqrt{{{0}}}}}", 2, cheap=False),
    "square": Op(torch.square, "({0})²", r"\left({0}\right)^2"),
    "abs": Op(torch.abs, "|{0}|", r"\left|{0}\right|"),
    "sign": Op(torch.sign, "sign({0})", r"\mathrm{{sign}}\left({0}\right)"),
    "sin": Op(torch.sin, "sin({0})", r"\sin\left({0}\right)", cheap=False),
    "cos": Op(torch.cos, "cos({0})", r"\cos\left({0}\right)", cheap=False),
    "erf": Op(torch.erf, "erf({0})", r"\mathrm{{erf}}\left({0}\right)", cheap=False),
    "pow": Op(torch.pow, "({0})^{1}", r"\left({0}\right)^{{{1}}}", cheap=False),
    "min": Op(torch.minimum, "min({0}, {1})", r"\min\left({0}, {1}\right)"),
    "max": Op(torch.maximum, "max({0}, {1})", r"\max\left({0}, {1}\right)"),
    "lt": Op(_mask(torch.lt), "[{0} < {1}]", r"\left[{0} < {1}\right]"),
    "le": Op(_mask(torch.le), "[{0} ≤ {1}]", r"\left[{0} \le {1}\right]"),
    "eq": Op(_mask(torch.eq), "[{0} = {1}]", r"\left[{0} = {1}\right]"),
    "where": Op(lambda c, a, b: torch.where(c != 0, a, b), "({1} if {0} else {2})",
                r"\left({1}\ \text{{if}}\ {0}\ \text{{else}}\ {2}\right)"),
    # derivatives of σ and tanh in terms of their values: d σ′ and d tanh′
    "d_sigmoid": Op(lambda d, y: d * y * (1 - y), "{0}∘{1}∘(1 − {1})", r"{0} \circ {1} \circ (1 - {1})", 2),
    "d_tanh": Op(lambda d, y: d * (1 - y * y), "{0}∘(1 − {1}²)", r"{0} \circ (1 - {1}^2)", 2),
}  # fmt: skip

LEAVES = frozenset(("x", "input", "side", "state", "mask", "zone", "clamp", "held", "unit", "constant", "gradient"))
_serial = itertools.count()


@dataclass(eq=False, slots=True)
class Value:
    """One value of a step.

    `op` is a name in `OPS` or one of

    * `input` (attribute: gate): W x + b; or (None) W x of all gates, where the cell projects the input in its own way;
      `x`: the input itself, only while a cell is traced; `side` (name): a side input; `state` (name): a state before
      the step;
    * `mask`: recurrent dropout's, (B, P); `zone` (state): zoneout's; `clamp` (name): where an intervention holds
      what `let` named so, and `held` (name): at what;
    * `unit` (position in `Program.hoisted`, place of its first number): a vector that all sequences share: a parameter,
      or what was computed from parameters alone; `constant` (number);
    * `gradient` (state), in a derivative: ∂L/∂(new state);
    * `let` (name): its argument under a name; `detach`: its argument, without a derivative;
    * `product` (:class:`Product`): a matrix times its argument;
      `back` (several): the sum of transposed matrices times the arguments, one each;
    * `sum`, `amax` over a row; `splat`: one number as a row; `slice` (start): a part of a row; `cat`: rows end to end.
    """

    op: str
    args: tuple[Value, ...] = ()
    attribute: Any = None
    width: int = 1
    serial: int = field(default_factory=lambda: next(_serial))

    def __repr__(self) -> str:
        return f"{self.op}{self.serial}"


class Product(NamedTuple):
    """A matrix, or block-diagonal matrices, in rows `row` … `row + rows` of a hoisted matrix (·, depth); a bias."""

    matrix: int  # position in `Program.hoisted`
    row: int
    rows: int
    label: str  # U_f
    blocks: int = 1
    bias: tuple[int, int] | None = None  # position in `Program.hoisted`, and of its first number


class Builder:
    """Makes values; the same operation on the same arguments is one value."""

    def __init__(self) -> None:
        self.known: dict[tuple[Any, ...], Value] = {}

    def make(self, op: str, args: tuple[Value, ...] = (), attribute: Any = None, width: int = 1) -> Value:
        key = (op, tuple(a.serial for a in args), repr(attribute) if op == "constant" else attribute, width)
        value = self.known.get(key)
        if value is None:
            value = self.known[key] = Value(op, args, attribute, width)
        return value

    def constant(self, number: float) -> Value:
        return self.make("constant", attribute=float(number))

    def apply(self, op: str, *given: Value | float) -> Value:
        """An element-wise operation; a single number meets a row as a row of that number."""
        args = [a if isinstance(a, Value) else self.constant(a) for a in given]
        numbers = [a.attribute for a in args if a.op == "constant"]
        if len(numbers) == len(args):
            result = OPS[op].evaluate(*(torch.tensor(n, dtype=torch.float64) for n in numbers)).item()
            if math.isfinite(result):
                return self.constant(result)
        simple = self._simplified(op, args)
        if simple is not None:
            return simple
        width = max(a.width for a in args)
        inner = [a.args[0] if a.op == "splat" else a for a in args]
        if width > 1 and all(a.width == 1 for a in inner):  # rows of one number each: the operation on the numbers
            return self.widen(self.apply(op, *inner), width)
        return self.make(op, tuple(self.widen(a, width) for a in args), width=width)

    def _simplified(self, op: str, args: list[Value]) -> Value | None:
        """What needs no operation: + 0, · 1, − of −. Not · 0: a number times zero may be NaN."""
        number = {k: a.attribute for k, a in enumerate(args) if a.op == "constant"}
        widest = max(a.width for a in args)
        for k, other in ((0, 1), (1, 0)):
            if op in ("add", "mul") and number.get(k) == (0.0 if op == "add" else 1.0) and args[other].width == widest:
                return args[other]
        if op in ("sub", "div") and number.get(1) == (0.0 if op == "sub" else 1.0):
            return args[0]
        if op == "neg" and args[0].op == "neg":
            return args[0].args[0]
        if op == "sub" and args[1].op == "neg":
            return self.apply("add", args[0], args[1].args[0])
        if op == "add" and args[1].op == "neg":
            return self.apply("sub", args[0], args[1].args[0])
        return None

    def widen(self, value: Value, width: int) -> Value:
        """`value` as a row of `width`; constants are of any width."""
        if value.width == width or value.op == "constant":
            return value
        return self.make("splat", (value,), width=width)

    def sum(self, value: Value, width: int) -> Value:
        """Σ of a row that represents `width` numbers."""
        if value.width == 1:
            return self.apply("mul", value, float(width))
        if value.op == "splat":
            return self.apply("mul", value.args[0], float(width))
        if value.op == "neg":
            return self.apply("neg", self.sum(value.args[0], width))
        return self.make("sum", (value,))

    def slice(self, value: Value, start: int, width: int) -> Value:
        if width == value.width or value.op == "constant":
            return value
        if value.op == "unit":
            at, first = value.attribute
            return self.make("unit", attribute=(at, first + start), width=width)
        if value.op == "slice":
            return self.slice(value.args[0], value.attribute + start, width)
        return self.make("slice", (value,), start, width)

    def cat(self, *parts: tuple[Value, int]) -> Value:
        """Values end to end, each as a row of the given width."""
        if len(parts) == 1:
            return self.widen(*parts[0])
        rows = tuple(v if v.width == w and v.op != "constant" else self.make("splat", (v,), width=w) for v, w in parts)
        return self.make("cat", rows, width=sum(w for _, w in parts))


def reachable(
    roots: Iterable[Value], args: Callable[[Value], Iterable[Value]] = lambda value: value.args
) -> list[Value]:
    """All values that `roots` are computed from and they themselves, each after its arguments, which `args` gives."""
    seen: dict[int, Value] = {}
    waiting = list(roots)
    while waiting:
        value = waiting.pop()
        if value.serial not in seen:
            seen[value.serial] = value
            waiting += args(value)
    return [seen[serial] for serial in sorted(seen)]
