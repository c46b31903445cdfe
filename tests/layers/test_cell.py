"""Single steps as modules: torch's cells with the same weights, the equations in numpy for the cells torch lacks."""

import copy
import io

import numpy as np
import pytest
import torch
from helpers.references import KINDS, close, draw, equations, randomise, states_of
from helpers.twin_cells import TWINS, inputs, pair
from torch import nn
from torch.func import functional_call, vmap

import carousel
from carousel.cells import SideInput

B, I, H = 3, 4, 5
twins = pytest.mark.parametrize("name", TWINS)
kinds = pytest.mark.parametrize("kind", KINDS)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("batch", [(B,), (1,), ()], ids=["batch", "one", "unbatched"])
@pytest.mark.parametrize("state", [True, False], ids=["state", "none"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@twins
def test_values_are_torchs(name, dtype, state, batch, bias):
    theirs, ours = pair(name, dtype, bias=bias)
    x, hx = inputs(name, *batch, dtype=dtype)
    given = (x, hx) if state else (x,)
    for gradients in (True, False):
        with torch.set_grad_enabled(gradients):
            found, expected = states_of(ours(*given)), states_of(theirs(*given))
        for a, b in zip(found, expected, strict=True):
            assert a.dtype is dtype and a.shape == b.shape
            torch.testing.assert_close(a, b)


@pytest.mark.parametrize("batch", [(B,), ()], ids=["batch", "unbatched"])
@twins
def test_gradients_are_torchs(name, batch):
    theirs, ours = pair(name)
    found = []
    for cell in (theirs, ours):
        x, hx = inputs(name, *batch)
        leaves = [t.requires_grad_() for t in (x, *states_of(hx))]
        for _ in range(3):  # a loop as programs write it, every state used
            hx = cell(x, hx)
        loss = sum((k + 1) * s.square().sum() for k, s in enumerate(states_of(hx)))
        found.append(torch.autograd.grad(loss, [*leaves, *cell.parameters()]))
    close(found[1], found[0])


@twins
def test_a_gradient_of_a_gradient(name):
    theirs, ours = pair(name)
    found = []
    for cell in (theirs, ours):
        x, hx = inputs(name, B)
        x.requires_grad_()
        (g,) = torch.autograd.grad(states_of(cell(x, hx))[0].square().sum(), x, create_graph=True)
        found.append(torch.autograd.grad(g.square().sum(), [x, *cell.parameters()], allow_unused=True))
    for a, b in zip(found[1], found[0], strict=True):
        close(torch.zeros(1) if a is None else a, torch.zeros(1) if b is None else b)


@twins
def test_weights_go_both_ways(name):
    theirs, _ = pair(name)
    theirs.weight_hh.requires_grad_(False)
    theirs.eval()
    ours = getattr(carousel, name.partition("-")[0]).from_torch(theirs)
    again = ours.to_torch()
    assert type(again) is type(theirs) and repr(again) == repr(theirs)
    for module in (ours, again):
        assert list(module.state_dict()) == list(theirs.state_dict())
        assert not module.training and not module.weight_hh.requires_grad and module.weight_ih.requires_grad
        close(list(module.parameters()), list(theirs.parameters()))
    assert getattr(ours, "nonlinearity", None) == getattr(theirs, "nonlinearity", None)


def test_conversion_refuses_what_torch_lacks():
    with pytest.raises(TypeError, match=r"LSTMCell.from_torch takes a torch.nn.LSTMCell, got GRUCell"):
        carousel.LSTMCell.from_torch(nn.GRUCell(2, 3))
    with pytest.raises(ValueError, match=r"torch\.nn has nothing like RNN \(sigmoid\)"):
        carousel.RNNCell(2, 3, nonlinearity="sigmoid").to_torch()


@twins
def test_the_same_seed_starts_from_torchs_weights(name):
    make, own = TWINS[name]
    ours = getattr(carousel, name.partition("-")[0])
    torch.manual_seed(3)
    expected = make(I, H, **own).state_dict()
    torch.manual_seed(3)
    cell = ours(I, H, init="torch", **own)
    assert all(torch.equal(value, expected[key]) for key, value in cell.state_dict().items())
    torch.manual_seed(3)
    cell = ours(I, H, **own)
    if name == "LSTMCell":
        expected["bias_ih"][H : 2 * H], expected["bias_hh"][H : 2 * H] = 1.0, 0.0
    assert all(torch.equal(value, expected[key]) for key, value in cell.state_dict().items())


def test_positional_arguments_are_torchs():
    assert carousel.RNNCell(I, H, False, "relu").nonlinearity == "relu"
    assert carousel.LSTMCell(I, H, False, "cpu", torch.float64).weight_ih.dtype == torch.float64
    assert carousel.LSTMCell(I, H, False).bias_ih is None
    assert str(carousel.RNNCell(I, H, False, "relu")) == "RNNCell(4, 5, nonlinearity='relu', bias=False)"


# ---- the cells that torch does not have ----


@pytest.mark.parametrize("gradients", [True, False])
@kinds
def test_values_are_the_equations(kind, gradients):
    layer = KINDS[kind]
    make = getattr(carousel, f"{layer.layer.__name__}Cell")
    cell = randomise(make(I, H, dtype=torch.float64, **layer.options))
    x, *hx = (draw(B, size, seed=k) for k, size in enumerate((I, *[H] * len(layer.states))))
    with torch.set_grad_enabled(gradients):
        found = states_of(cell(x, tuple(hx) if len(hx) > 1 else hx[0]))
        alone = states_of(cell(x[1], tuple(s[1] for s in hx) if len(hx) > 1 else hx[0][1]))
        fresh = states_of(cell(x))
    w = {name: p.detach().numpy() for name, p in cell.named_parameters()}
    expected = equations(kind, w, x.numpy(), [s.numpy() for s in hx])
    zero = equations(kind, w, x.numpy(), [np.zeros((B, H)) for _ in hx])
    for k, name in enumerate(layer.states):
        close(found[k], expected[name])
        close(alone[k], expected[name][1])
        close(fresh[k], zero[name])


@kinds
def test_gradients_by_finite_differences(kind):
    layer = KINDS[kind]
    cell = randomise(getattr(carousel, f"{layer.layer.__name__}Cell")(2, 3, dtype=torch.float64, **layer.options))
    parameters = dict(cell.named_parameters())
    state = [draw(2, 3, seed=k + 5).requires_grad_() for k in range(len(layer.states))]

    def call(x, *rest):
        hx, values = rest[: len(state)], rest[len(state) :]
        given = tuple(hx) if len(hx) > 1 else hx[0]
        return functional_call(cell, dict(zip(parameters, values, strict=True)), (x, given))

    assert torch.autograd.gradcheck(call, (draw(2, 2).requires_grad_(), *state, *parameters.values()))


@pytest.fixture
def decay(monkeypatch):
    """A cell of a user's own, registered for one test."""
    monkeypatch.setattr("carousel.cells.spec._registry", dict(carousel.cells.spec._registry))

    class Decay(carousel.Cell, name="decay-test"):
        """A user's own: a complex state, a buffer, a past input, and the time since the last observation."""

        gates = ("n",)
        states = ("h",)
        side_inputs = {"dt": SideInput(lambda sizes: (1,))}
        input_window = 2

        def buffers(self, sizes):
            return {"rate": torch.full((sizes.hidden,), 0.5)}

        def project_input(self, x, w):
            return nn.functional.linear(x.sum(-2), w.weight_ih, w.bias_ih)

        def step(self, x, state, w, let):
            (h,) = state
            return (let("h", torch.tanh(x.n + w.U(h * torch.exp(-w.rate * x.dt), "n"))),)

    return "decay-test"


def test_a_cell_of_a_users_own(decay):
    """With side inputs, buffers and past inputs, one step after the other is the sequence call."""
    layer = carousel.layers.named(decay)(I, H)
    cell = carousel.layers.named_cell(decay)(I, H)
    cell.load_state_dict({name.removesuffix("_l0"): value for name, value in layer.state_dict().items()})
    x, dt = torch.randn(6, B, I), torch.rand(6, B, 1)
    expected, _ = layer(x, dt=dt)
    state = None
    for t in range(6):
        state = cell(x[t], state, dt=dt[t])
        torch.testing.assert_close(state[0], expected[t])
    with pytest.raises(TypeError, match="the cell reads 'dt' at every step"):
        cell(x[0])


# ---- among torch's tools ----


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning", "ignore::DeprecationWarning")
@twins
def test_tools(name, tmp_path):
    theirs, ours = pair(name)
    x, hx = inputs(name, B)
    expected = theirs(x, hx)
    torch.compiler.reset()
    close(torch.compile(ours, backend="aot_eager", fullgraph=True)(x, hx), expected)
    traced = torch.jit.trace(ours, (x, hx))
    torch.jit.save(traced, tmp_path / "cell.pt")
    other, state = inputs(name, B + 2)
    close(torch.jit.load(tmp_path / "cell.pt")(other, state), theirs(other, state))
    close(torch.export.export(ours, (x, hx)).module()(x, hx), expected)
    close(vmap(ours)(x, hx), expected)  # of single sequences; torch's own has no batching rule
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = states_of(ours.float()(*inputs(name, B, dtype=torch.float32)))
    for a, b in zip(found, states_of(expected), strict=True):
        torch.testing.assert_close(a.double(), b, rtol=0.05, atol=0.05)


@kinds
def test_files_and_copies(kind):
    layer = KINDS[kind]
    make = getattr(carousel, f"{layer.layer.__name__}Cell")
    cell, x = make(I, H, **layer.options), torch.randn(B, I)
    file = io.BytesIO()
    torch.save(cell, file)
    file.seek(0)
    with torch.serialization.safe_globals([make]):
        loaded = torch.load(file, weights_only=True)
    for other in (loaded, copy.deepcopy(cell)):
        assert repr(other) == repr(cell)
        close(other(x), cell(x))


def test_a_weight_that_changes_is_used():
    """In place, by another tensor, and as the result of a parametrization."""
    theirs, ours = pair("LSTMCell")
    x, hx = inputs("LSTMCell", B)
    with torch.no_grad():
        close(ours(x, hx), theirs(x, hx))
        for cell in (theirs, ours):
            cell.weight_ih *= 2
        close(ours(x, hx), theirs(x, hx))
        for cell in (theirs, ours):
            cell.weight_hh = nn.Parameter(cell.weight_hh.clone() / 3)
        close(ours(x, hx), theirs(x, hx))
        for cell in (theirs, ours):
            nn.utils.parametrizations.weight_norm(cell, "weight_hh")
            cell.parametrizations.weight_hh.original0.mul_(2)
        close(ours(x, hx), theirs(x, hx))


# ---- bad input ----


@pytest.mark.parametrize("gradients", [True, False])
@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        ((torch.zeros(2, B, I),), ValueError, "LSTMCell: Expected input to be 1D or 2D, got 3D instead"),
        ((torch.zeros(B, I + 1),), RuntimeError, "input_size. Expected 4, got 5"),
        (([1.0],), TypeError, "input must be a Tensor, got list"),
        ((torch.zeros(B, I, dtype=torch.float64),), ValueError, "float64.*does not match weight dtype"),
        ((torch.zeros(B, I), torch.zeros(B, H)), TypeError, r"a tuple of 2 Tensors \(h, c\), got Tensor"),
        ((torch.zeros(B, I), (torch.zeros(B, H),)), TypeError, "a tuple of 2 Tensors .*, got tuple of 1"),
        ((torch.zeros(B, I), (torch.zeros(B, H), None)), TypeError, r"hx\[1\] \(c\) must be a Tensor, got NoneType"),
        ((torch.zeros(B, I), (torch.zeros(B, H), torch.zeros(2, H))), RuntimeError, r"hx\[1\] \(c\) of size \(3, 5\)"),
        ((torch.zeros(I), (torch.zeros(1, H),) * 2), RuntimeError, r"hx\[0\] \(h\) of size \(5,\), got \(1, 5\)"),
        ((torch.zeros(B, I), (torch.zeros(B, H).double(),) * 2), RuntimeError, "hx.0. has dtype torch.float64"),
    ],
)
def test_what_is_wrong_is_named(given, error, words, gradients):
    with torch.set_grad_enabled(gradients), pytest.raises(error, match=words):
        carousel.LSTMCell(I, H)(*given)


