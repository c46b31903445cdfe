"""Glass walls: traces show what ran, gradients are what finite differences say, interventions do what they say."""

import pytest
import torch
from helpers.references import KINDS, PROJECTING, build, close, draw, states_of
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence

from carousel import Clamp

T, B, I, H = 5, 3, 3, 4
LENGTHS = [3, 5, 0]
CALLS = {
    "plain": ({}, {}),
    "lengths": ({}, {"lengths": LENGTHS}),
    "reset": ({}, {"reset": draw(T, B) > 0.5}),
    "batch-first": ({"batch_first": True}, {"lengths": LENGTHS}),
    "merge-sum": ({"merge": "sum"}, {"lengths": LENGTHS}),
    "merge-mean": ({"merge": "mean"}, {}),
    "projection": ({"proj_size": 2}, {"lengths": LENGTHS}),
    "learned-start": ({"learn_initial_state": True}, {}),
    "zoneout": ({"zoneout": {"h": 0.2, "c": 0.1}}, {}),
    "unbatched": ({}, {}),
    "packed": ({}, {}),
}


def call(name, kind="peephole"):
    """A two-layer bidirectional layer, and the input and keywords of a call on it."""
    options, keywords = CALLS[name]
    layer = build(kind, I, H, num_layers=2, bidirectional=True, **options).eval()
    x = draw(T, B, I)
    if name == "batch-first":
        x = x.transpose(0, 1)
    elif name == "unbatched":
        x = x[:, 0]
    elif name == "packed":
        x = pack_padded_sequence(x, torch.tensor([3, 5, 1]), enforce_sorted=False)
    return layer, x, keywords


@pytest.mark.parametrize("kind", KINDS)
def test_a_trace_has_every_gate_and_state(kind):
    trace = build(kind, I, H, num_layers=2, bidirectional=True).trace(draw(T, B, I))
    assert tuple(trace.gates) == tuple(g for g in KINDS[kind].gates if g not in KINDS[kind].states)
    assert set(trace.states) == set(KINDS[kind].states)
    assert {v.shape for v in (trace.gates | trace.states).values()} == {(4, T, B, H)}
    assert trace.h is trace.states["h"]
    with pytest.raises(AttributeError, match="no 'q'"):
        _ = trace.q


@pytest.mark.parametrize("kind", PROJECTING)
def test_projection_narrows_only_h(kind):
    trace = build(kind, I, H, proj_size=2).trace(draw(T, B, I))
    shapes = {name: v.shape[-1] for name, v in (trace.gates | trace.states).items()}
    assert shapes.pop("h") == 2
    assert set(shapes.values()) == {H}


@pytest.mark.parametrize("name", CALLS)
def test_trace_returns_what_the_call_returns(name):
    layer, x, keywords = call(name)
    output, state = layer(x, **keywords)
    trace = layer.trace(x, **keywords, gradients_of=loss_of)
    for found in (layer.trace(x, **keywords), trace):
        close(found.output.data, output.data)
        close(found.state, state)
    if name == "packed":
        assert (trace.output.batch_sizes == output.batch_sizes).all()


@pytest.mark.parametrize("name", ["lengths", "batch-first", "packed"])
def test_final_states_are_the_last_real_ones(name):
    """Forward at the last step of each sequence, reverse at the first; zero everywhere past the end."""
    layer, x, keywords = call(name)
    trace = layer.trace(x, **keywords, gradients_of=loss_of)
    lengths = keywords.get("lengths", [3, 5, 1])
    for b, n in enumerate(lengths):
        for values in (trace.gates | trace.states).values():
            assert (values[:, :n, b] != 0).all()
        for values in (*trace.gates.values(), *trace.states.values(), *trace.gradients.values()):
            assert (values[:, n:, b] == 0).all()
    for name_, state in zip(("h", "c"), trace.state, strict=True):
        for b, n in enumerate(lengths):
            if n:
                close(state[0::2, b], trace.states[name_][0::2, n - 1, b])
                close(state[1::2, b], trace.states[name_][1::2, 0, b])
            else:
                assert (state[:, b] == 0).all()


# ---- gradients: ∂L/∂(value) is what moving that value does to L ----


def loss_of(output, state):
    """Every number of output and state counts, each differently."""
    output = output.data if isinstance(output, PackedSequence) else output
    return sum((v * draw(*v.shape, seed=k)).sum() for k, v in enumerate((output, *states_of(state))))


def slope(layer, x, clamp, values, direction, ε=1e-6, **keywords):
    """dL/ds as `clamp(value)` moves values along `direction`, by central differences."""
    sides = [
        loss_of((t := layer.intervene(x, clamp(values + s * direction), **keywords)).output, t.state) for s in (ε, -ε)
    ]
    return ((sides[0] - sides[1]) / (2 * ε)).item()


