"""The one test "can a native call take this?", and every operator under what it must keep native calls away from."""

import copy
import timeit

import pytest
import torch
from helpers.modes import Quiet, QuietFunctions
from helpers.opcheck import check, recorded
from torch import Tensor, nn
from torch._subclasses import FakeTensorMode
from torch.autograd import forward_ad
from torch.fx.experimental.proxy_tensor import make_fx
from torch.masked import masked_tensor
from torch.nn import functional
from torch.testing import assert_close
from torch.testing._internal.two_tensor import TwoTensor
from torch.utils.flop_counter import FlopCounterMode

import carousel
from carousel import functional as F
from carousel.networks import attention
from carousel.ops import backend
from carousel.ops.backend import has_values, unsupported_reason, use_operator

X = torch.randn(4, 3)


class Plain(Tensor):
    """A subclass that changes nothing."""


# ---- unsupported_reason ----


def test_plain_tensors_are_supported():
    for dtype in (torch.float32, torch.float64):
        x = torch.randn(4, 3, dtype=dtype)
        given = [x, nn.Parameter(x), nn.Buffer(x), None, x.t(), x[1:], torch.arange(3), x > 0, x.requires_grad_()]
        assert unsupported_reason("layer", *given) is None
    assert unsupported_reason("layer", torch.empty(0, 3)) is None
    with torch.inference_mode():
        assert unsupported_reason("dropout", X, nn.Parameter(X), torch.randn(2)) is None
    with torch.no_grad():
        assert unsupported_reason("dropout", X) is None


NOT_PLAIN = {
    "half": (lambda: [X.half()], "float32 and float64, not torch.float16"),
    "quantized": (lambda: [torch.quantize_per_tensor(X, 0.1, 0, torch.qint8)], "not torch.qint8"),
    "dtypes": (lambda: [X, X.double()], "different dtypes, torch.float32 and torch.float64"),
    "meta": (lambda: [X, X.to("meta")], "on CPUs, the input is on meta"),
    "empty": (lambda: [X[:0]], "dropout has no kernel for empty tensors"),
    "sparse": (lambda: [X.to_sparse()], "strided tensors, not torch.sparse_coo"),
    "mkldnn": (lambda: [X.to_mkldnn()], "strided tensors, not torch._mkldnn"),
    "negated": (lambda: [torch._neg_view(X)], "negates"),
    "imaginary": (lambda: [(X + 1j * X).conj().imag], "negates"),
    "subclass": (lambda: [X.as_subclass(Plain)], "Plain is a tensor subclass"),
    "wrapper": (lambda: [X, TwoTensor(X, X)], "TwoTensor is a tensor subclass"),
    "fake": (lambda: [FakeTensorMode().from_tensor(X)], "FakeTensor is a tensor subclass"),
    "masked": (lambda: [masked_tensor(X, X > 0)], "MaskedTensor is a tensor subclass"),
    "parameter": (lambda: [nn.Parameter(TwoTensor(X, X))], "TwoTensor is a tensor subclass"),
    "uninitialized": (lambda: [nn.UninitializedParameter()], "UninitializedParameter is a tensor subclass"),
}


@pytest.mark.filterwarnings("ignore:The PyTorch API of MaskedTensors", "ignore:.*quantize")
@pytest.mark.parametrize("name", NOT_PLAIN)
def test_tensors_that_are_not(name):
    make, reason = NOT_PLAIN[name]
    assert reason in (unsupported_reason("dropout", *make()) or "")


