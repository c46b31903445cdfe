"""Attention: scores by hand, weights that sum to one and never see padding, gradients by finite differences."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from carousel.networks.attention import (
    Additive,
    Attention,
    Content,
    Dot,
    General,
    Location,
    ScaledDot,
    Unpadded,
    make_attention,
)

SIZE = 4
MAKE = {
    "additive": lambda: Additive(SIZE, SIZE, size=3),
    "dot": lambda: Dot(SIZE),
    "scaled-dot": lambda: ScaledDot(SIZE),
    "general": lambda: General(SIZE, SIZE),
    "content": lambda: Content(SIZE),
    "location": lambda: Location(SIZE, SIZE, places=5),
}
# How one query q and all places m (S, E) are scored, written out by hand.
BY_HAND = {
    "additive": lambda a, q, m: [a.v @ torch.tanh(a.query.weight @ q + a.key.weight @ x + a.key.bias) for x in m],
    "dot": lambda a, q, m: [q @ x for x in m],
    "scaled-dot": lambda a, q, m: [q @ x / math.sqrt(SIZE) for x in m],
    "general": lambda a, q, m: [q @ (a.key.weight @ x) for x in m],
    "content": lambda a, q, m: [a.log_sharpness.exp() * torch.cosine_similarity(q, x, dim=0) for x in m],
    "location": lambda a, q, m: list((a.place.weight @ q)[: len(m)]),
}


@pytest.fixture(params=sorted(MAKE))
def kind(request):
    return request.param


def made(kind):
    attention = MAKE[kind]().double()
    with torch.no_grad():
        for parameter in attention.parameters():
            parameter.normal_()
    return attention


def test_every_name_has_a_kind(kind):
    assert sorted(Attention.names) == sorted(MAKE)
    assert isinstance(make_attention(kind, 6, 6, **({"places": 9} if kind == "location" else {})), Attention)


def test_as_written_by_hand(kind):
    attention = made(kind)
    query, memory = torch.randn(3, 2, SIZE).double(), torch.randn(5, 2, SIZE).double()
    lengths = [5, 3]
    context, weights = attention(query, memory, torch.tensor(lengths))
    for t in range(3):
        for b, length in enumerate(lengths):
            places = memory[:length, b]
            expected = torch.stack(BY_HAND[kind](attention, query[t, b], places)).softmax(0)
            torch.testing.assert_close(weights[t, b, :length], expected)
            torch.testing.assert_close(context[t, b], expected @ places)
            assert (weights[t, b, length:] == 0).all()


def test_additive_attention_without_a_bias():
    """v · tanh(W [q; m]) as it is written with one matrix, whose halves are ours; nothing else is added."""
    attention = make_attention("additive", 3, SIZE, size=5, bias=False).double()
    assert sorted(name for name, _ in attention.named_parameters()) == ["key.weight", "query.weight", "v"]
    query, memory = torch.randn(1, 1, 3).double(), torch.randn(6, 1, SIZE).double()
    joined = torch.cat((query[0, 0].expand(6, -1), memory[:, 0]), 1)
    scores = torch.tanh(joined @ torch.cat((attention.query.weight, attention.key.weight), 1).T) @ attention.v
    torch.testing.assert_close(attention(query, memory)[1][0, 0], scores.softmax(0))


@given(st.lists(st.integers(0, 5), min_size=1, max_size=4), st.integers(0, 3), st.sampled_from(sorted(MAKE)))
def test_padding_is_not_there(lengths, steps, kind):
    """Weights sum to 1 over what is real, are exactly 0 past it; what stands there, and the neighbours, matter not."""
    attention = made(kind)
    query, memory = torch.randn(steps, len(lengths), SIZE).double(), torch.randn(5, len(lengths), SIZE).double()
    memory.requires_grad_()
    past = torch.arange(5).unsqueeze(1) >= torch.tensor(lengths)
    spoilt = memory.masked_fill(past.unsqueeze(2), math.nan)
    context, weights = attention(query, spoilt, torch.tensor(lengths))
    assert weights.shape == (steps, len(lengths), 5) and context.shape == query.shape
    assert not weights.isnan().any() and not context.isnan().any()
    assert (weights[past.T.expand_as(weights)] == 0).all() and (weights >= 0).all()
    ones = torch.tensor([float(length > 0) for length in lengths], dtype=torch.float64)
    torch.testing.assert_close(weights.sum(2), ones.expand(steps, -1))
    (gradient,) = torch.autograd.grad(context.sum(), memory, allow_unused=True)
    assert gradient is None or not gradient.isnan().any()
    for b, length in enumerate(lengths):
        alone, seen = attention(query[:, b : b + 1], memory[:length, b : b + 1])
        torch.testing.assert_close(context[:, b : b + 1], alone)
        torch.testing.assert_close(weights[:, b : b + 1, :length], seen)


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("prepared", ["plain", "recorded"])
def test_a_mask_leaves_out_any_places(kind, batch_first, prepared, monkeypatch):
    """As by hand over the places that are left, wherever they are; `recorded` is the way of a traced program."""
    if prepared == "recorded":
        monkeypatch.setattr("carousel.networks.attention.has_values", lambda _: False)
    attention = made(kind)
    attention.batch_first = batch_first
    query, memory = torch.randn(3, 4, SIZE).double(), torch.randn(7, 4, SIZE).double()
    ignore = torch.tensor([[0, 0, 0, 0, 0, 0, 0], [1, 0, 0, 1, 1, 0, 0], [1] * 7, [0, 0, 0, 1, 1, 1, 1]]).bool()
    spoilt = memory.masked_fill(ignore.T.unsqueeze(2), math.nan)
    given = [x.transpose(0, 1) if batch_first else x for x in (query, spoilt)]
    context, weights = attention(*given, key_padding_mask=ignore)
    assert context.shape == given[0].shape and weights.shape[:2] == given[0].shape[:2]
    if batch_first:
        context, weights = context.transpose(0, 1), weights.transpose(0, 1)
    assert not weights.isnan().any() and not context.isnan().any()
    for t in range(3):
        for b in range(4):
            scored = BY_HAND[kind](attention, query[t, b], memory[:, b])  # location scores its first places alone
            left = [place for place in range(len(scored)) if not ignore[b, place]]
            expected = torch.zeros(7).double()
            if left:
                expected[left] = torch.stack([scored[place] for place in left]).softmax(0)
            torch.testing.assert_close(weights[t, b], expected)
            torch.testing.assert_close(context[t, b], expected @ memory[:, b])


def test_a_mask_of_padding_is_lengths(kind):
    attention, lengths = made(kind), [5, 0, 2]
    query, memory = torch.randn(2, 3, SIZE).double(), torch.randn(5, 3, SIZE).double()
    past = torch.arange(5) >= torch.tensor(lengths).unsqueeze(1)
    for a, b in zip(attention(query, memory, lengths), attention(query, memory, key_padding_mask=past), strict=True):
        assert torch.equal(a, b)


def test_the_mask_is_that_of_multihead_attention():
    """ScaledDot is torch's attention with one head and identity projections: the same mask, the same layout."""
    torch.manual_seed(0)
    query, memory, ignore = torch.randn(2, 3, SIZE), torch.randn(2, 5, SIZE), torch.rand(2, 5) < 0.5
    ignore[:, 0] = False
    theirs = torch.nn.MultiheadAttention(SIZE, 1, bias=False, batch_first=True)
    with torch.no_grad():
        theirs.in_proj_weight.copy_(torch.eye(SIZE).repeat(3, 1))
        theirs.out_proj.weight.copy_(torch.eye(SIZE))
    ours = ScaledDot(SIZE, batch_first=True)(query, memory, key_padding_mask=ignore)
    for a, b in zip(ours, theirs(query, memory, memory, key_padding_mask=ignore), strict=True):
        torch.testing.assert_close(a, b)


