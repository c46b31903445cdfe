"""Each constraint against a filter over all sequences; combinations; what cannot be met."""

import itertools
import math
from collections import Counter

import pytest
import torch
from helpers.toys import Toy, brute_force, fixed
from hypothesis import given
from hypothesis import strategies as st

from carousel.decoding import (
    Acrostic,
    Ban,
    Beam,
    Bias,
    Constraint,
    ConstraintError,
    Exhaustive,
    Form,
    Greedy,
    Length,
    Mean,
    NoRepeat,
    Pattern,
    Prefix,
    Rhyme,
    Sample,
    search,
)
from carousel.decoding.constraint import NEVER, SearchContext

END, STEPS = 0, 5


def repeats(tokens, n, ignore=()):
    grams = [tokens[k : k + n] for k in range(len(tokens) - n + 1)]
    counts = Counter(g for g in grams if not set(g) & set(ignore))
    return any(c > 1 for c in counts.values())


def acrostic(tokens, heads, breaks):
    lines, line = [], []
    for token in tokens:
        if token == END:
            break
        line.append(token)
        if token in breaks:
            lines.append(line)
            line = []
    lines += [line] if line else []
    return all(one[0] == head for one, head in zip(lines, heads, strict=False)) and (
        tokens[-1] != END or len(lines) >= len(heads)
    )


def rhyme(tokens, places, classes, distinct, given=None):
    at = [tokens[p] for p in places if p < len(tokens)]
    kinds = {classes.get(t) for t in at} | ({given} if given else set())
    fits = None not in kinds and len(kinds) <= 1
    return fits and not (distinct and len(set(at)) < len(at))


PATTERN = Pattern(2, 1, ("", "x"))
# name: (constraint, whether a beginning may stand). The vocabulary is 0 (end), 1, 2, 3.
RULES = {
    "ban": (Ban([2]), lambda t: 2 not in t),
    "length": (Length(2, 3), lambda t: (t[-1] != END or len(t) > 2) and (len(t) < 4 or t[3] == END)),
    "minimum": (Length(3), lambda t: t[-1] != END or len(t) > 3),
    "prefix": (Prefix([3, 1]), lambda t: t[:2] == (3, 1)[: len(t)]),
    "unigrams": (NoRepeat(1), lambda t: not repeats(t, 1)),
    "bigrams": (NoRepeat(2), lambda t: not repeats(t, 2)),
    "trigrams": (NoRepeat(3), lambda t: not repeats(t, 3)),
    "ignoring": (NoRepeat(1, ignore=[3]), lambda t: not repeats(t, 1, [3])),
    "ignoring two": (NoRepeat(2, ignore=[1, 2]), lambda t: not repeats(t, 2, [1, 2])),
    "form": (
        Form(PATTERN, {"x": 3}, exclude=[2]),
        lambda t: all(a in b for a, b in zip(t, ((1,), (1,), (3,), (END,)), strict=False)),
    ),
    "uneven form": (
        Form(Pattern(2, (2, 1), ("x", "")), {"x": 3, "y": 2}),
        lambda t: all(a in b for a, b in zip(t, ((1,), (1,), (3,), (1,), (END,)), strict=False)),
    ),
    "acrostic": (Acrostic([2, 1], breaks=[3]), lambda t: acrostic(t, [2, 1], [3])),
    "acrostic of breaks": (Acrostic([3, 1], breaks=[3, 2]), lambda t: acrostic(t, [3, 1], [3, 2])),
    "rhyme": (
        Rhyme(Pattern(4, 1, ("",)), {1: "a", 2: "a", 3: "b"}, distinct=False),
        lambda t: rhyme(t, [1, 3], {1: "a", 2: "a", 3: "b"}, False),
    ),
    "distinct rhyme": (
        Rhyme(Pattern(3, 1, ("",)), {1: "a", 2: "a", 3: "a"}, lines=[1, 2, 3]),
        lambda t: rhyme(t, [0, 1, 2], {1: "a", 2: "a", 3: "a"}, True),
    ),
    "given rhyme": (
        Rhyme(Pattern(2, 1, ("",)), {1: "a", 2: "b", 3: "b"}, lines=[1, 2], given="b", distinct=False),
        lambda t: rhyme(t, [0, 1], {1: "a", 2: "b", 3: "b"}, False, "b"),
    ),
}
PAIRS = [
    *((name,) for name in RULES),
    ("bigrams", "ban"),
    ("acrostic", "ignoring", "minimum"),
    ("rhyme", "bigrams"),
    ("prefix", "length"),
    ("form", "length"),
]


