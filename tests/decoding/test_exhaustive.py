"""Exhaustive search against itertools."""

import pytest
from helpers.toys import Toy, brute_force
from hypothesis import given
from hypothesis import strategies as st

from carousel.decoding import GNMT, Exhaustive, Mean, Unnormalised, search

NORMS = [Mean(), GNMT(0.6), GNMT(2.0), Unnormalised()]


@given(
    seed=st.integers(0, 10**6),
    vocab_size=st.integers(2, 4),
    steps=st.integers(1, 4),
    norm=st.sampled_from(NORMS),
    zeros=st.sampled_from([0.0, 0.3]),
)
def test_it_finds_every_sequence_in_order(seed, vocab_size, steps, norm, zeros):
    toy = Toy(vocab_size, seed, zeros=zeros)
    expected = brute_force(toy, [1], 0, steps, norm.score)
    [found] = search(toy.stepper(), 1, Exhaustive(n_best=10_000, length=norm), start=1, end=0, max_length=steps)
    assert [(h.finished, h.tokens) for h in found] == [(finished, tokens) for finished, _, tokens in expected]
    assert [h.score for h in found] == pytest.approx([score for _, score, _ in expected])
    for h in found:
        assert h.token_log_probs == pytest.approx(toy.score_tokens([1], h.tokens))
        assert h.log_prob == pytest.approx(sum(h.token_log_probs))


def test_prompts_of_different_lengths_are_read_and_not_scored():
    toy = Toy(3, seed=5)
    prompts = [[], [2, 2], [1]]
    found = search(toy.stepper(), prompts, Exhaustive(n_best=99), start=1, end=0, max_length=4)
    for prompt, hypotheses in zip(prompts, found, strict=True):
        expected = brute_force(toy, [1, *prompt], 0, 4 - len(prompt), Mean().score)
        assert [h.tokens for h in hypotheses] == [tokens for _, _, tokens in expected]


def test_too_many_sequences_are_refused():
    with pytest.raises(ValueError, match=r"Exhaustive: 27 sequences at position 2, more than limit=20; .* or use Beam"):
        search(Toy(4).stepper(), 1, Exhaustive(limit=20), start=1, end=0, max_length=9)


def test_at_least_one_is_kept():
    with pytest.raises(ValueError, match="n_best must be at least 1, got 0"):
        Exhaustive(n_best=0)
