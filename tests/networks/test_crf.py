"""The CRF against enumeration of every tagging, and its gradients against finite differences."""

import itertools
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from carousel.networks.crf import CRF

DOUBLE = torch.float64


def make(tags, *, forbid=0.0, seed=0):
    """A CRF with random scores in which a share of the transitions is forbidden; tag 0 may always follow itself."""
    random = torch.Generator().manual_seed(seed)
    allowed = torch.rand(tags, tags, generator=random) >= forbid
    starts, ends = (torch.rand(tags, generator=random) >= forbid for _ in range(2))
    allowed[0, 0] = starts[0] = ends[0] = True
    crf = CRF(tags, allowed, starts, ends).to(DOUBLE)
    with torch.no_grad():
        for parameter in crf.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=random, dtype=DOUBLE))
    return crf


def enumerate_taggings(crf, emissions):
    """[(score, tags)] of every tagging of one sequence, emissions (n, K), by the definition."""
    transitions, start, end = (part.detach() for part in crf.scores())
    found = []
    for tags in itertools.product(range(crf.tags), repeat=len(emissions)):
        score = float(start[tags[0]] + end[tags[-1]]) if tags else 0.0
        score += sum(float(emissions[t, tag]) for t, tag in enumerate(tags))
        score += sum(float(transitions[a, b]) for a, b in itertools.pairwise(tags))
        if score > -math.inf:
            found.append((score, tags))
    return sorted(found, reverse=True)


cases = given(
    tags=st.integers(1, 4),
    lengths=st.lists(st.integers(0, 4), min_size=1, max_size=4),
    forbid=st.sampled_from([0.0, 0.3, 0.7]),
    scale=st.sampled_from([0.1, 1.0, 30.0]),
    seed=st.integers(0, 1000),
)


def example(tags, lengths, forbid, scale, seed):
    crf = make(tags, forbid=forbid, seed=seed)
    torch.manual_seed(seed)
    emissions = scale * torch.randn(max(lengths), len(lengths), tags, dtype=DOUBLE)
    rows = [enumerate_taggings(crf, emissions[:n, row]) for row, n in enumerate(lengths)]
    return crf, emissions, torch.tensor(lengths), rows


@cases
def test_log_partition_is_the_sum_over_taggings(**case):
    crf, emissions, lengths, rows = example(**case)
    expected = torch.tensor([torch.logsumexp(torch.tensor([s for s, _ in row], dtype=DOUBLE), 0) for row in rows])
    torch.testing.assert_close(crf.log_partition(emissions, lengths), expected.to(DOUBLE), check_dtype=False)


@cases
def test_marginals_are_sums_over_taggings(**case):
    crf, emissions, lengths, rows = example(**case)
    expected = torch.zeros_like(emissions)
    for b, row in enumerate(rows):
        shares = torch.tensor([s for s, _ in row], dtype=DOUBLE).softmax(0)
        for share, (_, tags) in zip(shares, row, strict=True):
            for t, tag in enumerate(tags):
                expected[t, b, tag] += share
    torch.testing.assert_close(crf.marginals(emissions, lengths), expected)


@cases
def test_n_best_are_the_first_of_all_taggings_sorted(**case):
    crf, emissions, lengths, rows = example(**case)
    n = 5
    tags, scores = crf.n_best(emissions, n, lengths)
    for b, row in enumerate(rows):
        length = int(lengths[b])
        for k in range(n):
            if k >= len(row):
                assert scores[k, b] == -math.inf
                continue
            assert float(scores[k, b]) == pytest.approx(row[k][0])
            near = {tagging for score, tagging in row if abs(score - row[k][0]) < 1e-9}  # ties in any order
            assert tuple(tags[k, :length, b].tolist()) in near
        assert not tags[:, length:, b].any()


@cases
def test_the_best_is_the_first_of_the_n_best(**case):
    crf, emissions, lengths, rows = example(**case)
    best = crf.best(emissions, lengths)
    assert best.scores.tolist() == pytest.approx([row[0][0] for row in rows])
    several = crf.n_best(emissions, 3, lengths)
    torch.testing.assert_close(several.scores[0], best.scores)