@pytest.mark.parametrize("names", PAIRS, ids="+".join)
@pytest.mark.parametrize("strategy", ["exhaustive", "beam"])
def test_exactly_the_sequences_that_may_stand(names, strategy):
    """A wide beam reorders its rows all the time: the constraint's memory must go with them."""
    toy = Toy(4, seed=sum(map(ord, names[0])))
    rules = [RULES[name][0] for name in names]
    expected = brute_force(toy, [1], END, STEPS, Mean().score, lambda t: all(RULES[name][1](t) for name in names))
    assert expected
    many = 4**STEPS
    beam = Beam(many, n_best=many, completed=math.inf, wide=True)
    way = beam if strategy == "beam" else Exhaustive(n_best=many)
    [found] = search(toy.stepper(), 1, way, start=1, end=END, max_length=STEPS, constraints=rules)
    assert [h.tokens for h in found] == [tokens for _, _, tokens in expected]
    assert [h.log_prob for h in found] == pytest.approx([sum(toy.score_tokens([1], h.tokens)) for h in found])


@given(st.sampled_from(sorted(RULES)), st.lists(st.tuples(*[st.integers(0, 3)] * 3), max_size=5))
def test_what_a_rule_says_it_bans_is_all_it_does(name, steps):
    rule = RULES[name][0]
    state = rule.start(SearchContext(items=3, vocab_size=4, end=END, max_length=STEPS))
    for tokens in [None, *steps]:
        state = state if tokens is None else rule.advance(state, torch.tensor(tokens))
        banned = rule.bans(state)
        if banned is not None:
            applied, filled = torch.zeros(3, 4), torch.zeros(3, 4)
            rule.apply(applied, state)
            filled[:, list(banned)] = NEVER
            assert torch.equal(applied, filled)


def test_rules_that_ban_say_so():
    """The search is quicker then."""
    start = SearchContext(items=2, vocab_size=4, end=END, max_length=9)
    one = torch.ones(2, dtype=torch.int64)
    assert Ban([2, 1]).bans(()) == [1, 2]
    length = Length(1, [2, 3])
    states = [length.start(start)]
    for _ in range(3):
        states.append(length.advance(states[-1], one))
    assert [length.bans(state) for state in states] == [[END], [], None, None]
    prefix = Prefix([[1], [1, 2]])
    states = [prefix.start(start)]
    for _ in range(2):
        states.append(prefix.advance(states[-1], one))
    assert [prefix.bans(state) for state in states] == [None, None, []]


@given(seed=st.integers(0, 10**6), n=st.integers(1, 3), width=st.integers(1, 5))
def test_nothing_repeats_in_a_batch(seed, n, width):
    toy = Toy(12, seed)
    prompts = [[5, 5, 5, 5], [1, 2, 3, 1, 2, 3], []]
    for strategy in (Greedy(), Sample(), Beam(width, n_best=width)):
        ask = {"start": 1, "end": END, "max_length": 12, "constraints": [NoRepeat(n)], "seed": seed}
        for prompt, found in zip(prompts, search(toy.stepper(), prompts, strategy, **ask), strict=True):
            for h in found:
                text = (*prompt, *h.tokens)
                before = {text[k : k + n] for k in range(len(prompt) - n + 1)}
                grams = [text[k : k + n] for k in range(max(0, len(prompt) - n + 1), len(text) - n + 1)]
                assert len(grams) == len(set(grams)) and not before & set(grams)


def test_each_item_may_have_its_own():
    toy = Toy(6, seed=1)
    ask = {"start": 1, "end": END, "max_length": 12}
    prefixes = [[4], [], [5, 5, 2]]
    for strategy in (Greedy(), Beam(3)):
        found = search(toy.stepper(), 3, strategy, constraints=[Prefix(prefixes)], **ask)
        for prefix, [h] in zip(prefixes, found, strict=True):
            assert list(h.tokens[: len(prefix)]) == prefix
    heads = [[4, 4], [5, 3]]
    rules = [Acrostic(heads, breaks=[2]), NoRepeat(3)]
    found = search(toy.stepper(), [[4, 1], []], Beam(4), constraints=rules, **ask)
    for line, prompt, [h] in zip(heads, [(4, 1), ()], found, strict=True):
        assert acrostic((*prompt, *h.tokens), line, [2])


