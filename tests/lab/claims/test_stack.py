"""Brackets by a network: against replacing pairs until nothing is left."""

import itertools

import torch

from carousel.lab.claims import stack
from carousel.lab.machines import compile_machine, dyck


def reduces(word):
    """Whether a string of brackets is balanced, by another way than a list of open ones."""
    text = "".join(stack.BRACKETS[symbol] for symbol in word)
    while "()" in text or "[]" in text:
        text = text.replace("()", "").replace("[]", "")
    return text == ""


def test_every_string_of_six_brackets():
    words = list(itertools.product(range(4), repeat=6))
    expected = [reduces(word) for word in words]
    assert [stack.balanced(word) for word in words] == expected
    assert stack.judge(compile_machine(dyck(2)), torch.tensor(words)).tolist() == expected
    assert sum(expected) == 2**3 * 5  # kinds of three pairs, times Catalan's number


def test_a_judgement_that_is_wrong_is_counted(monkeypatch):
    monkeypatch.setattr(stack, "balanced", lambda word: len(word) == 2)
    result = stack.run(2, exact=1)
    assert result.data["dyck"] == {"strings": 20, "wrong": 14}  # of 16 strings of two brackets, 2 are balanced
    assert result.verdicts()["parentheses"].short == "does not hold as printed"


def test_a_depth_that_rounded_numbers_reach():
    limits = stack.run(1, exact=1).data["limits"]
    assert 8 <= limits["float32"] <= 12 and 20 <= limits["float64"] <= 26  # two bits for a symbol, of 24 and 53
