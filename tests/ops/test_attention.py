"""Attention by the kernel, against torch on one query after the other."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from carousel.ops.attention import AdditiveAttentionStep, Fused, Sequences, attend

KINDS = ["additive", "product", "own"]


def in_torch(kind, query, key, value, v, base, of):
    """One query after the other; rows of weights past a sequence's places are 0."""
    results, rows, n = [], [], 0
    for num_queries, start, count in zip(*(t.tolist() for t in of[:3]), strict=True):
        seen = min(count, query.shape[1]) if kind == "own" else count
        places = slice(start, start + seen)
        for q in query[n : n + num_queries]:
            score = {
                "additive": lambda q=q, places=places: torch.tanh(q + key[places]) @ v,
                "product": lambda q=q, places=places: key[places] @ q,
                "own": lambda q=q, seen=seen: q[:seen],
            }
            weights = score[kind]().softmax(0)
            results.append(weights @ value[places])
            rows.append(torch.cat((weights, weights.new_zeros(of.most - seen))))
        n += num_queries
    context = torch.stack(results)
    return context if base is None else torch.tanh(base + context), torch.stack(rows)


def made(kind, num_queries, counts, D, O, based=False, dtype=torch.float64, starts=None):
    """Arguments of `attend`, with the sequences' places one after the other unless `starts` says more."""
    num_queries, counts = torch.tensor(num_queries), torch.tensor(counts)
    starts = counts.cumsum(0) - counts if starts is None else torch.tensor(starts)
    N, M = int(num_queries.sum()), int((starts + counts).max())
    of = Sequences(num_queries, starts, counts, int(counts.max()) + 1)
    shapes = {"query": (N, D), "key": (M, D), "value": (M, O), "v": (D,), "base": (N, O)}
    absent = [name for name, there in (("key", kind != "own"), ("v", kind == "additive"), ("base", based)) if not there]
    tensors = {
        name: None if name in absent else torch.randn(*shape, dtype=dtype, requires_grad=True)
        for name, shape in shapes.items()
    }
    return tensors, of


def run(tensors, of):
    query, key, value, v, base = tensors.values()
    return attend(query, key, value, of, v, base)


def present(tensors):
    return [t for t in tensors.values() if t is not None]


@given(
    st.sampled_from(KINDS), st.lists(st.tuples(st.integers(0, 5), st.integers(0, 9)), min_size=1, max_size=4),
    st.integers(1, 19), st.sampled_from([1, 7, 40]), st.booleans(), st.sampled_from([1, 80, 400]),
)  # fmt: skip
def test_results_and_gradients(kind, sizes, D, O, based, spread):
    """With a spread of hundreds, exponentials of queries and keys would leave the range of numbers."""
    num_queries, counts = zip(*sizes, strict=True)
    if not sum(num_queries) or not sum(counts):
        return
    torch.manual_seed(D)
    tensors, of = made(kind, num_queries, counts, D, O, based)
    if kind == "additive":
        with torch.no_grad():
            tensors["query"][0, 0] *= spread
            tensors["key"][-1, 0] -= spread
    found, expected = run(tensors, of), in_torch(kind, *tensors.values(), of)
    assert found[0].grad_fn.name() == "FusedBackward"
    factors = [torch.randn_like(t) for t in found]
    for chosen in ((0,), (1,), (0, 1)):  # the gradient of either result, and of both
        ours, theirs = (
            torch.autograd.grad([t[k] for k in chosen], present(tensors), [factors[k] for k in chosen],
                                retain_graph=True, allow_unused=True)
            for t in (found, expected)
        )  # fmt: skip
        for a, b in zip(ours, theirs, strict=True):
            torch.testing.assert_close(a, torch.zeros_like(a) if b is None else b)
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("kind", KINDS)
def test_places_that_sequences_share_or_nobody_has(kind):
    """As after a selection: the second sequence twice, and the first one not at all."""
    tensors, of = made(kind, [2, 3, 40], [4, 4, 3], 6, 5, True, starts=[3, 3, 9])
    found, expected = run(tensors, of), in_torch(kind, *tensors.values(), of)
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b)
    ours, theirs = (torch.autograd.grad(t[0].square().sum(), present(tensors)) for t in (found, expected))
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("kind", KINDS)
def test_single_precision_and_threads(kind):
    tensors, of = made(kind, [7, 0, 9, 12], [9, 3, 0, 11], 70, 33, True, torch.float32)
    double = {name: None if t is None else t.detach().double() for name, t in tensors.items()}
    expected = in_torch(kind, *double.values(), of)
    before = torch.get_num_threads()
    try:
        results = []
        for threads in (1, 2):
            torch.set_num_threads(threads)
            found = run(tensors, of)
            for a, b in zip(found, expected, strict=True):
                torch.testing.assert_close(a.double(), b, rtol=1e-5, atol=2e-5)
            results.append([*found, *torch.autograd.grad(found[0].square().sum(), present(tensors))])
        assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("kind", KINDS)
