"""Two directions: tags against a loop over places, and verdicts from numbers made by hand."""

import pytest
from helpers.lab import check_verdict, same

from carousel.lab.claim import Outcome
from carousel.lab.claims import bidirectional
from carousel.lab.claims.bidirectional import LENGTH, draw


@pytest.mark.parametrize("tag", ["past", "future", "both", "next"])
def test_tags_are_those_of_the_places_they_name(tag):
    tokens, tags, there = draw(tag, 20)
    for b in range(20):
        text = tokens[:, b].tolist()
        for t in range(LENGTH):
            before = text[t - 2] if t >= 2 else None
            after = text[t + 2] if t + 2 < LENGTH else None
            both = None if None in (before, after) else int(0 in (before, after))
            following = text[t + 1] if t + 1 < LENGTH else None
            expected = {"past": before, "future": after, "both": both, "next": following}[tag]
            assert bool(there[t, b]) == (expected is not None)
            assert expected is None or int(tags[t, b]) == expected


def test_the_reverse_half_at_the_last_step_has_read_one_input():
    assert bidirectional.listed_output() == {
        "forward": LENGTH, "reverse": 1, "forward final": LENGTH, "reverse final": LENGTH,
    }  # fmt: skip
    assert bidirectional.final_apart() == 0


def tagged(one, two):
    """Accuracy of one and of two directions, alike for the three tags."""
    rows = {"one direction": same(one), "two directions": same(two)}
    return {"accuracy": dict.fromkeys(("past", "future", "both"), rows)}


def halved(one, two, accuracy=(0.5, 1.0)):
    rows = {"one direction": same(one), "two directions": same(two)}
    return {"updates_to": dict.fromkeys(("past", "future", "both"), rows), "updates": 99, **tagged(*accuracy)}


@pytest.mark.parametrize(
    ("key", "numbers", "expected"),
    [
        ("effective", tagged(0.5, 1.0), Outcome.HOLDS),
        ("effective", tagged(1.0, 1.0), Outcome.FAILS),
        ("faster", halved(40, 30), Outcome.HOLDS),
        ("faster", halved(27, 36), Outcome.FAILS),
        ("faster", halved(40, 30, accuracy=(1.0, 1.0)), Outcome.FAILS),
    ],
)
def test_a_verdict_follows_from_the_numbers(key, numbers, expected):
    check_verdict("bidirectional", key, numbers, expected)
