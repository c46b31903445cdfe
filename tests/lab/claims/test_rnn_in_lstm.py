"""RNNs inside LSTMs: against torch's LSTM and a loop in numpy."""

import math

import numpy as np
import pytest
import torch
from helpers.lab import in_torch

from carousel import lab
from carousel.lab.claims import rnn_in_lstm


@pytest.fixture(scope="module")
def inside():
    return lab.rnn_in_lstm(4, steps=60, hidden=6, inputs=3, seed=2)


def test_the_exact_construction_is_the_rnn_in_torch_and_numpy():
    draw = np.random.default_rng(0)
    w, u, b, x = (draw.normal(size=shape) for shape in ((5, 3), (5, 5), (5,), (200, 3)))
    h, expected = np.zeros(5), []
    for step in x:
        h = 1 / (1 + np.exp(-(w @ step + u @ h + b)))
        expected.append(h)
    layer, state = rnn_in_lstm.inside(*map(torch.tensor, (w, u, b)), c=20.0, f=100.0, i=-100.0)
    found = in_torch(layer)(torch.tensor(x)[:, None], state)[0][:, 0]
    assert np.abs(found.detach().numpy() - np.array(expected)).max() < 1e-12


def test_each_construction_is_as_far_off_as_it_should_be(inside):
    by_name = {one.label: one for one in inside.constructions}
    assert max(by_name["exact"].errors) < 1e-12 and max(by_name["W_hh / tanh 0.5"].errors) < 1e-12
    assert by_name["the factor turned"].errors[0] < 1e-12  # nothing has come back yet
    assert by_name["the factor turned"].errors[1] > 0.01
    assert by_name["as published"].errors[0] > 0.1
    late = by_name["c = 10000"]
    assert late.errors[7] < 1e-12  # 10000 / 2⁸ is 39, whose tanh is 1
    assert max(late.errors) > 0.1
    shorts = [verdict.short for verdict in inside.verdicts().values()]
    assert shorts == ["holds", "holds", "does not hold as printed", "does not hold as printed"]
    kept = by_name["c = 10000, kept"]  # 10000 is as good as 20 where f = 1 and i = 0
    assert kept.drift == 0 and max(kept.errors) < 1e-12
    published = inside.measured["constructions"][0]["worst"]  # the lead gives the number of the table
    assert f"off by up to {published:.2g}" in inside.lead(inside.measured)
    with pytest.raises(ValueError, match="steps must be a whole number from 1 up, got 0"):
        lab.rnn_in_lstm(1, steps=0)


def test_what_is_said_of_the_constructions_is_so(inside):
    reasons = {key: verdict.reason for key, verdict in inside.verdicts().items()}
    assert reasons["constant"] == "c stays at 0.5 exactly."
    assert "f = i = ½" in reasons["large"] and "the distance of c to 1 halves" in reasons["large"]
    assert "W_hh divided by tanh 0.5" in reasons["scaled"]
    published = inside.constructions[0]
    assert 2 < published.reaches <= 1 / math.tanh(0.5)
    assert f"over tanh 0.5 it reaches {published.reaches:.2f}" in reasons["scaled"]
