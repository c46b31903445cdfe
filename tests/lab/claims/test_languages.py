"""Formal languages: against all strings of a language, a machine whose counter is known, and counts by hand."""

import json
import random
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from carousel import lab
from carousel.lab.automata import count_machine
from carousel.lab.claims import languages
from carousel.lab.claims.languages import Outcome, Reader, Setting, Unit
from carousel.lab.grammars import END, GRAMMARS

TINY = Setting(trained=4, tested=9, hidden=3, pool=10, batch=5, updates=2, rates=(0.05, 0.01), networks=2)


@given(st.sampled_from(list(GRAMMARS)), st.lists(st.integers(1, 8), min_size=1, max_size=4), st.integers(0, 100))
def test_a_batch_says_what_the_strings_say(name, sizes, seed):
    grammar, draw = GRAMMARS[name], random.Random(seed)
    strings = [grammar.draw(n, draw) for n in sizes]
    batch = grammar.encode(strings)
    symbols = grammar.alphabet + END
    for k, text in enumerate(strings):
        assert batch.lengths[k] == len(text)
        assert "".join(grammar.alphabet[int(i)] for i in batch.inputs[: len(text), k].argmax(-1)) == text
        legal = [{symbols[i] for i in row.nonzero().flatten()} for row in batch.targets[: len(text), k]]
        assert legal == [set(part) for part in grammar.follow(text)]
        assert not batch.inputs[len(text) :, k].any()
    rows = torch.tensor([len(strings) - 1, 0])
    part, again = batch.take(rows), grammar.encode([strings[-1], strings[0]])
    assert torch.equal(part.inputs, again.inputs)
    assert torch.equal(part.targets, again.targets)


def test_a_mistake_after_any_symbol_makes_a_string_wrong_and_padding_none():
    grammar = GRAMMARS["dyck-1"]
    strings = ["()", "(())()", "()()"]
    batch = grammar.encode(strings)
    said = torch.where(batch.targets > 0.5, 1.0, -1.0)

    class Parrot(Reader):
        def forward(self, strings):
            return said

    model = Parrot("rnn", 2, 1)
    assert model.right(batch).tolist() == [True] * 3
    said[3:, 0] *= -1  # past the end of the first
    assert model.right(batch).tolist() == [True] * 3
    said[2, 1, 0] *= -1
    assert model.right(batch).tolist() == [True, False, True]


def test_the_counting_unit_of_a_machine_whose_counter_is_known():
    machine = count_machine()  # c of unit 0 is the a's less the b's
    model = Reader("lstm", 2, 4)
    model.layer = machine.layer
    found = languages.counting_unit(model, GRAMMARS["anbn"], "a" * 30 + "b" * 30)
    assert (found.state, found.number) == ("c", 0)
    assert found.correlation == pytest.approx(1)
    assert found.values == pytest.approx(found.count, abs=1e-4)
    assert max(found.count) == 30


@pytest.mark.learning
def test_a_network_learns_and_the_same_seed_gives_the_same_numbers(reached):
    s = Setting(trained=6, tested=12, hidden=8, pool=60, updates=120, rates=(0.05,), networks=1)
    (taught,) = lab.languages(["anbn"], ["lstm"], s).outcomes
    (fresh,) = lab.languages(["anbn"], ["lstm"], replace(s, updates=1)).outcomes
    reached("loss", taught.loss, below=0.1)
    reached("loss before", fresh.loss, above=0.5)
    reached("share", taught.share(1, 6), above=0.8)
    reached("share before", fresh.share(1, 6), below=0.8)
    both = lab.languages(["anbn"], ["lstm"], replace(s, updates=1, rates=(0.05, 0.01), networks=2)).outcomes
    assert [(one.seed, one.rate) for one in both] == [(0, 0.05), (1, 0.01)]
    assert both[0].loss == fresh.loss != both[1].loss


def outcome(language, cell, right, correlation=0.5):
    return Outcome(language, cell, 0, 0.05, 0.1, tuple(right), Unit("h", 0, correlation, [0.0, 1.0], [0, 1]), 0.0)