@pytest.mark.parametrize(
    "kind, options",
    [(kind, options) for kind in KINDS for options in ({}, {"merge": "sum", "zoneout": 0.2})]
    + [(kind, {"proj_size": 2}) for kind in PROJECTING],
    ids=lambda v: v if isinstance(v, str) else "-".join(v) or "plain",
)
@torch.no_grad()
def test_gradients_equal_finite_differences(kind, options):
    """For every gate and state, layer and direction, moved by an intervention, with lengths."""
    layer = build(kind, I, H, num_layers=2, bidirectional=True, **options).eval()
    x, keywords = draw(T, B, I), {"lengths": LENGTHS}
    trace = layer.trace(x, gradients_of=loss_of, **keywords)
    assert set(trace.gradients) == set(KINDS[kind].names)
    close(trace.loss, loss_of(*layer(x, **keywords)))
    for name, values in (trace.gates | trace.states).items():
        direction = draw(B, values.shape[-1])
        for row in range(4):
            for t in range(0, T, 2):

                def clamp(v, name=name, t=t, row=row):
                    return Clamp(name, v, steps=t, layer=row // 2, direction=row % 2)

                expected = slope(layer, x, clamp, values[row, t], direction, **keywords)
                found = (trace.gradients[name][row, t] * direction).sum().item()
                assert found == pytest.approx(expected, rel=1e-6, abs=1e-8), (name, row, t)


@pytest.mark.parametrize("name", ["i", "f", "g", "o", "c", "h"])
def test_gradient_of_each_unit(name):
    """One number at a time: one unit of one sequence at one step."""
    layer, x = build("peephole", I, H), draw(T, B, I)
    trace = layer.trace(x, gradients_of=loss_of)
    value, t = (trace.gates | trace.states)[name][0, 2], 2
    for b in range(B):
        for u in range(H):
            one = torch.zeros(B, 1).double()
            one[b] = 1
            expected = slope(layer, x, lambda v, u=u: Clamp(name, v, steps=t, units=u), value[:, u : u + 1], one)
            assert trace.gradients[name][0, t, b, u].item() == pytest.approx(expected, rel=1e-6, abs=1e-8)


def test_gradients_do_not_need_trainable_parameters_nor_touch_them():
    layer, x = build("lstm", I, H), draw(T, B, I).requires_grad_()
    expected = layer.trace(x, gradients_of=loss_of).gradients
    assert x.grad is None and all(p.grad is None for p in layer.parameters())
    layer.requires_grad_(False)
    for given in (x, x.detach()):
        trace = layer.trace(given, gradients_of=loss_of)
        assert not trace.output.requires_grad
        close(list(trace.gradients.values()), list(expected.values()))


@pytest.mark.parametrize(
    "loss",
    [torch.sum, torch.Tensor.sum, lambda y: y.sum(), lambda y, scale=1.0: y.sum() * scale, lambda y, state: y.sum()],
)
def test_any_function_of_the_output_is_a_loss(loss):
    layer, x = build("gru", I, H), draw(T, B, I)
    trace = layer.trace(x, gradients_of=loss)
    close(trace.loss, layer(x)[0].sum())
    close(trace.gradients["h"][0, -1], torch.ones(B, H).double())


@pytest.mark.parametrize(
    "loss, complaint",
    [(lambda y: y, "one number"), (lambda y: 3.0, "one number"), (lambda y: torch.tensor(1.0), "does not depend")],
)
def test_what_is_no_loss_is_refused(loss, complaint):
    with pytest.raises(ValueError, match=complaint):
        build("gru", I, H).trace(draw(T, B, I), gradients_of=loss)


# ---- interventions ----


@pytest.fixture
def stack():
    """A two-layer bidirectional peephole LSTM, an input, and its trace."""
    layer, x = build("peephole", I, H, num_layers=2, bidirectional=True), draw(T, B, I)
    return layer, x, layer.trace(x)


@pytest.mark.parametrize("kind", KINDS)
def test_a_clamp_holds_and_only_the_future_feels_it(kind):
    layer, x = build(kind, I, H), draw(T, B, I)
    plain = layer.trace(x)
    for name in KINDS[kind].names:
        held = layer.intervene(x, Clamp(name, 0.25, steps=2))
        before, after = (t.gates | t.states for t in (plain, held))
        assert (after[name][:, 2] == 0.25).all()
        close([v[:, :2] for v in after.values()], [v[:, :2] for v in before.values()])
        felt = (after["h"] != before["h"]).any(-1).any(-1)  # relu may hide it in some units
        assert felt[:, 3:].all()


@pytest.mark.parametrize(
    "steps, held",
    [(None, range(5)), (1, [1]), (-1, [4]), ((1, 3), [1, 2]), (slice(0, None, 2), [0, 2, 4]), ((3, None), [3, 4])],
)
@pytest.mark.parametrize("units, fixed", [(None, range(4)), (0, [0]), (-1, [3]), ((1, 3), [1, 2])])
def test_spans_of_steps_and_units(steps, held, units, fixed):
    trace = build("lstm", I, H).intervene(draw(T, B, I), Clamp("f", 2.0, steps=steps, units=units))
    expected = torch.zeros(T, H, dtype=torch.bool)
    for t in held:
        expected[t, list(fixed)] = True
    assert torch.equal(trace.gates["f"][0] == 2.0, expected.unsqueeze(1).expand(T, B, H))


@pytest.mark.parametrize(
    "where, rows",
    [
        ({}, [0, 1, 2, 3]),
        ({"layer": 0}, [0, 1]),
        ({"layer": -1}, [2, 3]),
        ({"direction": 1}, [1, 3]),
        ({"layer": 1, "direction": 0}, [2]),
    ],
)
def test_layers_and_directions(stack, where, rows):
    layer, x, _ = stack
    found = layer.intervene(x, Clamp("o", 2.0, **where)).gates["o"] == 2.0
    assert [bool(found[row].all()) for row in range(4)] == [row in rows for row in range(4)]
    assert int(found.sum()) == len(rows) * T * B * H


def test_the_reverse_direction_feels_it_in_earlier_steps(stack):
    layer, x, plain = stack
    held = layer.intervene(x, Clamp("c", 0.0, steps=2, layer=0, direction=1))
    close(held.c[1, 3:], plain.c[1, 3:])
    assert ((held.c[1, :2] - plain.c[1, :2]).abs() > 1e-9).all()
    close(held.c[0], plain.c[0])  # the other direction of that layer never knows
    assert ((held.c[2:, :3] - plain.c[2:, :3]).abs() > 1e-9).all()  # both directions of the layer above see it


def test_clamping_to_what_was_there_changes_nothing(stack):
    layer, x, plain = stack
    for name, values in (plain.gates | plain.states).items():
        held = layer.intervene(x, *(Clamp(name, values[r], layer=r // 2, direction=r % 2) for r in range(4)))
        close(held.output, plain.output)


@pytest.mark.parametrize("shape", [(), (2,), (B, 1), (B, 2), (3, 1, 1), (3, B, 2)])
def test_a_value_tensor_broadcasts_over_steps_batch_and_units(shape):
    value = draw(*shape)
    trace = build("lstm", I, H).intervene(draw(T, B, I), Clamp("f", value, steps=(1, 4), units=(2, 4)))
    close(trace.gates["f"][0, 1:4, :, 2:], value.expand(3, B, 2))


def test_a_value_tensor_has_the_callers_order_also_in_a_packed_batch():
    layer, x, _ = call("packed")
    value = draw(B, H)
    found = layer.intervene(x, Clamp("f", value, steps=0)).gates["f"][:, 0]
    close(found, value.expand(4, B, H))


def by_hand(layer, x, name, value, held):
    """An LSTM stepped by hand, unit `u` of sequence `b` at `value` in step `t` wherever (t, b, u) is `held`."""
    w, u = layer.weight_ih_l0, layer.weight_hh_l0
    h = c = torch.zeros(x.shape[1], layer.hidden_size, dtype=x.dtype)
    outputs = []
    for t, step in enumerate(x):
        i, f, g, o = (step @ w.T + layer.bias_ih_l0 + h @ u.T + layer.bias_hh_l0).chunk(4, 1)
        own = {"i": i.sigmoid(), "f": f.sigmoid(), "g": g.tanh(), "o": o.sigmoid()}
        for gate in own:
            if gate == name:
                own[gate] = torch.where(held[t], value, own[gate])
        c = own["f"] * c + own["i"] * own["g"]
        if name == "c":
            c = torch.where(held[t], value, c)
        h = own["o"] * c.tanh()
        outputs.append(h)
    return torch.stack(outputs)


@pytest.mark.parametrize(
    "units", [[2, 0], torch.tensor([2, 0]), torch.tensor([True, False, True, False]), range(0, 3, 2)]
)
@pytest.mark.parametrize(
    "sequences, chosen",
    [(1, [1]), ([2, 0], [0, 2]), (slice(1, None), [1, 2]), (torch.tensor([False, True, True]), [1, 2])],
)
@pytest.mark.parametrize("name", ["f", "c"])
def test_chosen_units_of_chosen_sequences(name, units, sequences, chosen):
    layer, x = build("lstm", I, H), draw(T, B, I)
    held = torch.zeros(T, B, H, dtype=torch.bool)
    for b in chosen:
        held[1:4, b, [0, 2]] = True
    trace = layer.intervene(x, Clamp(name, 0.7, steps=[1, 2, 3], units=units, sequences=sequences))
    close(trace.output, by_hand(layer, x, name, torch.tensor(0.7, dtype=x.dtype), held))


def test_a_value_tensor_follows_the_order_of_chosen_units_and_sequences():
    value = draw(2, 3)
    trace = build("lstm", I, H).intervene(draw(T, B, I), Clamp("f", value, units=[3, 0, 1], sequences=[2, 0]))
    for k, b in enumerate([2, 0]):
        close(trace.gates["f"][0, :, b][:, [3, 0, 1]], value[k].expand(T, 3))
    assert not torch.isin(trace.gates["f"][0, :, 1], value).any()


def test_chosen_sequences_are_the_callers_also_in_a_packed_batch():
    layer, x, _ = call("packed")
    found = layer.intervene(x, Clamp("f", 2.0, steps=0, sequences=[0, 2])).gates["f"][:, 0] == 2.0
    assert found[:, [0, 2]].all() and not found[:, 1].any()


def test_gradients_pass_around_a_clamp_of_chosen_units():
    layer, x = build("lstm", I, H), draw(T, B, I)
    trace = layer.intervene(
        x, Clamp("c", 0.0, steps=2, units=[0, 3], sequences=[1]), gradients_of=lambda y: y[-1].sum()
    )
    f = trace.gradients["f"][0, 2]  # what a held value was made from has no effect
    assert (f[1, [0, 3]] == 0).all() and (f[[0, 2]] != 0).all() and (f[1, [1, 2]] != 0).all()


def test_of_two_clamps_on_one_value_the_last_stands():
    trace = build("lstm", I, H).intervene(draw(T, B, I), Clamp("f", 0.0), Clamp("f", 1.0, units=0))
    assert (trace.gates["f"][..., 0] == 1).all() and (trace.gates["f"][..., 1:] == 0).all()


def test_a_clamp_past_the_end_does_nothing():
    layer, x = build("lstm", I, H), draw(T, B, I)
    held = layer.intervene(x, Clamp("c", 9.0, steps=(3, 5)), lengths=[3, 3, 2])
    close((held.output, held.state), layer(x, lengths=[3, 3, 2]))


def test_opening_every_forget_gate_makes_the_cell_a_sum():
    """The constant error carousel: with f = 1, c is the running sum of i∘g, and ∂L/∂c reaches the first step whole."""
    layer, x = build("lstm", I, H), draw(T, B, I)
    trace = layer.intervene(x, Clamp("f", 1.0), Clamp("o", 0.0), gradients_of=lambda y, state: state[1].sum())
    close(trace.c, (trace.gates["i"] * trace.gates["g"]).cumsum(1))
    close(trace.gradients["c"], torch.ones_like(trace.c))


@pytest.mark.parametrize(
    "clamp, complaint",
    [
        (Clamp("q", 0.0), "no gate or state 'q'"),
        (Clamp("f", 0.0, steps=T), "steps=5"),
        (Clamp("f", 0.0, steps=1.5), "steps"),
        (Clamp("f", 0.0, units=(3, 3)), "units"),
        (Clamp("f", 0.0, layer=1), "layer=1"),
        (Clamp("f", 0.0, direction=1), "direction=1"),
        (Clamp("f", torch.zeros(7)), "value"),
        (Clamp("f", 0.0, units=[0, 4]), r"units=\[0, 4\] is out of range 0..3"),
        (Clamp("f", 0.0, sequences=(2, 1)), r"sequences=\(2, 1\) chooses nothing among 0..2"),
        (Clamp("f", 0.0, units=(0, 5)), r"units=\(0, 5\) is out of range 0..3"),
        (Clamp("f", 0.0, units=[1, 1]), "an index twice"),
        (Clamp("f", 0.0, units=[]), "chooses nothing"),
        (Clamp("f", 0.0, units=["a"]), "units must be an index"),
        (Clamp("f", 0.0, units=torch.tensor([0.5])), "units must be an index"),
        (Clamp("f", 0.0, units=(0, 1, 2)), "give indices as a list"),
        (Clamp("f", 0.0, units=torch.tensor([True])), r"shape \(4,\), got \(1,\)"),
        (Clamp("f", 0.0, sequences=B), "sequences=3"),
        (Clamp("f", torch.zeros(B, 1), sequences=[0, 1]), r"\(steps, sequences, units\) \(5, 2, 4\), got \(3, 1\)"),
        ("f", "Clamp"),
    ],
)
def test_a_clamp_that_means_nothing_is_refused(clamp, complaint):
    with pytest.raises((ValueError, TypeError), match=complaint):
        build("lstm", I, H).intervene(draw(T, B, I), clamp)
