"""Hashes of outputs and gradients, to compare two versions of the code bit by bit.

    python evaluation/bit_identity.py > before.txt        # in one checkout
    python evaluation/bit_identity.py > after.txt         # in another, on the same machine
    diff before.txt after.txt && echo identical

One line for each layer, set of options, dtype and number of threads, and for the other native operators; the
instruction set is CAROUSEL_ISA's.
"""

import hashlib
import itertools

import torch
from torch import Tensor

import carousel

LAYERS = {
    "rnn-tanh": (carousel.RNN, {}),
    "rnn-relu": (carousel.RNN, {"nonlinearity": "relu"}),
    "rnn-sigmoid": (carousel.RNN, {"nonlinearity": "sigmoid"}),
    "lstm": (carousel.LSTM, {}),
    "peephole": (carousel.PeepholeLSTM, {}),
    "peephole-full": (carousel.PeepholeLSTM, {"peephole": "full"}),
    "coupled": (carousel.CoupledLSTM, {}),
    "coupled-peephole": (carousel.CoupledLSTM, {"peephole": True}),
    "layernorm": (carousel.LayerNormLSTM, {}),
    "gru": (carousel.GRU, {}),
    "gru-reset-before": (carousel.ResetBeforeGRU, {}),
}
OPTIONS = {
    "plain": {},
    "no-bias": {"bias": False},
    "two-way": {"num_layers": 2, "bidirectional": True, "dropout": 0.3},
    "sum": {"bidirectional": True, "merge": "sum"},
    "recurrent-dropout": {"recurrent_dropout": 0.3},
    "zoneout": {"zoneout": 0.2},
    "weight-drop": {"weight_drop": 0.3},
    "learned": {"learn_initial_state": True},
    "projection": {"proj_size": 5},
    "everything": {
        "num_layers": 2,
        "bidirectional": True,
        "proj_size": 5,
        "zoneout": 0.2,
        "recurrent_dropout": 0.3,
        "learn_initial_state": True,
        "variational": True,
        "dropout": 0.2,
    },
}
SHAPES = {"small": (7, 5, 6, 11), "blocks": (9, 24, 16, 48), "single": (4, 1, 3, 8)}  # T, B, I, H


def digest(*tensors: Tensor | None) -> str:
    """A short hash of the bits of some tensors."""
    total = hashlib.sha256()
    for t in tensors:
        total.update(b"none" if t is None else t.detach().contiguous().numpy().tobytes())
    return total.hexdigest()[:16]


def layer_case(name: str, option: str, shape: str, dtype: torch.dtype, train: bool) -> str:
    make, own = LAYERS[name]
    steps, batch, inputs, hidden = SHAPES[shape]
    torch.manual_seed(1)
    layer = make(inputs, hidden, **own, **OPTIONS[option]).to(dtype).train(train)
    x = torch.randn(steps, batch, inputs, dtype=dtype, requires_grad=True)
    lengths = torch.randint(0, steps + 1, (batch,))
    reset = torch.rand(steps, batch) < 0.2
    parts = []
    for call in ({}, {"lengths": lengths}, {"lengths": lengths, "reset": reset}):
        torch.manual_seed(2)
        y, state = layer(x, **call)
        states = (state,) if isinstance(state, Tensor) else state
        loss = sum((t * torch.linspace(-1, 1, t.numel(), dtype=dtype).view_as(t)).sum() for t in (y, *states))
        grads = torch.autograd.grad(loss, [x, *layer.parameters()], allow_unused=True)
        parts += [y, *states, *grads]
    with torch.no_grad():
        layer.eval()
        y, state = layer(x, lengths=lengths)
        parts += [y, *((state,) if isinstance(state, Tensor) else state)]
        trace = layer.trace(x, lengths=lengths)
        parts += [trace.gates[g] for g in trace.gates] + [trace.states[s] for s in trace.states]
        if not layer.bidirectional:
            y, state = layer.step(x[0])
            y, state = layer.step(x[1], state)
            parts += [y, *((state,) if isinstance(state, Tensor) else state)]
    return digest(*parts)


def main() -> None:
    for threads in (1, 2):
        torch.set_num_threads(threads)
        for name, option, shape, dtype in itertools.product(LAYERS, OPTIONS, SHAPES, (torch.float32, torch.float64)):
            lstm = name not in ("gru", "gru-reset-before") and not name.startswith("rnn")
            if "proj_size" in OPTIONS[option] and not lstm:
                continue
            for train in (True, False):
                found = layer_case(name, option, shape, dtype, train)
                print(f"{threads} {name} {option} {shape} {str(dtype)[6:]} {'train' if train else 'eval'} {found}")
        torch.manual_seed(3)
        hidden = torch.randn(70, 24, requires_grad=True)
        weight, bias = torch.randn(301, 24, requires_grad=True), torch.randn(301, requires_grad=True)
        loss = carousel.linear_cross_entropy(hidden, weight, torch.randint(0, 301, (70,)), bias)
        print(threads, "linear_cross_entropy", digest(loss, *torch.autograd.grad(loss.sum(), [hidden, weight, bias])))


if __name__ == "__main__":
    main()
