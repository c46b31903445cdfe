"""Bad input is refused by name: which argument, what was given, what is accepted. NaN is neither hidden nor spread."""

import functools

import pytest
import torch
from helpers.references import KINDS, build, states_of
from torch.nn.utils.rnn import pack_padded_sequence

import carousel
from carousel import GRU, LSTM, RNN, Clamp, CoupledLSTM, LayerNormLSTM, PeepholeLSTM, ResetBeforeGRU

I, H, T, B = 3, 4, 5, 2
X = torch.zeros(T, B, I)
PACKED = pack_padded_sequence(X, [5, 3])
STATE = torch.zeros(1, B, H)
META = torch.device("meta")
make = functools.partial


def refuses(act, error, words):
    """`act` raises `error`, and every one of `words` is in its message."""
    with pytest.raises(error) as caught:
        act()
    missing = [word for word in words if word not in str(caught.value)]
    assert not missing, f"{missing} missing in: {caught.value}"


def rows(table):
    """One test for each row (what is done, error, words of its message)."""
    return pytest.mark.parametrize(("act", "error", "words"), table.values(), ids=table)


CONSTRUCTION = {
    "input_size zero": (make(LSTM, 0, H), ValueError, ["input_size", "got 0", "greater than zero"]),
    "input_size float": (make(LSTM, 3.0, H), TypeError, ["input_size", "float", "int"]),
    "hidden_size negative": (make(GRU, I, -4), ValueError, ["hidden_size", "got -4", "greater than zero"]),
    "hidden_size bool": (make(GRU, I, True), TypeError, ["hidden_size", "bool", "int"]),
    "num_layers zero": (make(RNN, I, H, 0), ValueError, ["num_layers", "got 0", "greater than zero"]),
    "bias": (make(LSTM, I, H, bias=1), TypeError, ["bias", "int", "bool"]),
    "batch_first": (make(LSTM, I, H, batch_first="yes"), TypeError, ["batch_first", "str", "bool"]),
    "learn_initial_state": (make(LSTM, I, H, learn_initial_state=1), TypeError, ["learn_initial_state", "int", "bool"]),
    "dropout": (make(LSTM, I, H, 2, dropout=1.5), ValueError, ["dropout", "1.5", "[0, 1]"]),
    "dropout negative": (make(LSTM, I, H, 2, dropout=-0.1), ValueError, ["dropout", "-0.1", "[0, 1]"]),
    "dropout nan": (make(LSTM, I, H, 2, dropout=float("nan")), ValueError, ["dropout", "nan", "[0, 1]"]),
    "dropout bool": (make(LSTM, I, H, 2, dropout=True), ValueError, ["dropout", "True", "[0, 1]"]),
    "dropout word": (make(LSTM, I, H, 2, dropout="half"), ValueError, ["dropout", "'half'", "[0, 1]"]),
    "recurrent_dropout": (make(GRU, I, H, recurrent_dropout=2), ValueError, ["recurrent_dropout", "2", "[0, 1]"]),
    "weight_drop": (make(RNN, I, H, weight_drop=-1), ValueError, ["weight_drop", "-1", "[0, 1]"]),
    "zoneout": (make(LSTM, I, H, zoneout=1.1), ValueError, ["zoneout", "1.1", "[0, 1]"]),
    "zoneout of c": (make(LSTM, I, H, zoneout={"c": -1}), ValueError, ["zoneout", "-1", "[0, 1]"]),
    "zoneout of nothing": (make(GRU, I, H, zoneout={"c": 0.1}), ValueError, ["zoneout", "'c'", "('h',)"]),
    "merge": (make(LSTM, I, H, merge="max"), ValueError, ["merge", "'max'", "'concat'", "'sum'", "'mean'"]),
    "nonlinearity": (make(RNN, I, H, nonlinearity="elu"), ValueError, ["nonlinearity", "'elu'", "tanh", "relu", "sig"]),
    "nonlinearity None": (make(RNN, I, H, nonlinearity=None), ValueError, ["nonlinearity", "None", "'tanh'"]),
    "peephole": (make(PeepholeLSTM, I, H, peephole="half"), ValueError, ["peephole", "'half'", "'diagonal'", "'full'"]),
    "peephole coupled": (make(CoupledLSTM, I, H, peephole="full"), ValueError, ["peephole", "'full'", "True or False"]),
    "proj_size of a GRU": (
        make(ResetBeforeGRU, I, H, proj_size=2),
        ValueError,
        ["proj_size", "only supported for LSTM"],
    ),
    "proj_size of an RNN": (make(RNN, I, H, proj_size=2), ValueError, ["proj_size", "only supported for LSTM"]),
    "proj_size too large": (
        make(LSTM, I, H, proj_size=4),
        ValueError,
        ["proj_size", "got 4", "smaller than hidden_size"],
    ),
    "proj_size negative": (
        make(LayerNormLSTM, I, H, proj_size=-1),
        ValueError,
        ["proj_size", "-1", "positive integer"],
    ),
    "proj_size float": (make(LSTM, I, H, proj_size=2.0), ValueError, ["proj_size", "2.0", "positive integer"]),
    "forget_bias of an RNN": (
        make(RNN, I, H, forget_bias=1.0),
        ValueError,
        ["forget_bias=1.0", "RNN", "no gate that keeps the past"],
    ),
    "forget_bias, no bias": (make(LSTM, I, H, bias=False, forget_bias=1), ValueError, ["forget_bias=1", "no bias"]),
    "no cell": (make(carousel.Recurrent, carousel.cells.LSTM, I, H), TypeError, ["cell", "carousel.Cell instance"]),
    "misspelled": (
        make(LSTM, I, H, bidrectional=True),
        TypeError,
        ["LSTM", "'bidrectional'", "did you mean bidirectional?"],
    ),
    "of another layer": (make(LSTM, I, H, nonlinearity="tanh"), TypeError, ["LSTM", "'nonlinearity'"]),
}


