"""The norm of all gradients, against float64."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from carousel.ops.norm import total_norm


@given(
    st.lists(st.sampled_from([1, 7, 33, 16384, 40001]), min_size=1, max_size=4),
    st.sampled_from([torch.float32, torch.float64]),
)
def test_as_in_double_precision(sizes, dtype):
    torch.manual_seed(len(sizes))
    tensors = [torch.randn(n, dtype=dtype) for n in sizes]
    expected = math.sqrt(sum(float(t.double().square().sum()) for t in tensors))
    assert total_norm(tensors) == pytest.approx(expected, rel=1e-6 if dtype is torch.float32 else 1e-12)


def test_any_number_of_threads_gives_the_same():
    tensors = [torch.randn(300, 500), torch.randn(70001)]
    before, found = torch.get_num_threads(), set()
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            found.add(total_norm(tensors))
    finally:
        torch.set_num_threads(before)
    assert len(found) == 1


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_what_is_not_a_number_is_seen(bad):
    x = torch.ones(20, 20)
    x[3, 4] = bad
    assert not math.isfinite(total_norm([torch.ones(3), x]))


def test_what_the_kernel_does_not_take():
    strided = torch.arange(12.0).reshape(3, 4).T
    mixed = [torch.tensor([3.0]), torch.tensor([4.0], dtype=torch.float64)]
    assert total_norm([strided]) == pytest.approx(math.sqrt(506)) and total_norm(mixed) == 5
    assert total_norm([torch.tensor([3.0, 4.0]).bfloat16(), torch.zeros(0)]) == 5 and total_norm([]) == 0
