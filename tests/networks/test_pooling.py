"""Pooling against loops that see only the real steps."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from carousel.networks.pooling import Attention, pooling

NAMES = ["last", "mean", "max", "attention"]


def naive(name, pool, y, length):
    """One sequence alone, (T, F), by the definition."""
    steps = y[:length]
    if not length:
        return torch.zeros(y.shape[1])
    if name == "last":
        half = pool.forward_size
        return torch.cat((steps[-1, :half], steps[0, half:]))
    if name == "mean":
        return sum(steps) / length
    if name == "max":
        return torch.stack([max(column) for column in steps.T])
    scores = [pool.score.weight[0] @ torch.tanh(pool.project.weight @ step + pool.project.bias) for step in steps]
    powers = [torch.exp(score) for score in scores]
    return sum(power / sum(powers) * step for power, step in zip(powers, steps, strict=True))


@pytest.mark.parametrize("name", NAMES)
@given(
    lengths=st.lists(st.integers(0, 6), min_size=1, max_size=5),
    extra=st.integers(0, 3),
    bidirectional=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_as_by_hand(name, lengths, extra, bidirectional, seed):
    torch.manual_seed(seed)
    y = torch.randn(max(max(lengths) + extra, 1), len(lengths), 6)
    pool = pooling(name, 6, bidirectional)
    made = pool(y, torch.tensor(lengths))
    expected = torch.stack([naive(name, pool, y[:, b], length) for b, length in enumerate(lengths)])
    torch.testing.assert_close(made, expected)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("filling", [torch.nan, torch.inf, 1e30])
def test_padding_reaches_neither_value_nor_gradient(name, filling):
    lengths = torch.tensor([4, 2, 0])
    clean = torch.randn(4, 3, 6)
    past = torch.arange(4).unsqueeze(1) >= lengths
    clean[past] = 0
    pool = pooling(name, 6, bidirectional=True)

    def run(values):
        y = values.clone().requires_grad_()
        pool.zero_grad()
        made = pool(y, lengths)
        (made * torch.arange(1.0, 7)).sum().backward()
        return [made.detach(), y.grad, *(p.grad.clone() for p in pool.parameters())]

    expected = run(clean)
    dirty = clean.clone()
    dirty[past] = filling
    for a, b in zip(run(dirty), expected, strict=True):
        assert torch.equal(a, b)
    assert not expected[1][past].any()


def test_attention_weights_are_shares():
    pool = Attention(4)
    weights = pool.weights(torch.randn(5, 3, 4), torch.tensor([5, 1, 0]))
    torch.testing.assert_close(weights.sum(0), torch.tensor([1.0, 1.0, 0.0]))
    assert weights[1:, 1].eq(0).all()


def test_an_unknown_name_is_refused():
    with pytest.raises(ValueError, match="pooling must be one of last, mean, max, attention; got 'sum'"):
        pooling("sum", 4)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("bidirectional", [False, True])
def test_parts_of_chunks_are_joined_to_the_whole(name, bidirectional):
    torch.manual_seed(0)
    pool = pooling(name, 6, bidirectional)
    y, lengths = torch.randn(7, 3, 6, requires_grad=True), torch.tensor([7, 0, 2])
    chunks = [(0, 0, 3), (0, 3, 2), (0, 5, 2), (1, 0, 0), (2, 0, 1), (2, 1, 1)]  # sequence, start, length
    owners, _, sizes = torch.tensor(chunks).T
    cut = [torch.cat((y[start : start + n, b], torch.full((3 - n, 6), torch.nan))) for b, start, n in chunks]
    joined = pool.join(pool.parts(torch.stack(cut, 1), sizes), sizes, owners)
    whole = pool(y, lengths)
    torch.testing.assert_close(joined, whole)
    weights = torch.randn_like(whole)
    for one, two in zip(*(torch.autograd.grad((made * weights).sum(), y) for made in (joined, whole)), strict=True):
        torch.testing.assert_close(one, two)
