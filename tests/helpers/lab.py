"""What tests of labs share: derivatives through a layer by autograd, torch's own LSTM, and verdicts from numbers made
by hand."""

import torch

from carousel.lab import finding_class
from carousel.lab.claim import Outcome

SEEDS = [0, 1, 2, 3, 4]


def through_time(layer, x, back):
    """∂(h, c) after the last step by (h, c) `back` steps before, by autograd of the layer's call: (S, S)."""
    names = layer.cell.states
    with torch.no_grad():
        state = layer(x[: len(x) - back])[1]
    parts = state if isinstance(state, tuple) else (state,)

    def run(flat):
        given = tuple(part.reshape(1, 1, -1) for part in flat.split(layer.hidden_size))
        _, final = layer(x[len(x) - back :], given if len(names) > 1 else given[0])
        return torch.cat([part.flatten() for part in (final if len(names) > 1 else (final,))])

    return torch.autograd.functional.jacobian(run, torch.cat([part.flatten() for part in parts]))


def in_torch(layer):
    """The same weights in torch's LSTM."""
    other = torch.nn.LSTM(layer.input_size, layer.hidden_size, dtype=layer.weight_ih_l0.dtype)
    other.load_state_dict(layer.state_dict())
    return other


def same(value):
    """What each of five seeds measured, if all measured it."""
    return [value] * len(SEEDS)


def check_verdict(name, key, numbers, expected):
    """The claim `key` of a lab must be decided so by these numbers of five seeds, and by four of them not at all."""
    claim = next(claim for claim in finding_class(name).claims if claim.key == key)
    assert claim.verdict({"seeds": SEEDS, **numbers}).outcome is expected
    if expected in (Outcome.HOLDS, Outcome.FAILS):
        assert claim.verdict({**numbers, "seeds": SEEDS[:4]}).outcome is Outcome.UNDECIDED