@cases
def test_score_of_every_tagging(**case):
    crf, emissions, _, rows = example(**case)
    for b, row in enumerate(rows):
        for score, tagging in row[:20]:
            tags = torch.tensor(tagging, dtype=torch.int64).reshape(-1, 1)
            found = crf.score(emissions[: len(tagging), b : b + 1], tags)
            assert found.item() == pytest.approx(score)


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("given_as", ["list", "tensor", "mask", "uint8"])
@pytest.mark.parametrize("lengths", [[4, 0, 2], [3, 3], [1]])
def test_lengths_masks_and_layouts(batch_first, given_as, lengths):
    """Every result against the enumeration of all taggings, however ends and layout are given."""
    crf, emissions, sizes, rows = example(3, lengths, 0.3, 1.0, 7)
    real = torch.arange(max(lengths)).unsqueeze(1) < sizes
    tags = torch.full(real.shape, -100)
    for b, row in enumerate(rows):
        tags[: lengths[b], b] = torch.tensor(row[-1][1], dtype=torch.int64)  # of the least likely
    crf.batch_first = batch_first
    lay = (lambda x: x.transpose(0, 1)) if batch_first else (lambda x: x)
    ends = {
        "list": {"lengths": lengths},
        "tensor": {"lengths": sizes},
        "mask": {"mask": lay(real)},
        "uint8": {"mask": lay(real.byte())},
    }[given_as]
    totals = [torch.logsumexp(torch.tensor([s for s, _ in row], dtype=DOUBLE), 0).item() for row in rows]
    assert crf.log_partition(lay(emissions), **ends).tolist() == pytest.approx(totals)
    scores = [row[-1][0] for row in rows]
    assert crf.score(lay(emissions), lay(tags), **ends).tolist() == pytest.approx(scores)
    expected = [z - s for z, s in zip(totals, scores, strict=True)]
    assert crf.loss(lay(emissions), lay(tags), **ends).tolist() == pytest.approx(expected)
    best, several = crf.best(lay(emissions), **ends), crf.n_best(lay(emissions), 2, **ends)
    marginals = lay(crf.marginals(lay(emissions), **ends))
    for b, row in enumerate(rows):
        assert lay(best.tags)[: lengths[b], b].tolist() == list(row[0][1])
        assert torch.equal(several.tags[0], best.tags)
        shares = torch.tensor([s for s, _ in row], dtype=DOUBLE).softmax(0)
        for t in range(lengths[b]):
            found = torch.zeros(3, dtype=DOUBLE)
            for share, (_, tagging) in zip(shares, row, strict=True):
                found[tagging[t]] += share
            torch.testing.assert_close(marginals[t, b], found)


def test_loss_of_all_taggings_adds_up_to_certainty():
    crf = make(3, forbid=0.3, seed=4)
    emissions = torch.randn(4, 1, 3, dtype=DOUBLE)
    taggings = [torch.tensor(tags).unsqueeze(1) for _, tags in enumerate_taggings(crf, emissions[:, 0])]
    assert sum((-crf.loss(emissions, tags)).exp().item() for tags in taggings) == pytest.approx(1)


@pytest.mark.parametrize("forbid", [0.0, 0.5])
@pytest.mark.parametrize("lengths", [[5, 5], [5, 0, 2, 1], [1]])
def test_gradients_are_those_of_finite_differences(forbid, lengths):
    crf = make(3, forbid=forbid, seed=2)
    emissions = torch.randn(max(lengths), len(lengths), 3, dtype=DOUBLE, requires_grad=True)
    tags = torch.zeros(max(lengths), len(lengths), dtype=torch.int64)
    sizes = torch.tensor(lengths)

    def loss(emissions, *parameters):
        values = dict(zip(dict(crf.named_parameters()), parameters, strict=True))
        with torch.nn.utils.stateless._reparametrize_module(crf, values):
            return crf.loss(emissions, tags, sizes)

    leaves = [parameter.detach().clone().requires_grad_() for parameter in crf.parameters()]
    torch.autograd.gradcheck(loss, (emissions, *leaves))


