"""torch's recurrent layers and carousel's, side by side."""

from functools import partial

from torch import nn

import carousel

KINDS = {
    "tanh": ("RNN", {"nonlinearity": "tanh"}),
    "relu": ("RNN", {"nonlinearity": "relu"}),
    "lstm": ("LSTM", {}),
    "projected": ("LSTM", {"proj_size": 2}),
    "gru": ("GRU", {}),
}


def makers(kind, *sizes, **options):
    """What makes torch's layer, and what makes ours."""
    name, own = KINDS[kind]
    return [partial(getattr(library, name), *sizes, **own, **options) for library in (nn, carousel)]


def twins(kind, *sizes, **options):
    """torch's layer and ours, with the same weights."""
    theirs, ours = (make() for make in makers(kind, *sizes, **options))
    ours.load_state_dict(theirs.state_dict())
    return theirs, ours
