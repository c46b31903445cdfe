"""One clear message for everything that cannot be searched."""

import math
import re

import numpy as np
import pytest
import torch
from helpers.toys import Toy

from carousel.decoding import GNMT, Beam, Exhaustive, Greedy, RandomK, Sample, StepFunction, TopK, search
from carousel.errors import CarouselError

ASK = {"start": 1, "end": 0, "max_length": 6}


@pytest.mark.parametrize(
    ("prompts", "strategy", "ask", "message"),
    [
        (1, Sample(TopK(6)), {}, "TopK(6): k is larger than the vocabulary, which has 5 tokens"),
        (1, Sample(RandomK(6)), {}, "RandomK(6): k is larger than the vocabulary, which has 5 tokens"),
        (1, Beam(6), {}, "wider than the vocabulary of 5; take a narrower one"),
        (0, Greedy(), {}, "prompts is empty; give at least one"),
        ([], Greedy(), {}, "prompts is empty; give at least one"),
        ([[1], []], Greedy(), {"start": None}, "prompts[1] is empty, and there is no start token to begin with"),
        ([[], [1] * 6], Greedy(), {}, "prompts[1] has 6 tokens, which leaves no room below max_length=6"),
        ([[2, 5]], Greedy(), {}, "prompts[0] has 5, outside the vocabulary of 5"),
        ([[-1]], Greedy(), {}, "prompts[0] has -1, outside the vocabulary of 5"),
        (1, Greedy(), {"end": 5}, "end is 5, outside the vocabulary of 5"),
        (1, Greedy(), {"start": 9}, "start is 9, outside the vocabulary of 5"),
        (1, Greedy(), {"max_length": 0}, "max_length must be at least 1, got 0"),
        (2, Greedy(), {"items": [1]}, "items must have a number for each of the 2 prompts, got 1"),
    ],
)
def test_before_the_search(prompts, strategy, ask, message):
    toy = Toy(5)
    with pytest.raises(ValueError, match=re.escape(message)):
        search(toy.stepper(), prompts, strategy, **(ASK | ask))
    assert toy.calls == 0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Beam(0), "width must be a whole number above 0, got 0"),
        (lambda: Beam(2.0), "width must be a whole number above 0, got 2.0"),
        (lambda: Beam(3, n_best=4), "n_best must lie between 1 and the width of 3, got 4"),
        (lambda: Beam(3, n_best=0), "n_best must lie between 1 and the width of 3, got 0"),
        (lambda: Beam(3, n_best=3, completed=2), "completed must be at least n_best, 3, got 2"),
        (lambda: Exhaustive(n_best=0), "n_best must be at least 1, got 0"),
        (lambda: GNMT(0), "alpha must be a number above 0, got 0"),
        (lambda: GNMT(-1), "alpha must be a number above 0, got -1"),
        (lambda: StepFunction(print, 0), "vocab_size must be at least 1, got 0"),
    ],
)
def test_options_out_of_range(make, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        make()


def test_prompts_are_numbers():
    for prompts in ([[1.5]], ["ab"]):
        with pytest.raises(TypeError, match=r"prompts\[0\] must hold token numbers, got"):
            search(Toy(5).stepper(), prompts, **ASK)
    lists = [[1, 2], [3, 4]]
    for prompts in (torch.tensor(lists), np.array(lists), [np.array(one) for one in lists]):
        assert search(Toy(5).stepper(), prompts, **ASK) == search(Toy(5).stepper(), lists, **ASK)


def test_constraints_are_objects():
    with pytest.raises(CarouselError, match="constraints must be Constraint objects, got str"):
        search(Toy(5).stepper(), 1, constraints=["ban"], **ASK)


EVERY = [Greedy(), Sample(), Sample(TopK(2)), Sample(RandomK(3)), Beam(2), Exhaustive()]


@pytest.mark.parametrize("strategy", EVERY, ids=repr)
@pytest.mark.parametrize("width", [5, 700])
def test_nan_is_reported_where_it_appears(strategy, width):
    if width > 5 and isinstance(strategy, Exhaustive):
        strategy = Exhaustive(limit=10**7)
    good = torch.randn(width).log_softmax(-1)
    bad = good.clone()
    bad[3] = math.nan
    count = 0

    def step(tokens, state):
        nonlocal count
        count += 1
        out = good.repeat(len(tokens), 1)
        if count == 2:
            out[-1] = bad
        return out, state

    lm = StepFunction(step, width)
    with pytest.raises(ValueError, match="the step function returned NaN at position 1 of item 1"):
        search(lm, 2, strategy, start=1, end=None, max_length=6, seed=0)


@pytest.mark.parametrize("strategy", EVERY, ids=repr)
def test_a_model_that_allows_nothing(strategy):
    lm = StepFunction(lambda tokens, state: (torch.full((len(tokens), 5), -math.inf), state), 5)
    with pytest.raises(ValueError, match="the step function gave no token a probability at position 0 of item 0"):
        search(lm, 1, strategy, **ASK)


def test_logits_are_noticed():
    lm = StepFunction(lambda tokens, state: (torch.ones(len(tokens), 5) * 1e4, state), 5)
    with pytest.raises(ValueError, match=r"sum to exp\(1e\+04\) instead of 1; it must return log-probabilities"):
        search(lm, 1, **ASK)


def test_wrong_shapes_are_noticed():
    lm = StepFunction(lambda tokens, state: (torch.zeros(len(tokens), 1, 5), state), 5)
    with pytest.raises(ValueError, match=r"of shape \(1, 1, 5\), expected \(1, 5\)"):
        search(lm, 1, **ASK)