def test_a_bias_is_in_the_score_and_not_in_the_log_probability():
    lm = fixed(torch.tensor([[0.5, 0.3, 0.2]] * 3, dtype=torch.float64))
    rule = Bias({1: 1.0, 0: -0.25})
    prompts = [[], [2, 1, 0], [2]]  # what is banned or favoured in a prompt counts for nothing
    for strategy in (Greedy(), Sample(), Beam(1), Exhaustive()):
        for [h] in search(lm, prompts, strategy, start=2, end=0, max_length=5, constraints=[rule, Ban([2])], seed=3):
            added = sum({1: 1.0, 0: -0.25}[t] for t in h.tokens)
            assert h.log_prob == pytest.approx(sum(math.log([0.5, 0.3][t]) for t in h.tokens))
            assert h.score == pytest.approx((h.log_prob + added) / len(h.tokens))
    [[h]] = search(lm, 1, Greedy(), start=2, end=0, max_length=2, constraints=[rule])
    assert h.tokens == (1, 1)


def test_a_constraint_of_ones_own():
    class Rising(Constraint):
        """Each token larger than the one before."""

        def start(self, context):
            return torch.zeros(context.items, dtype=torch.int64)

        def apply(self, log_probs, state):
            log_probs.masked_fill_(torch.arange(log_probs.shape[1]) <= state.unsqueeze(1), -math.inf)

        def advance(self, state, tokens):
            return tokens

    toy = Toy(9, seed=2)
    found = search(toy.stepper(), 1, Beam(5, n_best=5), start=1, end=8, max_length=9, constraints=[Rising()])
    for h in found[0]:
        assert all(a < b for a, b in itertools.pairwise(h.tokens))


def test_a_beam_goes_round_a_dead_end_that_greedy_runs_into():
    """1 is better at first, but only 2 can end: after 1 comes 3 or 1, both banned."""
    table = torch.tensor([[1, 0, 0, 0], [0, 0.5, 0, 0.5], [1, 0, 0, 0], [0, 0.6, 0.4, 0]], dtype=torch.float64)
    ask = {"start": 3, "end": 0, "max_length": 4, "constraints": [NoRepeat(1), Ban([3])]}
    with pytest.raises(ConstraintError, match=r"at position 1 of item 0: .* 2 tokens, NoRepeat\(1\) leaves 1, Ban"):
        search(fixed(table), 1, Greedy(), **ask)
    assert search(fixed(table), 1, Beam(2), **ask)[0][0].tokens == (2, 0)


@pytest.mark.parametrize(
    ("rules", "ask", "message"),
    [
        ([Ban([4])], {}, r"Ban\(\[4\]\): token 4 is outside the vocabulary of 4"),
        ([Bias({-1: 2.0})], {}, r"token -1 is outside the vocabulary of 4"),
        ([NoRepeat(2, ignore=[9])], {}, r"token 9 is outside"),
        ([Prefix([1, 5])], {}, r"Prefix\(\[1, 5\]\): token 5 is outside"),
        ([Prefix([[1], [2], [3]])], {}, r"Prefix.* has 3 lists of tokens, but there are 2 prompts"),
        ([Prefix([1] * 9)], {}, r"Prefix.* needs 9 tokens, but max_length is 8"),
        ([Length(8)], {}, r"Length\(8, None\) needs 9 tokens, but max_length is 8"),
        ([Length(1)], {"end": None}, r"Length\(1, None\) needs an end token, but end is None"),
        ([Acrostic([7], [1])], {}, r"Acrostic\(\[7\]\): token 7 is outside"),
        ([Form(Pattern(4, 2), {"，": 2, "。": 3})], {}, r"Form\(4 lines of 2\) needs 13 tokens, but max_length is 8"),
        ([Form(Pattern(1, 2), {"，": 2, "。": 3})], {"end": None}, r"Form.* needs an end token"),
        ([Form(Pattern(1, 2), {"，": 2, "。": 30})], {}, r"Form.*: token 30 is outside"),
        ([Rhyme(Pattern(4, 1), {1: "a", 2: "b"})], {}, r"Rhyme\(lines 2, 4\): no class has the 2 tokens"),
        ([Rhyme(Pattern(4, 1), {1: "a", 2: "a", 3: "b"}, given="b")], {}, r"no class has the 2 tokens"),
    ],
    ids=str,
)
def test_what_could_never_be_met_is_refused_before_the_search(rules, ask, message):
    toy = Toy(4)
    with pytest.raises(ValueError, match=message):
        search(toy.stepper(), 2, **({"start": 1, "end": 0, "max_length": 8} | ask), constraints=rules)
    assert toy.calls == 0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Bias({1: -math.inf}), "amounts must be finite, got {1: -inf}; use Ban to forbid tokens"),
        (lambda: Length(-1), "minimum must be 0 or more, got -1"),
        (lambda: Length(5, 4), "maximum is 4, below the minimum of 5"),
        (lambda: NoRepeat(0), "n must be at least 1, got 0"),
        (lambda: Acrostic([1], []), "breaks is empty"),
    ],
)
def test_options_out_of_range(make, message):
    with pytest.raises(ValueError, match=message):
        make()