def test_masked_places_serve_any_rows_and_ragged_queries(kind):
    attention = made(kind)
    query, memory = torch.randn(3, 2, SIZE).double(), torch.randn(5, 2, SIZE).double()
    ignore = torch.tensor([[1, 0, 1, 0, 0], [0, 0, 1, 1, 0]]).bool()
    prepared = attention.prepare(memory, key_padding_mask=ignore)
    context, weights = attention.attend(query, prepared)
    flipped = attention.attend(query.flip(1), prepared.select(torch.tensor([1, 0])))
    real = Unpadded(torch.tensor([1, 3]), 3)
    ragged = attention.attend(real.take(query), prepared, real.lengths)
    for a, b, c in zip((context, weights), flipped, ragged, strict=True):
        torch.testing.assert_close(a, b.flip(1))
        torch.testing.assert_close(real.take(a), c)


def test_masks_run_in_the_native_call(monkeypatch):
    from carousel.ops import attention as ops

    calls = []
    run = ops._run
    monkeypatch.setattr(ops, "_run", lambda *a, **k: (calls.append(1), run(*a, **k)))
    for name, make in MAKE.items():
        attention = make()
        ignore = torch.tensor([[1, 0, 1, 0, 0], [0, 0, 0, 1, 1]]).bool()
        attention(torch.randn(3, 2, SIZE), torch.randn(5, 2, SIZE), key_padding_mask=ignore)
        assert calls.pop() == 1 and not calls, name


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"lengths": [1, 2], "key_padding_mask": torch.zeros(2, 5).bool()}, "give one of them"),
        ({"key_padding_mask": torch.zeros(5, 2).bool()}, r"key_padding_mask must be bool of shape \(2, 5\), .* got"),
        ({"key_padding_mask": torch.zeros(2, 5)}, "key_padding_mask must be bool .* got torch.float32 of shape"),
    ],
)
def test_masks_that_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        Dot(4)(torch.zeros(3, 2, 4), torch.zeros(5, 2, 4), **arguments)


