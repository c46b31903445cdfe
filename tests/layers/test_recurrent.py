"""What holds for every layer, whatever its cell, depth, directions, sizes and options."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from helpers.references import KINDS, PROJECTING, build, close, draw, equations, parameters, single, states_of
from hypothesis import given, settings
from hypothesis import strategies as st

import carousel

JOIN = {"concat": lambda a, b: torch.cat((a, b), -1), "sum": torch.add, "mean": lambda a, b: (a + b) / 2}
several = settings(max_examples=100)


@dataclass
class Case:
    """A layer and arguments for one call; `hx` may be None."""

    kind: str
    layer: carousel.Recurrent
    x: torch.Tensor
    hx: torch.Tensor | tuple | None
    lengths: list[int]

    def initial(self):
        """The states that the call starts from, one (L·D, B, S) tensor each, as a tuple."""
        return states_of(self.hx) if self.hx is not None else resting(self.layer, self.x.shape[1])

    def again(self, **other):
        """The same network built with other options."""
        options = {name: getattr(self.layer, name) for name in OPTIONS} | other
        layer = build(self.kind, self.layer.input_size, self.layer.hidden_size, **options)
        layer.load_state_dict(self.layer.state_dict())
        return layer.train(self.layer.training)


OPTIONS = ("num_layers", "bias", "bidirectional", "proj_size", "merge", "zoneout", "learn_initial_state")


def resting(layer, size):
    """The state of a layer that nobody has given one, (L·D, size, S) each."""
    rows = [(k, d) for k in range(layer.num_layers) for d in range(layer.num_directions)]
    states = []
    for name in layer.cell.states:
        zero = torch.zeros(layer.proj_size if name == "h" and layer.proj_size else layer.hidden_size).double()
        learned = torch.stack([parameters(layer, *at).get(f"initial_{name}", zero) for at in rows])
        states.append(learned.unsqueeze(1).expand(-1, size, -1))
    return tuple(states)


@st.composite
def cases(draw_, **fixed):
    kind = draw_(st.sampled_from(sorted(KINDS)))
    I, H, T, B = (draw_(st.integers(1, most)) for most in (3, 4, 6, 4))
    options = {
        "num_layers": draw_(st.integers(1, 3)),
        "bias": draw_(st.booleans()),
        "bidirectional": draw_(st.booleans()),
        "proj_size": draw_(st.integers(0, H - 1)) if kind in PROJECTING else 0,
        "merge": draw_(st.sampled_from(sorted(JOIN))),
        "zoneout": draw_(st.sampled_from((0.0, 0.25))),
        "learn_initial_state": draw_(st.booleans()),
    } | fixed
    layer = build(kind, I, H, **options).eval()
    hx = None
    if draw_(st.booleans()):
        states = tuple(draw(*s.shape, seed=k) for k, s in enumerate(resting(layer, B)))
        hx = states if len(states) > 1 else states[0]
    return Case(kind, layer, draw(T, B, I), hx, draw_(st.lists(st.integers(0, T), min_size=B, max_size=B)))


def pick(hx, index):
    """The states of some sequences of a batch."""
    if hx is None:
        return None
    picked = tuple(s[:, index] for s in states_of(hx))
    return picked if isinstance(hx, tuple) else picked[0]


def pad(pieces, steps):
    """Sequences (n, 1, F) of different lengths n, padded with zeros to (steps, B, F)."""
    return torch.cat([torch.cat((y, y.new_zeros(steps - len(y), 1, y.shape[-1]))) for y in pieces], 1)


def run_each(case, run_one):
    """A batch's output and states from `run_one(x, state, b)` on each sequence alone, x (n, 1, I) with n > 0."""
    outputs, finals = [], []
    for b, n in enumerate(case.lengths):
        state = tuple(s[:, b : b + 1] for s in case.initial())
        y = case.x.new_zeros(0, 1, case.layer.output_size)
        if n > 0:
            y, state = run_one(case.x[:n, b : b + 1], state, b)
        outputs.append(y)
        finals.append(states_of(state))
    return pad(outputs, len(case.x)), tuple(torch.cat(s, 1) for s in zip(*finals, strict=True))


