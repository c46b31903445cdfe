"""One battery for every cell, shipped or a user's own: each layer against the cell's equations in numpy.

The reference runs one sequence at a time, one step after another, and knows neither batches nor masks.
"""

import copy
import pickle
from itertools import product

import numpy as np
import pytest
import torch
from helpers.own_cells import OWN
from helpers.references import KINDS, build, close, draw, equations, parameters, randomise, states_of
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

import carousel
from carousel import Clamp, Recurrent

T, B, I, H = 5, 4, 3, 4
LENGTHS = [5, 0, 3, 1]
EVERY = [*KINDS, *OWN]
BOTH_WAYS = list(product(EVERY, (False, True)))
STACKABLE = [kind for kind in EVERY if kind not in ("own-convolved", "own-independent")]  # shapes follow the input size


def make(kind, **options):
    """A float64 layer of `kind` with random parameters."""
    if kind in KINDS:
        return build(kind, I, H, **options)
    return randomise(Recurrent(OWN[kind][0](), I, H, dtype=torch.float64, **options))


def side(layer, *lead, seed=9):
    """Random side inputs of `layer`, (*lead, *shape) each."""
    return {name: draw(*lead, *layer.side_shape(name), seed=seed).abs() for name in layer.cell.side_inputs}


def initial(layer, size=B, seed=None):
    """Initial states by name, (L·D, B, *shape): the cell's own, or random with a seed."""
    found = {}
    for k, (name, spec) in enumerate(layer.cell.states.items()):
        shape = (layer.num_layers * layer.num_directions, size, *layer.state_shape(name))
        value = torch.full(shape, spec.initial, dtype=torch.float64)
        if seed is not None:
            value = 0.5 * draw(*shape, seed=seed + k) + spec.initial
        found[name] = torch.complex(value, 0.3 * value) if spec.dtype == "complex" else value
    return found


def as_hx(states):
    return tuple(states.values()) if len(states) > 1 else next(iter(states.values()))


# ---- the reference ----


def one_step(kind, w, x, past, extra, state, let):
    """All names of one step of one sequence, (1, …) each, and the new state."""
    named = {}

    def record(name, value):
        named[name] = let(name, value)
        return named[name]

    if kind in OWN:
        new = OWN[kind][1](w, x, past, extra, state, record)
    else:
        values = equations(kind, w, x, state)
        new = tuple(values[name] for name in KINDS[kind].states)
        named = values
    return named, new


def one_sequence(kind, w, x, extra, start, rest, cuts, reverse, clamp=lambda t, name, value: value):
    """x (n, I) through one direction: by name (n, …) values, and the final state. `rest` is the state after a cut."""
    window = 2 if kind == "own-convolved" else 0
    state = start
    steps = [dict() for _ in x]
    for t in reversed(range(len(x))) if reverse else range(len(x)):
        cut = cuts[t + 1] if reverse and t + 1 < len(x) else not reverse and cuts[t]
        if cut:
            state = rest
        *own, past = state if window else (*state, None)
        here = {name: value[t : t + 1] for name, value in extra.items()}
        named, new = one_step(kind, w, x[t : t + 1], past, here, tuple(own), lambda n, v, t=t: clamp(t, n, v))
        if window:
            past = np.concatenate((x[t][None, None], past[:, :-1]), 1)
            new = (*new, past)
        steps[t] = named
        state = new
    return {name: np.concatenate([s[name] for s in steps]) for name in (steps[0] if len(x) else ())}, state


def reference(kind, layer, x, lengths, extra, states, cuts=None, clamp=None):
    """Output (T, B, ·), final states and values (L·D, T, B, …) by name of a whole layer, one sequence at a time."""
    D, rest = layer.num_directions, initial(layer, 1)
    arrays = [{name: v[:, b].numpy() for name, v in extra.items()} for b in range(x.shape[1])]
    outputs, finals, values = [], [], []
    for b, n in enumerate(lengths):
        y, ends, seen = x[:n, b].numpy(), [], []
        own = {name: v[:n] for name, v in arrays[b].items()}
        for k in range(layer.num_layers):
            parts = []
            for d in range(D):
                at = k * D + d
                w = {name: p.detach().numpy() for name, p in parameters(layer, k, d).items()}
                start = tuple(s[at, b : b + 1].numpy() for s in states.values())
                again = tuple(s[at].numpy() for s in rest.values())
                cut = np.zeros(n, bool) if cuts is None else cuts[:n, b].numpy()
                hold = (lambda t, name, v, at=at: clamp(at, t, name, v)) if clamp else (lambda t, name, v: v)
                named, end = one_sequence(kind, w, y, own, start, again, cut, d == 1, hold)
                parts.append(named.get(layer.cell.output, np.zeros((0, H))))
                ends.append(end)
                seen.append(named)
            y = np.concatenate(parts, -1)
        outputs.append(np.concatenate((y, np.zeros((x.shape[0] - n, y.shape[-1])))))
        finals.append(ends)
        values.append(seen)
    output = torch.from_numpy(np.stack(outputs, 1))
    final = []
    for j in range(len(states)):
        rows = [np.concatenate([finals[b][at][j] for b in range(len(lengths))]) for at in range(len(ends))]
        final.append(torch.from_numpy(np.stack(rows)))
    return output, tuple(final), values


