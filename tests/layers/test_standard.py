"""The standard layers give torch.nn's numbers: outputs, states and every gradient."""

import itertools

import pytest
import torch
from helpers.references import states_of
from helpers.twins import KINDS, twins
from torch import nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from carousel.layers import recurrent

TOLERANCE = {torch.float64: {"rtol": 1e-10, "atol": 1e-10}, torch.float32: {"rtol": 1e-5, "atol": 1e-5}}
LENGTHS = {"padded": None, "unbatched": None, "sorted": [5, 4, 4, 1], "unsorted": [4, 1, 5, 4]}
I, H, T, B = 2, 3, 5, 4

pytestmark = pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN")
dtypes = pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
kinds = pytest.mark.parametrize("kind", KINDS)
directions = pytest.mark.parametrize("bidirectional", [False, True], ids=["forward", "both"])


def initial(layer, batched=True):
    """A random state for `layer`, one tensor for each of its states."""
    rows, sizes = layer.num_layers * (2 if layer.bidirectional else 1), [layer.proj_size or H]
    if isinstance(layer, nn.LSTM):
        sizes.append(H)
    return [torch.randn(rows, *([B] if batched else []), size, dtype=layer.weight_ih_l0.dtype) for size in sizes]


def everything(call, layer, x, hx):
    """All that `call(x, state)` gives, and the gradients of one loss of it all, by name."""
    x = x.clone().requires_grad_()
    hx = [s.clone().requires_grad_() for s in hx]
    output, final = call(x, None if not hx else tuple(hx) if len(hx) > 1 else hx[0])
    found = {f"state {k}": s for k, s in enumerate(states_of(final))}
    if isinstance(output, PackedSequence):
        found |= {f"packed {name}": v for name, v in output._asdict().items() if v is not None}
    else:
        found["output"] = output
    # weights that differ from element to element, so that no two gradients can be exchanged unseen
    loss = sum((v * v.new_tensor(range(v.numel())).cos().view_as(v)).sum() for v in found.values() if v.requires_grad)
    leaves = {"input": x, **{f"hx {k}": s for k, s in enumerate(hx)}, **dict(layer.named_parameters())}
    gradients = torch.autograd.grad(loss, list(leaves.values()))
    return found | {f"gradient of {name}": g for name, g in zip(leaves, gradients, strict=True)}


@dtypes
@pytest.mark.parametrize("form", LENGTHS)
@directions
@pytest.mark.parametrize("num_layers", [1, 2, 3])
@kinds
def test_equals_torch(kind, num_layers, bidirectional, form, dtype):
    for batch_first, bias, with_state in itertools.product([False, True], repeat=3):
        options = {"num_layers": num_layers, "bidirectional": bidirectional, "batch_first": batch_first, "bias": bias}
        theirs, ours = twins(kind, I, H, dtype=dtype, **options)
        shape = (T, I) if form == "unbatched" else (B, T, I) if batch_first else (T, B, I)
        x = torch.randn(shape, dtype=dtype)
        hx = initial(theirs, batched=form != "unbatched") if with_state else []

        def call(layer, x, hx, batch_first=batch_first):
            if LENGTHS[form] is not None:
                x = pack_padded_sequence(x, LENGTHS[form], batch_first, enforce_sorted=form == "sorted")
            return layer(x, hx)

        expected, found = (everything(lambda *a, m=m: call(m, *a), m, x, hx) for m in (theirs, ours))
        torch.testing.assert_close(
            found, expected, **TOLERANCE[dtype], msg=lambda m, o=options, s=with_state: f"{o}, with hx: {s}: {m}"
        )


@pytest.mark.parametrize("num_layers", [1, 2])
@directions
@kinds
def test_lengths_equal_a_packed_sequence(kind, bidirectional, num_layers):
    """Also when the input is longer than every sequence in it."""
    theirs, ours = twins(kind, I, H, num_layers=num_layers, bidirectional=bidirectional, dtype=torch.float64)
    x, hx, lengths = torch.randn(T + 2, B, I, dtype=torch.float64), initial(theirs), LENGTHS["unsorted"]

    def packed(x, hx):
        output, final = theirs(pack_padded_sequence(x, lengths, enforce_sorted=False), hx)
        return pad_packed_sequence(output, total_length=T + 2)[0], final

    expected = everything(packed, theirs, x, hx)
    found = everything(lambda x, hx: ours(x, hx, lengths=lengths), ours, x, hx)
    torch.testing.assert_close(found, expected, **TOLERANCE[torch.float64])


@pytest.mark.parametrize("batch_first", [False, True])
@kinds
def test_dropout_is_where_torch_has_it(kind, batch_first, monkeypatch):
    """With torch's own dropout in the place of ours, which draws in another way, one seed drops the same units."""
    monkeypatch.setattr(recurrent, "dropout", lambda x, rate, repeat: torch.nn.functional.dropout(x, rate))
    theirs, ours = twins(
        kind, I, H, num_layers=3, dropout=0.5, bidirectional=True, batch_first=batch_first, dtype=torch.float64
    )
    x, found = torch.randn(T, B, I, dtype=torch.float64), []
    for layer in (theirs, ours):
        torch.manual_seed(1)
        found.append(everything(layer, layer, x, []))
    torch.testing.assert_close(found[1], found[0], **TOLERANCE[torch.float64])