def as_hx(states):
    return states if len(states) > 1 else states[0]


@several
@given(cases())
def test_lengths_equal_a_loop_over_single_sequences(case):
    """In the outputs, the states and every gradient, with NaN for padding."""
    at, n = torch.arange(len(case.x)).unsqueeze(1), torch.tensor(case.lengths)
    case.x = case.x.masked_fill((at >= n).unsqueeze(-1), torch.nan).requires_grad_()
    output, state = case.layer(case.x, case.hx, lengths=case.lengths)
    y, s = run_each(case, lambda x, state, b: case.layer(x, as_hx(state)))
    close((output, *states_of(state)), (y, *s))

    def gradients(output, states):
        loss = sum((v * draw(*v.shape, seed=k)).sum() for k, v in enumerate((output, *states)))
        wanted = [case.x, *case.layer.parameters()]
        loss = loss + sum(0 * p.sum() for p in wanted[1:])  # where every length is zero nothing is differentiable
        return torch.autograd.grad(loss, wanted, materialize_grads=True)

    close(gradients(output, states_of(state)), gradients(y, s))


@several
@given(cases(), st.data())
def test_a_result_does_not_depend_on_its_neighbours(case, data):
    b = data.draw(st.integers(0, len(case.lengths) - 1))
    output, state = case.layer(case.x, case.hx, lengths=case.lengths)
    x, lengths = torch.full_like(case.x, torch.nan), [len(case.x)] * len(case.lengths)
    x[:, b], lengths[b] = case.x[:, b], case.lengths[b]
    other, other_state = case.layer(x, case.hx, lengths=lengths)
    close(other[:, b], output[:, b])
    close(pick(other_state, [b]), pick(state, [b]))


@several
@given(cases(), st.data())
def test_permuting_the_batch_permutes_the_results(case, data):
    order = data.draw(st.permutations(range(len(case.lengths))))
    output, state = case.layer(case.x, case.hx, lengths=case.lengths)
    found, found_state = case.layer(case.x[:, order], pick(case.hx, order), lengths=[case.lengths[b] for b in order])
    close(found, output[:, order])
    close(found_state, pick(state, order))


@several
@given(cases(bidirectional=False), st.sampled_from(["plain", "batch_first", "unbatched"]))
def test_step_equals_the_sequence_call(case, layout):
    output, state = case.layer(case.x, case.hx)
    layer, steps, hx = case.again(batch_first=layout == "batch_first"), list(case.x), case.hx
    if layout == "unbatched":
        output, state, steps, hx = output[:, 0], pick(state, 0), [x[0] for x in steps], pick(hx, 0)
    for x, y in zip(steps, output, strict=True):
        found, hx = layer.step(x, hx)
        close(found, y)
    close(hx, state)


@several
@given(cases(bidirectional=False), st.data())
def test_two_halves_with_carried_state_equal_the_whole(case, data):
    output, state = case.layer(case.x, case.hx)
    cut = data.draw(st.integers(0, len(case.x)))
    parts, hx = [], case.hx
    for half in (case.x[:cut], case.x[cut:]):
        if len(half):
            y, hx = case.layer(half, hx)
            parts.append(y)
    close(torch.cat(parts), output)
    close(hx, state)


@several
@given(cases())
def test_layouts_agree(case):
    """Batch first is the transpose; a 2-D input is a batch of one."""
    reset = draw(*case.x.shape[:2]) > 1
    output, state = case.layer(case.x, case.hx, lengths=case.lengths, reset=reset)
    batch_first = case.again(batch_first=True)
    y, s = batch_first(case.x.transpose(0, 1), case.hx, lengths=case.lengths, reset=reset.T)
    close(y.transpose(0, 1), output)
    close(s, state)
    for layer in (case.layer, batch_first):
        y, s = layer(case.x[:, 0], pick(case.hx, 0), lengths=case.lengths[0], reset=reset[:, 0])
        close(y, output[:, 0])
        close(s, pick(state, 0))