def test_a_sequence_does_not_depend_on_its_neighbours(kind):
    tensors, of = made(kind, [1, 6], [9, 5], 12, 7, True, torch.float32)
    together = run(tensors, of)
    alone = {name: t[:1] if name in ("query", "base") else t for name, t in tensors.items() if t is not None}
    of = Sequences(*(t[:1] for t in of[:3]), of.most)
    query, key, value, v, base = (alone.get(name) for name in tensors)
    for a, b in zip(attend(query, key, value, of, v, base), together, strict=True):
        assert torch.equal(a[0], b[0])


@pytest.mark.parametrize("kind", KINDS)
def test_derivatives_of_derivatives(kind):
    tensors, of = made(kind, [2, 1], [1, 3], 3, 2, True)
    names = [name for name, t in tensors.items() if t is not None]

    def again(*given):
        return run({**tensors, **dict(zip(names, given, strict=True))}, of)

    assert torch.autograd.gradcheck(again, present(tensors))
    assert torch.autograd.gradgradcheck(again, present(tensors))


@pytest.mark.parametrize("kind", KINDS)
def test_elsewhere_torch_does_it(kind, monkeypatch):
    tensors, of = made(kind, [3, 0, 2], [4, 2, 0], 5, 6, True, torch.float32)
    expected = run(tensors, of)
    monkeypatch.setattr(Fused, "apply", None)  # nobody asks for it
    halves = run({name: None if t is None else t.bfloat16() for name, t in tensors.items()}, of)
    mapped = torch.func.vmap(lambda q: run({**tensors, "query": q}, of))(tensors["query"].unsqueeze(0))
    for a, half, whole in zip(expected, halves, mapped, strict=True):
        torch.testing.assert_close(half.float(), a, rtol=0.1, atol=0.1)
        torch.testing.assert_close(whole[0], a)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("num_queries", "counts"), [([0, 0], [2, 1]), ([2, 1], [0, 0]), ([2], [0])])
def test_nothing_to_look_at(kind, num_queries, counts):
    tensors, of = made(kind, num_queries, counts, 4, 3)
    context, weights = run(tensors, of)
    assert context.shape == (sum(num_queries), 3) and weights.shape == (sum(num_queries), of.most)
    assert not context.any() or sum(counts)


def test_nan_is_seen_where_it_is_looked_at():
    tensors, of = made("additive", [3, 4], [5, 5], 20, 2)
    with torch.no_grad():
        tensors["query"][5, 3] = torch.nan
    _, weights = run(tensors, of)
    assert weights[5, :5].isnan().all() and weights.isnan().sum() == 5


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"counts": [4, 3]}, "places that are not there"),
        ({"starts": [-1, 4]}, "places that are not there"),
        ({"num_queries": [2, 2]}, "more or fewer queries"),
        ({"num_queries": [4, -1]}, "fewer than no queries"),
        ({"most": 3}, "places that are not there"),
    ],
)
def test_sequences_that_cannot_be(change, said):
    tensors, of = made("product", [2, 1], [4, 2], 3, 2)
    with pytest.raises(IndexError, match=said):
        run(tensors, of._replace(**{k: n if k == "most" else torch.tensor(n) for k, n in change.items()}))


@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 6)), min_size=1, max_size=3), st.sampled_from([1, 7, 16, 45])
)
def test_a_look_is_scores_softmax_context_and_tanh(sizes, D):
    torch.manual_seed(D)
    H, out = 6, D + 1
    num_queries, counts = zip(*sizes, strict=True)
    if not sum(num_queries) or not sum(counts):
        return
    tensors, of = made("additive", num_queries, counts, D, out)
    weight, of_state, bias = (torch.randn(*n, dtype=torch.float64) for n in ((D, H), (out, H), (out,)))
    y, (key, value, v) = torch.randn(sum(num_queries), H).double(), (tensors[k].detach() for k in ("key", "value", "v"))
    look = AdditiveAttentionStep(weight, v, of_state, bias)
    for _ in range(2):  # the first call packs
        found = look(y, key, value, of)
        expected, _ = in_torch("additive", y @ weight.T, key, value, v, y @ of_state.T + bias, of)
        torch.testing.assert_close(found, expected)
