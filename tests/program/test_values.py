"""Values of a program: made once, simplified where no operation is needed, in an order that can be computed."""

import math

import pytest
import torch

from carousel.program.values import OPS, Builder, reachable


@pytest.fixture
def b():
    return Builder()


@pytest.fixture
def h(b):
    return b.make("state", attribute="h", width=4)


def test_the_same_operation_is_one_value(b, h):
    assert b.apply("tanh", h) is b.apply("tanh", h)
    assert b.apply("mul", h, 2.0) is b.apply("mul", h, 2)
    assert b.apply("sub", h, b.apply("tanh", h)) is not b.apply("sub", b.apply("tanh", h), h)
    assert b.constant(0.0) is not b.constant(-0.0)  # 1 / ±0 differ
    assert b.constant(math.nan) is b.constant(math.nan)


UNNEEDED = [("add", 0.0, True), ("add", 0.0, False), ("mul", 1.0, True), ("mul", 1.0, False)]


@pytest.mark.parametrize(("op", "number", "first"), [*UNNEEDED, ("sub", 0.0, False), ("div", 1.0, False)])
def test_what_needs_no_operation(b, h, op, number, first):
    assert b.apply(op, *((number, h) if first else (h, number))) is h


def test_nothing_that_could_hide_a_nan_is_left_out(b, h):
    for op, number in (("mul", 0.0), ("sub", 1.0), ("div", 0.0)):
        value = b.apply(op, h, number)
        assert value.op == op and value.args[0] is h
    assert b.apply("sub", 0.0, h).op == "sub"  # 0 − 0 is not −0


def test_signs_are_joined(b, h):
    c = b.make("state", attribute="c", width=4)
    minus = b.apply("neg", c)
    assert b.apply("neg", minus) is c
    assert b.apply("add", h, minus) is b.apply("sub", h, c)
    assert b.apply("sub", h, minus) is b.apply("add", h, c)


def test_constants_are_computed_unless_the_result_is_not_finite(b):
    assert b.apply("add", 2.0, 3.0).attribute == 5.0
    assert b.apply("sigmoid", 0.0).attribute == 0.5
    assert b.apply("log", 0.0).op == "log"
    assert b.apply("div", 1.0, 0.0).op == "div"


def test_a_number_meets_a_row_as_a_row(b, h):
    one = b.make("sum", (h,))
    product = b.apply("mul", h, one)
    assert (product.width, product.args[1].op, product.args[1].width) == (4, "splat", 4)
    assert b.apply("mul", h, 3.0).args[1].op == "constant"
    assert b.sum(one, 4) is b.apply("mul", one, 4.0)
    assert b.sum(h, 4) is one


def test_parts_of_parts(b, h):
    part = b.slice(h, 1, 3)
    assert (part.op, part.attribute, part.width) == ("slice", 1, 3)
    assert b.slice(part, 1, 2) is b.slice(h, 2, 2)
    assert b.slice(h, 0, 4) is h
    unit = b.make("unit", attribute=(0, 5), width=4)
    assert b.slice(unit, 2, 1).attribute == (0, 7)
    both = b.cat((h, 4), (b.constant(1.0), 2))
    assert (both.width, [a.op for a in both.args]) == (6, ["state", "splat"])
    assert b.cat((h, 4)) is h


def test_arguments_come_before_what_is_computed_from_them(b, h):
    c = b.make("state", attribute="c", width=4)
    end = b.apply("add", b.apply("tanh", h), b.apply("mul", b.apply("tanh", h), c))
    order = reachable([end])
    assert len(order) == len({*map(id, order)}) == 5
    for k, value in enumerate(order):
        assert all(any(a is before for before in order[:k]) for a in value.args)
    inner = b.apply("tanh", h)
    assert h not in reachable([inner], lambda value: () if value is inner else value.args)
    assert reachable([]) == []


@pytest.mark.parametrize("op", ["lt", "le", "eq"])
def test_comparisons_are_masks_of_numbers(op):
    a, b = torch.tensor([1.0, 2, 3, math.nan]), torch.tensor([2.0, 2, 2, math.nan])
    assert OPS[op].evaluate(a, b).tolist() == getattr(torch, op)(a, b).float().tolist()
    chosen = OPS["where"].evaluate(OPS[op].evaluate(a, b), a, b)
    assert torch.equal(chosen[:3], torch.where(getattr(torch, op)(a, b), a, b)[:3])
