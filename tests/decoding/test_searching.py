"""What a prompt leads to does not depend on the prompts beside it; a stream is a search; steps of real layers."""

import pytest
import torch
from helpers.toys import Toy
from hypothesis import given
from hypothesis import strategies as st

import carousel
from carousel.decoding import (
    Ban,
    Beam,
    Ensemble,
    Exhaustive,
    Greedy,
    Length,
    NoRepeat,
    RandomK,
    Sample,
    StepFunction,
    Temperature,
    TopK,
    TopP,
    search,
    select_rows,
    stream,
)

STRATEGIES = [
    Greedy(),
    Sample(),
    Sample(TopK(4), copies=3),
    Sample(RandomK(3)),
    Sample(Temperature(1.5), TopP(0.8), copies=2),
    Beam(1),
    Beam(4, n_best=4),
    Beam(3, n_best=2, completed=float("inf")),
]
RULES = [[], [NoRepeat(1), Ban([2])], [Length(3, 6), NoRepeat(2)]]


@given(
    seed=st.integers(0, 10**6),
    prompts=st.lists(st.lists(st.integers(1, 8), max_size=4), min_size=2, max_size=5),
    strategy=st.sampled_from(STRATEGIES),
    rules=st.sampled_from(RULES),
)
def test_neighbours_do_not_matter(seed, prompts, strategy, rules):
    toy = Toy(9, seed)
    ask = {"start": 1, "end": 0, "max_length": 8, "constraints": rules, "seed": seed}
    together = search(toy.stepper(), prompts, strategy, **ask)
    alone = [search(toy.stepper(), [p], strategy, items=[k], **ask)[0] for k, p in enumerate(prompts)]
    assert together == alone
    backwards = search(toy.stepper(), prompts[::-1], strategy, items=range(len(prompts))[::-1], **ask)
    assert backwards[::-1] == together


@pytest.mark.parametrize("strategy", [*STRATEGIES, Exhaustive()], ids=repr)
def test_a_stream_is_a_search(strategy):
    toy = Toy(5, seed=8)
    prompts, ask = [[1, 2], [], [3]], {"start": 1, "end": 0, "max_length": 6, "seed": 2}
    found = search(toy.stepper(), prompts, strategy, **ask)
    got = {}
    for c in stream(toy.stepper(), prompts, strategy, **ask):
        tokens, log_probs, last = got.setdefault((c.item, c.copy), ([], [], []))
        tokens.append(c.token)
        log_probs.append(c.log_prob)
        last.append(c.last)
    copies = strategy.copies if isinstance(strategy, Sample) else 1
    assert len(got) == 3 * copies
    for (item, copy), (tokens, log_probs, last) in got.items():
        h = found[item][copy]
        assert tuple(tokens) == h.tokens
        assert tuple(log_probs) == h.token_log_probs
        assert last == [False] * (len(tokens) - 1) + [True]


def test_a_stream_can_be_left_and_does_not_touch_the_gradient_mode():
    toy = Toy(5, seed=8)
    tokens = stream(toy.stepper(), 1, start=1, end=None, max_length=10**9)
    next(tokens)
    assert torch.is_grad_enabled()
    next(tokens)
    tokens.close()
    assert toy.calls == 2 and torch.is_grad_enabled()


def test_seeds():
    toy = Toy(9, seed=4)

    def drawn(seed):
        return search(toy.stepper(), 4, Sample(), start=1, end=0, max_length=20, seed=seed)

    assert drawn(1) == drawn(1) != drawn(2)
    assert drawn(torch.Generator().manual_seed(5)) == drawn(torch.Generator().manual_seed(5))
    torch.manual_seed(0)
    first = drawn(None)
    torch.manual_seed(0)
    assert drawn(None) == first != drawn(None)


def test_without_an_end_token_every_sequence_runs_to_the_limit():
    for strategy in (Greedy(), Sample(), Beam(2)):
        for [h] in search(Toy(4).stepper(), [[1], [2, 3]], strategy, end=None, max_length=7):
            assert not h.finished and len(h.tokens) in (5, 6)