def test_surroundings_that_are_not(monkeypatch):
    reasons = []
    with torch.autocast("cpu", torch.bfloat16):
        reasons.append(unsupported_reason("layer", X))
    with forward_ad.dual_level():
        reasons.append(unsupported_reason("layer", X))
    for mode in (Quiet(), QuietFunctions(), FlopCounterMode(display=False), FakeTensorMode()):
        with mode:
            reasons.append(unsupported_reason("layer", X))

    def inside(x):
        reasons.append(unsupported_reason("layer", x, X))
        return x + 1

    torch.jit.trace(inside, X, check_trace=False)
    torch.vmap(inside)(X)
    torch.func.grad(lambda x: inside(x).sum())(X)
    make_fx(inside)(X)
    make_fx(inside, pre_dispatch=True)(X)
    monkeypatch.setattr(backend, "MISSING", "built without kernels")
    reasons.append(unsupported_reason("layer", X))
    expected = ["autocast", "forward-mode", "Quiet", "QuietFunctions", "Mode", "FakeTensorMode", "torch.jit.trace",
                "torch.func", "torch.func", "ProxyTorchDispatchMode", "Mode", "built without kernels"]  # fmt: skip
    assert len(reasons) == len(expected)
    for reason, part in zip(reasons, expected, strict=True):
        assert reason is not None and part in reason
    monkeypatch.undo()
    assert unsupported_reason("layer", X) is None


def test_a_default_device_is_no_obstacle():
    torch.set_default_device("cpu")
    try:
        assert unsupported_reason("layer", X) is None
        with QuietFunctions():
            assert unsupported_reason("layer", X) is not None
    finally:
        torch.set_default_device(None)


def test_who_is_served_by_the_operator():
    fake = FakeTensorMode().from_tensor(X)
    for given in ([X], [fake], [TwoTensor(X, X)], [X.as_subclass(Plain)], [X, torch.arange(3)]):
        assert use_operator(*given)
    others = [X.half()], [X, X.double()], [X.to("meta")], [X.to_sparse()], [masked_tensor(X, X > 0)], [torch.arange(3)]
    for given in others:
        assert not use_operator(*given)
    answers = []
    torch.jit.trace(lambda x: (answers.append(use_operator(x)), x + 1)[1], X, check_trace=False)
    torch.vmap(lambda x: (answers.append(use_operator(x)), x)[1])(X)
    with torch.autocast("cpu", torch.bfloat16):
        answers.append(use_operator(X))
    assert not any(answers)


def test_values_are_read_only_where_they_stay_what_they_are():
    assert has_values(X) and has_values(X.as_subclass(Plain))
    with Quiet(), torch.no_grad():
        assert has_values(X)
    answers = [has_values(X.to("meta")), has_values(FakeTensorMode().from_tensor(X))]
    for mode in ("real", "fake", "symbolic"):
        make_fx(lambda x: (answers.append(has_values(x)), x + 1)[1], tracing_mode=mode)(X)
    make_fx(lambda x: (answers.append(has_values(x)), x + 1)[1], pre_dispatch=True)(X)
    torch.jit.trace(lambda x: (answers.append(has_values(x)), x + 1)[1], X, check_trace=False)
    assert not any(answers)


def test_the_question_costs_about_a_microsecond():
    """In units of the cheapest thing that torch does with a tensor, so that a busy machine does not matter."""
    h, c = torch.zeros(1, 4, 3), torch.zeros(1, 4, 3)
    unit = min(timeit.repeat(lambda: X.dtype, number=2000, repeat=20))
    cost = min(timeit.repeat(lambda: unsupported_reason("step", X, h, c), number=2000, repeat=20))
    assert cost < 40 * unit


# ---- the registered operators ----


@pytest.mark.parametrize("reduction", ["mean", "none"])
@pytest.mark.parametrize("with_bias", [False, True])
def test_opcheck_of_the_output_layer(reduction, with_bias):
    hidden, weight, bias = (torch.randn(*shape, requires_grad=True) for shape in ((7, 5), (9, 5), (9,)))
    targets = torch.randint(9, (7,))
    calls = recorded(
        lambda: (
            F.linear_cross_entropy(hidden, weight, targets, bias if with_bias else None, reduction=reduction)
            .square()
            .sum()
            .backward()
        )
    )
    assert len(calls) == (2 if reduction == "none" else 1)
    for func, args in calls:
        check(func, args)


# ---- the other operators ----


def cross_entropy(hidden, weight):
    return F.linear_cross_entropy(hidden, weight, torch.tensor([1, 0, 4, -100]), label_smoothing=0.1)


def cross_entropy_of_each(hidden, weight):
    return F.linear_cross_entropy(hidden, weight, torch.tensor([1, 0, 4, -100]), reduction="none")