@rows(CONSTRUCTION)
def test_construction(act, error, words):
    refuses(act, error, words)


def call(layer, *args, batch_first=False, **options):
    return make(layer(I, H, batch_first=batch_first), *args, **options)


INPUT = {
    "a list": (call(LSTM, [1.0]), TypeError, ["LSTM", "input", "list", "Tensor or a PackedSequence"]),
    "1-D": (call(GRU, torch.zeros(I)), ValueError, ["GRU", "input", "1D", "2D or 3D"]),
    "4-D": (call(RNN, X.unsqueeze(0)), ValueError, ["RNN", "input", "4D", "2D or 3D"]),
    "size": (call(LSTM, X[..., :2]), RuntimeError, ["LSTM", "input", "got 2", "Expected 3"]),
    "packed size": (
        call(LSTM, PACKED._replace(data=PACKED.data[:, :2])),
        RuntimeError,
        ["input", "got 2", "Expected 3"],
    ),
    "packed rank": (
        call(LSTM, pack_padded_sequence(X.unsqueeze(2), [5, 3])),
        RuntimeError,
        ["Packed", "2 dim", "got 3"],
    ),
    "float64": (call(LSTM, X.double()), ValueError, ["input dtype (torch.float64)", "weight dtype (torch.float32)"]),
    "packed float64": (call(LSTM, PACKED.double()), ValueError, ["input dtype (torch.float64)", "(torch.float32)"]),
    "int64": (call(GRU, X.long()), ValueError, ["input dtype (torch.int64)", "weight dtype (torch.float32)"]),
    "meta": (call(GRU, X.to(META)), RuntimeError, ["input tensor at meta", "parameter tensor at cpu"]),
    "no steps": (call(RNN, X[:0]), RuntimeError, ["RNN", "sequence length", "larger than 0", "(0, 2, 3)"]),
    "both on meta": (
        make(LSTM(I, H, device="meta"), X.to(META).double()),
        ValueError,
        ["input dtype (torch.float64)", "weight dtype (torch.float32)"],
    ),
}


@rows(INPUT)
def test_input(act, error, words):
    refuses(act, error, words)