def language_model(kind, vocab_size=11, layers=2):
    """One of our layers with an embedding and an output: a stepper, and its whole-sequence account."""
    embed = torch.nn.Embedding(vocab_size, 6).double()
    layer = getattr(carousel, kind)(6, 7, num_layers=layers).double()
    out = torch.nn.Linear(7, vocab_size).double()
    with torch.no_grad():
        out.weight.mul_(4)

    def start(items):
        zero = torch.zeros(layers, items, 7, dtype=torch.float64)
        return (zero, zero) if kind == "LSTM" else zero

    def step(tokens, state):
        y, state = layer(embed(tokens).unsqueeze(0), state)
        return out(y[0]).log_softmax(-1), state

    def score(tokens):
        y, _ = layer(embed(torch.tensor(tokens)))
        return out(y).log_softmax(-1)

    return StepFunction(step, vocab_size, start=start, rows=1), score


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_a_recurrent_model_agrees_with_whole_sequences(kind):
    stepper, score = language_model(kind)
    prompts = [[4], [5, 6, 7], []]
    for strategy in (Greedy(), Sample(copies=2), Beam(4, n_best=4)):
        found = search(stepper, prompts, strategy, start=1, end=0, max_length=9, seed=0)
        for prompt, hypotheses in zip(prompts, found, strict=True):
            for h in hypotheses:
                context = [1, *prompt]
                line = score([*context, *h.tokens[:-1]])[len(context) - 1 :]
                expected = line[range(len(h.tokens)), list(h.tokens)]
                assert h.token_log_probs == pytest.approx(expected.tolist())
                if isinstance(strategy, Greedy):
                    assert list(h.tokens) == line.argmax(-1).tolist()


def test_an_ensemble_is_the_mean_of_probabilities():
    toys = [Toy(4, seed=1), Toy(4, seed=2), Toy(4, seed=3)]
    [found] = search(Ensemble([t.stepper() for t in toys]), 1, Beam(3, n_best=3), start=1, end=0, max_length=5)
    for h in found:
        for k, (token, log_prob) in enumerate(zip(h.tokens, h.token_log_probs, strict=True)):
            votes = [torch.tensor(t.log_probs([1, *h.tokens[:k]]))[token].exp() for t in toys]
            assert log_prob == pytest.approx((sum(votes) / 3).log().item(), abs=1e-6)
    with pytest.raises(ValueError, match=r"must share one vocabulary, got vocabularies of \[4, 5\] tokens"):
        Ensemble([Toy(4).stepper(), Toy(5).stepper()])
    with pytest.raises(ValueError, match="steppers is empty"):
        Ensemble([])


def test_rows_of_any_structure():
    rows = torch.tensor([1, 1, 0])
    state = {"h": (torch.arange(4.0).reshape(2, 2, 1), torch.arange(2)), "memory": [torch.eye(2)], "none": None}
    got = select_rows(state, rows, {"h": (1, 0), "memory": None, "none": 0})
    assert got["h"][0].shape == (2, 3, 1) and got["h"][1].tolist() == [1, 1, 0]
    assert got["memory"][0] is state["memory"][0] and got["none"] is None
    named = torch.max(torch.eye(2), 1)  # a named tuple
    assert type(select_rows(tuple(named), rows)) is tuple
    with pytest.raises(TypeError, match="found str"):
        select_rows("state", rows)
    with pytest.raises(ValueError, match="rows has 1 parts, but the state has 2"):
        select_rows((rows, rows), rows, (0,))
    with pytest.raises(ValueError, match="rows has the keys"):
        select_rows({"h": rows}, rows, {"c": 0})
    with pytest.raises(TypeError, match="must give one dimension for a tensor"):
        select_rows(rows, rows, (0, 1))


def test_half_precision_is_searched_in_single():
    lm = StepFunction(lambda t, s: (torch.tensor([0.2, 0.5, 0.3]).log().bfloat16().expand(len(t), 3), s), 3)
    assert search(lm, 1, start=0, end=0, max_length=2)[0][0].tokens == (1, 1)
