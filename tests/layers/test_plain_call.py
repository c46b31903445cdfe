"""A plain call takes a shorter way to the kernels; it must be the same call."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd import forward_ad
from torch.nn.utils import parametrize, prune
from torch.utils.flop_counter import FlopCounterMode

import carousel
from carousel.layers import native
from carousel.ops import backend

T, B, I, H = 5, 3, 4, 8
LAYERS: dict[str, tuple[Any, dict[str, Any]]] = {
    "lstm": (carousel.LSTM, {}),
    "gru": (carousel.GRU, {}),
    "rnn": (carousel.RNN, {}),
    "peephole": (carousel.PeepholeLSTM, {}),
    "no bias": (carousel.LSTM, {"bias": False}),
    "stack": (carousel.LSTM, {"num_layers": 3}),
    "two-way": (carousel.GRU, {"num_layers": 2, "bidirectional": True}),
    "projection": (carousel.LSTM, {"proj_size": 3, "num_layers": 2, "bidirectional": True}),
    "batch first": (carousel.LSTM, {"batch_first": True}),
}


def flat(result: Any) -> list[Tensor]:
    output, state = result
    return [output, *(state if isinstance(state, tuple) else (state,))]


def states(layer: Any) -> Any:
    rows = layer.num_layers * layer.num_directions
    given = tuple(torch.randn(rows, B, layer.state_shape(name)[0]) for name in layer.cell.states)
    return given if len(given) > 1 else given[0]


@pytest.mark.parametrize("with_state", [False, True], ids=["zeros", "state"])
@pytest.mark.parametrize("name", LAYERS)
def test_the_same_bits_as_the_general_path(name: str, with_state: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    kind, options = LAYERS[name]
    torch.manual_seed(0)
    layer, x = kind(I, H, **options), torch.randn(T, B, I, requires_grad=True)
    if layer.batch_first:
        x = torch.randn(B, T, I, requires_grad=True)
    hx = states(layer) if with_state else None
    assert native.call_plainly(layer, x, hx) is not None
    leaves = [x, *layer.parameters()]
    with torch.no_grad():
        quiet = flat(layer(x, hx))
    trained = flat(layer(x, hx))
    grads = torch.autograd.grad(sum(t.square().sum() for t in trained), leaves)
    monkeypatch.setattr(native, "call_plainly", lambda *_: None)
    general = flat(layer(x, hx))
    expected = torch.autograd.grad(sum(t.square().sum() for t in general), leaves)
    for a, b, c in zip(quiet, trained, general, strict=True):
        assert torch.equal(a, c) and torch.equal(b, c) and a.shape == c.shape
    assert all(torch.equal(a, b) for a, b in zip(grads, expected, strict=True))


@pytest.mark.parametrize("name", LAYERS)
def test_lengths_that_leave_nothing_out_are_a_plain_call(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kind, options = LAYERS[name]
    layer, x = kind(I, H, **options), torch.randn(T, B, I)
    steps, rows = (B, T) if options.get("batch_first") else (T, B)
    with torch.no_grad():
        plain = flat(layer(x))
        for lengths in ([steps] * rows, torch.full((rows,), steps)):
            assert all(torch.equal(a, b) for a, b in zip(flat(layer(x, lengths=lengths)), plain, strict=True))
        with pytest.raises(ValueError, match="lengths"):
            layer(x, lengths=[steps + 1] * rows)
        shorter = layer(x, lengths=[steps - 1] * rows)[0]
        assert not torch.equal(shorter, plain[0])
        called = []
        monkeypatch.setattr(native, "call_plainly", lambda *given: called.append(given))  # None: the general path
        general = flat(layer(x, lengths=[steps] * rows))
    assert len(called) == 1 and all(torch.equal(a, b) for a, b in zip(general, plain, strict=True))


def test_a_gradient_of_a_gradient() -> None:
    layer = carousel.GRU(I, H, num_layers=2, bidirectional=True).double()
    x = torch.randn(3, 2, I, dtype=torch.float64, requires_grad=True)
    assert native.call_plainly(layer, x, None) is not None
    assert torch.autograd.gradgradcheck(lambda x: layer(x)[0], (x,))


class Doubled(nn.Module):
    def forward(self, weight: Tensor) -> Tensor:
        return 2 * weight


def test_changed_parameters_are_noticed() -> None:
    layer, x = carousel.LSTM(I, H), torch.randn(T, B, I)
    before = layer(x)[0]
    reference = nn.LSTM(I, H)

    def agrees() -> None:
        weights = {name: getattr(layer, name).detach() for name in reference.state_dict()}
        reference.load_state_dict(weights)
        for grad in (True, False):
            with torch.set_grad_enabled(grad):
                torch.testing.assert_close(layer(x)[0], reference(x)[0])

    layer.weight_hh_l0.data = torch.randn(4 * H, H)
    agrees()
    layer.weight_hh_l0.data.mul_(0.5)
    agrees()
    layer.weight_ih_l0 = nn.Parameter(torch.randn(I, 4 * H).t())  # not contiguous
    agrees()
    parametrize.register_parametrization(layer, "weight_hh_l0", Doubled())
    agrees()
    parametrize.remove_parametrizations(layer, "weight_hh_l0")
    agrees()
    prune.l1_unstructured(layer, "weight_hh_l0", 0.5)
    agrees()
    assert not torch.allclose(before, layer(x)[0])


def test_options_that_change_are_noticed() -> None:
    layer, x = carousel.LSTM(I, H), torch.randn(T, B, I)
    plain = layer(x)[0]
    layer.zoneout = {"h": 0.5}
    assert not torch.equal(layer.eval()(x)[0], plain)
    layer.zoneout = {}
    assert torch.equal(layer(x)[0], plain)
    layer.batch_first = True
    assert torch.equal(layer(x.transpose(0, 1))[0].transpose(0, 1), plain)
    assert torch.equal(copy.deepcopy(layer)(x.transpose(0, 1))[0].transpose(0, 1), plain)


def test_a_changed_nonlinearity_is_noticed() -> None:
    layer, x = carousel.RNN(I, H), torch.randn(T, B, I)
    layer(x)
    layer.cell.nonlinearity = "relu"
    reference = nn.RNN(I, H, nonlinearity="relu")
    reference.load_state_dict(layer.state_dict())
    torch.testing.assert_close(layer(x)[0], reference(x)[0])


@pytest.mark.parametrize(
    ("x", "hx", "message"),
    [
        (torch.zeros(T, B, I + 1), None, "input.size"),
        (torch.zeros(T, B, I, dtype=torch.float64), None, "dtype"),
        (torch.zeros(0, B, I), None, "sequence length"),
        (torch.zeros(T, B, I), torch.zeros(1, B, H), "tuple"),
        (torch.zeros(T, B, I), (torch.zeros(1, B, H),), "tuple"),
        (torch.zeros(T, B, I), (torch.zeros(1, B, H), torch.zeros(1, B + 1, H)), "size"),
        (torch.zeros(T, B, I), (torch.zeros(1, B, H), torch.zeros(1, B, H, dtype=torch.float64)), "dtype"),
    ],
)
def test_wrong_arguments_are_refused_as_ever(x: Tensor, hx: Any, message: str) -> None:
    with pytest.raises((RuntimeError, ValueError, TypeError), match=message):
        carousel.LSTM(I, H)(x, hx)


@pytest.fixture(params=["table", "attributes"])
def reading(request: pytest.FixtureRequest) -> Any:
    """Tensors are read through torch's table of C functions, or by attributes, as with a torch that has none."""
    table = getattr(Tensor, "__dlpack_c_exchange_api__", None)
    if request.param == "table" and table is None:
        pytest.skip("this torch has no table")
    backend.describe_torch(backend.load()[0], table if request.param == "table" else None)
    yield
    backend.describe_torch(backend.load()[0], table)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_calls_steps_and_cells_agree_with_torch(reading: None, dtype: torch.dtype) -> None:
    theirs, cell = nn.LSTM(I, H, 2, dtype=dtype), nn.LSTMCell(I, H, dtype=dtype)
    layer, mine = carousel.LSTM.from_torch(theirs), carousel.LSTMCell.from_torch(cell)
    x, hx = torch.randn(T, B, I, dtype=dtype), tuple(torch.randn(2, 2, B, H, dtype=dtype))
    with torch.no_grad():
        for found, right in zip(flat(native.call_plainly(layer, x, hx)), flat(theirs(x, hx)), strict=True):
            torch.testing.assert_close(found, right)
        for found, right in zip(flat(native.step(layer, x[0], hx)), flat(theirs(x[:1], hx)), strict=True):
            torch.testing.assert_close(found, right.reshape(found.shape))
        for size in (slice(None), 1):  # a batch, and one sequence without that dimension
            state = tuple(s[0, size] for s in hx)
            for found, right in zip(native.step_cell(mine, x[0, size], state), cell(x[0, size], state), strict=True):
                torch.testing.assert_close(found, right)


