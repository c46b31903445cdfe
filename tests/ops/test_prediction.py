"""The output layer of a search, and the choice of a token, against torch."""

import pytest
import torch
import torch.nn.functional as F
from helpers.modes import Quiet, QuietFunctions
from torch import nn
from torch.fx.experimental.proxy_tensor import make_fx
from torch.testing import assert_close
from torch.testing._internal.two_tensor import TwoTensor
from torch.utils.flop_counter import FlopCounterMode

from carousel.ops import backend
from carousel.ops.prediction import Chooser, Predictor


def test_prediction():
    linear, h = nn.Linear(6, 30), torch.randn(5, 6)
    expected = linear(h).log_softmax(-1).detach()
    with torch.no_grad():
        predict = Predictor(linear.weight, linear.bias)
        assert predict.native is not None
        for mode in (Quiet(), QuietFunctions(), FlopCounterMode(display=False)):
            with mode:
                assert_close(predict(h), expected)
                assert_close(predict.best(h, 3)[0], expected.topk(3).values)
        assert_close(predict(torch._neg_view(-h)), expected)
        assert_close(predict(TwoTensor(h, -h)).a, expected)
        assert_close(make_fx(predict)(h)(h + 1), linear(h + 1).log_softmax(-1))
        wrapped = Predictor(TwoTensor(linear.weight.detach(), linear.weight.detach()), linear.bias)
        assert wrapped.native is None
        assert_close(wrapped(h).b, expected)
    chooser = Chooser([("top_k", 1)])
    assert chooser.choose(TwoTensor(expected, expected), torch.zeros(5).double().numpy()) is None


@pytest.mark.skipif(not backend.available(), reason=backend.why_not())
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    "shape", [(1, 1, 1), (1, 5, 3), (4, 33, 17), (5, 7, 9), (16, 64, 48), (33, 100, 131), (70, 20, 2844)]
)
def test_predict(shape, dtype):
    rows, size, vocab = shape
    torch.manual_seed(0)
    h, weight, bias = torch.randn(rows, size, dtype=dtype), torch.randn(vocab, size, dtype=dtype), torch.randn(vocab)
    before, tolerance = torch.get_num_threads(), 1e-4 if dtype is torch.float32 else 1e-12
    for b in (None, bias.to(dtype)):
        predict, want = Predictor(weight, b), F.linear(h, weight, b).log_softmax(-1)
        assert predict.native is not None
        for threads in (2, 1, 3):  # the first call packs, for the threads of all
            torch.set_num_threads(threads)
            said = predict(h)
            torch.set_num_threads(before)
            torch.testing.assert_close(said, want, atol=tolerance, rtol=1e-5)
            torch.testing.assert_close(predict(h[:2]), want[:2], atol=tolerance, rtol=1e-5)


@pytest.mark.skipif(not backend.available(), reason=backend.why_not())
def test_predict_with_an_impossible_token_and_with_nan():
    h, weight, bias = torch.randn(6, 8), torch.randn(40, 8), torch.zeros(40)
    bias[3] = -torch.inf
    predict = Predictor(weight, bias)
    torch.testing.assert_close(predict(h), F.linear(h, weight, bias).log_softmax(-1))
    h[2, 1] = torch.nan
    said = predict(h)
    assert said[2].isnan().all() and not said[[0, 1, 3, 4, 5]].isnan().any()


@pytest.mark.skipif(not backend.available(), reason=backend.why_not())
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(1, 5, 3), (4, 33, 300), (5, 7, 9), (33, 100, 131), (400, 20, 700), (70, 20, 2844)])
def test_the_best_of_a_prediction(shape, dtype):
    rows, size, vocab = shape
    torch.manual_seed(0)
    h, weight, bias = torch.randn(rows, size, dtype=dtype), torch.randn(vocab, size, dtype=dtype), torch.randn(vocab)
    before, tolerance = torch.get_num_threads(), 1e-4 if dtype is torch.float32 else 1e-12
    for b in (None, bias.to(dtype)):
        predict, said = Predictor(weight, b), F.linear(h, weight, b).log_softmax(-1)
        for threads, never, k in ((2, [], 1), (1, [0, vocab - 1], min(6, vocab)), (3, [1], vocab)):
            allowed = said.clone()
            allowed[:, never] = -torch.inf
            want, order = allowed.sort(dim=1, descending=True, stable=True)
            torch.set_num_threads(threads)
            values, tokens = predict.best(h, k, never)
            torch.set_num_threads(before)
            torch.testing.assert_close(values, want[:, :k], atol=tolerance, rtol=1e-5)
            real = want[:, :k] > -torch.inf  # neighbours may change places where they are nearly equal
            torch.testing.assert_close(said.gather(1, tokens)[real], want[:, :k][real], atol=tolerance, rtol=1e-5)
            assert dtype is torch.float32 or torch.equal(tokens[real], order[:, :k][real])
            assert all(len(set(line.tolist())) == len(line) for line in tokens[:, : vocab - len(never)])


@pytest.mark.skipif(not backend.available(), reason=backend.why_not())
@pytest.mark.parametrize("rows", [3, 6])
def test_the_best_among_equals_the_impossible_and_nan(rows):
    weight, bias = torch.zeros(40, 8), torch.zeros(40)
    bias[20:] = 1.0
    values, tokens = Predictor(weight, bias).best(torch.randn(rows, 8), 4, never=[21])
    assert tokens.tolist() == [[20, 22, 23, 24]] * rows
    torch.testing.assert_close(values, bias.log_softmax(0)[20].expand(rows, 4))
    bias[:] = -torch.inf
    bias[5] = 0.0
    values, tokens = Predictor(weight, bias).best(torch.randn(rows, 8), 2)
    assert values.tolist() == [[0.0, -torch.inf]] * rows and tokens[:, 0].tolist() == [5] * rows
    weight[30] = 1.0
    h = torch.randn(rows, 8)
    h[1, 2] = torch.nan
    values, _ = Predictor(weight, bias).best(h, 2)
    assert values[1].isnan().all() and not values[[0, 2]].isnan().any()
