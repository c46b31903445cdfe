"""What a search asks of a model: states by row, functions as steppers, ensembles."""

from typing import NamedTuple

import pytest
import torch
from helpers.toys import Toy

from carousel.decoding import Beam, Ensemble, StepFunction, search, select_rows


def test_an_ensemble_is_the_mean_of_probabilities():
    toys = [Toy(4, seed=1), Toy(4, seed=2), Toy(4, seed=3)]
    [found] = search(Ensemble([t.stepper() for t in toys]), 1, Beam(3, n_best=3), start=1, end=0, max_length=5)
    for h in found:
        for k, (token, log_prob) in enumerate(zip(h.tokens, h.token_log_probs, strict=True)):
            votes = [torch.tensor(t.log_probs([1, *h.tokens[:k]]))[token].exp() for t in toys]
            assert log_prob == pytest.approx((sum(votes) / 3).log().item(), abs=1e-6)
    with pytest.raises(ValueError, match=r"must share one vocabulary, got vocabularies of \[4, 5\] tokens"):
        Ensemble([Toy(4).stepper(), Toy(5).stepper()])
    with pytest.raises(ValueError, match="steppers is empty"):
        Ensemble([])


def test_rows_of_any_structure():
    rows = torch.tensor([1, 1, 0])
    state = {"h": (torch.arange(4.0).reshape(2, 2, 1), torch.arange(2)), "memory": [torch.eye(2)], "none": None}
    got = select_rows(state, rows, {"h": (1, 0), "memory": None, "none": 0})
    assert got["h"][0].shape == (2, 3, 1) and got["h"][1].tolist() == [1, 1, 0]
    assert got["memory"][0] is state["memory"][0] and got["none"] is None
    named = torch.max(torch.eye(2), 1)  # a named tuple
    assert type(select_rows(tuple(named), rows)) is tuple
    with pytest.raises(TypeError, match="found str"):
        select_rows("state", rows)
    with pytest.raises(ValueError, match="rows has 1 parts, but the state has 2"):
        select_rows((rows, rows), rows, (0,))
    with pytest.raises(ValueError, match="rows has the keys"):
        select_rows({"h": rows}, rows, {"c": 0})
    with pytest.raises(TypeError, match="must give one dimension for a tensor"):
        select_rows(rows, rows, (0, 1))


class Pair(NamedTuple):
    h: torch.Tensor
    c: torch.Tensor


def test_named_tuples_stay_what_they_are():
    state = Pair(torch.arange(3.0).unsqueeze(0), torch.arange(3.0))
    got = select_rows(state, torch.tensor([2, 0, 0]), (1, 0))
    assert type(got) is Pair
    assert got.h.tolist() == [[2, 0, 0]] and got.c.tolist() == [2, 0, 0]
    assert select_rows(state, torch.tensor([], dtype=torch.int64), (1, 0)).h.shape == (1, 0)


def test_a_step_function_needs_no_state_but_a_vocabulary():
    lm = StepFunction(lambda tokens, state: (torch.zeros(len(tokens), 2), state), 2)
    assert lm.start(3) is None and lm.select(None, torch.tensor([0])) is None
    with pytest.raises(ValueError, match="vocab_size must be at least 1, got 0"):
        StepFunction(print, 0)
