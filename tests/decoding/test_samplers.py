"""Samplers against exact probabilities."""

import math

import numpy as np
import pytest
import torch
from helpers.toys import fixed
from hypothesis import given
from hypothesis import strategies as st

from carousel.decoding import Ban, RandomK, Sample, Temperature, TopK, TopP, search
from carousel.decoding.samplers import Candidates, draw

P = torch.tensor([0.05, 0.3, 0.02, 0.4, 0.13, 0.1], dtype=torch.float64)


def frequencies(strategy, draws=10_000, probabilities=P, **ask):
    lm = fixed(probabilities.expand(len(probabilities), -1))
    found = search(lm, 1, strategy(draws), start=0, end=None, max_length=1, seed=11, **ask)[0]
    return np.bincount([h.tokens[0] for h in found], minlength=len(probabilities))


def chi_square(counts, probabilities):
    expected = counts.sum() * np.asarray(probabilities)
    assert (counts[expected == 0] == 0).all()
    counts, expected = counts[expected > 0], expected[expected > 0]
    return ((counts - expected) ** 2 / expected).sum(), len(counts) - 1


# The 99.9% points of chi-square with 1, 2, … 5 degrees of freedom
LIMIT = {1: 10.83, 2: 13.82, 3: 16.27, 4: 18.47, 5: 20.52}


@pytest.mark.parametrize(
    ("samplers", "exact"),
    [
        ([], P),
        ([Temperature(0.5)], P**2),
        ([Temperature(2.0)], P**0.5),
        ([TopK(3)], P * torch.tensor([0, 1, 0, 1, 1, 0])),
        ([RandomK(3)], torch.tensor([0, 1, 0, 1, 1, 0.0])),
        ([TopP(0.75)], P * torch.tensor([0, 1, 0, 1, 1, 0])),
        ([Temperature(2.0), TopK(4), TopP(0.7)], P**0.5 * torch.tensor([0, 1, 0, 1, 1, 0])),
        ([TopP(0.75), Temperature(0.5)], P**2 * torch.tensor([0, 1, 0, 1, 1, 0])),
        ([TopP(0.75), TopK(2)], P * torch.tensor([0, 1, 0, 1, 0, 0])),
        ([TopK(2), RandomK(5)], torch.tensor([0, 1, 0, 1, 0, 0.0])),
    ],
    ids=repr,
)
def test_frequencies_are_the_exact_probabilities(samplers, exact):
    counts = frequencies(lambda n: Sample(*samplers, copies=n))
    statistic, freedom = chi_square(counts, (exact / exact.sum()).numpy())
    assert statistic < LIMIT[freedom]


def test_banned_tokens_leave_the_others_their_proportions():
    counts = frequencies(lambda n: Sample(copies=n), constraints=[Ban([3, 5])])
    exact = P * torch.tensor([1, 1, 1, 0, 1, 0])
    statistic, freedom = chi_square(counts, (exact / exact.sum()).numpy())
    assert statistic < LIMIT[freedom]


def test_random_k_with_fewer_allowed_than_k():
    counts = frequencies(lambda n: Sample(RandomK(5), copies=n), constraints=[Ban([0, 1, 2, 3])])
    statistic, freedom = chi_square(counts, [0, 0, 0, 0, 0.5, 0.5])
    assert statistic < LIMIT[freedom]


@given(seed=st.integers(0, 10**6), size=st.sampled_from([2, 7, 256, 257, 300, 1000]), spread=st.floats(0, 6))
def test_an_even_comb_of_draws_is_the_distribution(seed, size, spread):
    """u = 0.5/n, 1.5/n, … gives each token its share to within one draw: no statistics needed."""
    g = torch.Generator().manual_seed(seed)
    log_probs = (torch.randn(size, generator=g) * spread).log_softmax(-1)
    n = 2000
    tokens, _, found = draw(Candidates.all(log_probs.expand(n, -1)), (np.arange(n) + 0.5) / n)
    share = n * log_probs.double().softmax(-1).numpy()
    assert found.all()
    assert (np.abs(np.bincount(tokens, minlength=size) - share) < 1 + 1e-3).all()


@given(
    seed=st.integers(0, 10**6),
    size=st.sampled_from([3, 50, 257, 700]),
    p=st.floats(0.01, 0.999),
    spread=st.floats(0.1, 5),
    narrowed=st.booleans(),
)
def test_top_p_is_the_smallest_set_that_reaches_p(seed, size, p, spread, narrowed):
    g = torch.Generator().manual_seed(seed)
    log_probs = (torch.randn(4, size, generator=g, dtype=torch.float64) * spread).log_softmax(-1)
    candidates = Candidates.all(log_probs)
    kept = TopP(p)(candidates.narrow(size) if narrowed else candidates)
    for row in range(4):
        tokens = kept.tokens[row] if narrowed else np.arange(size)
        chosen = sorted(tokens[kept.values[row] > -math.inf], key=lambda t: -log_probs[row, t])
        probabilities = log_probs[row].exp()[chosen]
        assert probabilities.sum() >= p - 1e-5
        assert probabilities[:-1].sum() < p + 1e-5
        assert (log_probs[row, chosen[-1]] >= log_probs[row]).sum() == size - len(chosen) + 1


def test_top_p_among_equals_keeps_the_lower_tokens():
    kept = TopP(0.5)(Candidates.all(torch.full((1, 8), 1 / 8).log()))
    assert np.flatnonzero(kept.values[0] > -math.inf).tolist() == [0, 1, 2, 3]
    assert TopP(1.0)(Candidates.all(P.log()[None])).weights().all()


@pytest.mark.parametrize("t", [1e-300, 1e-8, 1e8, 1e300])
def test_extreme_temperatures(t):
    counts = frequencies(lambda n: Sample(Temperature(t), copies=n), draws=600, constraints=[Ban([5])])
    if t < 1:
        assert counts.tolist() == [0, 0, 0, 600, 0, 0]
    else:
        assert chi_square(counts, [0.2] * 5 + [0])[0] < LIMIT[4]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Temperature(0), "temperature must be above 0 and finite, got 0"),
        (lambda: Temperature(-1.0), "temperature must be above 0 and finite, got -1.0"),
        (lambda: Temperature(math.nan), "temperature must be above 0 and finite, got nan"),
        (lambda: TopP(0), "p must be above 0 and at most 1, got 0"),
        (lambda: TopP(1.01), "p must be above 0 and at most 1, got 1.01"),
        (lambda: TopK(0), "k must be at least 1, got 0"),
        (lambda: RandomK(-3), "k must be at least 1, got -3"),
        (lambda: Sample(copies=0), "copies must be at least 1, got 0"),
    ],
)
def test_options_out_of_range(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_k_must_be_whole():
    with pytest.raises(TypeError, match="k must be an int, got float"):
        TopK(2.5)