# ---- the battery ----


@pytest.mark.parametrize("kind, two_way", BOTH_WAYS)
def test_lengths_directions_and_states(kind, two_way):
    layer = make(kind, bidirectional=two_way, num_layers=2 if kind in STACKABLE else 1)
    x, extra, states = draw(T, B, I), side(layer, T, B), initial(layer, seed=20)
    output, final = layer(x, as_hx(states), lengths=LENGTHS, **extra)
    expected, ends, _ = reference(kind, layer, x, LENGTHS, extra, states)
    close(output, expected)
    close(states_of(final), ends)
    close(layer(x, **extra)[0], reference(kind, layer, x, [T] * B, extra, initial(layer))[0])


@pytest.mark.parametrize("kind, two_way", BOTH_WAYS)
def test_reset(kind, two_way):
    layer = make(kind, bidirectional=two_way)
    x, extra, states = draw(T, B, I), side(layer, T, B), initial(layer, seed=30)
    cuts = torch.rand(T, B, generator=torch.Generator().manual_seed(3)) < 0.4
    output, final = layer(x, as_hx(states), lengths=LENGTHS, reset=cuts, **extra)
    expected, ends, _ = reference(kind, layer, x, LENGTHS, extra, states, cuts)
    close(output, expected)
    close(states_of(final), ends)


@pytest.mark.parametrize("kind", EVERY)
def test_step_by_step(kind):
    layer = make(kind, num_layers=2 if kind in STACKABLE else 1)
    x, extra = draw(T, B, I), side(layer, T, B)
    output, final = layer(x, **extra)
    for context in (torch.enable_grad, torch.no_grad):
        state = None
        with context():
            for t in range(T):
                y, state = layer.step(x[t], state, **{name: v[t] for name, v in extra.items()})
                close(y, output[t])
        close(states_of(state), states_of(final))
    y, _ = layer.step(x[0, 0], **{name: v[0, 0] for name, v in extra.items()})  # one sequence, no batch
    close(y, output[0, 0])


@pytest.mark.parametrize("kind, two_way", BOTH_WAYS)
def test_trace(kind, two_way):
    layer = make(kind, bidirectional=two_way)
    x, extra, states = draw(T, B, I), side(layer, T, B), initial(layer, seed=40)
    trace = layer.trace(x, as_hx(states), lengths=LENGTHS, **extra)
    _, _, values = reference(kind, layer, x, LENGTHS, extra, states)
    shown = {**trace.gates, **trace.states}
    assert set(layer.cell.gates) | set(layer.cell.states) == set(shown)
    for name in set(shown) - {"past_inputs"}:
        for b, n in enumerate(LENGTHS):
            for at in range(layer.num_directions):
                if n:
                    close(shown[name][at, :n, b], values[b][at][name])
                assert not shown[name][at, n:, b].any()


@pytest.mark.parametrize("kind", EVERY)
def test_intervene(kind):
    """A clamped value is what its step continues with: everything later follows from it."""
    layer = make(kind)
    x, extra = draw(T, B, I), side(layer, T, B)
    for name in (n for n in [*layer.cell.gates, *layer.cell.states] if n != "past_inputs"):
        clamp = Clamp(name, 0.25, steps=(1, 3), units=(1, 3))
        trace = layer.intervene(x, clamp, lengths=LENGTHS, **extra)
        if kind in OWN:

            def hold(at, t, what, value, name=name):
                if what == name and 1 <= t < 3:
                    value = value.copy()
                    value[..., 1:3] = 0.25
                return value

            expected, ends, _ = reference(kind, layer, x, LENGTHS, extra, initial(layer), clamp=hold)
            close(trace.output, expected)
            close(states_of(trace.state), ends)
        shown = {**trace.gates, **trace.states}[name]
        long = torch.tensor(LENGTHS) >= 3
        assert (shown[0, 1:3][:, long][..., 1:3] == 0.25).all()
        close(trace.output[0], layer(x, lengths=LENGTHS, **extra)[0][0])