def looked_up(weight, other):
    return F.embedding(torch.tensor([[1, 2], [1, 0]]), weight) + other.sum()


torch.manual_seed(0)
ADDITIVE = attention.Additive(3, 3).double().requires_grad_(False)


def attended(query, memory):
    """Two sequences of two queries, and of five places of which one has three."""
    memory = memory.unsqueeze(1).expand(-1, 2, -1)
    context, weights = ADDITIVE(query.unflatten(0, (2, 2)), memory, torch.tensor([5, 3]))
    return context.sum() + weights.square().sum() + context[0]


def kept(x, other):
    """No more dropout than leaves every place: what is drawn does not matter."""
    torch.manual_seed(0)
    return F.dropout(x, 1e-12) * other.sum()


OPERATORS = {
    "cross_entropy": (cross_entropy, (4, 3), (5, 3)),
    "cross_entropy_of_each": (cross_entropy_of_each, (4, 3), (5, 3)),
    "embedding": (looked_up, (4, 3), (2, 3)),
    "attention": (attended, (4, 3), (5, 3)),
    "dropout": (kept, (4, 3), (5, 3)),
}
operators = pytest.mark.parametrize("name", OPERATORS)


def case(name):
    call, *shapes = OPERATORS[name]
    generator = torch.Generator().manual_seed(0)
    first, second = (
        [torch.randn(s, generator=generator, dtype=torch.float64, requires_grad=True) for s in shapes] for _ in range(2)
    )
    return call, first, second


def with_gradients(call, given):
    result = call(*given)
    return result, *torch.autograd.grad(result.sum(), given)


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning", "ignore::DeprecationWarning")
@pytest.mark.parametrize("gradients", [False, True])
@operators
def test_operators_in_jit_trace(name, gradients):
    call, given, other = case(name)
    with torch.set_grad_enabled(gradients):
        traced = torch.jit.trace(call, tuple(t.detach() for t in given))
        assert_close(traced(*other), call(*other))


@pytest.mark.parametrize("tracing", ["real", "fake", "symbolic"])
@operators
def test_operators_in_make_fx(name, tracing):
    call, given, other = case(name)

    def both(*given):
        return with_gradients(call, given)

    program = make_fx(both, tracing_mode=tracing, _allow_non_fake_inputs=True)(*given)
    assert_close(program(*other), both(*other))


@operators
def test_operators_on_fake_tensors(name):
    call, given, _ = case(name)
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    with mode:
        found = with_gradients(call, [mode.from_tensor(t) for t in given])
    assert [t.shape for t in found] == [t.shape for t in with_gradients(call, given)]


@operators
def test_operators_on_a_wrapper(name):
    call, given, other = case(name)
    wrapped = [TwoTensor(a.detach(), b.detach()).requires_grad_() for a, b in zip(given, other, strict=True)]
    for both, a, b in zip(
        with_gradients(call, wrapped), *(with_gradients(call, g) for g in (given, other)), strict=True
    ):
        assert_close((both.a, both.b), (a, b))


@operators
def test_operators_on_a_users_subclass(name):
    call, given, _ = case(name)
    found = with_gradients(call, [t.detach().as_subclass(Plain).requires_grad_() for t in given])
    assert_close([t.as_subclass(Tensor) for t in found], list(with_gradients(call, given)))


@pytest.mark.parametrize("mode", [Quiet, QuietFunctions, lambda: FlopCounterMode(display=False)])
@operators
def test_operators_in_modes(name, mode):
    call, given, _ = case(name)
    expected = with_gradients(call, given)
    with mode():
        assert_close(with_gradients(call, given), expected)
    result = call(*given)
    with mode():  # from the outside of a graph made plainly
        assert_close(torch.autograd.grad(result.sum(), given), expected[1:])


@operators
def test_operators_under_transforms(name):
    call, given, other = case(name)
    grads = torch.func.grad(lambda *g: call(*g).sum(), (0, 1))(*(t.detach() for t in given))
    assert_close(grads, with_gradients(call, given)[1:])
    if name != "dropout":  # which draws
        stacked = [torch.stack(pair).detach() for pair in zip(given, other, strict=True)]
        assert_close(torch.vmap(call)(*stacked), torch.stack([call(*given), call(*other)]))


