"""The native step of a layer is never out of date: it follows whatever becomes of the layer after its first step."""

import pytest
import torch
from helpers.references import close
from torch import nn
from torch.nn.utils import parametrizations, prune

import carousel


def transpose(layer):
    layer.weight_hh_l0.data = layer.weight_hh_l0.data.t()


def swap_parameter(layer):
    layer.weight_hh_l0 = nn.Parameter(layer.weight_hh_l0.data.t())


def more_zoneout(layer):
    layer.zoneout["h"] = 0.5


def other_zoneout(layer):
    layer.zoneout = {"h": 0.5}


def zoneout_by_a_number(layer):
    layer.zoneout = 0.5


def other_cell(layer):
    layer.cell = carousel.cells.Elman("relu")


def norm_parametrized(layer):
    nn.utils.parametrize.register_parametrization(layer, "bias_hh_l0", nn.Tanh())


CHANGES = {
    "spectral norm": (carousel.RNN, {}, lambda layer: parametrizations.spectral_norm(layer, "weight_hh_l0")),
    "weight norm": (carousel.GRU, {}, lambda layer: parametrizations.weight_norm(layer, "weight_hh_l0")),
    "parametrization": (carousel.LSTM, {}, norm_parametrized),
    "pruning": (carousel.LSTM, {}, lambda layer: prune.random_unstructured(layer, "bias_hh_l0", 0.9)),
    "pruned gain": (carousel.LayerNormLSTM, {}, lambda layer: prune.l1_unstructured(layer.norm_c_l0, "weight", 0.5)),
    "transposed data": (carousel.RNN, {}, transpose),
    "another parameter": (carousel.RNN, {}, swap_parameter),
    "zoneout in place": (carousel.RNN, {"zoneout": 0.1}, more_zoneout),
    "zoneout": (carousel.GRU, {"zoneout": 0.1}, other_zoneout),
    "zoneout by a number": (carousel.GRU, {"zoneout": 0.1}, zoneout_by_a_number),
    "cell": (carousel.RNN, {}, other_cell),
    "dtype": (carousel.LSTM, {}, lambda layer: layer.double()),
    "trained in place": (carousel.LSTM, {}, lambda layer: layer.weight_hh_l0.data.mul_(2)),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_step_is_that_of_the_sequence_whatever_was_changed_before(change):
    make, options, apply = CHANGES[change]
    layer = make(6, 6, **options).eval()
    with torch.no_grad():
        layer.step(torch.randn(2, 6))
        apply(layer)
        x = torch.randn(5, 2, 6, dtype=torch.float64 if change == "dtype" else torch.float32)
        output, _ = layer(x)
        state = None
        for t in range(5):
            y, state = layer.step(x[t], state)
            close(y, output[t], rtol=1e-5, atol=1e-6)


def test_a_layer_that_begins_to_draw_noise_is_not_stepped_without_it():
    layer = carousel.LSTM(6, 6).train()
    with torch.no_grad():
        layer.step(torch.randn(2, 6))
        layer.recurrent_dropout = 0.5
        with pytest.raises(ValueError, match="recurrent_dropout and weight_drop draw one mask for a whole sequence"):
            layer.step(torch.randn(2, 6))
