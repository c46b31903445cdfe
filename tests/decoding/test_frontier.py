"""Rows of a search: what a model may return, and what is wrong where no token is possible."""

import math

import pytest
import torch
from helpers.toys import Toy

from carousel.decoding import (
    Ban,
    Beam,
    ConstraintError,
    Exhaustive,
    Greedy,
    NoRepeat,
    Prefix,
    RandomK,
    Sample,
    StepFunction,
    TopK,
    search,
)

ASK = {"start": 1, "end": 0, "max_length": 6}
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


STRATEGIES = [Greedy(), Sample(), Beam(2), Exhaustive()]


@pytest.mark.parametrize("strategy", STRATEGIES, ids=repr)
def test_what_cannot_be_met_is_named_with_its_step(strategy):
    rules = [Ban([3]), Prefix([1, 2, 3])]
    message = (
        r"cannot be met at position 2 of item 1: the model allows 4 tokens, Ban\(\[3\]\) leaves 3, "
        r"Prefix\(\[1, 2, 3\]\) leaves none\. Relax one, or search with a wider beam"
    )
    own = [Prefix([[1, 2], [1, 2, 3]])]
    with pytest.raises(ConstraintError, match=r"at position 2 of item 1: .*leaves none"):
        search(Toy(4).stepper(), 2, strategy, start=1, end=0, max_length=5, constraints=[Ban([3, 0]), *own])
    with pytest.raises(ConstraintError, match=message.replace("item 1", "item 0")):
        search(Toy(4).stepper(), 2, strategy, start=1, end=0, max_length=5, constraints=rules)


@pytest.mark.parametrize("strategy", STRATEGIES, ids=repr)
def test_a_prompt_that_breaks_a_rule(strategy):
    ask = {"start": 1, "end": 0, "max_length": 5}
    with pytest.raises(ConstraintError, match=r"prompts\[1\] breaks Prefix\(\[1, 2\]\) at its token 1, 3"):
        search(Toy(4).stepper(), [[1], [1, 3]], strategy, constraints=[Prefix([1, 2])], **ask)
    # What is banned from the text may still be in a prompt: an unknown word, for one.
    search(Toy(4).stepper(), [[1], [3, 3]], strategy, constraints=[Ban([3]), NoRepeat(1)], **ask)