@operators
def test_batched_gradients_of_operators(name):
    call, given, _ = case(name)
    result = call(*given)
    seeds = torch.randn(3, *result.shape, dtype=torch.float64)
    found = torch.autograd.grad(result, given, seeds, is_grads_batched=True, retain_graph=True)
    expected = [torch.autograd.grad(result, given, seed, retain_graph=True) for seed in seeds]
    for k, together in enumerate(found):
        assert_close(together, torch.stack([each[k] for each in expected]))


@operators
def test_operators_with_a_default_device_and_in_inference_mode(name):
    call, given, _ = case(name)
    expected = call(*given)
    torch.set_default_device("cpu")
    try:
        assert torch.equal(call(*given), expected)
    finally:
        torch.set_default_device(None)
    with torch.inference_mode():
        assert torch.equal(call(*given), expected)


def test_gradients_of_gradients_where_one_input_is_computed_from_another():
    """Keys from values, hidden states from a tied weight, a first state from a learned one: each path counts once."""

    def attention_loss(query, memory):
        return attended(query, memory).sum()

    def tied(weight):
        return F.linear_cross_entropy(weight[:4].cos(), weight, torch.tensor([1, 0, 4, 2]))

    generator = torch.Generator().manual_seed(0)
    query, memory, weight = (
        torch.randn(shape, generator=generator, dtype=torch.float64, requires_grad=True)
        for shape in ((4, 3), (5, 3), (5, 3))
    )
    assert torch.autograd.gradgradcheck(attention_loss, (query, memory))
    assert torch.autograd.gradgradcheck(tied, (weight,))
    layer = carousel.GRU(3, 2, learn_initial_state=True, dtype=torch.float64)
    nn.init.normal_(layer.initial_h_l0, generator=generator)
    reset = torch.tensor([[False, True], [True, False], [False, False]])

    def call(x, initial):
        return torch.func.functional_call(layer, {"initial_h_l0": initial}, (x,), {"reset": reset})[0]

    x = torch.randn(3, 2, 3, generator=generator, dtype=torch.float64, requires_grad=True)
    given = (x, layer.initial_h_l0.detach().requires_grad_())
    assert torch.autograd.gradcheck(call, given)
    assert torch.autograd.gradgradcheck(call, given)
    first = torch.autograd.grad(call(*given).square().sum(), given)
    again = torch.autograd.grad(call(*given).square().sum(), given, create_graph=True)
    assert_close(first, again)


def test_dropped_places_are_the_same_to_whatever_looks_on_later():
    x = torch.ones(50, 40, requires_grad=True)
    torch.manual_seed(0)
    y = F.dropout(x, 0.5)
    (plain,) = torch.autograd.grad(y.sum(), x, retain_graph=True)
    assert torch.equal(plain, y)
    with Quiet():
        assert torch.equal(torch.autograd.grad(y.sum(), x, retain_graph=True)[0], y)
    (batched,) = torch.autograd.grad(y, x, torch.ones(2, 50, 40), is_grads_batched=True)
    assert torch.equal(batched, torch.stack([y, y]))


def test_total_norm():
    given = [torch.randn(5, 3), torch.randn(7)]
    expected = pytest.approx(float(torch.cat([t.flatten() for t in given]).norm()))
    assert F.total_norm(given) == expected
    assert F.total_norm([torch._neg_view(given[0]), given[1]]) == expected
    with Quiet(), torch.autocast("cpu", torch.bfloat16):
        assert F.total_norm(given) == expected
    assert F.total_norm([t.as_subclass(Plain) for t in given]) == expected


def test_the_reference_is_what_torch_computes():
    """Without kernels at all, so that the other tests compare two things."""
    hidden, weight = torch.randn(4, 3), torch.randn(5, 3)
    targets = torch.tensor([1, 0, 4, -100])
    with Quiet():
        found = F.linear_cross_entropy(hidden, weight, targets)
    assert_close(found, functional.cross_entropy(hidden @ weight.t(), targets))
    copied = copy.deepcopy(weight)
    assert torch.equal(F.embedding(torch.tensor([1, 2]), copied), weight[1:3])
