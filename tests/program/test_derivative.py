"""The derivative of every cell's program, evaluated with torch, against autograd on the cell's own step."""

import pytest
import torch
from helpers.references import draw

from carousel.cells import Weights, registry
from carousel.cells.spec import Sizes
from carousel.program.derivative import RULES, derive
from carousel.program.program import evaluate, hoist, program_of
from carousel.program.values import OPS, Builder

I, H, B = 3, 4, 5
UNARY = [name for name, op in OPS.items() if "{1}" not in op.text and name in RULES]
BINARY = ["add", "sub", "mul", "div", "min", "max"]


def inputs_of(cell, program, w):
    """What the program reads as inputs, and what the gates see of it."""
    if program.projects:
        raw = draw(B, len(cell.gates) * H, seed=20).requires_grad_()
        return {None: raw}, cell.project_input(raw, w).chunk(len(cell.gates), -1)
    inputs = {gate: draw(B, H, seed=20 + k).requires_grad_() for k, gate in enumerate(cell.gates)}
    return inputs, inputs.values()


@pytest.mark.parametrize("name", [*registry()])
def test_gradients_of_states_inputs_and_named_values(name):
    cell, sizes = registry()[name](), Sizes(I, H, H)
    program = program_of(cell, sizes, torch.float64)
    parameters = {n: 0.6 * draw(*shape, seed=k) for k, (n, shape) in enumerate(cell.parameters(sizes).items())}
    if program.projects:  # W x is the input, and W the identity
        parameters["weight_ih"] = torch.eye(len(cell.gates) * H, dtype=torch.float64)
    w = Weights(cell, parameters)
    inputs, gates = inputs_of(cell, program, w)
    states = {state: draw(B, H, seed=40 + k).requires_grad_() for k, state in enumerate(cell.states)}
    d_new = {state: draw(B, H, seed=60 + k) for k, state in enumerate(cell.states)}
    nudges = {}

    def let(name, value):  # the gradient of a named value is that of a zero added to it
        nudges[name] = torch.zeros_like(value, requires_grad=True)
        return value + nudges[name]

    new = cell.step(cell.Inputs(*gates), tuple(states.values()), w, let)
    named = dict(nudges)
    expected = torch.autograd.grad(new, [*inputs.values(), *states.values(), *named.values()], [*d_new.values()])

    d = program.differentiate()
    leaves = {("input", gate): x.detach() for gate, x in inputs.items()}
    leaves |= {("state", state): s.detach() for state, s in states.items()}
    leaves |= {("gradient", state): g for state, g in d_new.items()}
    gradients = {("input", leaf.attribute): v for leaf, v in d.leaves.items() if leaf.op == "input"}
    gradients |= {("state", state): v for state, v in d.states.items()}
    gradients |= {("named", name): v for name, v in d.named.items()}
    found = evaluate(gradients, leaves, hoist(program.recipe, parameters))
    keys = [*(("input", g) for g in inputs), *(("state", s) for s in states), *(("named", n) for n in named)]
    assert set(found) == set(keys)
    for key, gradient in zip(keys, expected, strict=True):
        torch.testing.assert_close(found[key].expand_as(gradient), gradient, msg=str(key))


def differentiated(op, *values):
    """The gradients of Σ weights · op(values) by the rules, and by autograd."""
    b = Builder()
    args = [b.make("state", attribute=f"s{k}", width=H) for k in range(len(values))]
    d = derive(b, {"h": b.apply(op, *args)}, {})
    leaves = {("state", f"s{k}"): v for k, v in enumerate(values)} | {("gradient", "h"): draw(*values[0].shape, seed=9)}
    found = evaluate(d.states, leaves, [])
    given = [v.clone().requires_grad_() for v in values]
    expected = torch.autograd.grad(OPS[op].evaluate(*given), given, leaves["gradient", "h"])
    return [found[f"s{k}"] for k in range(len(values))], list(expected)


@pytest.mark.parametrize("op", UNARY)
def test_every_rule_of_one_argument(op):
    found, expected = differentiated(op, draw(B, H).abs() + 0.1)
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("op", BINARY)
def test_every_rule_of_two(op):
    found, expected = differentiated(op, draw(B, H), draw(B, H, seed=2))
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("op", ["min", "max"])
def test_equals_share_the_gradient_as_in_torch(op):
    v = draw(B, H)
    found, expected = differentiated(op, v, v.clone())
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("op", ["relu", "abs"])
def test_kinks_are_torchs(op):
    found, expected = differentiated(op, torch.zeros(1, H, dtype=torch.float64))
    torch.testing.assert_close(found, expected)


def test_what_nothing_depends_on_has_no_gradient():
    b = Builder()
    h, c = (b.make("state", attribute=name, width=H) for name in "hc")
    d = derive(b, {"h": b.make("let", (h,), "h", H), "c": b.make("detach", (c,), width=H)}, {})
    assert d.states.keys() == {"h"}


def test_parts_of_a_row():
    """Apart, neighbouring, overlapping: the gradient of the row is that of autograd."""
    b = Builder()
    row = b.make("state", attribute="s", width=6)
    spans = [(0, 2), (1, 2), (3, 2), (1, 2)]
    parts = [b.slice(row, start, width) for start, width in spans]
    made = b.apply("mul", b.apply("add", parts[0], parts[1]), b.apply("mul", parts[2], parts[3]))
    d = derive(b, {"h": made}, {})
    s, g = draw(B, 6), draw(B, 2, seed=5)
    found = evaluate(d.states, {("state", "s"): s, ("gradient", "h"): g}, [])["s"]
    given = s.clone().requires_grad_()
    one, two, three, four = (given[:, start : start + width] for start, width in spans)
    torch.testing.assert_close(found, torch.autograd.grad((one + two) * (three * four), given, g)[0])


def test_numbers_meet_rows_as_numbers():
    """What is done to rows of one number is done to the number; a sum of such a row is a product."""
    b = Builder()
    number, row = b.make("state", attribute="n", width=1), b.make("state", attribute="r", width=H)
    wide = b.apply("mul", b.widen(number, H), 2.0)
    assert wide.op == "splat" and wide.args[0].op == "mul" and b.sum(wide, H).width == 1
    assert b.sum(b.apply("neg", row), H).op == "neg"
    leaves = {("state", "n"): draw(B, 1), ("state", "r"): draw(B, H)}
    found = evaluate({"a": b.sum(wide, H), "b": b.sum(b.apply("neg", row), H)}, leaves, [])
    torch.testing.assert_close(found["a"], leaves["state", "n"] * 2 * H)
    torch.testing.assert_close(found["b"], -leaves["state", "r"].sum(-1, keepdim=True))
