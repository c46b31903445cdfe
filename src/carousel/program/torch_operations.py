"""Operations of torch as operations of a program.

A handler takes the tracer, torch's result and torch's arguments, and gives the value of the result, or of each of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Protocol

from torch import Tensor

from .values import Builder, Product, Value


class Tracer(Protocol):
    """What handlers need of the tracer."""

    builder: Builder
    hoisted: list[Any]
    batch: int
    units: dict[int, int]
    dtype: Any

    def value(self, given: Any) -> Value: ...
    def refused(self, why: str) -> Exception: ...
    def transposed(self, matrix: Tensor) -> int: ...


Handler = Callable[..., Any]
HANDLERS: dict[str, Handler] = {}


def _handles(*names: str) -> Callable[[Handler], Handler]:
    def enter(handler: Handler) -> Handler:
        HANDLERS.update(dict.fromkeys(names, handler))
        return handler

    return enter


def _element_wise(op: str) -> Handler:
    def handler(t: Tracer, out: Tensor, *given: Any) -> Value:
        return t.builder.apply(op, *(t.value(a) for a in given))

    return handler


for _op in ("neg", "sigmoid", "tanh", "relu", "exp", "log", "log1p", "expm1", "sqrt", "rsqrt", "abs", "sin", "cos",
            "mul", "square", "erf", "lt", "le", "eq", "sign", "where"):  # fmt: skip
    HANDLERS[_op] = _element_wise(_op)
for _name, _op in (("sgn", "sign"), ("minimum", "min"), ("maximum", "max"), ("multiply", "mul")):
    HANDLERS[_name] = _element_wise(_op)


@_handles("add")
def _add(t: Tracer, out: Tensor, a: Any, b: Any, alpha: float = 1) -> Value:
    return t.builder.apply("add", t.value(a), t.builder.apply("mul", t.value(b), float(alpha)))


@_handles("sub")
def _sub(t: Tracer, out: Tensor, a: Any, b: Any, alpha: float = 1) -> Value:
    return t.builder.apply("sub", t.value(a), t.builder.apply("mul", t.value(b), float(alpha)))


@_handles("rsub")
def _rsub(t: Tracer, out: Tensor, a: Any, b: Any, alpha: float = 1) -> Value:
    return _sub(t, out, b, a, alpha)


@_handles("div", "true_divide")
def _div(t: Tracer, out: Tensor, a: Any, b: Any, rounding_mode: str | None = None) -> Value:
    if rounding_mode is not None:
        raise t.refused("a division that rounds has no opcode")
    return t.builder.apply("div", t.value(a), t.value(b))


@_handles("reciprocal")
def _reciprocal(t: Tracer, out: Tensor, a: Any) -> Value:
    return t.builder.apply("div", 1.0, t.value(a))


@_handles("pow")
def _pow(t: Tracer, out: Tensor, a: Any, power: Any) -> Value:
    if isinstance(power, Tensor):
        raise t.refused("a power by a tensor has no opcode")
    x, power = t.value(a), float(power)
    known = {0.5: "sqrt", -0.5: "rsqrt", 2.0: "square"}
    if power == 1.0:
        return x
    if power in known:
        return t.builder.apply(known[power], x)
    if power == -1.0:
        return t.builder.apply("div", 1.0, x)
    return t.builder.apply("pow", x, power)


@_handles("addcmul")
def _addcmul(t: Tracer, out: Tensor, a: Any, b: Any, c: Any, value: float = 1) -> Value:
    apply = t.builder.apply
    return apply("add", t.value(a), apply("mul", apply("mul", t.value(b), t.value(c)), float(value)))


@_handles("lerp")
def _lerp(t: Tracer, out: Tensor, a: Any, b: Any, weight: Any) -> Value:
    apply = t.builder.apply
    start = t.value(a)
    return apply("add", start, apply("mul", t.value(weight), apply("sub", t.value(b), start)))


@_handles("gt")
def _gt(t: Tracer, out: Tensor, a: Any, b: Any) -> Value:
    return t.builder.apply("lt", t.value(b), t.value(a))


@_handles("ge")
def _ge(t: Tracer, out: Tensor, a: Any, b: Any) -> Value:
    return t.builder.apply("le", t.value(b), t.value(a))


@_handles("ne")
def _ne(t: Tracer, out: Tensor, a: Any, b: Any) -> Value:
    return t.builder.apply("sub", 1.0, t.builder.apply("eq", t.value(a), t.value(b)))


@_handles("logical_not", "bitwise_not")
def _not(t: Tracer, out: Tensor, a: Any) -> Value:
    return t.builder.apply("eq", t.value(a), 0.0)


@_handles("logical_and", "bitwise_and", "__and__")
def _and(t: Tracer, out: Tensor, a: Any, b: Any) -> Value:
    return t.builder.apply("mul", _true(t, a), _true(t, b))


@_handles("logical_or", "bitwise_or", "__or__")
def _or(t: Tracer, out: Tensor, a: Any, b: Any) -> Value:
    return t.builder.apply("max", _true(t, a), _true(t, b))


def _true(t: Tracer, a: Any) -> Value:
    """1 where `a` is not 0."""
    value = t.value(a)
    return value if value.op in ("lt", "le", "eq") else _ne(t, a, a, 0.0)


@_handles("masked_fill")
def _masked_fill(t: Tracer, out: Tensor, a: Any, mask: Any, value: Any) -> Value:
    return t.builder.apply("where", t.value(mask), t.value(value), t.value(a))


# ---- activations ----


def _between(t: Tracer, x: Value, low: Any, high: Any) -> Value:
    """x within [low, high]; its derivative is 1 at the limits too, as torch.clamp's."""
    apply = t.builder.apply
    if low is not None:
        limit = t.value(low)
        x = apply("where", apply("lt", x, limit), limit, x)
    if high is not None:
        limit = t.value(high)
        x = apply("where", apply("lt", limit, x), limit, x)
    return x