@pytest.mark.parametrize("forbid", [0.0, 0.4])
def test_log_space_gives_what_products_give(monkeypatch, forbid):
    crf = make(3, forbid=forbid, seed=5)
    emissions = torch.randn(11, 2, 3, dtype=DOUBLE, requires_grad=True)
    lengths = torch.tensor([11, 7])

    def found():
        total = crf.log_partition(emissions, lengths)
        return [
            total,
            *torch.autograd.grad(total @ torch.tensor([1.0, 2.0], dtype=DOUBLE), [emissions, *crf.parameters()]),
        ]

    products = found()
    monkeypatch.setattr("carousel.networks.crf.SAFE", 0.0)  # nothing is
    monkeypatch.setattr("carousel.networks.crf.CHUNK", 40)
    for a, b in zip(products, found(), strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("scale", [1.0, 30.0, 1000.0])
def test_single_precision_is_close_to_double(scale):
    crf = make(4, forbid=0.3, seed=6)
    with torch.no_grad():
        for parameter in crf.parameters():
            parameter.mul_(scale)
    emissions = scale * torch.randn(30, 3, 4, dtype=DOUBLE)
    lengths = torch.tensor([30, 1, 17])
    results = []
    for dtype in (DOUBLE, torch.float32):
        own, e = crf.to(dtype), emissions.to(dtype).requires_grad_()
        total = own.log_partition(e, lengths)
        gradients = torch.autograd.grad(total.sum(), [e, *own.parameters()])
        best = own.best(e.detach(), lengths).tags
        results.append([total / scale, *gradients, own.marginals(e.detach(), lengths), own.loss(e, best, lengths)])
    for a, b in zip(*results, strict=True):
        assert b.dtype == torch.float32
        torch.testing.assert_close(a, b.to(DOUBLE), rtol=1e-3, atol=2e-3)


@pytest.mark.parametrize("rubbish", [1e30, math.nan, math.inf])
def test_padding_has_no_effect(rubbish):
    crf = make(3, forbid=0.3)
    emissions = torch.randn(4, 2, 3, dtype=DOUBLE)
    lengths = torch.tensor([4, 2])
    tags = torch.zeros(4, 2, dtype=torch.int64)
    dirty = emissions.clone()
    dirty[2:, 1] = rubbish
    wrong = tags.clone()
    wrong[2:, 1] = 2
    results = []
    for e, y in ((emissions, tags), (dirty, wrong)):
        e.requires_grad_()
        loss = crf.loss(e, y, lengths)
        gradients = torch.autograd.grad(loss.sum(), [e, *crf.parameters()])
        e = e.detach()
        results.append([loss, *gradients, crf.marginals(e, lengths), *crf.best(e, lengths), *crf.n_best(e, 3, lengths)])
    for a, b in zip(*results, strict=True):
        assert torch.equal(a, b)
    alone = crf.loss(emissions[:2, 1:].detach(), tags[:2, 1:])
    torch.testing.assert_close(results[0][0][1:], alone)


def test_sequences_without_steps():
    crf = make(2)
    for steps in (0, 3):
        emissions, lengths = torch.randn(steps, 2, 2, dtype=DOUBLE), torch.zeros(2, dtype=torch.int64)
        tags = torch.zeros(steps, 2, dtype=torch.int64)
        assert crf.loss(emissions, tags, lengths).tolist() == [0, 0]
        assert crf.marginals(emissions, lengths).sum() == 0
        assert crf.n_best(emissions, 2, lengths).scores.tolist() == [[0, 0], [-math.inf, -math.inf]]


def test_far_apart_scores_in_single_precision():
    """The only allowed tagging is the least likely by far: sums of exponentials alone would lose it."""
    crf = CRF(2, allowed=torch.tensor([[True, False], [True, True]]), ends=torch.tensor([False, True]))
    emissions = torch.zeros(50, 1, 2)
    emissions[:, :, 0] = 500.0  # but a sequence that is ever in tag 0 stays there, and may not end there
    tags = torch.ones(50, 1, dtype=torch.int64)
    emissions.requires_grad_()
    loss = crf.loss(emissions, tags)
    assert abs(loss.item()) < 1e-4
    (gradient,) = torch.autograd.grad(loss.sum(), emissions)
    assert gradient.abs().max() < 1e-4
    assert crf.best(emissions.detach()).tags.eq(1).all()


def test_forbidden_taggings_are_refused_by_name():
    crf = CRF(2, allowed=torch.tensor([[True, False], [False, True]]))
    with pytest.raises(ValueError, match="tags of sequence 1 of the batch are not allowed"):
        crf.loss(torch.zeros(2, 2, 2), torch.tensor([[0, 0], [0, 1]]))
    nothing = CRF(2, starts=torch.zeros(2, dtype=torch.bool))
    with pytest.raises(ValueError, match="no tagging of 3 steps is allowed"):
        nothing.log_partition(torch.zeros(3, 1, 2))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: CRF(3, torch.ones(2, 2, dtype=torch.bool)), "allowed must be bool of shape"),
        (lambda: CRF(3).best(torch.zeros(4, 3)), r"emissions must be \(T, B, 3\)"),
        (
            lambda: CRF(3).best(torch.zeros(4, 1, 3), torch.tensor([5])),
            r"lengths\[0\] is 5, but must lie between 0",
        ),
        (
            lambda: CRF(3).best(torch.zeros(4, 1, 3), [4], torch.ones(4, 1).bool()),
            "give one of them",
        ),
        (
            lambda: CRF(3).best(torch.zeros(4, 1, 3), mask=torch.ones(1, 4).bool()),
            r"must be bool of shape \(4, 1\)",
        ),
        (lambda: CRF(3).best(torch.zeros(4, 1, 3), mask=torch.ones(4, 1)), "mask must be bool .* got torch.float32"),
        (lambda: CRF(3).best(torch.zeros(3, 1, 3), mask=torch.tensor([[1], [0], [1]]).bool()), "in sequence 0 of"),
        (
            lambda: CRF(3).loss(torch.zeros(4, 2, 3), torch.zeros(2, 4).long()),
            r"must be integers of shape \(4, 2\)",
        ),
        (lambda: CRF(3).loss(torch.zeros(1, 1, 3), torch.tensor([[3]])), "tags must lie between 0 and 2, got 3"),
        (lambda: CRF(3).n_best(torch.zeros(4, 1, 3), 0), "n must be 1 or more"),
    ],
)
def test_wrong_arguments(call, message):
    with pytest.raises(ValueError, match=message):
        call()
