"""Cells whose equations are drawn at random, and a call of their layer by the program and by the reference path."""

import torch
import torch.nn.functional as F
from hypothesis import strategies as st

import carousel
from carousel.cells import Gate
from carousel.layers import programs

T, B, I, H = 5, 6, 3, 6
UNARY = {
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "relu": torch.relu,
    "exp": lambda v: torch.exp(torch.tanh(v)),
    "log": lambda v: torch.log(1.5 + torch.tanh(v)),
    "log1p": lambda v: torch.log1p(v * v),
    "expm1": lambda v: torch.expm1(torch.tanh(v)),
    "softplus": F.softplus,
    "logsigmoid": F.logsigmoid,
    "sqrt": lambda v: torch.sqrt(1 + v.square()),
    "rsqrt": lambda v: torch.rsqrt(1 + v**2),
    "power": lambda v: (1.5 + torch.tanh(v)) ** 1.7,
    "abs": torch.abs,
    "sin": torch.sin,
    "cos": torch.cos,
    "gelu": F.gelu,
    "silu": F.silu,
    "elu": F.elu,
    "leaky_relu": F.leaky_relu,
    "hardtanh": F.hardtanh,
    "hardsigmoid": F.hardsigmoid,
    "clamp": lambda v: v.clamp(-0.5, 0.7),
    "negative": lambda v: -v,
    "detach": lambda v: v.detach() + v,
    "centred": lambda v: v - v.mean(-1, keepdim=True),
    "greatest": lambda v: v - v.amax(-1, keepdim=True),
    "total": lambda v: torch.tanh(v.sum(-1, keepdim=True)) * v,
    "softmax": lambda v: torch.softmax(v, -1),
    "log_softmax": lambda v: torch.log_softmax(v, -1) / 4,
    "norm": lambda v: F.layer_norm(v, v.shape[-1:]),
    "halves": lambda v: torch.cat(tuple(reversed(v.chunk(2, -1))), -1),
    "part": lambda v: v * v[:, 1:2],
}  # fmt: skip
BINARY = {
    "add": torch.add,
    "sub": torch.sub,
    "mul": torch.mul,
    "div": lambda a, b: a / (1.5 + torch.tanh(b)),
    "min": torch.minimum,
    "max": torch.maximum,
    "where": lambda a, b: torch.where(a > b, a, 0.5 * b),
    "either": lambda a, b: torch.where((a <= 0.1) | ~(b < 0.3), torch.tanh(a), b),
    "masked": lambda a, b: a.masked_fill(b >= 0.5, 0.25),
    "lerp": lambda a, b: torch.lerp(a, b, torch.sigmoid(a)),
    "addcmul": lambda a, b: torch.addcmul(a, a, b, value=0.5),
}


class Drawn(carousel.Cell):
    """A cell whose equations are a list of choices."""

    gates = {"a": Gate(), "b": Gate("tanh"), "d": Gate("linear", "diagonal"), "e": Gate("linear", "none")}
    side_inputs = {"elapsed": carousel.cells.SideInput(default=1.0)}

    def __init__(self, plan=()):
        self.plan = tuple(plan)

    def parameters(self, sizes):
        return super().parameters(sizes) | {"gain": (sizes.hidden,), "scale": (), "mix": (sizes.hidden, sizes.hidden)}

    def step(self, x, state, w, let):
        values = [x.a, x.e, *state, w.gain, x.b * w.scale, x.d * x.elapsed.unsqueeze(-1)]
        for kind, name, i, j in self.plan:
            first, second = values[i % len(values)], values[j % len(values)]
            if kind == "unary":
                value = UNARY[name](first.expand(x.a.shape))
            elif kind == "binary":
                value = BINARY[name](first.expand(x.a.shape), second.expand(x.a.shape))
            elif name == "mix":
                value = first.expand(x.a.shape) @ w.mix
            else:
                value = w.U(first.expand(x.a.shape), name)
            values.append(let(f"v{len(values)}", value))
        count = len(state)
        return tuple(let(n, torch.tanh(v + 0 * x.a)) for n, v in zip(self.states, values[-count:], strict=True))


class OneState(Drawn):
    states = ("h",)


class TwoStates(Drawn):
    states = ("h", "c")


class FourStates(Drawn):
    states = ("h", "c", "n", "m")


place = st.integers(0, 30)
steps = st.one_of(
    st.tuples(st.just("unary"), st.sampled_from(sorted(UNARY)), place, place),
    st.tuples(st.just("binary"), st.sampled_from(sorted(BINARY)), place, place),
)
products = st.lists(st.tuples(st.just("product"), st.sampled_from(["a", "b", "d", "mix"]), place, place), max_size=3)


@st.composite
def plans(draw_):
    body = draw_(st.lists(steps, min_size=1, max_size=8))
    for product in draw_(products):
        body.insert(draw_(st.integers(0, len(body))), product)
    return body


def results(layer, x, leaves=(), hx=None, **call):
    """Output, states and gradients of a call, from a fixed seed."""
    torch.manual_seed(3)
    output, state = layer(x, hx, **call)
    parts = (output, *(state if isinstance(state, tuple) else (state,)))
    weights = [torch.linspace(-1, 1.5, p.numel(), dtype=p.dtype).reshape(p.shape) for p in parts]
    loss = sum((p * w).sum() for p, w in zip(parts, weights, strict=True))
    given = [x, *layer.parameters(), *leaves]
    return [*parts, *torch.autograd.grad(loss, given, allow_unused=True, materialize_grads=True)]


def by_reference(monkeypatch, run):
    with monkeypatch.context() as patched:
        patched.setattr(programs, "unsupported_reason", lambda *given: "a test asks for the reference path")
        patched.setattr(programs, "call_plainly", lambda *given: None)
        return run()


def check(monkeypatch, layer, x, dtype=torch.float64, leaves=(), hx=None, **call):
    """The program's results are those of the reference path."""
    path = layer.path(x, hx, **call)
    assert path == "fused" and "program" in path.why, path.why
    ours = results(layer, x, leaves, hx, **call)
    theirs = by_reference(monkeypatch, lambda: results(layer, x, leaves, hx, **call))
    tolerance = {"rtol": 1e-7, "atol": 1e-7} if dtype == torch.float64 else {"rtol": 1e-3, "atol": 1e-4}
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, **tolerance)
    with torch.no_grad():
        torch.manual_seed(3)
        torch.testing.assert_close(layer(x, hx, **call)[0], ours[0].detach(), **tolerance)
