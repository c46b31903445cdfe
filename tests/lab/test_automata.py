"""Automata as weights: against Python's regular expressions, and counting by hand."""

import itertools
import re

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from carousel.lab.automata import DFA, compile_dfa, compile_pattern, count_machine

PATTERNS = st.recursive(
    st.sampled_from(["a", "b", ".", "ab", "[ab]", "[^a]", "[a-b]", "a{2}", "b{0,2}", "a{1,}"]),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda pair: f"({pair[0]}|{pair[1]})"),
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, st.sampled_from("*+?")).map(lambda pair: f"({pair[0]}){pair[1]}"),
    ),
    max_leaves=5,
)
STRINGS = ["".join(text) for n in range(7) for text in itertools.product("ab", repeat=n)]


@settings(max_examples=40)
@given(PATTERNS)
def test_a_pattern_becomes_weights(pattern):
    dfa = compile_pattern(pattern, "ab")
    right = [re.fullmatch(pattern, text) is not None for text in STRINGS]
    assert [dfa.accepts(text) for text in STRINGS] == right
    network = compile_dfa(dfa)
    assert network.accepts(STRINGS) == right
    assert set(torch.cat([p.flatten() for p in network.layer.parameters()]).tolist()) <= {-1.0, 0.0, 1.0}


def test_an_automaton_by_hand():
    even = DFA("ab", ((1, 0), (0, 1)), frozenset({0}))  # an even number of a's
    texts = ["", "b", "a", "aba", "a" * 9999 + "b" + "a"]
    assert compile_dfa(even).accepts(texts) == [text.count("a") % 2 == 0 for text in texts]
    with pytest.raises(ValueError, match="state 1 must have a next state"):
        DFA("ab", ((1, 0), (0,)), frozenset())


def test_the_counter():
    machine = count_machine()
    texts = ["".join(text) for n in range(11) for text in itertools.product("ab", repeat=n)]
    right = [len(t) > 0 and t == "a" * (len(t) // 2) + "b" * (len(t) // 2) for t in texts]
    assert machine.accepts(texts) == right
    n = 10_000
    assert machine.accepts(["a" * n + "b" * n, "a" * n + "b" * (n + 1), "a" * (n + 1) + "b" * n]) == [
        True,
        False,
        False,
    ]


@pytest.mark.parametrize(
    "pattern",
    ["(ab", "ab)", "a*|c", "*a", "a**", "a*+", "a{x}", "a{3,2}", "[ab", "[]", "[b-]", "a]", "a}", "^a", "a$", r"\d"],
)
def test_patterns_that_are_none(pattern):
    with pytest.raises(ValueError, match="pattern "):
        compile_pattern(pattern, "ab")
