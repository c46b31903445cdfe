"""Bad input is refused by name: which argument, what was given, what is accepted. NaN is neither hidden nor spread."""

import functools

import pytest
import torch
from helpers.references import KINDS, build, states_of
from helpers.refusals import refuses, rows
from torch.nn.utils.rnn import pack_padded_sequence

import carousel
from carousel import GRU, LSTM, RNN, Clamp

I, H, T, B = 3, 4, 5, 2
X = torch.zeros(T, B, I)
PACKED = pack_padded_sequence(X, [5, 3])
STATE = torch.zeros(1, B, H)
META = torch.device("meta")
make = functools.partial


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
