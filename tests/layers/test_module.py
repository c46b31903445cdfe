"""Parameters of a layer: their shapes, initial values, files and copies."""

import copy
import io
import itertools

import pytest
import torch
from helpers.references import KINDS, parameters

import carousel
from carousel import LSTM, LayerNormLSTM

I, H, T, B = 3, 4, 5, 2
X = torch.zeros(T, B, I)


@pytest.mark.parametrize("gradients", [True, False])
@pytest.mark.parametrize("shape", [(3, 3), (H, 4 * H), (4 * H, H + 1), ()])
@pytest.mark.parametrize("call", ["plain", "lengths", "step", "cell"])
def test_a_parameter_of_another_shape_is_an_error_not_other_memory(call, shape, gradients):
    module = carousel.LSTMCell(I, H) if call == "cell" else LSTM(I, H)
    name = "weight_hh" if call == "cell" else "weight_hh_l0"
    x = torch.randn(5, 2, I)
    run = {
        "plain": lambda: module(x),
        "lengths": lambda: module(x, lengths=[5, 3]),
        "step": lambda: module.step(x[0]),
        "cell": lambda: module(x[0], (torch.zeros(2, H), torch.zeros(2, H))),
    }[call]
    with torch.set_grad_enabled(gradients):
        run()
        for replace in (
            lambda p: setattr(module, name, torch.nn.Parameter(p)),
            lambda p: setattr(getattr(module, name), "data", p),
        ):
            replace(torch.zeros(shape))
            with pytest.raises(RuntimeError, match=rf"{name} must have shape \({4 * H}, {H}\), got"):
                run()
            replace(torch.zeros(4 * H, H))
            run()


def test_a_norm_of_another_shape_is_an_error():
    layer = LayerNormLSTM(I, H)
    layer.norm_c_l0.weight = torch.nn.Parameter(torch.ones(H + 1))
    with pytest.raises(RuntimeError, match=r"norm_c_l0\.weight must have shape"):
        layer(X)


@pytest.mark.parametrize(
    ("name", "value"),
    [("bidirectional", True), ("merge", "sum"), ("learn_initial_state", True), ("num_layers", 2), ("hidden_size", 9)],
)
def test_what_the_parameters_were_made_for_is_fixed(name, value):
    layer = LSTM(I, H)
    before = layer(X)[0]
    with pytest.raises(AttributeError, match=f"LSTM: {name} is .* cannot be changed"):
        setattr(layer, name, value)
    setattr(layer, name, getattr(layer, name))
    assert torch.equal(layer(X)[0], before)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if "f" in KINDS[kind].gates])
@pytest.mark.parametrize("given, expected", [({}, 1.0), ({"forget_bias": 2.5}, 2.5), ({"forget_bias": 0}, 0.0)])
def test_forget_bias(kind, given, expected):
    """b_ih + b_hh of the forget gate is exactly that; all other parameters are drawn within ±1/√H."""
    H, gates = 16, KINDS[kind].gates
    layer = KINDS[kind].layer(I, H, 2, bidirectional=True, **KINDS[kind].options, **given)
    for k, direction in itertools.product((0, 1), (0, 1)):
        own = parameters(layer, k, direction)
        bias = dict(zip(gates, (own["bias_ih"] + own["bias_hh"]).chunk(len(gates)), strict=True))
        assert (bias.pop("f") == expected).all()
        for value in (*bias.values(), own["weight_ih"], own["weight_hh"]):
            assert 0 < value.abs().max() <= 2 * H**-0.5
    fresh = layer.weight_ih_l0.clone()
    layer.reset_parameters()
    assert not torch.equal(fresh, layer.weight_ih_l0)
    assert (layer.bias_ih_l0.chunk(len(gates))[gates.index("f")] == expected).all()


def make(name, **options):
    return getattr(carousel, name)(I, H, num_layers=2, bidirectional=True, **options)


@pytest.mark.parametrize(
    "name", ["LSTM", "GRU", "RNN", "PeepholeLSTM", "LayerNormLSTM", "CoupledLSTM", "ResetBeforeGRU"]
)
def test_a_whole_layer_loads_with_its_own_class_alone(name):
    layer, x = make(name, zoneout=0.1).eval(), torch.randn(T, B, I)
    file = io.BytesIO()
    torch.save(layer, file)
    file.seek(0)
    with torch.serialization.safe_globals([type(layer)]):
        loaded = torch.load(file, weights_only=True)
    assert torch.equal(loaded(x)[0], layer(x)[0]) and repr(loaded) == repr(layer)
    assert torch.equal(copy.deepcopy(layer)(x)[0], layer(x)[0])
    assert list(loaded.state_dict()) == list(layer.state_dict())


def test_options_of_the_cell_survive():
    layer = carousel.PeepholeLSTM(I, H, peephole="full")
    again = copy.deepcopy(layer)
    assert again.cell.peephole == "full" and again.cell is not layer.cell
    assert copy.deepcopy(carousel.RNN(I, H, nonlinearity="sigmoid")).nonlinearity == "sigmoid"
