"""Machines as networks: against lists, tapes and brute force."""

from fractions import Fraction
from itertools import product

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from carousel.lab.claims.stack import balanced, by_list
from carousel.lab.machines import (
    CYCLE,
    Configuration,
    as_stacks,
    compile_machine,
    decode,
    dyck,
    encode,
    palindromes,
    run_exactly,
    run_rounded,
    run_tape,
    same,
    simulate,
    tape_start,
    unary_increment,
)

EMPTY_STACK = Configuration("right", ((),))


@given(st.lists(st.integers(0, 2), max_size=30))
def test_a_stack_is_a_number_and_back(stack):
    assert decode(encode(stack, 8), 8) == tuple(stack)
    assert 0 <= encode(stack, 8) < 1


def test_what_is_no_stack():
    assert decode(Fraction(1, 3), 4) is None and decode(Fraction(1, 2), 4) is None


@pytest.fixture(scope="module")
def brackets():
    return compile_machine(dyck(2))


@pytest.mark.parametrize("word", ["", "()", "([])", "([)]", "]", "((", "[][()]"])
def test_brackets_exactly(brackets, word):
    read = ["()[]".index(bracket) for bracket in word]
    expected = EMPTY_STACK
    for symbol, found in zip(read, run_exactly(brackets, EMPTY_STACK, read), strict=True):
        expected = by_list(expected, symbol)
        assert found == expected
    assert (expected == EMPTY_STACK) == balanced(read)


def test_the_network_is_one_recurrent_layer(brackets):
    """The layer with ReLUs computes the same numbers, which a double can hold while the stack is short."""
    read = [0, 2, 2, 3, 1]
    exact = list(run_exactly(brackets, EMPTY_STACK, read))
    assert exact == list(simulate(dyck(2), EMPTY_STACK, read))
    assert exact == run_rounded(brackets, EMPTY_STACK, read, torch.float64)
    assert brackets.layer(torch.float64).hidden_size == 2 * len(brackets)
    assert all(weight.denominator & (weight.denominator - 1) == 0 for row in brackets.U for weight in row.values())


def test_increment_on_all_short_tapes():
    turing = unary_increment()
    network = compile_machine(as_stacks(turing))
    for size in range(4):
        steps = 2 * size + 4
        found = run_exactly(network, tape_start(turing, [1] * size), [None] * steps)
        for direct, configuration in zip(run_tape(turing, [1] * size, steps), found, strict=True):
            assert same(configuration, *direct)
        assert configuration.state == "done" and configuration.stacks[1] == (1,) * (size + 1)


def test_the_palindrome_machine_itself():
    """The table, on a tape, against the definition."""
    for size in range(7):
        for word in product((1, 2), repeat=size):
            *_, (state, _, _) = run_tape(palindromes(), word, (size + 2) * (size + 3))
            assert state == ("yes" if word == word[::-1] else "no")


def test_a_palindrome_by_the_network():
    turing = palindromes()
    network = compile_machine(as_stacks(turing))
    for word in ([1], [1, 2]):
        found = run_exactly(network, tape_start(turing, word), [None] * 9)
        for direct, configuration in zip(run_tape(turing, word, 9), found, strict=True):
            assert same(configuration, *direct)


def test_precision_is_what_a_tape_takes():
    """Two bits for each symbol: long tapes are wrong in float32, and right in float64 for a while."""
    turing = unary_increment()
    network = compile_machine(as_stacks(turing))

    def right(size, dtype):
        steps = 2 * size + 4
        found = run_rounded(network, tape_start(turing, [1] * size), [None] * steps, dtype)
        return all(same(c, *d) for d, c in zip(run_tape(turing, [1] * size, steps), found, strict=True))

    assert right(4, torch.float32) and not right(14, torch.float32)
    assert right(14, torch.float64) and not right(30, torch.float64)


def test_a_step_of_the_machine_is_four_of_the_network(brackets):
    h = brackets.start(EMPTY_STACK)
    for phase in range(CYCLE):
        h = brackets.step(h, [0] if phase == 1 else [])
    assert brackets.read(h) == Configuration("right", ((0,),))
