"""Weights go from torch.nn to carousel and back, and a layer starts out as torch's does but for the forget gate."""

import pytest
import torch
from helpers.twins import KINDS, makers
from torch import nn

import carousel

LSTMS = [carousel.LSTM, carousel.PeepholeLSTM, carousel.CoupledLSTM, carousel.LayerNormLSTM]
OPTIONS = [
    {},
    {"bias": False, "num_layers": 3},
    {"num_layers": 2, "bidirectional": True, "batch_first": True, "dropout": 0.25},
]
kinds = pytest.mark.parametrize("kind", KINDS)
options = pytest.mark.parametrize("options", OPTIONS, ids=["plain", "no-bias", "deep"])


def same(a, b):
    """Equal to the last bit."""
    torch.testing.assert_close(a, b, rtol=0, atol=0)


def configuration(layer):
    names = ["input_size", "hidden_size", "num_layers", "bias", "batch_first", "dropout", "bidirectional", "proj_size"]
    return {name: getattr(layer, name) for name in names} | {"nonlinearity": getattr(layer, "nonlinearity", None)}


@options
@kinds
def test_state_dicts_load_both_ways(kind, options):
    theirs, ours = makers(kind, 4, 5, **options)
    a, b = theirs(), ours()
    assert list(a.state_dict()) == list(b.state_dict())
    assert [n for n, _ in a.named_parameters()] == [n for n, _ in b.named_parameters()]
    b.load_state_dict(a.state_dict(), strict=True)
    same(dict(b.state_dict()), dict(a.state_dict()))
    fresh = theirs()
    fresh.load_state_dict(b.state_dict(), strict=True)
    same(dict(fresh.state_dict()), dict(a.state_dict()))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@options
@kinds
def test_there_and_back(kind, options, dtype):
    theirs, ours = makers(kind, 4, 5, **options)
    before = theirs(dtype=dtype).eval()
    before.weight_hh_l0.requires_grad_(False)
    between = ours.func.from_torch(before)
    after = between.to_torch()
    assert type(between) is ours.func and type(after) is theirs.func
    for module in (between, after):
        assert configuration(module) == configuration(before)
        assert not module.training
        assert {n: p.requires_grad for n, p in module.named_parameters()} == {
            n: p.requires_grad for n, p in before.named_parameters()
        }
        same(dict(module.state_dict()), dict(before.state_dict()))
        assert not {p.data_ptr() for p in module.parameters()} & {p.data_ptr() for p in before.parameters()}


def test_a_torch_subclass_converts():
    class Mine(nn.GRU):
        pass

    same(dict(carousel.GRU.from_torch(layer := Mine(3, 4)).state_dict()), dict(layer.state_dict()))


@pytest.mark.parametrize("given", [nn.GRU(2, 3), nn.LSTMCell(2, 3), carousel.LSTM(2, 3), {}], ids=repr)
def test_from_torch_refuses_what_is_not_its_twin(given):
    with pytest.raises(TypeError, match=r"LSTM\.from_torch takes a torch\.nn\.LSTM, got ") as error:
        carousel.LSTM.from_torch(given)
    assert type(given).__name__ in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("layer", "option"),
    [
        (carousel.LSTM(2, 3, recurrent_dropout=0.1), "recurrent_dropout=0.1"),
        (carousel.GRU(2, 3, zoneout=0.1), "zoneout={'h': 0.1}"),
        (carousel.RNN(2, 3, weight_drop=0.1), "weight_drop=0.1"),
        (carousel.LSTM(2, 3, learn_initial_state=True), "learn_initial_state=True"),
        (carousel.GRU(2, 3, bidirectional=True, merge="sum"), "merge='sum'"),
        (carousel.RNN(2, 3, nonlinearity="sigmoid"), "nonlinearity='sigmoid'"),
    ],
    ids=lambda v: v if isinstance(v, str) else None,
)
def test_to_torch_refuses_what_torch_lacks(layer, option):
    with pytest.raises(ValueError) as error:
        layer.to_torch()
    assert option in str(error.value) and "to_torch" in str(error.value)