NO_PLAIN_TENSOR = {
    "sparse": lambda x: x.to_sparse(),
    "mkldnn": lambda x: x.to_mkldnn(),
    "meta": lambda x: x.to("meta"),
    "half": lambda x: x.half(),
    "int": lambda x: x.long(),
    "complex": lambda x: x.to(torch.complex64),
    "transposed": lambda x: x.transpose(0, 1).contiguous().transpose(0, 1),
    "expanded": lambda x: x[:1].expand_as(x),
    "negated": lambda x: torch._neg_view(x),
    "subclass": lambda x: x.as_subclass(Plain),
    "five dimensions": lambda x: x[None, None, None],
    "a list": lambda x: x.tolist(),
    "nothing": lambda x: None,
}


class Plain(Tensor):
    """A subclass that does nothing: still not a plain tensor."""


@pytest.mark.parametrize("name", NO_PLAIN_TENSOR)
def test_what_is_no_plain_tensor_is_left_to_the_general_path(reading: None, name: str) -> None:
    change = NO_PLAIN_TENSOR[name]
    layer, x, hx = carousel.GRU(I, H, 2), torch.randn(T, B, I), torch.randn(2, B, H)
    plan = native._plan(layer)
    assert plan is not None
    own, run = dict(layer._parameters), plan.native
    with torch.no_grad():
        assert run.sequence(own, x, hx, 1) is not None and run.fits(own, x, hx)
        assert run.sequence(own, change(x), hx, 1) is None
        if name != "nothing":  # no state: zeros
            assert run.sequence(own, x, change(hx), 1) is None
        own["weight_hh_l0"] = change(own["weight_hh_l0"].detach())  # type: ignore[union-attr]
        assert run.sequence(own, x, hx, 1) is None and not run.fits(own, x, hx)


