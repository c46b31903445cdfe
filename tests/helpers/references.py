"""Independent reference of the cells: their equations in numpy, written from the books, without carousel's cells.

Also the table of every kind of layer, and layers of each kind with weights drawn at random.
"""

import re
from dataclasses import dataclass, field

import numpy as np
import torch

import carousel


@dataclass(frozen=True)
class Kind:
    layer: type[carousel.Recurrent]
    options: dict = field(default_factory=dict)
    gates: tuple[str, ...] = ("i", "f", "g", "o")
    states: tuple[str, ...] = ("h", "c")

    @property
    def names(self):
        """Everything a trace shows: gates and states, once each."""
        return tuple(dict.fromkeys(self.gates + self.states))


KINDS = {
    "rnn-tanh": Kind(carousel.RNN, {"nonlinearity": "tanh"}, ("h",), ("h",)),
    "rnn-relu": Kind(carousel.RNN, {"nonlinearity": "relu"}, ("h",), ("h",)),
    "rnn-sigmoid": Kind(carousel.RNN, {"nonlinearity": "sigmoid"}, ("h",), ("h",)),
    "lstm": Kind(carousel.LSTM),
    "peephole": Kind(carousel.PeepholeLSTM),
    "peephole-full": Kind(carousel.PeepholeLSTM, {"peephole": "full"}),
    "coupled": Kind(carousel.CoupledLSTM, {}, ("f", "g", "o")),
    "coupled-peephole": Kind(carousel.CoupledLSTM, {"peephole": True}, ("f", "g", "o")),
    "layernorm": Kind(carousel.LayerNormLSTM),
    "gru": Kind(carousel.GRU, {}, ("r", "z", "n"), ("h",)),
    "gru-reset-before": Kind(carousel.ResetBeforeGRU, {}, ("r", "z", "n"), ("h",)),
}
PROJECTING = [name for name, kind in KINDS.items() if "c" in kind.states]


def build(kind, input_size=3, hidden_size=4, *, seed=0, **options):
    """A float64 layer of `kind`, every parameter drawn at random: also gains, biases and learned states."""
    layer = KINDS[kind].layer(input_size, hidden_size, dtype=torch.float64, **KINDS[kind].options, **options)
    return randomise(layer, seed)


def randomise(layer, seed=0):
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.normal_(0, 0.6, generator=generator)
    return layer


def draw(*shape, seed=1):
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def parameters(layer, k=0, direction=0):
    """The parameters of one layer and direction by their names without suffix: `weight_ih`, `norm_c.weight`, …"""
    suffix = re.compile(rf"_l{k}{'_reverse' if direction else ''}(?=\.|$)")
    return {suffix.sub("", name): p for name, p in layer.named_parameters() if suffix.search(name)}


def single(layer, k=0, direction=0):
    """One direction of layer `k` on its own: a forward layer with that direction's weights."""
    own = parameters(layer, k, direction)
    alone = carousel.Recurrent(
        *(layer.cell, own["weight_ih"].shape[1], layer.hidden_size),
        bias=layer.bias,
        proj_size=layer.proj_size,
        dtype=own["weight_ih"].dtype,
        zoneout=layer.zoneout,
        learn_initial_state=layer.learn_initial_state,
    )
    dotted = {name: name.replace(".", "_l0.") if "." in name else name + "_l0" for name in own}
    alone.load_state_dict({dotted[name]: p for name, p in own.items()})
    return alone.train(layer.training)


def states_of(state):
    """A layer's state as a tuple, however many the cell has."""
    return state if isinstance(state, tuple) else (state,)


def close(a, b, **tolerance):
    """Equal within float64 rounding, NaN nowhere; tensors, arrays or (nested) tuples of them."""
    if isinstance(a, tuple | list):
        assert len(a) == len(b)
        for left, right in zip(a, b, strict=True):
            close(left, right, **tolerance)
        return
    a, b = (torch.as_tensor(v).detach() for v in (a, b))
    torch.testing.assert_close(a, b, **({"rtol": 1e-9, "atol": 1e-11} | tolerance))


# ---- the equations ----


def σ(a):
    return 1 / (1 + np.exp(-a))


def norm(v, gain, bias):
    """LayerNorm over the last dimension, ε = 1e-5."""
    return gain * (v - v.mean(-1, keepdims=True)) / np.sqrt(v.var(-1, keepdims=True) + 1e-5) + bias


def equations(kind, w, x, previous):
    """One step in numpy: every gate and new state by name, from weights `w`, x (B, I) and the previous state."""
    W, U = w["weight_ih"], w["weight_hh"]
    b, b_h = w.get("bias_ih", np.zeros(len(W))), w.get("bias_hh", np.zeros(len(U)))
    h, c = previous if len(previous) == 2 else (*previous, None)

    def gate(k):
        """W x + U h₋ + b for the k-th gate."""
        rows = slice(k * H, (k + 1) * H)
        return x @ W[rows].T + h @ U[rows].T + b[rows] + b_h[rows]

    def out(m):
        return m if "weight_hr" not in w else m @ w["weight_hr"].T

    H = len(W) // len(KINDS[kind].gates)
    match kind.split("-"):
        case "rnn", φ:
            return {"h": {"tanh": np.tanh, "sigmoid": σ, "relu": lambda a: np.maximum(a, 0)}[φ](gate(0))}
        case "lstm", *_:
            i, f, g, o = σ(gate(0)), σ(gate(1)), np.tanh(gate(2)), σ(gate(3))
            c = f * c + i * g
            return {"i": i, "f": f, "g": g, "o": o, "c": c, "h": out(o * np.tanh(c))}
        case "peephole", *full:
            p = w["weight_ch"].reshape(3, H, -1)
            i_sees, f_sees, o_sees = ((lambda c, q=q: c @ q.T if full else q[:, 0] * c) for q in p)
            i, f, g = σ(gate(0) + i_sees(c)), σ(gate(1) + f_sees(c)), np.tanh(gate(2))
            c = f * c + i * g
            o = σ(gate(3) + o_sees(c))
            return {"i": i, "f": f, "g": g, "o": o, "c": c, "h": out(o * np.tanh(c))}
        case "coupled", *_:
            p_f, p_o = w.get("weight_ch", np.zeros(2 * H)).reshape(2, H)
            f, g = σ(gate(0) + p_f * c), np.tanh(gate(1))
            c = f * c + (1 - f) * g
            o = σ(gate(2) + p_o * c)
            return {"f": f, "g": g, "o": o, "c": c, "h": out(o * np.tanh(c))}
        case "layernorm", *_:
            a = norm(x @ W.T, w["norm_ih.weight"], w["norm_ih.bias"]) + b
            a = a + norm(h @ U.T, w["norm_hh.weight"], w["norm_hh.bias"]) + b_h
            i, f, g, o = (φ(part) for φ, part in zip((σ, σ, np.tanh, σ), np.split(a, 4, -1), strict=True))
            c = f * c + i * g
            return {
                **{"i": i, "f": f, "g": g, "o": o, "c": c},
                "h": out(o * np.tanh(norm(c, w["norm_c.weight"], w["norm_c.bias"]))),
            }
        case "gru", *before:
            r, z = σ(gate(0)), σ(gate(1))
            from_h = (r * h) @ U[2 * H :].T + b_h[2 * H :] if before else r * (h @ U[2 * H :].T + b_h[2 * H :])
            n = np.tanh(x @ W[2 * H :].T + b[2 * H :] + from_h)
            return {"r": r, "z": z, "n": n, "h": (1 - z) * n + z * h}
    raise ValueError(kind)