def test_gradients_through_a_mask_are_finite_differences(kind):
    attention = made(kind)
    query = torch.randn(2, 2, SIZE, dtype=torch.float64, requires_grad=True)
    memory = torch.randn(4, 2, SIZE, dtype=torch.float64, requires_grad=True)
    ignore = torch.tensor([[1, 0, 1, 0], [0, 0, 1, 1]]).bool()
    assert torch.autograd.gradcheck(lambda *t: attention(*t, key_padding_mask=ignore), (query, memory))


def test_gradients_are_finite_differences(kind):
    attention = made(kind)
    query = torch.randn(2, 2, SIZE, dtype=torch.float64, requires_grad=True)
    memory = torch.randn(4, 2, SIZE, dtype=torch.float64, requires_grad=True)
    parameters = dict(attention.named_parameters())

    def run(query, memory, *values):
        named = dict(zip(parameters, values, strict=True))
        return torch.func.functional_call(attention, named, (query, memory, torch.tensor([4, 2])))

    assert torch.autograd.gradcheck(run, (query, memory, *parameters.values()))


def test_a_memory_prepared_once_serves_any_rows(kind):
    attention = made(kind)
    query, memory = torch.randn(2, 3, SIZE).double(), torch.randn(5, 3, SIZE).double()
    lengths = torch.tensor([5, 0, 2])
    prepared, rows = attention.prepare(memory, lengths), torch.tensor([2, 0, 2])
    context, weights = attention.attend(query, prepared.select(rows))
    expected, seen = attention(query, memory[:, rows], lengths[rows])
    torch.testing.assert_close(context, expected)
    torch.testing.assert_close(weights, seen)


def test_the_queries_of_real_steps_alone(kind):
    attention = made(kind)
    query, base, memory = (torch.randn(n, 3, SIZE).double() for n in (4, 4, 5))
    prepared, real = attention.prepare(memory, torch.tensor([5, 1, 2])), Unpadded(torch.tensor([2, 4, 0]), 4)
    for way in (lambda x: None, lambda x: x):
        (context, weights), (expected, seen) = (
            attention.attend(real.take(query), prepared, real.lengths, way(real.take(base))),
            attention.attend(query, prepared, base=way(base)),
        )
        torch.testing.assert_close(context, real.take(expected))
        torch.testing.assert_close(weights, real.take(seen))


