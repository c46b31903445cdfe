"""The setting `nonlinearity` in every task with recurrent layers, and the cells that only a registered name gives."""

import pytest
import torch

import carousel
from carousel.cells import registry
from carousel.layers import named
from carousel.networks.characters import CharacterRNN
from carousel.networks.encoder import encoder
from carousel.tasks.registry import find, names


@pytest.mark.parametrize("name", [name for name in names() if "cell" in find(name).Settings.model_fields])
def test_every_task_has_the_nonlinearities_of_an_rnn(name):
    field = find(name).Settings.model_fields["nonlinearity"]
    assert field.default == "tanh" and field.json_schema_extra["needs"] == {"cell": ("rnn",)}


@pytest.mark.parametrize("nonlinearity", ["tanh", "relu", "sigmoid"])
def test_a_layer_by_name_has_it(nonlinearity):
    x = torch.randn(4, 2, 3)
    layer = encoder("rnn", 3, 5, nonlinearity=nonlinearity)
    φ = {"tanh": torch.tanh, "relu": torch.relu, "sigmoid": torch.sigmoid}[nonlinearity]
    h = torch.zeros(2, 5)
    for step in x:
        h = φ(step @ layer.weight_ih_l0.T + layer.bias_ih_l0 + h @ layer.weight_hh_l0.T + layer.bias_hh_l0)
    torch.testing.assert_close(layer(x)[1][0], h)
    assert CharacterRNN(9, 3, 4, "rnn", nonlinearity).layer.cell.nonlinearity == nonlinearity
    assert encoder("gru", 3, 5, nonlinearity=nonlinearity).cell.label == "GRU"


def test_training_with_a_sigmoid(tmp_path):
    lines = ["ab" * 5, "ba" * 5] * 4
    small = {"tokens": "character", "hidden": 6, "embedding": 4, "epochs": 1, "quiet": True, "report": False}
    model = carousel.train("lm", lines, out=tmp_path / "run", cell="rnn", nonlinearity="sigmoid", **small)
    assert model.network.layers.cell.nonlinearity == "sigmoid"
    again = carousel.load(tmp_path / "run").network.layers
    assert again.cell.nonlinearity == "sigmoid" and (again(torch.randn(3, 1, 4))[0] > 0).all()


def test_full_peepholes_by_name():
    """004's form: each gate reads [c, h, x] through one matrix."""
    assert "peephole-full" in registry()
    layer = named("peephole-full")(3, 4).double()
    x, h, c = torch.randn(5, 1, 3).double(), torch.zeros(1, 4).double(), torch.zeros(1, 4).double()
    W, U, b = layer.weight_ih_l0, layer.weight_hh_l0, layer.bias_ih_l0 + layer.bias_hh_l0
    P_i, P_f, P_o = layer.weight_ch_l0.chunk(3)
    outputs = layer(x)[0]
    for t in range(5):
        i, f, g, o = (x[t] @ W.T + h @ U.T + b).chunk(4, 1)
        i, f = torch.sigmoid(i + c @ P_i.T), torch.sigmoid(f + c @ P_f.T)
        c = f * c + i * torch.tanh(g)
        h = torch.sigmoid(o + c @ P_o.T) * torch.tanh(c)
        torch.testing.assert_close(outputs[t], h)
    assert carousel.PeepholeLSTM(3, 4, peephole="full").weight_ch_l0.shape == layer.weight_ch_l0.shape
