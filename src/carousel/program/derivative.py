"""The derivative of a program, by reverse accumulation over its values.

From ∂L/∂(new state) it gives ∂L/∂(old state), that of the inputs and of what all sequences share, and for each product
the δ that multiplies its argument in the gradient of its matrix. Where a value meets a kink, torch's convention holds.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from .values import Builder, Product, Value, reachable

Rule = Callable[[Builder, Value, Value], list["Value | None"]]


@dataclass
class Derivative:
    """Gradients by what they are of; a leaf that nothing depends on has none."""

    states: dict[str, Value]
    leaves: dict[Value, Value]  # of input, side, held, unit
    products: list[tuple[Value, Value]]  # each product of the program and its δ
    named: dict[str, Value] = field(default_factory=dict)  # of what `let` named
    results: dict[str, Value] = field(default_factory=dict)  # of the new states


def derive(builder: Builder, results: dict[str, Value], named: dict[str, Value]) -> Derivative:
    """Differentiate the new states `results`."""
    parts: dict[int, list[Value]] = {}
    through: dict[int, list[tuple[Value, Product]]] = {}  # what comes back through products
    pieces: dict[int, list[tuple[int, int, Value]]] = {}  # and through parts of a row: first column, width, gradient
    for name, value in results.items():
        parts.setdefault(value.serial, []).append(builder.make("gradient", attribute=name, width=value.width))
    out = Derivative({}, {}, [])
    for value in reversed(reachable([*results.values(), *named.values()])):
        own = [*parts.pop(value.serial, []), *_whole(builder, value.width, pieces.pop(value.serial, []))]
        d = _total(builder, value, own, through.pop(value.serial, []))
        if d is None:
            continue
        if value.op != "constant":
            out.results |= {name: d for name, result in results.items() if result is value}
        if value.op == "let":
            if named.get(value.attribute) is value and value.args[0].op != "constant":
                out.named[value.attribute] = d
            parts.setdefault(value.args[0].serial, []).append(d)
        elif value.op == "state":
            out.states[value.attribute] = d
        elif value.op in ("input", "side", "held", "unit"):
            out.leaves[value] = d
        elif value.op == "product":
            out.products.append((value, d))
            if value.args[0].op != "constant":
                through.setdefault(value.args[0].serial, []).append((d, value.attribute))
        elif value.op == "slice":
            pieces.setdefault(value.args[0].serial, []).append((value.attribute, value.width, d))
        elif value.op in RULES:
            for arg, share in zip(value.args, RULES[value.op](builder, value, d), strict=True):
                if share is not None and arg.op != "constant":
                    parts.setdefault(arg.serial, []).append(share)
    return out


def _total(b: Builder, value: Value, parts: list[Value], through: list[tuple[Value, Product]]) -> Value | None:
    if through:
        deltas = tuple(b.cat((d, p.rows)) if d.op == "constant" else d for d, p in through)
        parts = [*parts, b.make("back", deltas, tuple(p for _, p in through), value.width)]
    if not parts:
        return None
    total = parts[0]
    for part in parts[1:]:
        total = b.apply("add", total, part)
    return total


def _max(b: Builder, v: Value, d: Value) -> list[Value | None]:
    """The one that was taken has it all; where both are equal each has half."""
    less, more = v.args[::-1] if v.op == "max" else v.args  # the first argument is taken where less < more
    first = b.apply("where", b.apply("eq", less, more), 0.5, b.apply("lt", less, more))
    return [b.apply("mul", d, first), b.apply("mul", d, b.apply("sub", 1.0, first))]


def _amax(b: Builder, v: Value, d: Value) -> list[Value | None]:
    """The greatest of a row have equal shares."""
    (row,) = v.args
    greatest = b.apply("eq", row, v)
    return [b.apply("mul", greatest, b.apply("div", d, b.sum(greatest, row.width)))]


def _whole(b: Builder, width: int, pieces: list[tuple[int, int, Value]]) -> list[Value]:
    """The gradients of parts of a row, put together to as few rows as they fill: one, unless they overlap."""
    rows: list[list[tuple[Value, int]]] = []  # each row as parts end to end
    for start, columns, d in sorted(pieces, key=lambda piece: (piece[0], piece[2].serial)):
        row = next((row for row in rows if sum(w for _, w in row) <= start), None)
        if row is None:
            rows.append(row := [])
        gap = start - sum(w for _, w in row)
        row += [(b.constant(0.0), gap)] * (gap > 0) + [(d, columns)]
    for row in rows:
        rest = width - sum(w for _, w in row)
        row += [(b.constant(0.0), rest)] * (rest > 0)
    return [b.cat(*row) for row in rows]


def _cat(b: Builder, v: Value, d: Value) -> list[Value | None]:
    at, parts = 0, []
    for arg in v.args:
        parts.append(b.slice(d, at, arg.width))
        at += arg.width
    return list(parts)


def _pow(b: Builder, v: Value, d: Value) -> list[Value | None]:
    x, power = v.args
    return [b.apply("mul", d, b.apply("mul", b.apply("pow", x, power.attribute - 1), power.attribute)), None]


RULES: dict[str, Rule] = {
    "add": lambda b, v, d: [d, d],
    "sub": lambda b, v, d: [d, b.apply("neg", d)],
    "mul": lambda b, v, d: [b.apply("mul", d, v.args[1]), b.apply("mul", d, v.args[0])],
    "div": lambda b, v, d: [
        b.apply("div", d, v.args[1]),
        b.apply("neg", b.apply("div", b.apply("mul", d, v), v.args[1])),
    ],
    "neg": lambda b, v, d: [b.apply("neg", d)],
    "sigmoid": lambda b, v, d: [b.apply("d_sigmoid", d, v)],
    "tanh": lambda b, v, d: [b.apply("d_tanh", d, v)],
    "relu": lambda b, v, d: [b.apply("where", b.apply("lt", 0.0, v), d, 0.0)],
    "exp": lambda b, v, d: [b.apply("mul", d, v)],
    "log": lambda b, v, d: [b.apply("div", d, v.args[0])],
    "log1p": lambda b, v, d: [b.apply("div", d, b.apply("add", v.args[0], 1.0))],
    "expm1": lambda b, v, d: [b.apply("mul", d, b.apply("add", v, 1.0))],
    "softplus": lambda b, v, d: [b.apply("mul", d, b.apply("sigmoid", v.args[0]))],
    "sqrt": lambda b, v, d: [b.apply("div", b.apply("mul", d, 0.5), v)],
    "rsqrt": lambda b, v, d: [b.apply("mul", b.apply("mul", d, -0.5), b.apply("mul", b.apply("square", v), v))],
    "square": lambda b, v, d: [b.apply("mul", b.apply("mul", d, 2.0), v.args[0])],
    "abs": lambda b, v, d: [b.apply("mul", d, b.apply("sign", v.args[0]))],
    "sin": lambda b, v, d: [b.apply("mul", d, b.apply("cos", v.args[0]))],
    "cos": lambda b, v, d: [b.apply("neg", b.apply("mul", d, b.apply("sin", v.args[0])))],
    "erf": lambda b, v, d: [
        b.apply(
            "mul", d, b.apply("mul", b.apply("exp", b.apply("neg", b.apply("square", v.args[0]))), 2 / math.pi**0.5)
        )
    ],
    "pow": _pow,
    "min": _max,
    "max": _max,
    "where": lambda b, v, d: [None, b.apply("where", v.args[0], d, 0.0), b.apply("where", v.args[0], 0.0, d)],
    "splat": lambda b, v, d: [b.sum(d, v.width)],
    "sum": lambda b, v, d: [b.widen(d, v.args[0].width)],
    "amax": _amax,
    "cat": _cat,
}