def test_what_is_looked_at_may_be_a_map_of_the_memory(kind):
    """A context of mapped places is the map of the context, and what is dropped is dropped from keys and values."""
    attention, matrix = made(kind), torch.randn(4, SIZE).double()
    query, memory, lengths = torch.randn(2, 3, SIZE).double(), torch.randn(5, 3, SIZE).double(), torch.tensor([5, 0, 2])
    for counts in (None, lengths):
        halved = attention.prepare(memory, counts, value=lambda x: x @ matrix.T, drop=lambda x: x / 2)
        context, weights = attention.attend(query, halved)
        expected, seen = attention(query, memory / 2, counts)
        torch.testing.assert_close(context, expected @ matrix.T)
        torch.testing.assert_close(weights, seen)


def test_location_has_so_many_places():
    _, weights = Location(3, 3, places=2)(torch.randn(1, 2, 3), torch.randn(4, 2, 3), torch.tensor([4, 1]))
    assert (weights[0, 0, :2] > 0).all() and (weights[0, 0, 2:] == 0).all()
    assert weights[0, 1].tolist() == [1, 0, 0, 0]


def test_content_looks_at_directions_only():
    attention = Content(2)
    _, near = attention(torch.tensor([[[3.0, 4.0]]]), torch.tensor([[[30.0, 40.0]], [[-4.0, 3.0]]]))
    torch.testing.assert_close(near.flatten(), torch.tensor([1.0, 0.0]).softmax(0))
    _, blank = attention(torch.zeros(1, 1, 2), torch.zeros(2, 1, 2))
    assert blank.flatten().tolist() == [0.5, 0.5]


@pytest.mark.parametrize("kind", ["dot", "scaled-dot", "content"])
def test_sizes_that_cannot_be_compared(kind):
    with pytest.raises(ValueError, match="need one size; got query_size=3, memory_size=5"):
        make_attention(kind, 3, 5)


@pytest.mark.parametrize(
    ("query", "memory", "lengths", "said"),
    [
        ((2, 3, 4), (5, 3, 9), None, r"memory must be \(S, B, 4\), got \(5, 3, 9\)"),
        ((2, 2, 4), (5, 3, 4), None, r"query must be \(T, 3, 4\), got \(2, 2, 4\)"),
        ((2, 3, 4), (5, 3, 4), [1, 2], r"lengths must have shape \(3,\), one per sequence, got \(2,\)"),
        ((2, 3, 4), (5, 3, 4), [1, 6, 2], r"lengths\[1\] is 6, but must lie between 0 and the 5 steps of the memory"),
        ((2, 3, 4), (5, 3, 4), [1, 2, -1], r"lengths\[2\] is -1, but must lie between 0 and the 5 steps of the memory"),
    ],
)
def test_wrong_shapes(query, memory, lengths, said):
    with pytest.raises(ValueError, match=said):
        Dot(4)(torch.zeros(query), torch.zeros(memory), lengths)


def test_lengths_are_integers():
    with pytest.raises(TypeError, match=r"lengths must be integers, got a tensor of torch\.float32"):
        Dot(4)(torch.zeros(2, 1, 4), torch.zeros(3, 1, 4), torch.tensor([2.5]))


def test_an_unknown_name():
    with pytest.raises(ValueError, match="attention must be one of additive, dot"):
        make_attention("cosine", 2, 2)


def test_real_steps_there_and_back():
    """Gradients of gradients, and torch's transforms."""
    real = Unpadded(torch.tensor([2, 0, 9]), 4)  # of nine only four are there
    steps, rows = torch.randn(4, 3, 2).double().requires_grad_(), torch.randn(6, 2).double().requires_grad_()
    assert torch.equal(real.take(real.put(rows)), rows)
    whole = real.put(real.take(steps))
    assert torch.equal(whole[:2, 0], steps[:2, 0]) and torch.equal(whole[:, 2], steps[:, 2]) and not whole[:, 1].any()
    for move, x in ((real.take, steps), (real.put, rows)):
        assert torch.autograd.gradcheck(move, x)
        assert torch.autograd.gradgradcheck(lambda x, move=move: move(x) ** 2, x)
        [expected] = torch.autograd.grad((move(x) ** 3).sum(), x)
        torch.testing.assert_close(torch.func.grad(lambda x, move=move: (move(x) ** 3).sum())(x.detach()), expected)
