import math

import pytest
import torch

from carousel.metrics import perplexity


def test_a_uniform_guess_among_k_tokens_has_perplexity_k():
    loss = torch.nn.functional.cross_entropy(torch.zeros(4, 7), torch.tensor([0, 3, 6, 2]))
    assert perplexity(float(loss)) == pytest.approx(7, rel=1e-6)


def test_what_no_float_can_hold_is_infinite():
    assert perplexity(699.0) == math.exp(699.0) and perplexity(800.0) == math.inf
