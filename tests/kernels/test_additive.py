"""Additive attention's scores by the kernel, against torch on all pairs."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from carousel.kernels.attention import AdditiveLook, Fused, additive_scores


def in_torch(query, key, v, queries=None, keys=None):
    """One pair after the other."""
    rows = []
    for b in range(len(query)):
        for t in range(query.shape[1]):
            for s in range(key.shape[1]):
                inside = (queries is None or t < queries[b]) and (keys is None or s < keys[b])
                rows.append(v @ torch.tanh(query[b, t] + key[b, s]) if inside else query.new_zeros(()))
    return torch.stack(rows).reshape(*query.shape[:2], key.shape[1])


def tensors(B, T, S, D, time_first=False, dtype=torch.float64):
    query = torch.randn(T, B, D, dtype=dtype).transpose(0, 1) if time_first else torch.randn(B, T, D, dtype=dtype)
    return [t.requires_grad_() for t in (query, torch.randn(B, S, D, dtype=dtype), torch.randn(D, dtype=dtype))]


@given(st.integers(1, 3), st.integers(1, 4), st.integers(1, 6), st.integers(1, 11), st.booleans(), st.data())
def test_scores_and_gradients(B, T, S, D, time_first, data):
    def counts(most):
        drawn = st.lists(st.integers(0, most), min_size=B, max_size=B).map(torch.tensor)
        return data.draw(st.none() | drawn)

    torch.manual_seed(D)
    given = tensors(B, T, S, D, time_first)
    lengths = counts(T), counts(S)
    found, expected = additive_scores(*given, *lengths), in_torch(*given, *lengths)
    assert found.grad_fn.name() == "FusedBackward"
    torch.testing.assert_close(found, expected)
    weight = torch.randn_like(found)
    theirs = [None] * len(given)  # where every length is 0, torch has nothing to differentiate
    if expected.requires_grad:
        theirs = torch.autograd.grad(expected, given, weight, allow_unused=True)
    for a, b in zip(torch.autograd.grad(found, given, weight), theirs, strict=True):
        torch.testing.assert_close(a, torch.zeros_like(a) if b is None else b)


def test_single_precision_and_threads():
    given = tensors(5, 7, 9, 70, dtype=torch.float32)
    expected = in_torch(*(t.detach().double() for t in given))
    before = torch.get_num_threads()
    try:
        found = []
        for threads in (1, 2):
            torch.set_num_threads(threads)
            scores = additive_scores(*given)
            torch.testing.assert_close(scores.double(), expected, rtol=1e-5, atol=1e-5)
            found.append([scores, *torch.autograd.grad(scores.square().sum(), given)])
        assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))
    finally:
        torch.set_num_threads(before)


def test_derivatives_of_derivatives():
    lengths = torch.tensor([2, 1]), torch.tensor([1, 3])
    torch.autograd.gradgradcheck(lambda *given: additive_scores(*given, *lengths), tensors(2, 2, 3, 3))


def test_what_is_past_an_end_reaches_nothing():
    query, key, v = tensors(2, 3, 4, 5)
    with torch.no_grad():
        query[0, 2:], key[1, 1:] = torch.nan, torch.nan
    scores = additive_scores(query, key, v, torch.tensor([2, 3]), torch.tensor([4, 1]))
    gradients = torch.autograd.grad(scores.sum(), [query, key, v])
    assert all(bool(t.isfinite().all()) for t in (scores, *gradients))


@pytest.mark.parametrize("shape", [(0, 2, 3, 4), (2, 0, 3, 4), (2, 3, 0, 4)])
def test_nothing_to_score(shape):
    B, T, S, _ = shape
    assert additive_scores(*tensors(*shape)).shape == (B, T, S)


def test_elsewhere_torch_does_it(monkeypatch):
    given = tensors(2, 3, 4, 5, dtype=torch.float32)
    expected = additive_scores(*given)
    monkeypatch.setattr(Fused, "apply", None)  # nobody asks for it
    halves = additive_scores(*(t.bfloat16() for t in given))
    torch.testing.assert_close(halves.float(), expected, rtol=0.1, atol=0.1)
    mapped = torch.func.vmap(lambda q: additive_scores(q, *given[1:]))(given[0].unsqueeze(0))
    torch.testing.assert_close(mapped[0], expected)


@given(st.integers(1, 3), st.integers(1, 4), st.integers(1, 6), st.sampled_from([1, 7, 16, 45]), st.data())
def test_a_look_is_scores_softmax_context_and_tanh(B, each, S, D, data):
    torch.manual_seed(D)
    H, out = 6, D + 1
    query, v, of_state, bias = (torch.randn(*n, dtype=torch.float64) for n in ((D, H), (D,), (out, H), (out,)))
    y, keys = torch.randn(B * each, H, dtype=torch.float64), torch.randn(B, S, D, dtype=torch.float64)
    values = torch.randn(B, S, out, dtype=torch.float64)
    counts = st.lists(st.integers(0, S), min_size=B, max_size=B).map(torch.tensor)
    lengths = data.draw(st.none() | counts)
    look = AdditiveLook(query, v, of_state, bias)
    for _ in range(2):  # the first call packs
        found = look(y, keys, values, lengths, each)
        for n in range(B * each):
            real = S if lengths is None else int(lengths[n // each])
            scores = torch.tanh(query @ y[n] + keys[n // each, :real]) @ v
            context = scores.softmax(0) @ values[n // each, :real]
            torch.testing.assert_close(found[n], torch.tanh(of_state @ y[n] + context + bias))
