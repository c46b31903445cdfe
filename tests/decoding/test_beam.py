"""Beam search against exhaustive search, greedy search, and examples worked by hand."""

import math
import re

import pytest
import torch
from helpers.toys import Toy, peaked
from hypothesis import given
from hypothesis import strategies as st

from carousel.decoding import GNMT, Beam, Bias, Exhaustive, Greedy, Mean, Unnormalised, search

NORMS = [Mean(), GNMT(0.6), GNMT(2.0), Unnormalised()]


@given(
    seed=st.integers(0, 10**6),
    vocab_size=st.integers(2, 4),
    steps=st.integers(1, 4),
    norm=st.sampled_from(NORMS),
    zeros=st.sampled_from([0.0, 0.3]),
)
def test_a_beam_as_wide_as_the_tree_is_exhaustive(seed, vocab_size, steps, norm, zeros):
    toy = Toy(vocab_size, seed, zeros=zeros)
    prompts = [[], [2 % vocab_size], [1, 1]][:steps]
    ask = {"start": 1, "end": 0, "max_length": steps}
    width = vocab_size**steps
    beam = Beam(width, n_best=width, length=norm, completed=math.inf, wide=True)
    wide = search(toy.stepper(), prompts, beam, **ask)
    everything = search(toy.stepper(), prompts, Exhaustive(n_best=width, length=norm), **ask)
    for some, all_ in zip(wide, everything, strict=True):
        assert [h.tokens for h in some] == [h.tokens for h in all_]
        assert [h.score for h in some] == pytest.approx([h.score for h in all_])
        assert [h.finished for h in some] == [h.finished for h in all_]


@given(seed=st.integers(0, 10**6), vocab_size=st.integers(2, 30), steps=st.integers(1, 12))
def test_a_beam_of_one_is_greedy(seed, vocab_size, steps):
    toy = Toy(vocab_size, seed)
    ask = {"start": 1, "end": 0, "max_length": steps}
    [greedy], [beam] = (search(toy.stepper(), [[]], way, **ask)[0] for way in (Greedy(), Beam(1)))
    assert beam.tokens == greedy.tokens
    assert beam.finished == greedy.finished
    assert beam.token_log_probs == greedy.token_log_probs
    assert beam.score == pytest.approx(greedy.score)


@given(seed=st.integers(0, 10**6), width=st.integers(1, 6), steps=st.integers(2, 10), norm=st.sampled_from(NORMS))
def test_scores_are_the_sums_of_an_independent_loop(seed, width, steps, norm):
    toy = Toy(7, seed)
    [found] = search(toy.stepper(), [[3]], Beam(width, n_best=width, length=norm), start=1, end=0, max_length=steps)
    assert [h.score for h in found if h.finished] == sorted((h.score for h in found if h.finished), reverse=True)
    assert [h.finished for h in found] == sorted((h.finished for h in found), reverse=True)
    assert len({h.tokens for h in found}) == len(found)
    for h in found:
        parts = toy.score_tokens([1, 3], h.tokens)
        assert h.token_log_probs == pytest.approx(parts)
        assert h.log_prob == pytest.approx(sum(parts))
        assert h.score == pytest.approx(norm.score(sum(parts), len(parts)))
        assert h.finished == (h.tokens[-1] == 0)


@given(seed=st.integers(0, 10**6), norm=st.sampled_from(NORMS), completed=st.sampled_from([3, math.inf]))
def test_stopping_early_changes_no_result(seed, norm, completed):
    toy = Toy(5, seed, spread=2.5)
    beam = Beam(3, n_best=3, length=norm, completed=completed)
    ask = {"start": 1, "end": 0, "max_length": 9}
    early = search(toy.stepper(), 1, beam, **ask)
    steps, toy.calls = toy.calls, 0
    to_the_end = search(toy.stepper(), 1, beam, constraints=[Bias({0: 0.0})], **ask)  # a bias takes the bound away
    assert steps <= toy.calls
    assert [h.tokens for h in early[0]] == [h.tokens for h in to_the_end[0]]


def test_the_bound_stops_a_search_that_cannot_improve():
    toy = Toy(3)
    toy.table[:] = torch.tensor([0.98, 0.01, 0.01], dtype=torch.float64).log()
    search(toy.stepper(), 1, Beam(2, length=Unnormalised(), completed=math.inf), start=1, end=0, max_length=500)
    assert toy.calls == 1
    toy.calls = 0
    search(toy.stepper(), 1, Beam(2, length=Mean(), completed=math.inf), start=1, end=0, max_length=500)
    # by hand: log 0.98 = -0.0202 is complete; 5 steps leave -23.0 / 500 = -0.046, and 3 only -13.8 / 500 = -0.028
    assert toy.calls == 3


def test_what_greedy_misses():
    """The greedy path begins with the better half and ends badly: 0.6 · 0.5 < 0.4 · 0.9."""
    lm = peaked(4, _3={1: 0.6, 2: 0.4}, _1={0: 0.5, 1: 0.25, 2: 0.25}, _2={0: 0.9, 1: 0.1})
    ask = {"start": 3, "end": 0, "max_length": 2}
    assert search(lm, 1, Greedy(), **ask)[0][0].tokens == (1, 0)
    [best, second] = search(lm, 1, Beam(2, n_best=2), **ask)[0]
    assert best.tokens == (2, 0) and second.tokens == (1, 0)
    assert math.exp(best.log_prob) == pytest.approx(0.36)
    assert math.exp(second.log_prob) == pytest.approx(0.30)


