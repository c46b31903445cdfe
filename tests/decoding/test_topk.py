"""The k best of a row against a stable sort."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from carousel.decoding.topk import top1, topk


@given(
    seed=st.integers(0, 10**6),
    shape=st.sampled_from([(1, 1), (3, 5), (1, 5000), (16, 1500), (40, 600)]),
    k=st.sampled_from([1, 2, 5, 31]),
    levels=st.sampled_from([0, 3, 200]),
    masked=st.sampled_from([0.0, 0.5, 0.999]),
)
def test_against_a_stable_sort(seed, shape, k, levels, masked):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(shape, generator=g)
    if levels:
        x = (x * levels / 6).round()  # many ties
    x = x.masked_fill(torch.rand(shape, generator=g) < masked, -math.inf)
    k = min(k, shape[1])
    values, index = topk(x, k)
    order = np.argsort(-x.numpy(), axis=1, kind="stable")[:, :k]
    assert np.array_equal(values, np.take_along_axis(x.numpy(), order, 1))
    possible = values > -math.inf
    assert np.array_equal(index[possible], order[possible])
    assert np.array_equal(top1(x)[1], order[:, 0])


@pytest.mark.parametrize("shape", [(1, 10), (30, 1000)])
@pytest.mark.parametrize("place", [7, -1])
def test_nan_comes_first(shape, place):
    x = torch.randn(shape)
    x[-1, place] = math.nan
    assert np.isnan(topk(x, 3)[0][-1, 0])
    assert np.isnan(top1(x)[0][-1])
