"""Formal languages: against all strings of a language."""

import itertools
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from carousel.lab.grammars import END, GRAMMARS


def belongs(name, text):
    """Whether a string is of the language, by another way than the grammar's."""
    match name:
        case "anbn":
            return text == "a" * (len(text) // 2) + "b" * (len(text) // 2) != ""
        case "anbncn":
            n = len(text) // 3
            return text == "a" * n + "b" * n + "c" * n != ""
        case "parity":
            return text.count("1") % 2 == 0
    while any(pair in text for pair in ("()", "[]")):
        text = text.replace("()", "").replace("[]", "")
    return text == ""


@pytest.mark.parametrize("name", GRAMMARS)
def test_what_may_follow_is_what_some_string_of_the_language_goes_on_with(name):
    grammar = GRAMMARS[name]
    length = {"anbn": 10, "anbncn": 9, "dyck-1": 10, "dyck-2": 6, "parity": 6}[name]
    every = ["".join(text) for k in range(length + 1) for text in itertools.product(grammar.alphabet, repeat=k)]
    members = [text for text in every if belongs(name, text)]
    beginnings = {text[:k] for text in members for k in range(len(text) + 1)}
    short = [text for text in members if 0 < len(text) <= length // 2]  # so that what follows is among all
    assert len(short) > 0
    for text in short:
        told = grammar.follow(text)
        assert len(told) == len(text)
        for k, legal in enumerate(told, 1):
            after = {symbol for symbol in grammar.alphabet if text[:k] + symbol in beginnings}
            assert set(legal) == after | ({END} if belongs(name, text[:k]) else set())


@given(st.sampled_from(["anbn", "anbncn", "dyck-1", "dyck-2"]), st.integers(1, 40), st.integers(0, 10**6))
def test_what_is_drawn_belongs_and_has_its_size(name, n, seed):
    text = GRAMMARS[name].draw(n, random.Random(seed))
    assert belongs(name, text)
    assert len(text) == n * (3 if name == "anbncn" else 2)