def test_n_completed_hypotheses_end_the_search():
    """The first to be complete is the worst of three, and with completed=1 it is the answer."""
    lm = peaked(4, _3={0: 0.3, 1: 0.7}, _1={2: 1.0}, _2={0: 1.0})
    ask = {"start": 3, "end": 0, "max_length": 5}
    assert search(lm, 1, Beam(2, completed=1), **ask)[0][0].tokens == (0,)
    assert search(lm, 1, Beam(2), **ask)[0][0].tokens == (1, 2, 0)


def test_the_step_limit_ends_the_search_and_complete_ones_come_first():
    lm = peaked(3, _2={0: 0.1, 1: 0.9}, _1={0: 0.1, 1: 0.9})
    found = search(lm, 1, Beam(3, n_best=3, completed=math.inf), start=2, end=0, max_length=2)[0]
    assert [(h.tokens, h.finished) for h in found] == [((1, 0), True), ((0,), True), ((1, 1), False)]


def test_complete_hypotheses_are_not_lost_to_better_beginnings():
    """An early end scores best by far; everything after it is dearer, yet the beam is always full of others."""
    lm = peaked(5, _4={0: 0.3, 1: 0.3, 2: 0.2, 3: 0.2}, _1={1: 0.5, 2: 0.5}, _2={1: 0.5, 2: 0.5}, _3={3: 1.0})
    [[best]] = search(lm, 1, Beam(2, length=Unnormalised(), completed=math.inf), start=4, end=0, max_length=30)
    assert best.tokens == (0,)


def test_equals_come_in_the_order_of_their_tokens():
    lm = peaked(4, _3={0: 0.25, 1: 0.25, 2: 0.25, 3: 0.25}, _1={0: 1.0}, _2={0: 1.0})
    ask = {"start": 3, "end": 0, "max_length": 2}
    found = search(lm, 1, Beam(3, n_best=3), **ask)[0]
    assert [h.tokens for h in found] == [(1, 0), (2, 0), (0,)]
    assert search(lm, 1, Greedy(), **ask)[0][0].tokens == (0,)


def plain_beam(toy, prefix, width, steps, completed, norm):
    """Beam search over Python lists, without bounds or batches: [(finished, score, tokens)], best first."""
    live, complete = [(0.0, [])], []
    for _ in range(steps):
        ranked = sorted(
            (
                (total + log_prob, [*tokens, token])
                for total, tokens in live
                for token, log_prob in enumerate(toy.log_probs([*prefix, *tokens]))
            ),
            key=lambda c: -c[0],
        )
        complete += [(True, norm.score(total, len(t)), t) for total, t in ranked[:width] if t[-1] == 0]
        if len(complete) >= completed:
            return sorted(complete, key=lambda c: -c[1])
        live = [c for c in ranked if c[1][-1] != 0][:width]
    return sorted(complete, key=lambda c: -c[1]) + [(False, norm.score(total, len(t)), t) for total, t in live]


def agrees_with_plain_beam(toy, prompts, width, steps, completed, norm):
    beam = Beam(width, n_best=width, completed=completed, length=norm)
    found = search(toy.stepper(), prompts, beam, start=1, end=0, max_length=steps)
    for prompt, hypotheses in zip(prompts, found, strict=True):
        expected = plain_beam(toy, [1, *prompt], width, steps - len(prompt), completed, norm)[:width]
        assert [(h.finished, list(h.tokens)) for h in hypotheses] == [(done, tokens) for done, _, tokens in expected]
        assert [h.score for h in hypotheses] == pytest.approx([score for _, score, _ in expected])


@given(
    seed=st.integers(0, 10**6),
    vocab_size=st.integers(5, 9),
    width=st.integers(1, 5),
    steps=st.integers(3, 7),
    extra=st.sampled_from([0, 3, math.inf]),
    norm=st.sampled_from(NORMS),
    ends_often=st.booleans(),
)
def test_against_a_loop_over_lists(seed, vocab_size, width, steps, extra, norm, ends_often):
    toy = Toy(vocab_size, seed)
    if ends_often:
        toy.table[:, 0] += 1.5
        toy.table = toy.table.log_softmax(-1)
    agrees_with_plain_beam(toy, [[], [3, 4]], width, steps, width + extra, norm)


def test_against_a_loop_on_a_large_vocabulary():
    """Sizes at which the k best are screened in blocks."""
    agrees_with_plain_beam(Toy(3000, seed=3, spread=3.0), [[2], [3], [4]], 4, 4, math.inf, Mean())


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Beam(0), "width must be a whole number above 0, got 0"),
        (lambda: Beam(2.0), "width must be a whole number above 0, got 2.0"),
        (lambda: Beam(3, n_best=4), "n_best must lie between 1 and the width of 3, got 4"),
        (lambda: Beam(3, n_best=0), "n_best must lie between 1 and the width of 3, got 0"),
        (lambda: Beam(3, n_best=3, completed=2), "completed must be at least n_best, 3, got 2"),
    ],
)
def test_options_out_of_range(make, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        make()
