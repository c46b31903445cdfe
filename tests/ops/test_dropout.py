"""Dropout: the right share of places, one by one, and the gradient at the same ones."""

import pytest
import torch
from torch.nn import functional

from carousel.ops.dropout import Fused, dropout


def test_bits_are_those_of_philox():
    answer = [0x5F6FB709, 0x0D893F64, 0x4F121F81, 0x4F730A48]  # the published one for counter 0 and key 0
    for k, word in enumerate(answer):
        assert Fused.apply(torch.ones(128), 0, word / 2**32, 1)[32 * k] > 0
        assert Fused.apply(torch.ones(128), 0, (word + 1) / 2**32, 1)[32 * k] == 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_places_are_dropped_one_by_one_at_the_rate_asked_for(dtype):
    torch.manual_seed(0)
    mask = dropout(torch.ones(1000, 999, dtype=dtype), 0.3)
    dropped = (mask == 0).double().flatten()
    assert dropped.mean().item() == pytest.approx(0.3, abs=0.002)  # four standard deviations
    assert mask.mean().item() == pytest.approx(1, abs=0.003)
    assert mask.max().item() == pytest.approx(1 / 0.7, rel=1e-6)
    for apart in (1, 2, 32, 64, 128, 999):
        assert abs(torch.corrcoef(torch.stack((dropped[apart:], dropped[:-apart])))[0, 1]) < 0.005
    assert not torch.equal(mask, dropout(torch.ones(1000, 999, dtype=dtype), 0.3))


@pytest.mark.parametrize("repeat", [False, True])
@pytest.mark.parametrize("shape", [(3, 5), (7, 2, 131), (40, 1, 128)])
def test_the_gradient_is_dropped_where_the_value_was(shape, repeat):
    x = torch.randn(shape, requires_grad=True)
    y = dropout(x, 0.4, repeat=repeat)
    y.sum().backward()
    torch.testing.assert_close(y, x * x.grad)
    assert torch.equal(x.grad, x.grad[:1].expand_as(x)) is repeat


def test_the_seed_alone_decides():
    drawn = []
    for threads in (2, 1):
        torch.set_num_threads(threads)
        torch.manual_seed(5)
        drawn.append(dropout(torch.ones(301, 127), 0.5))
    assert torch.equal(*drawn)


def test_derivatives_of_all_orders():
    x = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)

    def square(x):
        torch.manual_seed(0)
        return dropout(x, 0.5).pow(2)

    assert torch.autograd.gradcheck(square, x)
    assert torch.autograd.gradgradcheck(square, x)


def test_what_the_kernel_does_not_take_goes_to_torch():
    torch.manual_seed(0)
    mine = dropout(torch.ones(5, 8, dtype=torch.float16), 0.5)
    torch.manual_seed(0)
    assert torch.equal(mine, functional.dropout(torch.ones(5, 8, dtype=torch.float16), 0.5))
    repeated = dropout(torch.ones(5, 8, dtype=torch.float16), 0.5, repeat=True)
    assert torch.equal(repeated, repeated[:1].expand(5, 8))
    assert dropout(torch.ones(0, 3), 0.5).shape == (0, 3)
    assert not dropout(torch.ones(3, 3), 1.0).any()
    x = torch.ones(2, 2)
    assert dropout(x, 0.0) is x
    value, _ = torch.func.jvp(lambda x: dropout(x, 0.5), (x,), (x,))
    assert value.shape == (2, 2)


def test_nan_stays():
    assert dropout(torch.full((100,), torch.nan), 0.5).isnan().all()