TORCHS = ["RNN", "LSTM", "GRU", "RNNCell", "LSTMCell", "GRUCell"]
SAME = {f"{kind}LSTM{cell}": f"LSTM{cell}" for kind in ("Peephole", "FullPeephole") for cell in ("", "Cell")}
SAME |= {name: name for name in TORCHS}


@pytest.mark.parametrize("theirs", TORCHS)
@pytest.mark.parametrize("ours", [*carousel.layers.NAMES, *carousel.layers.CELL_NAMES])
def test_every_class_takes_its_own_of_torchs_or_says_so_in_one_line(ours, theirs):
    kind, module = getattr(carousel.layers, ours), getattr(nn, theirs)(3, 4)
    x = torch.randn(5, 2, 3)
    if SAME.get(ours) == theirs:
        x = x[0] if "Cell" in theirs else x
        torch.testing.assert_close(kind.from_torch(module)(x), module(x))
        return
    with pytest.raises(TypeError, match=rf"^{ours}\.from_torch.*got {theirs}$"):
        kind.from_torch(module)


@pytest.mark.parametrize("peephole", ["diagonal", "full"])
@options
def test_a_peephole_lstm_starts_as_torchs_lstm(peephole, options):
    theirs = nn.LSTM(4, 5, dtype=torch.float64, **options).eval()
    ours, x = carousel.PeepholeLSTM.from_torch(theirs, peephole=peephole), torch.randn(6, 2, 4).double()
    torch.testing.assert_close(ours(x), theirs(x))
    assert configuration(ours) == configuration(theirs) and not ours.training
    ours(x)[0].sum().backward()
    assert ours.weight_ch_l0.grad.abs().sum() > 0  # the peepholes learn from there


def test_a_computed_weight_converts_by_its_value():
    theirs = nn.utils.parametrizations.spectral_norm(nn.GRU(3, 4), "weight_hh_l0").eval()
    x = torch.randn(5, 2, 3)
    torch.testing.assert_close(carousel.GRU.from_torch(theirs)(x), theirs(x))


# ---- initialisation ----


@options
@kinds
def test_same_seed_same_weights_but_for_the_forget_gate(kind, options):
    theirs, ours = makers(kind, 4, 5, **options)
    torch.manual_seed(7)
    expected = {name: value.clone() for name, value in theirs().state_dict().items()}
    torch.manual_seed(7)
    layer = ours()
    if KINDS[kind][0] == "LSTM":
        for name, value in expected.items():
            if name.startswith("bias"):
                value[5:10] = 1.0 if "_ih_" in name else 0.0  # rows i f g o, five each
    same(dict(layer.state_dict()), expected)
    torch.manual_seed(7)
    layer.reset_parameters()
    same(dict(layer.state_dict()), expected)


@pytest.mark.parametrize(("given", "total"), [({}, 1.0), ({"forget_bias": 0.0}, 0.0), ({"forget_bias": 3}, 3.0)])
@pytest.mark.parametrize("layer", LSTMS, ids=lambda c: c.__name__)
def test_forget_bias_is_what_both_biases_sum_to(layer, given, total):
    H = 6
    made = layer(2, H, num_layers=2, bidirectional=True, **given)
    at = made.cell.gate_rows("f", H).start
    for _, _, b_ih, b_hh, *_ in made.all_weights:
        same((b_ih + b_hh)[at : at + H], torch.full((H,), total))
        others = torch.cat([(b_ih + b_hh)[:at], (b_ih + b_hh)[at + H :]])
        assert others.abs().max() <= 2 * H**-0.5 and others.std() > 0


def test_loading_torch_weights_leaves_the_forget_gate_alone():
    theirs = nn.LSTM(2, 3)
    nn.init.zeros_(theirs.bias_ih_l0)
    same(carousel.LSTM.from_torch(theirs).bias_ih_l0.detach(), torch.zeros(12))
