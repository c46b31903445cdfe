"""Subject–verb agreement: sentences against the rule, and verdicts from numbers made by hand."""

import pytest
from helpers.lab import check_verdict, same

from carousel.lab.claim import Outcome
from carousel.lab.claims.agreement import CELLS, IS, NOUNS, OF, PHRASES, THE, sentences


@pytest.mark.parametrize("kind", ["alike", "misleading", "drawn"])
def test_the_verb_agrees_with_the_first_noun(kind):
    tokens, plural = sentences(50, 3, kind)
    assert tokens.shape == (2 + 3 * 3 + 1, 50)
    for sentence, many in zip(tokens.T.tolist(), plural.tolist(), strict=True):
        the, subject, *rest, verb = sentence
        assert the == THE and (subject >= NOUNS) == many == verb - IS
        assert rest[::3] == [OF] * 3 and rest[1::3] == [THE] * 3
        others = [noun >= NOUNS for noun in rest[2::3]]
        assert kind == "drawn" or set(others) == {bool(many) if kind == "alike" else not many}


def agreeing(alike, misleading, near=1.0):
    phrases = {str(p): same(misleading) for p in PHRASES} | {"1": same(near)}
    rows = {"alike": {str(p): same(alike) for p in PHRASES}, "misleading": phrases}
    return {"accuracy": dict.fromkeys(CELLS, rows)}


@pytest.mark.parametrize(
    ("key", "numbers", "expected"),
    [
        ("recency", agreeing(1.0, 0.4), Outcome.HOLDS),
        ("recency", agreeing(1.0, 0.98), Outcome.FAILS),
        ("growing", agreeing(1.0, 0.4), Outcome.HOLDS),
        ("growing", agreeing(1.0, 1.0), Outcome.FAILS),
    ],
)
def test_a_verdict_follows_from_the_numbers(key, numbers, expected):
    check_verdict("agreement", key, numbers, expected)