def test_modes_that_must_see_operations_are_seen() -> None:
    layer, x = carousel.LSTM(I, H), torch.randn(T, B, I)
    run = native._plan(layer).native  # type: ignore[union-attr]
    assert run.is_plain()
    for mode in (
        torch.autocast("cpu", torch.bfloat16),
        FakeTensorMode(),
        forward_ad.dual_level(),
        FlopCounterMode(display=False),
    ):
        with mode:
            assert not run.is_plain()
            assert run.sequence(layer._parameters, x, None, 1) is None
    assert run.is_plain()


def test_new_tensors_are_like_torchs() -> None:
    layer, x = carousel.LSTM(I, H), torch.randn(T, B, I)
    with torch.inference_mode():
        output, (h, c) = layer(x)
        assert output.is_inference() and h.is_inference()
    with torch.no_grad():
        output, (h, c) = layer(x)
    assert [(t.is_contiguous(), t.requires_grad, t._base, t._version) for t in (output, h, c)] == 3 * [
        (True, False, None, 0)
    ]
    y, (h, _) = layer.eval().step(x[0])
    y.mul_(2)  # the output of a step is no view of its state
    torch.testing.assert_close(y, 2 * h[0])
    assert torch.equal(copy.deepcopy(output), output)


def test_a_failed_allocation_is_an_error_and_no_crash() -> None:
    layer, x, module = carousel.LSTM(I, H), torch.randn(T, B, I), backend.load()[0]
    with torch.no_grad():
        right = layer(x)[0]
        for n in range(4):
            module.fail_allocation_after(n)
            try:
                with pytest.raises(MemoryError):
                    layer(x)
            finally:
                module.fail_allocation_after(-1)
        assert torch.equal(layer(x)[0], right)
