"""Bad arguments of a constructor are refused by name: what was given, and what is accepted."""

import functools

from helpers.refusals import refuses, rows

import carousel
from carousel import GRU, LSTM, RNN, CoupledLSTM, LayerNormLSTM, PeepholeLSTM, ResetBeforeGRU

I, H, T, B = 3, 4, 5, 2
make = functools.partial
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