LENGTHS = {
    "negative": (call(LSTM, X, lengths=[5, -1]), ValueError, ["lengths[1] is -1", "between 0 and the 5 steps"]),
    "too long": (
        call(GRU, X, lengths=torch.tensor([6, 5])),
        ValueError,
        ["lengths[0] is 6", "between 0 and the 5 steps"],
    ),
    "too long, batch first": (
        call(GRU, X, lengths=[0, 1, 3, 0, 0], batch_first=True),
        ValueError,
        ["lengths[2] is 3", "between 0 and the 2 steps"],
    ),
    "floats": (call(LSTM, X, lengths=[5.0, 3.0]), TypeError, ["lengths", "integers", "float32"]),
    "a float tensor": (call(LSTM, X, lengths=torch.ones(B)), TypeError, ["lengths", "integers", "float32"]),
    "a mask": (call(LSTM, X, lengths=torch.ones(B).bool()), TypeError, ["lengths", "integers", "bool"]),
    "words": (call(LSTM, X, lengths="53"), TypeError, ["lengths", "integers", "'53'"]),
    "too few": (call(LSTM, X, lengths=[5]), ValueError, ["lengths", "(2,)", "(1,)"]),
    "too many": (call(LSTM, X, lengths=[5, 3, 2]), ValueError, ["lengths", "(2,)", "(3,)"]),
    "one for all": (call(LSTM, X, lengths=5), ValueError, ["lengths", "(2,)", "()"]),
    "2-D": (call(LSTM, X, lengths=[[5, 3]]), ValueError, ["lengths", "(2,)", "(1, 2)"]),
    "packed": (call(LSTM, PACKED, lengths=[5, 3]), ValueError, ["lengths", "PackedSequence", "padded"]),
}
RESET = {
    "a list": (call(LSTM, X, reset=[[True]]), TypeError, ["reset", "bool tensor", "list"]),
    "integers": (call(LSTM, X, reset=torch.zeros(T, B).long()), TypeError, ["reset", "bool tensor", "torch.int64"]),
    "shape": (
        call(LSTM, X, reset=torch.zeros(B, T).bool()),
        ValueError,
        ["reset", "(steps, batch)", "(5, 2)", "(2, 5)"],
    ),
    "shape, batch first": (
        call(LSTM, X.mT.new_zeros(B, T, I), reset=torch.zeros(T, B).bool(), batch_first=True),
        ValueError,
        ["reset", "(batch, steps)", "(2, 5)", "got (5, 2)"],
    ),
    "unbatched": (
        call(LSTM, X[:, 0], reset=torch.zeros(T, 1).bool()),
        ValueError,
        ["reset", "(steps,)", "(5,)", "(5, 1)"],
    ),
    "packed": (call(LSTM, PACKED, reset=torch.zeros(T, B).bool()), ValueError, ["reset", "PackedSequence", "padded"]),
}
STATES = {
    "one for two": (call(LSTM, X, STATE), TypeError, ["LSTM", "hx", "tuple of 2", "(h, c)", "Tensor"]),
    "three for two": (call(LSTM, X, (STATE,) * 3), TypeError, ["hx", "tuple of 2", "tuple of 3"]),
    "not tensors": (call(LSTM, X, (STATE, None)), TypeError, ["hx", "2 Tensors"]),
    "two for one": (call(GRU, X, (STATE, STATE)), TypeError, ["GRU", "hx", "one Tensor", "tuple"]),
    "rank": (call(GRU, X, STATE[0]), RuntimeError, ["GRU", "hx", "3-D", "got 2-D"]),
    "rank of one": (call(LSTM, X, (STATE, STATE[0])), RuntimeError, ["LSTM", "hx and cx", "3-D", "got (3-D, 2-D)"]),
    "rank, unbatched": (call(LSTM, X[:, 0], (STATE, STATE)), RuntimeError, ["unbatched", "2-D", "got (3-D, 3-D)"]),
    "layers": (call(GRU, X, STATE.repeat(2, 1, 1)), RuntimeError, ["hidden", "(1, 2, 4)", "[2, 2, 4]"]),
    "batch": (call(LSTM, X, (STATE, STATE[:, :1])), RuntimeError, ["hidden[1]", "(1, 2, 4)", "[1, 1, 4]"]),
    "units": (call(LSTM, X, (STATE[..., :2], STATE)), RuntimeError, ["hidden[0]", "(1, 2, 4)", "[1, 2, 2]"]),
    "unbatched": (call(GRU, X[:, 0], STATE[:, 0, :2]), RuntimeError, ["hidden", "(1, 4)", "[1, 2]"]),
    "dtype": (call(LSTM, X, (STATE, STATE.double())), RuntimeError, ["hidden[1]", "torch.float64", "torch.float32"]),
    "device": (call(GRU, X, STATE.to(META)), RuntimeError, ["hidden tensor at meta", "input tensor at cpu"]),
    "packed": (call(GRU, PACKED, STATE[:, :1]), RuntimeError, ["hidden", "(1, 2, 4)", "[1, 1, 4]"]),
}


