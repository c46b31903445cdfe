"""torch's cells and carousel's, with the same weights."""

import torch
from torch import nn

import carousel
from helpers.references import draw

B, I, H = 3, 4, 5
TWINS = {
    "LSTMCell": (nn.LSTMCell, {}),
    "GRUCell": (nn.GRUCell, {}),
    "RNNCell": (nn.RNNCell, {}),
    "RNNCell-relu": (nn.RNNCell, {"nonlinearity": "relu"}),
}


def pair(name, dtype=torch.float64, **options):
    """torch's cell and ours with the same weights."""
    make, own = TWINS[name]
    theirs = make(I, H, dtype=dtype, **own, **options)
    ours = getattr(carousel, name.partition("-")[0])(I, H, dtype=dtype, **own, **options)
    ours.load_state_dict(theirs.state_dict())
    return theirs, ours


def inputs(name, *batch, dtype=torch.float64):
    x, h, c = (draw(*batch, size, seed=k).to(dtype) for k, size in enumerate((I, H, H)))
    return x, (h, c) if name == "LSTMCell" else h