HANDLERS["clamp"] = lambda t, out, a, min=None, max=None: _between(t, t.value(a), min, max)
HANDLERS["clamp_min"] = lambda t, out, a, low: _between(t, t.value(a), low, None)
HANDLERS["clamp_max"] = lambda t, out, a, high: _between(t, t.value(a), None, high)


def _inside(t: Tracer, x: Value, low: float, high: float) -> Value:
    """x within [low, high]; its derivative is 0 at the limits, as that of torch's hard functions."""
    apply = t.builder.apply
    x = apply("where", apply("lt", low, x), x, low)
    return apply("where", apply("lt", x, high), x, high)


HANDLERS["hardtanh"] = lambda t, out, a, low=-1.0, high=1.0: _inside(t, t.value(a), float(low), float(high))


@_handles("hardsigmoid")
def _hardsigmoid(t: Tracer, out: Tensor, a: Any) -> Value:
    apply = t.builder.apply
    return apply("add", apply("div", _inside(t, t.value(a), -3.0, 3.0), 6.0), 0.5)


@_handles("silu")
def _silu(t: Tracer, out: Tensor, a: Any) -> Value:
    x = t.value(a)
    return t.builder.apply("mul", x, t.builder.apply("sigmoid", x))


@_handles("gelu")
def _gelu(t: Tracer, out: Tensor, a: Any, approximate: str = "none") -> Value:
    apply, x = t.builder.apply, t.value(a)
    if approximate == "tanh":
        cube = apply("mul", apply("square", x), x)
        inner = apply("mul", apply("add", x, apply("mul", cube, 0.044715)), math.sqrt(2 / math.pi))
        bell = apply("tanh", inner)
    else:
        bell = apply("erf", apply("mul", x, math.sqrt(0.5)))
    return apply("mul", apply("mul", x, 0.5), apply("add", bell, 1.0))


@_handles("leaky_relu")
def _leaky_relu(t: Tracer, out: Tensor, a: Any, slope: float = 0.01) -> Value:
    apply, x = t.builder.apply, t.value(a)
    return apply("where", apply("lt", 0.0, x), x, apply("mul", x, float(slope)))