@rows(LENGTHS)
def test_lengths(act, error, words):
    refuses(act, error, words)


@rows(RESET)
def test_reset(act, error, words):
    refuses(act, error, words)


@rows(STATES)
def test_state(act, error, words):
    refuses(act, error, words)


METHODS = {
    "step both ways": (make(LSTM(I, H, bidirectional=True).step, X[0]), ValueError, ["step", "bidirectional"]),
    "step on a sequence": (make(GRU(I, H).step, X), ValueError, ["GRU.step", "input", "3D", "1D or 2D"]),
    "step on a list": (make(GRU(I, H).step, [1.0]), ValueError, ["GRU.step", "input", "list", "1D or 2D"]),
    "step with a mask": (make(GRU(I, H, weight_drop=0.1).step, X[0]), ValueError, ["step", "weight_drop", "eval()"]),
    "step from half a state": (make(LSTM(I, H).step, X[0], STATE), TypeError, ["hx", "tuple of 2", "Tensor"]),
    "clamp nothing": (
        make(GRU(I, H).intervene, X, Clamp("f", 0)),
        ValueError,
        ["Clamp", "GRU", "'f'", "'r', 'z', 'n'"],
    ),
    "clamp no steps": (
        make(LSTM(I, H).intervene, X, Clamp("f", 0, steps=(5, 9))),
        ValueError,
        ["steps=(5, 9)", "0..4"],
    ),
    "clamp no units": (make(LSTM(I, H).intervene, X, Clamp("f", 0, units=4)), ValueError, ["units=4", "0..3"]),
    "hx number": (make(LSTM(I, H), X, 5), TypeError, ["LSTM: hx must be a tuple of 2 Tensors (h, c), got int"]),
    "hx number in a cell": (
        make(carousel.LSTMCell(I, H), X[0], 5),
        TypeError,
        ["LSTMCell: hx must be a tuple of 2 Tensors (h, c), got int"],
    ),
    "clamp no layer": (make(LSTM(I, H).intervene, X, Clamp("f", 0, layer=1)), ValueError, ["layer=1", "0..0"]),
    "clamp by name": (make(LSTM(I, H).intervene, X, "f"), TypeError, ["intervene", "carousel.Clamp", "str"]),
}


@rows(METHODS)
def test_methods(act, error, words):
    refuses(act, error, words)


# ---- NaN ----

every_kind = pytest.mark.parametrize("kind", KINDS)


@every_kind
def test_nan_in_the_input_reaches_all_that_depends_on_it(kind):
    """It stands in sequence 1 from its step on, and nowhere else; backwards too, in the reverse direction."""
    layer = build(kind, I, H, bidirectional=True)
    x = torch.randn(T, 3, I, dtype=torch.float64)
    x[2, 1, 0] = torch.nan
    output, state = layer(x)
    expected = torch.zeros(T, 3, 2 * H, dtype=torch.bool)
    expected[2:, 1, :H] = expected[:3, 1, H:] = True
    assert torch.equal(output.isnan(), expected)
    assert all(
        torch.equal(s.isnan(), torch.tensor([False, True, False])[:, None].expand(2, 3, H)) for s in states_of(state)
    )


@pytest.mark.parametrize("rubbish", [torch.nan, torch.inf, 1e300])
@every_kind
def test_padding_reaches_neither_outputs_nor_gradients(kind, rubbish):
    """Whatever stands past a sequence's end: the results are those with zeros there, to the last bit."""
    layer = build(kind, I, H, num_layers=2, bidirectional=True, learn_initial_state=True)
    lengths = torch.tensor([3, 0, T])
    clean = torch.randn(T, 3, I, dtype=torch.float64)
    padding = (torch.arange(T)[:, None] >= lengths)[..., None]
    found = []
    for filler in (0.0, rubbish):
        x = clean.masked_fill(padding, filler).requires_grad_()
        output, state = layer(x, lengths=lengths)
        loss = sum(v.cos().sum() for v in (output, *states_of(state)))
        found.append([output, *states_of(state), *torch.autograd.grad(loss, [x, *layer.parameters()])])
    torch.testing.assert_close(found[1], found[0], rtol=0, atol=0)
    assert (found[1][0].masked_select(padding) == 0).all()


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