@pytest.mark.parametrize("kind", EVERY)
@pytest.mark.parametrize(
    "options", [{}, {"bidirectional": True, "learn_initial_state": True}], ids=["plain", "learned"]
)
def test_gradients_against_finite_differences(kind, options):
    layer = make(kind, **options)
    x = draw(3, 2, I).requires_grad_()
    extra = {name: v.requires_grad_() for name, v in side(layer, 3, 2).items()}
    given = [s.requires_grad_() for s in initial(layer, 2, seed=50).values()]
    names = [name for name, _ in layer.named_parameters()]
    cuts = torch.tensor([[False, True], [True, False], [False, False]])

    def run(x, *rest):
        hx, own, more = rest[: len(given)], rest[len(given) : len(given) + len(names)], rest[len(given) + len(names) :]
        call = {"lengths": [3, 2], "reset": cuts, **dict(zip(extra, more, strict=True))}
        hx = hx if len(hx) > 1 else hx[0]
        y, state = torch.func.functional_call(layer, dict(zip(names, own, strict=True)), (x, hx), call)
        return y, *states_of(state)

    torch.autograd.gradcheck(run, (x, *given, *layer.parameters(), *extra.values()))


@pytest.mark.parametrize("kind", EVERY)
def test_gradients_of_every_value(kind):
    """∂L/∂(value) of a trace, against finite differences of an intervention on that value."""
    layer = make(kind)
    x, extra, weight = draw(T, 1, I), side(layer, T, 1), draw(T, 1, H, seed=8)
    trace = layer.trace(x, gradients_of=lambda y: (y * weight).sum(), **extra)
    shown = {**trace.gates, **trace.states}
    for name in (n for n in [*layer.cell.gates, *layer.cell.states] if n != "past_inputs"):
        value = shown[name][0, 2, 0].flatten()[-1]
        if value.is_complex():
            continue  # what a real number's derivative would be is a matter of convention

        def loss(at, name=name):
            held = shown[name][0, 2:3].clone()
            held.view(-1)[-1] = at
            y = layer.intervene(x, Clamp(name, held, steps=2), **extra).output
            return (y * weight).sum().detach()

        ε = 1e-6
        slope = (loss(value + ε) - loss(value - ε)) / (2 * ε)
        close(trace.gradients[name][0, 2, 0].flatten()[-1], slope, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("kind", EVERY)
def test_layouts(kind):
    """Batch first, one sequence without a batch, and a PackedSequence."""
    layer, first = make(kind), make(kind, batch_first=True)
    first.load_state_dict(layer.state_dict())
    x, extra = draw(T, B, I), side(layer, T, B)
    output, final = layer(x, **extra)
    flipped = {name: v.transpose(0, 1) for name, v in extra.items()}
    close(first(x.transpose(0, 1), **flipped)[0], output.transpose(0, 1))
    alone, state = layer(x[:, 2], **{name: v[:, 2] for name, v in extra.items()})
    close(alone, output[:, 2])
    close(states_of(state), tuple(s[:, 2] for s in states_of(final)))
    lengths = [3, 5, 1, 2]

    def pack(value):
        return pack_padded_sequence(value, lengths, enforce_sorted=False)

    packed, packed_state = layer(pack(x), **{name: pack(v) for name, v in extra.items()})
    padded, padded_state = layer(x, lengths=lengths, **extra)
    close(pad_packed_sequence(packed)[0], padded)
    close(states_of(packed_state), states_of(padded_state))


@pytest.mark.parametrize("kind", EVERY)
def test_options_in_training(kind):
    """Zoneout, recurrent dropout, weight drop: the same seed gives the same numbers, and a rate of 1 has a meaning."""
    layer = make(kind, zoneout=0.5)
    x, extra = draw(T, B, I), side(layer, T, B)
    runs = []
    for _ in range(2):
        torch.manual_seed(5)
        runs.append(layer(x, **extra)[0])
    close(*runs)
    assert not torch.equal(layer(x, **extra)[0], runs[0])
    frozen = make(kind, zoneout=1.0)
    start = initial(frozen, seed=60)
    _, state = frozen(x, as_hx(start), **extra)
    for name, value in zip(frozen.cell.states, states_of(state), strict=True):
        if name != "past_inputs":
            close(value, start[name])
    if layer.cell.gates_of("none") == tuple(layer.cell.gates):
        for option in ("recurrent_dropout", "weight_drop"):
            with pytest.raises(ValueError, match=f"{option}=0.5.*no recurrent weights"):
                make(kind, **{option: 0.5})
    else:  # nothing of h₋ reaches U, or nothing of U is left: the same as no recurrent weights
        bare = make(kind)
        with torch.no_grad():
            for name, p in bare.named_parameters():
                if name.startswith("weight_hh"):
                    p.zero_()
        for option in ("recurrent_dropout", "weight_drop"):
            dropped = make(kind, **{option: 1.0})
            close(dropped(x, **extra)[0], bare(x, **extra)[0])


@pytest.mark.parametrize("kind", EVERY)
def test_it_is_a_module(kind):
    """state_dict, copies, pickles, dtype conversion, an optimizer."""
    layer = make(kind)
    x, extra = draw(T, B, I), side(layer, T, B)
    output, _ = layer(x, **extra)
    other = make(kind)
    with torch.no_grad():
        for p in other.parameters():
            p.zero_()
    other.load_state_dict(layer.state_dict())
    for same in (other, copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        close(same(x, **extra)[0], output)
    single = copy.deepcopy(layer).float()
    again = single.double()
    close(again(x, **extra)[0], output, rtol=1e-4, atol=1e-4)
    optimizer = torch.optim.Adam(layer.parameters(), 0.01)
    for _ in range(2):
        optimizer.zero_grad()
        loss = layer(x, **extra)[0].square().mean()
        loss.backward()
        optimizer.step()
    assert layer(x, **extra)[0].square().mean() < loss


# ---- what is refused ----


def test_side_inputs_are_checked():
    layer = make("own-exponential")
    x, extra = draw(T, B, I), side(layer, T, B)
    needed = type("Needed", (OWN["own-exponential"][0],), {"side_inputs": ("elapsed",)})
    with pytest.raises(TypeError, match=r"reads 'elapsed' at every step; give it as elapsed="):
        Recurrent(needed(), I, H).double()(x)
    with pytest.raises(TypeError, match=r"unexpected keyword argument 'elapse'.*elapsed"):
        layer(x, elapse=extra["elapsed"])
    with pytest.raises(TypeError, match="no side inputs"):
        carousel.LSTM(I, H)(x.float(), elapsed=extra["elapsed"])
    with pytest.raises(ValueError, match=r"elapsed must be a Tensor of \(5, 4\).*\(4, 5\)"):
        layer(x, elapsed=extra["elapsed"].T)


@pytest.mark.parametrize("name", ["own-exponential", "own-independent"])
@pytest.mark.parametrize("packed", [False, True])
def test_a_side_input_that_is_not_given_has_its_default(name, packed):
    layer = make(name)
    x, lengths = draw(T, B, I), torch.tensor([5, 4, 3, 1])
    ones = {one: torch.ones(T, B, *layer.side_shape(one)).double() for one in layer.cell.side_inputs}
    expected, _ = layer(x, lengths=lengths, **ones)
    if packed:
        y, _ = nn.utils.rnn.pad_packed_sequence(layer(nn.utils.rnn.pack_padded_sequence(x, lengths))[0])
    else:
        y, _ = layer(x, lengths=lengths)
    torch.testing.assert_close(y, expected)
    torch.testing.assert_close(layer.step(x[0])[0], expected[0])


def test_sizes_that_do_not_fit():
    with pytest.raises(ValueError, match="2 blocks, which do not divide 5"):
        Recurrent(OWN["own-exponential"][0](), I, 5)
    with pytest.raises(ValueError, match=r"num_layers=2.*'past_inputs'.*input size"):
        make("own-convolved", num_layers=2)
    with pytest.raises(ValueError, match=r"num_layers=2.*'seen'.*input size"):
        make("own-independent", num_layers=2)
    with pytest.raises(RuntimeError, match=r"Expected hidden\[1\] size \(1, 4, 4, 4\)"):
        make("own-matrix")(draw(T, B, I), (torch.zeros(1, B, H).double(), torch.zeros(1, B, H).double()))
    with pytest.raises(RuntimeError, match=r"expected torch\.complex128"):
        make("own-linear")(draw(T, B, I), (torch.zeros(1, B, H).double(), torch.zeros(1, B, H).double()))