def flip(x, lengths):
    """Each sequence reversed within its length."""
    return pad([x[:n, b : b + 1].flip(0) for b, n in enumerate(lengths)], len(x))


@several
@given(cases(bidirectional=True))
def test_reverse_equals_forward_on_flipped_input(case):
    """A stack is its layers and directions one by one, each reverse one run forwards on the input flipped."""
    output, state = case.layer(case.x, case.hx, lengths=case.lengths)
    x, finals = case.x, []
    for k in range(case.layer.num_layers):
        hx = [as_hx(tuple(s[2 * k + d : 2 * k + d + 1] for s in case.initial())) for d in (0, 1)]
        forward, last = single(case.layer, k, 0)(x, hx[0], lengths=case.lengths)
        backward, first = single(case.layer, k, 1)(flip(x, case.lengths), hx[1], lengths=case.lengths)
        x = JOIN[case.layer.merge](forward, flip(backward, case.lengths))
        finals += [states_of(last), states_of(first)]
    close(output, x)
    close(states_of(state), tuple(torch.cat(s) for s in zip(*finals, strict=True)))


@several
@given(cases(), st.data())
def test_reset_equals_cutting_the_sequence(case, data):
    """Each piece runs alone from the resting state; only the sequence's own ends know `hx`."""
    T, B = case.x.shape[:2]
    reset = torch.tensor(data.draw(st.lists(st.booleans(), min_size=T * B, max_size=T * B))).reshape(T, B)
    rest, D = resting(case.layer, 1), case.layer.num_directions

    def cut(x, hx, b):
        edges = [0, *(t for t in range(1, len(x)) if reset[t, b]), len(x)]
        outputs, finals = [], []
        for start, stop in pairwise(edges):
            state = [s.clone() for s in rest]
            for own, given_ in zip(state, hx, strict=True):
                if start == 0 and not reset[0, b]:
                    own[0::D] = given_[0::D]
                if stop == len(x) and D == 2:
                    own[1::D] = given_[1::D]
            y, s = case.layer(x[start:stop], as_hx(tuple(state)))
            outputs.append(y)
            finals.append([v.clone() for v in states_of(s)])
        final = finals[-1]
        if D == 2:
            for own, first in zip(final, finals[0], strict=True):
                own[1::D] = first[1::D]
        return torch.cat(outputs), tuple(final)

    output, state = case.layer(case.x, case.hx, lengths=case.lengths, reset=reset)
    close((output, states_of(state)), run_each(case, cut))


@several
@given(cases(zoneout=1.0), st.booleans())
def test_zoneout_of_one_freezes_the_state(case, training):
    output, state = case.layer.train(training)(case.x, case.hx)
    close(states_of(state), case.initial())
    frozen = case.initial()[0][-case.layer.num_directions :]
    close(output, (JOIN[case.layer.merge](*frozen) if len(frozen) == 2 else frozen[0]).expand_as(output))


@several
@given(cases(zoneout=0.0))
def test_trace_values_satisfy_the_equations(case):
    trace = case.layer.trace(case.x, case.hx, lengths=case.lengths)
    named = {name: v.numpy() for name, v in (trace.gates | trace.states).items()}
    states, initial = KINDS[case.kind].states, [s.detach().numpy() for s in case.initial()]
    assert set(named) == set(KINDS[case.kind].names)
    x = case.x
    for k in range(case.layer.num_layers):
        rows = range(k * case.layer.num_directions, (k + 1) * case.layer.num_directions)
        for direction, row in enumerate(rows):
            w = {name: p.detach().numpy() for name, p in parameters(case.layer, k, direction).items()}
            for b, n in enumerate(case.lengths):
                previous = [s[row, b] for s in initial]
                for t in reversed(range(n)) if direction else range(n):
                    found = equations(case.kind, w, x[t, b].numpy(), previous)
                    for name, value in found.items():
                        np.testing.assert_allclose(named[name][row, t, b], value, rtol=1e-9, atol=1e-11)
                    previous = [found[name] for name in states]
        h = [trace.states["h"][row] for row in rows]
        x = JOIN[case.layer.merge](*h) if len(h) == 2 else h[0]
    close(trace.output, x)
