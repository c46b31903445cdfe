"""The native choice against the samplers it stands for: the same token, to the rounding of a draw."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from carousel.decoding import Ban, Greedy, RandomK, Sample, StepFunction, Temperature, TopK, TopP, search
from carousel.decoding.samplers import Candidates, draw, native_chooser
from carousel.decoding.topk import top1
from carousel.ops import backend
from carousel.ops.prediction import Chooser

pytestmark = pytest.mark.skipif(not backend.available(), reason=backend.why_not())

samplers = st.one_of(
    st.sampled_from([0.1, 0.5, 1.0, 3.0, 1e9]).map(Temperature),
    st.integers(1, 400).map(TopK),
    st.integers(1, 40).map(RandomK),
    st.sampled_from([0.01, 0.3, 0.5, 0.9, 0.999, 1.0]).map(TopP),
)
sizes = st.sampled_from([1, 2, 7, 8, 31, 64, 65, 257, 600, 2844])


def rows_of(seed, n, size, kind, dtype):
    """Log-probabilities (n, size): of many kinds, some with ties, bans, certainties."""
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, size, generator=g, dtype=dtype)
    if kind == "ties":
        x = (2 * x).round()
    elif kind == "equal":
        x = torch.zeros_like(x)
    elif kind == "banned":
        x = x.masked_fill(torch.rand(n, size, generator=g) < 0.9, -math.inf)
        x[:, size // 2] = 0.0
    elif kind == "sure":
        x = 60 * x
    elif kind == "one left":
        x = torch.full_like(x, -math.inf)
        x[:, size - 1] = 0.0
    return x.log_softmax(-1)


def in_python(chain, log_probs, u):
    candidates = Candidates.all(log_probs)
    for sampler in chain:
        candidates = sampler(candidates)
    return draw(candidates, u)


def nearby(chain, log_probs, u):
    """What the samplers choose if the draw and a share of TopP were a little less or more."""
    for nudge in (0.0, -1e-5, 1e-5):
        moved = [TopP(min(1.0, s.p + nudge)) if type(s) is TopP and s.p < 1 else s for s in chain]
        for shift in (0.0, -1e-5, 1e-5):
            yield in_python(moved, log_probs, (u + shift).clip(0, 1 - 2.0**-32))


@given(
    seed=st.integers(0, 10**6),
    size=sizes,
    kind=st.sampled_from(["plain", "ties", "equal", "banned", "sure", "one left"]),
    chain=st.lists(samplers, max_size=3),
    double=st.booleans(),
)
def test_the_same_tokens(seed, size, kind, chain, double):
    n = 6
    log_probs = rows_of(seed, n, size, kind, torch.float64 if double else torch.float32)
    u = np.random.default_rng(seed).random(n)
    tokens, values, found = native_chooser(chain).choose(log_probs, u)
    assert found.all()
    assert (values == log_probs.numpy()[np.arange(n), tokens]).all() and (values > -math.inf).all()
    same = np.zeros(n, bool)
    for there, _, _ in nearby(chain, log_probs, u):
        same |= tokens == there
        if same.all():
            break
    assert same.all()


@given(seed=st.integers(0, 10**6), size=sizes, kind=st.sampled_from(["plain", "ties", "equal", "banned"]))
def test_greedy_takes_the_lowest_of_the_best(seed, size, kind):
    log_probs = rows_of(seed, 5, size, kind, torch.float32)
    tokens, values, found = Chooser([("top_k", 1)]).choose(log_probs, np.zeros(5))
    want_values, want = top1(log_probs)
    assert found.all() and (tokens == want).all() and (values == want_values).all()


@given(seed=st.integers(0, 10**6), size=sizes, k=st.integers(1, 300), kind=st.sampled_from(["plain", "ties", "equal"]))
def test_top_k_draws_from_the_k_best_and_no_other(seed, size, k, kind):
    """An even comb of draws with equal weights meets each of the k best equally often."""
    log_probs = rows_of(seed, 1, size, kind, torch.float32)
    kept = min(k, size)
    tokens, _, _ = Chooser([("random_k", k)]).choose(log_probs.repeat(kept, 1), (np.arange(kept) + 0.5) / kept)
    want = np.argsort(-log_probs[0].numpy(), kind="stable")[:kept]
    assert (tokens == want).all()


@pytest.mark.parametrize(
    "chain", [[], [TopK(3)], [TopK(200)], [RandomK(3)], [TopP(0.5)], [TopK(9), TopP(0.5)]], ids=repr
)
@pytest.mark.parametrize("size", [3, 70, 1000])
def test_rows_with_nothing_to_draw_from(chain, size):
    for dtype in (torch.float32, torch.float64):
        log_probs = torch.zeros(4, size, dtype=dtype).log_softmax(-1)
        log_probs[1] = -math.inf
        log_probs[2, size - 1] = math.nan
        assert native_chooser(chain).choose(log_probs, np.full(4, 0.3))[2].tolist() == [True, False, False, True]
        assert in_python(chain, log_probs, np.full(4, 0.3))[2].tolist() == [True, False, False, True]


def test_what_is_banned_is_never_drawn():
    """Not even by the least number there is, at either end."""
    log_probs = torch.full((2, 300), -math.inf)
    log_probs[:, 150] = 0.0
    for chain in ([], [Temperature(5.0)], [TopK(300)], [TopP(0.9)], [RandomK(4)]):
        tokens, _, found = native_chooser(chain).choose(log_probs, np.array([0.0, 1 - 2.0**-32]))
        assert found.all() and tokens.tolist() == [150, 150]


class Own(TopK):
    """A sampler of one's own: not the kernels' business, whatever it derives from."""

    def __call__(self, candidates):
        return super().__call__(candidates).narrow(1)


@pytest.mark.parametrize("strategy", [Greedy(), Sample(), Sample(TopK(5), TopP(0.9)), Sample(Own(5))], ids=repr)
def test_a_search_is_the_same_with_and_without_kernels(strategy, monkeypatch):
    g = torch.Generator().manual_seed(5)
    table = (torch.randn(40, 40, generator=g, dtype=torch.float64) * 2).log_softmax(-1)
    lm = StepFunction(lambda tokens, state: (table[tokens], state), 40)

    def ask():
        return search(lm, 8, strategy, start=1, end=0, max_length=30, constraints=[Ban([3])], seed=2)

    fast = ask()
    monkeypatch.setattr(Chooser, "choose", lambda self, log_probs, uniform: None)
    assert fast == ask()


def test_strided_rows_take_the_other_way():
    wide = torch.randn(4, 60).log_softmax(-1)
    chooser = native_chooser([TopK(3)])
    uniform = np.full(4, 0.5)
    assert chooser.choose(wide, uniform) is not None
    assert chooser.choose(wide[:, ::2], uniform) is None and chooser.choose(wide.half(), uniform) is None
