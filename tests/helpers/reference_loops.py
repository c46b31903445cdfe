"""A layer's equations over time in numpy, and states to begin with."""

import numpy as np

from helpers.references import KINDS, draw, equations, parameters

T, B, I = 4, 3, 3


def numpy_weights(layer):
    return {name: p.detach().numpy() for name, p in parameters(layer).items()}


def loop(kind, w, x, state, mix=lambda name, old, new: new):
    """The equations over x (T, B, I) from `state`; `mix` says what is carried on. Every carried h: (T, B, P)."""
    output = []
    for x_t in x.numpy():
        new = equations(kind, w, x_t, state)
        state = [mix(name, old, new[name]) for name, old in zip(KINDS[kind].states, state, strict=True)]
        output.append(state[0])
    return np.stack(output)


def start(layer, size=B):
    """A non-zero state, (1, size, H) each: as hx, and as numpy (size, H)."""
    states = [draw(1, size, layer.hidden_size, seed=5 + k) for k, _ in enumerate(layer.cell.states)]
    return tuple(states) if len(states) > 1 else states[0], [s[0].numpy() for s in states]
