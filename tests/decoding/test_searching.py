"""What a prompt leads to does not depend on the prompts beside it; a stream is a search; steps of real layers."""

import re

import numpy as np
import pytest
import torch
from helpers.toys import Toy
from hypothesis import given
from hypothesis import strategies as st

import carousel
from carousel.decoding import (
    Ban,
    Beam,
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
    stream,
)
from carousel.errors import CarouselError

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


def test_half_precision_is_searched_in_single():
    lm = StepFunction(lambda t, s: (torch.tensor([0.2, 0.5, 0.3]).log().bfloat16().expand(len(t), 3), s), 3)
    assert search(lm, 1, start=0, end=0, max_length=2)[0][0].tokens == (1, 1)


ASK = {"start": 1, "end": 0, "max_length": 6}


@pytest.mark.parametrize(
    ("prompts", "strategy", "ask", "message"),
    [
        (1, Sample(TopK(6)), {}, "TopK(6): k is larger than the vocabulary, which has 5 tokens"),
        (1, Sample(RandomK(6)), {}, "RandomK(6): k is larger than the vocabulary, which has 5 tokens"),
        (1, Beam(6), {}, "wider than the vocabulary of 5; take a narrower one"),
        (0, Greedy(), {}, "prompts is empty; give at least one"),
        ([], Greedy(), {}, "prompts is empty; give at least one"),
        ([[1], []], Greedy(), {"start": None}, "prompts[1] is empty, and there is no start token to begin with"),
        ([[], [1] * 6], Greedy(), {}, "prompts[1] has 6 tokens, which leaves no room below max_length=6"),
        ([[2, 5]], Greedy(), {}, "prompts[0] has 5, outside the vocabulary of 5"),
        ([[-1]], Greedy(), {}, "prompts[0] has -1, outside the vocabulary of 5"),
        (1, Greedy(), {"end": 5}, "end is 5, outside the vocabulary of 5"),
        (1, Greedy(), {"start": 9}, "start is 9, outside the vocabulary of 5"),
        (1, Greedy(), {"max_length": 0}, "max_length must be at least 1, got 0"),
        (2, Greedy(), {"items": [1]}, "items must have a number for each of the 2 prompts, got 1"),
    ],
)
def test_before_the_search(prompts, strategy, ask, message):
    toy = Toy(5)
    with pytest.raises(ValueError, match=re.escape(message)):
        search(toy.stepper(), prompts, strategy, **(ASK | ask))
    assert toy.calls == 0


def test_prompts_are_numbers():
    for prompts in ([[1.5]], ["ab"]):
        with pytest.raises(TypeError, match=r"prompts\[0\] must hold token numbers, got"):
            search(Toy(5).stepper(), prompts, **ASK)
    lists = [[1, 2], [3, 4]]
    for prompts in (torch.tensor(lists), np.array(lists), [np.array(one) for one in lists]):
        assert search(Toy(5).stepper(), prompts, **ASK) == search(Toy(5).stepper(), lists, **ASK)


def test_constraints_are_objects():
    with pytest.raises(CarouselError, match="constraints must be Constraint objects, got str"):
        search(Toy(5).stepper(), 1, constraints=["ban"], **ASK)