@_handles("elu")
def _elu(t: Tracer, out: Tensor, a: Any, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Value:
    apply, x = t.builder.apply, t.value(a)
    low = apply("mul", apply("expm1", apply("mul", apply("min", x, 0.0), float(input_scale))), float(alpha * scale))
    return apply("where", apply("lt", 0.0, x), apply("mul", x, float(scale)), low)


@_handles("softplus")
def _softplus(t: Tracer, out: Tensor, a: Any, beta: float = 1, threshold: float = 20) -> Value:
    if beta == 1:
        return t.builder.apply("softplus", t.value(a))
    return t.builder.apply(
        "div", t.builder.apply("softplus", t.builder.apply("mul", t.value(a), float(beta))), float(beta)
    )


@_handles("log_sigmoid_forward")
def _log_sigmoid(t: Tracer, out: Any, a: Any) -> tuple[Value, None]:
    return t.builder.apply("neg", t.builder.apply("softplus", t.builder.apply("neg", t.value(a)))), None


# ---- shapes ----


@_handles(
    "alias", "clone", "contiguous", "view", "_unsafe_view", "reshape", "unsqueeze", "squeeze", "expand", "view_as"
)
def _same(t: Tracer, out: Tensor, a: Tensor, *how: Any, **options: Any) -> Value:
    value = t.value(a)
    columns = out.shape[1] if out.dim() == 2 else 1
    if out.dim() > 2 or out.shape[0] != t.batch or value.width not in (1, columns) or a.shape[0] != t.batch:
        raise t.refused(f"a tensor of shape {tuple(out.shape)} is not one row for each sequence")
    return value


@_handles("_to_copy", "to")
def _to_copy(t: Tracer, out: Tensor, a: Tensor, *how: Any, **options: Any) -> Value:
    if out.dtype != t.dtype:
        raise t.refused(f"a conversion to {out.dtype} has no opcode")
    return t.value(a)


@_handles("detach")
def _detach(t: Tracer, out: Tensor, a: Tensor) -> Value:
    value = t.value(a)
    return t.builder.make("detach", (value,), width=value.width)


@_handles("zeros_like", "ones_like", "full_like", "new_zeros", "new_ones", "new_full")
def _filled(t: Tracer, out: Tensor, *how: Any, **options: Any) -> Value:
    return t.builder.constant(float(out.flatten()[0]))


@_handles("slice")
def _slice(t: Tracer, out: Tensor, a: Tensor, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Value:
    if out.shape == a.shape:
        return t.value(a)
    if dim % a.dim() != 1 or step != 1:
        raise t.refused("a slice of the batch, or with steps, has no opcode")
    first = 0 if start is None else start
    first = first + a.shape[1] if first < 0 else first
    return t.builder.slice(t.builder.widen(t.value(a), a.shape[1]), first, out.shape[1])


@_handles("split", "split_with_sizes", "unsafe_split", "chunk")
def _split(t: Tracer, out: Any, a: Tensor, size: Any, dim: int = 0) -> list[Value]:
    if dim % a.dim() != 1:
        raise t.refused("a split of the batch has no opcode")
    value, at, parts = t.builder.widen(t.value(a), a.shape[1]), 0, []
    for part in out:
        parts.append(t.builder.slice(value, at, part.shape[1]))
        at += part.shape[1]
    return parts


@_handles("cat")
def _cat(t: Tracer, out: Tensor, parts: Any, dim: int = 0) -> Value:
    if dim % out.dim() != 1:
        raise t.refused("a concatenation over the batch has no opcode")
    return t.builder.cat(*((t.value(p), p.shape[1]) for p in parts))


# ---- over a row ----


def _row(t: Tracer, a: Tensor, dim: Any) -> int:
    """The width of the rows that an operation over `dim` is about; refused if that is another dimension."""
    dims = [dim] if isinstance(dim, int) else list(dim or ())
    if a.dim() != 2 or [d % 2 for d in dims] != [1]:
        raise t.refused("an operation over the sequences of a batch has no opcode")
    return a.shape[1]


@_handles("sum")
def _row_sum(t: Tracer, out: Tensor, a: Tensor, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Value:
    return t.builder.sum(t.value(a), _row(t, a, dim))


@_handles("mean")
def _row_mean(t: Tracer, out: Tensor, a: Tensor, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Value:
    return _mean(t, t.value(a), _row(t, a, dim))


def _mean(t: Tracer, value: Value, width: int) -> Value:
    return t.builder.apply("mul", t.builder.sum(value, width), 1 / width)


@_handles("amax")
def _row_max(t: Tracer, out: Tensor, a: Tensor, dim: Any = (), keepdim: bool = False) -> Value:
    _row(t, a, dim)
    value = t.value(a)
    return value if value.width == 1 else t.builder.make("amax", (value,))


@_handles("amin")
def _row_min(t: Tracer, out: Tensor, a: Tensor, dim: Any = (), keepdim: bool = False) -> Value:
    _row(t, a, dim)
    value = t.builder.apply("neg", t.value(a))
    return t.builder.apply("neg", value if value.width == 1 else t.builder.make("amax", (value,)))


@_handles("var")
def _row_var(
    t: Tracer, out: Tensor, a: Tensor, dim: Any = None, correction: Any = None, keepdim: bool = False
) -> Value:
    width, apply = _row(t, a, dim), t.builder.apply
    value = t.builder.widen(t.value(a), width)
    centred = apply("sub", value, _mean(t, value, width))
    return apply(
        "div", t.builder.sum(apply("square", centred), width), float(width - (1 if correction is None else correction))
    )


@_handles("native_layer_norm")
def _layer_norm(t: Tracer, out: Any, a: Tensor, shape: Any, weight: Any, bias: Any, eps: float) -> list[Value]:
    width, apply = _row(t, a, [1] if list(shape) == [a.shape[-1]] else None), t.builder.apply
    value = t.builder.widen(t.value(a), width)
    mean = _mean(t, value, width)
    centred = apply("sub", value, mean)
    scale = apply("rsqrt", apply("add", _mean(t, apply("square", centred), width), eps))
    result = apply("mul", centred, scale)
    if weight is not None:
        result = apply("mul", result, t.value(weight))
    if bias is not None:
        result = apply("add", result, t.value(bias))
    return [result, mean, scale]


def _shifted(t: Tracer, a: Tensor, dim: int) -> tuple[Value, int]:
    """A row less its greatest number, which changes no softmax, so that it has no derivative."""
    width = _row(t, a, dim)
    value = t.builder.widen(t.value(a), width)
    most = t.builder.make("detach", (t.builder.make("amax", (value,)),))
    return t.builder.apply("sub", value, most), width


@_handles("_softmax")
def _softmax(t: Tracer, out: Tensor, a: Tensor, dim: int, half: bool = False) -> Value:
    value, width = _shifted(t, a, dim)
    e = t.builder.apply("exp", value)
    return t.builder.apply("div", e, t.builder.sum(e, width))


@_handles("_log_softmax")
def _log_softmax(t: Tracer, out: Tensor, a: Tensor, dim: int, half: bool = False) -> Value:
    value, width = _shifted(t, a, dim)
    total = t.builder.sum(t.builder.apply("exp", value), width)
    return t.builder.apply("sub", value, t.builder.apply("log", total))


# ---- products with matrices of one's own ----


@_handles("mm")
def _mm(t: Tracer, out: Tensor, a: Tensor, b: Tensor, bias: tuple[int, int] | None = None) -> Value:
    if id(b) not in t.units or a.dim() != 2 or b.is_complex():
        raise t.refused("a product of two values of a step has no opcode")
    at = t.transposed(b)
    value = t.builder.widen(t.value(a), a.shape[1])
    if value.op == "x":
        if t.hoisted[at].parameter != "weight_ih" or bias is not None:
            raise t.refused("a product of x with another matrix than weight_ih has no opcode")
        return t.builder.make("input", width=b.shape[1])
    return t.builder.make("product", (value,), Product(at, 0, b.shape[1], "", bias=bias), b.shape[1])


@_handles("addmm")
def _addmm(t: Tracer, out: Tensor, bias: Tensor, a: Tensor, b: Tensor, beta: float = 1, alpha: float = 1) -> Value:
    if beta != 1 or alpha != 1:
        raise t.refused("addmm with beta or alpha has no opcode")
    return t.builder.apply("add", _mm(t, out, a, b), t.value(bias))