def test_constructor_refuses():
    with pytest.raises(TypeError, match="LSTMCell has no argument 'hiden_bias'"):
        carousel.LSTMCell(I, H, hiden_bias=1)
    with pytest.raises(ValueError, match="init must be one of 'carousel', 'torch', got 'keras'"):
        carousel.LSTMCell(I, H, init="keras")
    with pytest.raises(ValueError, match="init='torch' sets no forget bias, but forget_bias=2"):
        carousel.LSTMCell(I, H, init="torch", forget_bias=2)
    with pytest.raises(ValueError, match="this RNNCell has no gate that keeps the past"):
        carousel.RNNCell(I, H, forget_bias=2)
    with pytest.raises(TypeError, match="multiple values for argument 'nonlinearity'"):
        carousel.RNNCell(I, H, True, "tanh", nonlinearity="relu")
    with pytest.raises(TypeError, match=r"hidden \(h\) must be a Tensor, got tuple"), torch.no_grad():
        carousel.GRUCell(I, H)(torch.zeros(B, I), (torch.zeros(B, H),))


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("name", ["LSTMCell", "GRUCell", "RNNCell"])
def test_threads_share_a_step_with_many_weights(name, threads):
    """Below and above the 0.75 MB of weights from which one row runs on several threads, units that do not divide."""
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(threads)
        for size in (150, 230, 331):
            ours, theirs = getattr(carousel, name)(size, size), getattr(nn, name)(size, size)
            theirs.load_state_dict(ours.state_dict())
            x = torch.randn(1, size)
            with torch.no_grad():
                found, expected = ours(x), theirs(x)
            for a, b in zip(*((v if isinstance(v, tuple) else (v,)) for v in (found, expected)), strict=True):
                torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)
    finally:
        torch.set_num_threads(before)