def test_reach_and_verdict_by_hand():
    one = outcome("anbn", "lstm", [1, 1, 0.5, 1])
    assert one.reach == 2
    assert one.share(2, 3) == 0.75
    assert outcome("anbn", "lstm", [0] + [1] * 19 + [0, 0]).reach == 20  # 19 of 20
    assert outcome("anbn", "lstm", [0] + [1] * 18).reach == 0
    s = Setting(trained=2, tested=4)
    counts, fails = [1, 1, 1, 1], [1, 1, 0, 0]
    found = languages.Languages((outcome("anbn", "lstm", counts, -0.999), outcome("anbn", "gru", fails)), s, 0.0)
    assert found.beyond(found.of("anbn", "gru")[0]) == 0
    verdicts = found.verdicts()
    assert verdicts["count"].short == "holds for LSTM"
    assert "LSTM 100.0 % and GRU 0.0 %" in verdicts["count"].reason
    assert "an |r| of 1.00 with LSTM. In the cells of which no network reads on, it is 0.50 with GRU." in (
        verdicts["count"].reason
    )
    assert verdicts["finite"].short == "holds for aⁿbⁿ, in the networks of this run"
    assert "Bounded is not finite" in verdicts["finite"].reason  # what is bounded can hold a stack of any depth
    alone = languages.Languages((outcome("anbn", "lstm", counts),), Setting(trained=2, tested=4, networks=1), 0.0)
    assert "the best of 1 network reads at least 95 % of the strings without a mistake up to n = 4" in alone.lead(
        alone.measured
    )
    other = languages.Languages((outcome("anbn", "lstm", fails), outcome("anbn", "gru", counts)), s, 0.0)
    assert other.verdicts()["finite"].short == "not decided by this run"
    assert languages.Languages((outcome("parity", "lstm", fails),), s, 0.0).verdicts()["count"].short == (
        "not decided by this run"
    )


def test_who_reads_on_must_have_a_unit_that_follows_the_count():
    s, far, near = Setting(trained=2, tested=4), [1, 1, 1, 1], [1, 1, 0, 0]

    def count(*outcomes):
        return languages.Languages(outcomes, s, 0.0).verdicts()["count"]

    counting, idle = outcome("anbn", "lstm", far, 1.0), outcome("anbn", "lstm", near, -1.0)
    assert count(counting).short == "holds"
    assert count(outcome("anbn", "lstm", far, 0.9)).short == "does not hold as printed"
    assert count(counting, outcome("anbn", "lstm", far, 0.9)).short == "does not hold as printed"
    assert count(counting, outcome("anbn", "gru", far, 0.9)).short == "holds for LSTM"
    assert "1 network has one without reading on" in count(counting, idle).reason
    assert "without reading on" not in count(counting).reason
    assert count(idle).short == "not decided by this run"  # no network reads on


def test_bounded_cells_are_judged_by_language():
    """Every language that takes counting is judged, and one that is read is not among those it holds for."""
    s, far, near = Setting(trained=2, tested=4), [1, 1, 1, 1], [1, 1, 0, 0]
    both = (outcome("anbn", "gru", near), outcome("dyck-1", "gru", far), outcome("parity", "gru", far))
    verdict = languages.Languages(both, s, 0.0).verdicts()["finite"]
    assert verdict.short == "holds for aⁿbⁿ, in the networks of this run"
    assert "aⁿbⁿ 0.0 % and Dyck-1 100.0 % (GRU). A string of Dyck-1 can be long and shallow" in verdict.reason
    shallow = languages.Languages(both[1:], s, 0.0).verdicts()["finite"]
    assert shallow.short == "not decided by this run"


def test_page_and_numbers(tmp_path):
    found = lab.languages(["anbn", "dyck-2"], ["lstm", "rnn"], TINY)
    page = found.write(tmp_path / "page").read_text("utf-8")
    assert "hold?" in page
    assert "aⁿbⁿ" in str(found)
    numbers = json.loads((tmp_path / "page" / "numbers.json").read_text("utf-8"))
    assert [(one["language"], one["cell"]) for one in numbers["outcomes"]] == [
        (language, cell) for language in ("anbn", "dyck-2") for cell in ("lstm", "rnn") for _ in range(2)
    ]
    assert {p.stem for p in (tmp_path / "page").glob("*.png")} == {"right", "units"}


@pytest.mark.parametrize(
    ("given_", "said"),
    [
        ({"languages": ["dyck"]}, "languages must be some of anbn, .*; got dyck"),
        ({"cells": []}, "cells must be some of rnn, .*; got none"),
    ],
)
def test_what_is_none(given_, said):
    with pytest.raises(ValueError, match=said):
        lab.languages(**given_)
    with pytest.raises(ValueError, match="tested must be more than 13"):
        Setting(trained=9, tested=9)
    with pytest.raises(ValueError, match="updates must be a whole number from 1"):
        Setting(updates=0)
    with pytest.raises(ValueError, match="rates must be some numbers above 0"):
        Setting(rates=())
