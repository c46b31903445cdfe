"""torch's own operators run the layers that they have."""

import pytest
import torch
from helpers.references import KINDS, build, close, draw, states_of

from carousel.layers import torch_operators
from carousel.layers.batch import read

T, B, I = 4, 3, 3
STANDARD = ["lstm", "gru", "rnn-tanh", "rnn-relu"]


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize(
    "kind, options",
    [(kind, options) for kind in STANDARD for options in ({}, {"bias": False}, {"learn_initial_state": True})]
    + [("lstm", {"proj_size": 2})],
)
def test_the_cudnn_path_computes_the_same(kind, options, bidirectional):
    """The operator it calls is PyTorch's own, which also runs on a CPU."""
    layer, x = build(kind, I, 4, num_layers=2, bidirectional=bidirectional, **options), draw(T, B, I)
    hx = [
        draw(2 * layer.num_directions, B, *layer.state_shape(name), seed=k) for k, name in enumerate(layer.cell.states)
    ]
    output, state = layer(x, tuple(hx) if len(hx) > 1 else hx[0])
    found, final = torch_operators.run(layer, x, hx)
    close(found, output)
    close([torch.stack(s) for s in zip(*final, strict=True)], list(states_of(state)))


@pytest.mark.parametrize(
    "layer, call, obstacle",
    [
        *((build(kind), {}, None) for kind in STANDARD),
        *((build(kind), {}, "cell") for kind in KINDS if kind not in STANDARD),
        (build("lstm"), {"lengths": [1, 2, 3]}, "lengths"),
        (build("lstm"), {"reset": torch.zeros(T, B, dtype=torch.bool)}, "reset"),
        (build("lstm", bidirectional=True, merge="mean"), {}, "mean"),
        (build("lstm", zoneout=0.1).eval(), {}, "zoneout"),
        (build("gru", recurrent_dropout=0.1), {}, "recurrent dropout"),
        (build("gru", recurrent_dropout=0.1, weight_drop=0.1).eval(), {}, None),
    ],
)
def test_what_keeps_cudnn_away_is_said(layer, call, obstacle):
    found = torch_operators.unsupported_reason(
        layer, read(layer, draw(T, B, I), call.get("lengths"), call.get("reset"))
    )
    assert found is None if obstacle is None else obstacle in found
